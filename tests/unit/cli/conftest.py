"""Run `bayplan` as a user does, but in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from bayplan.cli.program import run

EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Result:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> str:
        """The first line."""
        return self.out.partition("\n")[0]


Bayplan = Callable[..., Result]


@pytest.fixture
def bayplan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bayplan:
    """`bayplan("why", "telco/upf-0")` on the example cluster, unless `cluster` says otherwise."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object, cluster: object = EXAMPLES / "cluster", program: str = "bayplan") -> Result:
        with_cluster = ["--cluster", str(cluster)] if cluster else []
        code = run([program, *(str(argument) for argument in arguments), *with_cluster])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def pods() -> Path:
    """The pods of examples/."""
    return EXAMPLES / "pods"
