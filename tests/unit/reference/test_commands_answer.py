"""Every command of the documents that needs no cluster runs as it stands, and prints what the document shows.

Commands without `--cluster` ask the cluster that kubectl would ask; here they ask a dump of it, and
tests/kubernetes/test_documented_commands.py runs them on an API server.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bayplan.cli.program import run
from tests.reference.readers_folder import make_folder
from tests.reference.where_commands_run import ELSEWHERE, NOT_RUN, offline_commands
from tests.reference.written_commands import ROOT, Written, written_commands

ASK_A_CLUSTER = ("place", "why", "nodes", "numa", "topology", "slots", "snapshot")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("reader"))


@pytest.mark.parametrize("written", offline_commands(), ids=str)
def test_a_documented_command_answers(
    written: Written, folder: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    words = shlex.split(written.command)
    target = None
    if ">" in words:
        target = words[words.index(">") + 1]
        words = words[: words.index(">")]
    if words[1] in ASK_A_CLUSTER and "--cluster" not in words:
        words += ["--cluster", "cluster.json"]
    if "s.json.gz" in words and not (folder / "s.json.gz").exists():
        run(["bayplan", "snapshot", "--cluster", "examples/cluster"])
        (folder / "s.json.gz").write_bytes(capsysbinary.readouterr().out)
    code = run(words)
    out, err = capsysbinary.readouterr()
    assert code in (0, 1), err.decode()
    assert out or b"No resources found" in err
    if target is not None and "/" not in target and not target.startswith(("~", "$")):
        (folder / target).write_bytes(out)
    if "examples/" in written.command and written.output:
        assert_shown(written.output, out.decode())


def assert_shown(written: str, printed: str) -> None:
    """The document shows what was printed; `...` stands for lines that it leaves out."""
    wanted = [line.rstrip() for line in written.splitlines()]
    found = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if not any(line.strip() == "..." for line in wanted):
        assert found == wanted
        return
    at = 0
    for line in wanted:
        if line.strip() != "...":
            assert line in found[at:]
            at = found.index(line, at) + 1


def test_every_exception_is_a_command_of_the_documents() -> None:
    written = {each.command for each in written_commands()}
    assert set(ELSEWHERE) <= written
    assert {begin for begin in NOT_RUN if not any(each.startswith(begin) for each in written)} == set()


@pytest.mark.parametrize("where", sorted(set(ELSEWHERE.values()) - {"this run"}))
def test_the_other_test_exists(where: str) -> None:
    assert (ROOT / where.partition(",")[0].partition(":")[0]).is_file()
