"""`bayplan demo` and scenarios by name: they come with bayplan, and no checkout is needed."""

from pathlib import Path

import pytest

from bayplan.cli import program
from tests.unit.cli.conftest import Bayplan


def test_the_demo_asks_only_about_files_that_come_with_bayplan(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    really, asked = program.run, list[list[str]]()

    def answer_no(words: list[str]) -> int:
        if words[1] == "demo":
            return really(words)
        asked.append(words[1:])
        return 1

    monkeypatch.setattr(program, "run", answer_no)
    result = bayplan("demo", cluster=None)
    files = [word for words in asked for word in words if "examples/" in word]
    assert [words[0] for words in asked] == ["simulate", "why", "numa", "place"]
    assert files
    assert all(Path(file).exists() for file in files)
    assert result.code == 0


@pytest.mark.parametrize(
    "name, code, said",
    [
        ("two-nodes", 0, "bayplan: all 4 pods ran"),
        ("nope", 2, "is neither a file nor a scenario that comes with bayplan"),
    ],
)
def test_a_scenario_that_comes_with_bayplan_is_called_by_its_name(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = bayplan("simulate", name, cluster=None)
    assert (result.code, said in result.out + result.err) == (code, True)
