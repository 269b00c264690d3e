"""No line is longer than the terminal, however narrow it is; a pipe gets everything."""

import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.gang_files import CLUSTER

GANGS = EXAMPLES / "gangs"
COMMANDS = [
    (["nodes"], None),
    (["nodes", "-o", "wide"], None),
    (["why", "telco/upf-large"], None),
    (["why", "telco/upf-large", "--node", "telco-2"], None),
    (["place", "-f", EXAMPLES / "pods"], None),
    (["place", "-f", EXAMPLES / "pods" / "upf.yaml", "-o", "wide"], None),
    (["numa", "telco-1"], None),
    (["nodes"], CLUSTER),
    (["topology", "--level", "numa"], CLUSTER),
    (["topology", "--requests", "gpu=4"], CLUSTER),
    (["slots", "--requests", "gpu=4", "--pods", "8"], CLUSTER),
    (["place", "-f", GANGS / "pretrain.yaml", "-o", "wide"], CLUSTER),
    (["place", "-f", GANGS / "too-large.yaml"], CLUSTER),
    (["why", "ml/finetune"], CLUSTER),
]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("arguments, cluster", COMMANDS, ids=lambda value: str(value)[:40])
def test_every_line_fits(
    bayplan: Bayplan,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[object],
    cluster: Path | None,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = bayplan(*arguments, cluster=cluster or EXAMPLES / "cluster").out.splitlines()
    assert lines
    assert [line for line in lines if len(line) > width] == []


def test_what_a_narrow_table_leaves_out_is_named(bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = " ".join(bayplan("nodes").out.split())
    assert "(too narrow for: largest aligned pod, policy, scope," in text


def test_a_pipe_gets_the_whole_table(bayplan: Bayplan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, bayplan("nodes").out.splitlines())) > 120
