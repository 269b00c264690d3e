"""Scenario files in a temporary folder, and what is said about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayplan.simulate.scenario.lines import ScenarioError
from bayplan.simulate.scenario.model import Scenario
from bayplan.simulate.scenario.reader import read_scenario

NODES = "nodes: [{name: n, count: 4, machine: pack:2 core:8 pu:2 mem:32Gi}]\n"
WORKLOADS = "workloads: [{name: app, pod: {resources: {cpu: 2, memory: 1Gi}}}]\n"


def scenario(folder: Path, text: str) -> Scenario:
    """The scenario that a text describes."""
    file = folder / "x.yaml"
    file.write_text(text)
    return read_scenario(file)


def faults(folder: Path, text: str) -> list[str]:
    """What is wrong with a text, without the name of the temporary folder."""
    with pytest.raises(ScenarioError) as error:
        scenario(folder, text)
    return [_without_columns(line) for line in str(error.value).replace(f"{folder}/", "").splitlines()]


def _without_columns(message: str) -> str:
    """Columns are tested once, in `test_lines.py`."""
    return re.sub(r"^(\w+\.yaml:\d+):\d+", r"\1", message)


def remarks(folder: Path, text: str) -> list[str]:
    """What is remarked about a text that can be used."""
    return [_without_columns(remark.replace(f"{folder}/", "")) for remark in scenario(folder, text).remarks]
