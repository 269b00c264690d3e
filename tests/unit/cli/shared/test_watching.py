"""`--watch`: the answer again whenever what it is made from changes, until Ctrl-C."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bayplan.cli.shared.watching import signature_of
from tests.builders.bodies import list_body
from tests.running_commands import running
from tests.unit.cli.conftest import Bayplan

NO_REPORTS = "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node\n"


def write(file: Path, *nodes: str) -> None:
    items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in nodes]
    waiting = file.with_suffix(".new")
    waiting.write_text(json.dumps(list_body(items)))
    waiting.replace(file)


def test_lines_that_are_new_are_appended_until_ctrl_c(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, "n1")
    with running("nodes", "-w", "--cluster", str(file)) as command:
        assert "1 node: 1 without a report" in command.until("n1  ")
        write(file, "n1", "n2")
        news = command.until("n2  ")
        assert news.startswith("2 nodes: 2 without a report")
        assert "  n1 " not in news
        assert command.ctrl_c() == 130
        assert command.process.stderr is not None
        assert command.process.stderr.read().decode() == NO_REPORTS  # once


def test_on_a_terminal_the_answer_is_drawn_over(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, "n1")
    with running("nodes", "--watch", "--cluster", str(file), on_terminal=True) as command:
        assert command.until("n1  ").count("\x1b[H\x1b[2J") == 1
        write(file, "n1", "n2")
        news = command.until("n2  ")
        assert news.count("\x1b[H\x1b[2J") == 1
        assert "  n1 " in news
        assert command.ctrl_c() == 130


def test_a_file_that_makes_no_sense_for_a_while_is_told_and_the_next_one_answers(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, "n1")
    with running("nodes", "-w", "-o", "name", "--cluster", str(file)) as command:
        command.until("node/n1")
        assert command.process.stderr is not None
        assert os.read(command.process.stderr.fileno(), 4096).decode() == NO_REPORTS
        file.write_text("{")
        said = os.read(command.process.stderr.fileno(), 4096).decode()
        assert said.startswith("error: ")
        assert str(file) in said
        write(file, "n1", "n3")
        assert command.until("node/n3") == "node/n3\n"


def test_documents_come_whole(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    write(file, "n1")
    with running("nodes", "-w", "-o", "json", "--cluster", str(file)) as command:
        first = command.until("\n}\n")
        write(file, "n2")
        second = command.until("\n}\n")
        assert [json.loads(text)["items"][0]["node"] for text in (first, second)] == ["n1", "n2"]


@pytest.mark.parametrize("arguments", [["nodes"], ["why", "-A"], ["topology", "--levels", "x"], ["numa", "n1"]])
def test_the_first_error_ends_it(bayplan: Bayplan, tmp_path: Path, arguments: list[str]) -> None:
    result = bayplan(*arguments, "-w", cluster=tmp_path / "missing.json")
    assert (result.code, result.out) == (2, "")
    assert "missing.json" in result.err


def test_standard_input_cannot_be_watched(bayplan: Bayplan) -> None:
    result = bayplan("nodes", "-w", cluster="-")
    assert (result.code, result.err.partition(";")[0]) == (2, "error: --watch cannot read standard input again")


def test_files_that_come_change_or_go_are_noticed(tmp_path: Path) -> None:
    seen: list[Any] = [signature_of([tmp_path])]
    file = tmp_path / "inner" / "a.json"
    file.parent.mkdir()
    for change in (lambda: file.write_text("1"), lambda: file.write_text("22"), file.unlink):
        change()
        seen.append(signature_of([tmp_path]))
    assert len(set(seen)) == 4
