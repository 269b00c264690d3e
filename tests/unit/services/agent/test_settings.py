"""Files of other agents that say what to leave out, and how often the agent looks."""

from __future__ import annotations

import pytest

from bayplan.kube.errors import InvalidObject
from bayplan.services.agent.settings import AgentSettings, ReferenceContainer, exclusions_of, reference_container_of
from bayplan.services.agent.sources.pod_resources import PodPattern
from tests.builders.bodies import Json


@pytest.mark.parametrize(
    "document, resources, pods",
    [
        ({}, set(), ()),
        (None, set(), ()),
        ({"excludeList": {"n1": ["cpu"], "n2": ["memory"], "*": ["example.com/gpu"]}}, {"cpu", "example.com/gpu"}, ()),
        ({"resourceExclude": {"*": ["memory"]}}, {"memory"}, ()),
        (
            {"podExclude": [{"namespacePattern": "kube-*", "namePattern": "*"}, {"namePattern": "x"}]},
            set(),
            (PodPattern("kube-*", "*"), PodPattern("*", "x")),
        ),
    ],
)
def test_exclusions_on_node_n1(document: Json | None, resources: set[str], pods: tuple[PodPattern, ...]) -> None:
    assert exclusions_of(document, "agent.conf", "n1") == (frozenset(resources), pods)


def test_a_wrong_file_is_named_with_its_field() -> None:
    with pytest.raises(InvalidObject, match=r"file agent.conf: excludeList\[\.\.\.\]: must be a list, not a string"):
        exclusions_of({"excludeList": {"n1": "cpu"}}, "agent.conf", "n1")


@pytest.mark.parametrize(
    "interval, heartbeat, timer", [(60, 300, 60), (0, 300, 300), (600, 300, 300), (60, 0, 60), (0, 0, 0)]
)
def test_a_heartbeat_requires_scans(interval: float, heartbeat: float, timer: float) -> None:
    assert AgentSettings("n1", interval=interval, heartbeat=heartbeat).timer == timer


def test_a_reference_container() -> None:
    assert reference_container_of("agents/rte/shared") == ReferenceContainer("agents", "rte", "shared")
    assert reference_container_of("") is None
