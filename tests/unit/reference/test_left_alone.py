"""The table of what bayplan does not support says what pods and users are really told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.config.configuration import ConfigurationError, configuration_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import default_profile
from tests.builders.bodies import node_body, pod_body

PAGE = Path(__file__).parents[3] / "docs" / "scheduler.md"
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ONE_CPU: dict[str, str | int] = {"cpu": 1}


def documented(part: str) -> str:
    """The message that the table has for a feature."""
    section = PAGE.read_text(encoding="utf-8").partition("## Which pods it leaves alone")[2].partition("\n## ")[0]
    (row,) = (line for line in section.splitlines() if line.startswith("|") and part in line.split("|")[1])
    found = re.fullmatch(r" `(.*)` ", row.split("|")[3])
    assert found, row
    return found[1]


def told(amounts: dict[str, str | int], **spec: Any) -> str:
    state = ClusterState()
    state.set_node(msgspec.convert(node_body("n1", {"cpu": 8, "memory": "8Gi", "pods": 10}), Node))
    pod = msgspec.convert(pod_body("web", "shop", amounts, **spec), Pod)
    try:
        decision = schedule_one(state, pod, default_profile(), ClassAnswers(state))
    except InvalidObject as problem:
        return str(problem)
    assert decision.node is None
    return decision.held_back


@pytest.mark.parametrize(
    "part, amounts, spec",
    [
        ("spec.resourceClaims", ONE_CPU, {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
        ("spec.os.name", ONE_CPU, {"os": {"name": "windows"}}),
        ("amounts above", {"example.com/token": str(2**53)}, {}),
    ],
)
def test_a_pod_is_told_what_the_table_says(part: str, amounts: dict[str, str | int], spec: dict[str, Any]) -> None:
    assert documented(part) in told(amounts, **spec)


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize(
    "part, written",
    [
        ("`extenders`", {"extenders": [{"urlPrefix": "https://extender.example.com"}]}),
        ("default spread", ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [SPREAD]})),
        ("`VolumeBinding` scores", ("VolumeBinding", {"shape": [{"utilization": 0, "score": 0}]})),
        ("plugins that", {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "DynamicResources"}]}}}]}),
    ],
)
def test_a_configuration_is_refused_as_the_table_says(
    part: str, written: dict[str, Any] | tuple[str, dict[str, Any]]
) -> None:
    if isinstance(written, tuple):
        written = {"profiles": [{"pluginConfig": [{"name": written[0], "args": written[1]}]}]}
    with pytest.raises(ConfigurationError, match=re.escape(documented(part))):
        configuration_of({**CONFIGURATION, **written})
