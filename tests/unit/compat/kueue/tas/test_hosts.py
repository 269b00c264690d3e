"""Which hosts a pod set may use: taints, selectors, affinity; and that larger leaves are asked none of it."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.pods.tolerations import taint_text
from bayplan.compat.kueue.tas import Host, snapshot_of
from bayplan.compat.kueue.tas.hosts import term_matches, tolerates
from bayplan.kube.wire.core_v1 import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    Taint,
    Toleration,
)
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, leaf, placed, pods

GPU_TAINT = Taint(key="gpu", value="8", effect="NoSchedule")


def requirement(operator: str, *values: str, key: str = "size") -> SelectorRequirement:
    return SelectorRequirement(key=key, operator=operator, values=list(values) or None)


def wants(*requirements: SelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=list(requirements))


@pytest.mark.parametrize(
    "toleration, expected",
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "8"}, True),
        ({"key": "gpu", "value": "4"}, False),
        ({"key": "cpu", "value": "8"}, False),
        ({"value": "8"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "4"}, True),
        ({"key": "gpu", "operator": "Lt", "value": "4"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "four"}, False),
        ({"key": "gpu", "operator": "Near", "value": "8"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], expected: bool) -> None:
    assert tolerates(Toleration(**toleration), GPU_TAINT) is expected


@pytest.mark.parametrize(
    "term, expected",
    [
        (wants(requirement("In", "8", "16")), True),
        (wants(requirement("NotIn", "8")), False),
        (wants(requirement("NotIn", "8", key="colour")), True),
        (wants(requirement("Exists")), True),
        (wants(requirement("DoesNotExist")), False),
        (wants(requirement("Gt", "7")), True),
        (wants(requirement("Lt", "7")), False),
        (wants(requirement("Gt", "seven")), False),
        (wants(requirement("Near", "8")), False),
        (wants(requirement("Exists"), requirement("In", "9")), False),
        (wants(), False),
        (NodeSelectorTerm(match_fields=[requirement("In", "x1", key="metadata.name")]), True),
        (NodeSelectorTerm(match_fields=[requirement("In", "x2", key="metadata.name")]), False),
    ],
)
def test_terms(term: NodeSelectorTerm, expected: bool) -> None:
    assert term_matches(term, Host("x1", {"size": "8"})) is expected


@pytest.mark.parametrize(
    "taint, expected",
    [
        (GPU_TAINT, "gpu=8:NoSchedule"),
        (Taint(key="gpu", effect="NoExecute"), "gpu:NoExecute"),
        (Taint(key="gpu", value="8", effect=""), "gpu=8"),
    ],
)
def test_how_a_taint_is_written(taint: Taint, expected: str) -> None:
    assert taint_text(taint) == expected


def test_every_host_is_counted_under_its_first_cause() -> None:
    cluster = snapshot_of(
        "default",
        (HOST,),
        [
            leaf("x1", cpu=4, taints=(GPU_TAINT,)),
            leaf("x2", cpu=4, labels={"pool": "a"}),
            leaf("x3", cpu=4, labels={"pool": "b", "size": "4"}),
            leaf("x4", cpu=0, labels={"pool": "b", "size": "8"}),
            leaf("x5", cpu=4, taints=(Taint(key="old", effect="PreferNoSchedule"),)),
        ],
    )
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(
            node_selector_terms=[wants(requirement("In", "8"))]
        )
    )
    found = placed(cluster, pods(1, required=HOST, node_selector={"pool": "b"}, node_affinity=affinity))
    assert found == (
        'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 5; '
        'excluded: affinity: 1, nodeSelector: 2, resource "cpu": 1, taint "gpu=8:NoSchedule": 1'
    )


@pytest.mark.parametrize("where", ["pod set", "flavor"])
def test_a_toleration_opens_a_tainted_host(where: str) -> None:
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    of_flavor, of_pods = (tolerations, ()) if where == "flavor" else ((), tolerations)
    cluster = snapshot_of("default", (HOST,), [leaf("x1", cpu=1, taints=(GPU_TAINT,))], of_flavor)
    assert placed(cluster, pods(1, required=HOST, tolerations=of_pods)) == {"x1": 1}


def test_racks_as_lowest_level_are_asked_for_no_labels() -> None:
    cluster = snapshot_of("default", (BLOCK, RACK), [leaf("b1/r1", cpu=1, taints=(GPU_TAINT,))])
    assert placed(cluster, pods(1, required=RACK, node_selector={"pool": "b"})) == {"b1/r1": 1}


def liked(*weights: tuple[str, int]) -> NodeAffinity:
    wishes = [
        PreferredSchedulingTerm(weight=weight, preference=wants(requirement("In", pool, key="pool")))
        for pool, weight in weights
    ]
    return NodeAffinity(preferred_during_scheduling_ignored_during_execution=wishes)


@pytest.mark.parametrize(
    "count, wish, settings, expected",
    [
        pytest.param(1, {"required": HOST}, {}, {"x1": 1}, id="the gate is off"),
        pytest.param(1, {"required": HOST}, {"preferred_affinity": True}, {"x2": 1}, id="liked before tight"),
        pytest.param(3, {"required": HOST}, {"preferred_affinity": True}, {"x3": 3}, id="the liked one is too small"),
        pytest.param(
            3, {"preferred": HOST}, {"preferred_affinity": True}, {"x1": 1, "x2": 2}, id="the liked one first"
        ),
    ],
)
def test_preferred_affinity(
    count: int, wish: dict[str, str], settings: dict[str, bool], expected: dict[str, int]
) -> None:
    cluster = snapshot_of(
        "default", (HOST,), [leaf("x1", cpu=1), leaf("x2", cpu=2, labels={"pool": "b"}), leaf("x3", cpu=4)]
    )
    arguments: dict[str, Any] = {**wish, "node_affinity": liked(("b", 10))}
    assert placed(cluster, pods(count, **arguments), **settings) == expected
