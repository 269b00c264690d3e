"""Whether a PodGroup still says what was applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bayplan.grouping.podgroup import manifest_of
from bayplan.kube.wire.bayplan_v1alpha1 import PatienceSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata
from bayplan.kube.wire.kai_scheduling_v2alpha2 import PodGroup as KaiPodGroup
from bayplan.services.pod_grouper.contents import contains, is_current, keeping, strays
from tests.builders.bodies import Json

RACK = "example.com/rack"


@pytest.mark.parametrize(
    "seen, wanted, expected",
    [
        ({"size": 4}, {"size": 4}, True),
        ({"size": 3}, {"size": 4}, False),
        ({}, {"size": 4}, False),
        ({"size": 4, "objective": ["closest"]}, {"size": 4}, True),
        ({"groups": [{"name": "a", "size": 1, "minimum": None}]}, {"groups": [{"name": "a", "size": 1}]}, True),
        ({"groups": [{"name": "a"}, {"name": "b"}]}, {"groups": [{"name": "a"}]}, False),
        ({"groups": None}, {"groups": [{"name": "a"}]}, False),
        ([], {}, False),
    ],
    ids=[
        "the same",
        "another value",
        "a field is missing",
        "another client added a field",
        "defaults are shown",
        "another client added a group",
        "groups are gone",
        "another shape",
    ],
)
def test_contains(seen: Any, wanted: Any, expected: bool) -> None:
    assert contains(seen, wanted) is expected


ASKED = PodGroup(metadata=Metadata(name="train"), spec=PodGroupSpec(size=4, required="example.com/rack"))


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"objective": ["closest"]}, {}),
        ({"patience": PatienceSpec(domains=1, seconds=60)}, {}),
        ({"placement": "spread", "style": "volcano"}, {}),
        ({"minimum": 2}, {"minimum": None}),
        ({"topology": "other", "preferred": "example.com/block"}, {"topology": None, "preferred": None}),
        ({"minimum_groups": 1, "groups": []}, {"groups": None, "minimumGroups": None}),
    ],
)
def test_only_the_owner_defines_the_gang(change: dict[str, Any], expected: Json) -> None:
    written, manifest = replace(ASKED, spec=replace(ASKED.spec, **change)), manifest_of(ASKED)
    assert strays(written, manifest) == expected
    assert is_current(written, manifest) is (not expected)


OF_KAI: Json = {
    "apiVersion": "scheduling.run.ai/v2alpha2",
    "kind": "PodGroup",
    "metadata": {"name": "pg-train"},
    "spec": {
        "minMember": 3,
        "queue": "research",
        "priorityClassName": "",
        "topologyConstraint": {"topology": "network", "requiredTopologyLevel": RACK},
        "subGroups": [{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2, "parent": None}],
    },
}
LEADER, WORKERS = {"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2}


@pytest.mark.parametrize(
    "change, added, as_meant",
    [
        pytest.param({}, {}, True, id="nothing"),
        pytest.param({"queue": "production"}, {}, True, id="the queue"),
        pytest.param({"markUnschedulable": True, "schedulingBackoff": 1}, {}, True, id="what means nothing to bayplan"),
        pytest.param({"minMember": 1}, {}, False, id="a number, which an apply puts back"),
        pytest.param({"minSubGroup": 1}, {"minSubGroup": None}, False, id="a field"),
        pytest.param({"preemptibility": "preemptible"}, {"preemptibility": None}, False, id="another field"),
        pytest.param(
            {
                "topologyConstraint": {
                    "topology": "network",
                    "requiredTopologyLevel": RACK,
                    "preferredTopologyLevel": "x",
                }
            },
            {"topologyConstraint": {"preferredTopologyLevel": None}},
            False,
            id="a level beside one that is meant",
        ),
        pytest.param(
            {"subGroups": [LEADER, {**WORKERS, "topologyConstraint": {"topology": "network"}}]},
            {"subGroups": [LEADER, WORKERS]},
            False,
            id="a wish of a sub-group",
        ),
        pytest.param(
            {"subGroups": [LEADER, WORKERS, {"name": "more", "minMember": 1}]},
            {"subGroups": [LEADER, WORKERS]},
            False,
            id="a sub-group",
        ),
    ],
)
def test_in_kais_groups_only_the_queue_is_left_to_others(change: Json, added: Json, as_meant: bool) -> None:
    written = msgspec.convert({**OF_KAI, "spec": OF_KAI["spec"] | change}, KaiPodGroup)
    assert strays(written, OF_KAI) == added
    assert is_current(written, OF_KAI) is as_meant


def test_a_chosen_node_pool_stays() -> None:
    manifest = {**OF_KAI, "metadata": {"name": "pg-train", "labels": {"kai.scheduler/node-pool": "a", "team": "ml"}}}
    for label, as_meant in (("kai.scheduler/node-pool", True), ("team", False)):
        metadata = {"name": "pg-train", "labels": {**manifest["metadata"]["labels"], label: "other"}}
        written = msgspec.convert({**OF_KAI, "metadata": metadata}, KaiPodGroup)
        assert is_current(written, manifest) is as_meant
        assert (keeping(written, manifest)["metadata"]["labels"][label] == "other") is as_meant


def test_a_chosen_queue_is_applied_again() -> None:
    """Or the apply that mends something else would take it back."""
    written = msgspec.convert({**OF_KAI, "spec": OF_KAI["spec"] | {"queue": "production", "minMember": 1}}, KaiPodGroup)
    assert keeping(written, OF_KAI)["spec"] == OF_KAI["spec"] | {"queue": "production"}
    assert keeping(None, OF_KAI) == OF_KAI
