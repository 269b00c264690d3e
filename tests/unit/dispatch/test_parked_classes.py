"""Classes that a changed node may fit by its total free amounts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.dispatch.parked_classes import ROW_BY_ROW, ParkedClasses
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, node, simple_pod

CPUS = 1000


def parked(state: ClusterState, **asked: dict[str, int]) -> ParkedClasses[str]:
    classes: ParkedClasses[str] = ParkedClasses(state)
    for name, amounts in asked.items():
        classes.add(name, amounts.items())
    return classes


def hopeful(classes: ParkedClasses[str], rows: Sequence[int]) -> list[str]:
    return classes.that_may_fit(np.array(rows, dtype=np.intp))


@pytest.mark.parametrize(
    "rows, expected",
    [
        ([], []),
        ([0], ["small"]),
        ([1], ["small", "large"]),
        ([2], ["small", "gpu"]),
        ([0, 1, 2], ["small", "large", "gpu"]),
    ],
)
def test_a_changed_node_may_fit_classes_that_it_has_enough_for(rows: list[int], expected: list[str]) -> None:
    state = cluster(nodes=[node("n0", {"cpu": 2}), node("n1", {"cpu": 8}), node("n2", {"cpu": 2, GPU: 1})])
    classes = parked(state, small={"cpu": 2 * CPUS}, large={"cpu": 8 * CPUS}, gpu={"cpu": CPUS, GPU: 1})
    assert hopeful(classes, rows) == expected


def test_enough_must_be_on_one_node() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 8}), node("n1", {GPU: 1})])
    classes = parked(state, both={"cpu": 8 * CPUS, GPU: 1})
    assert hopeful(classes, [0, 1]) == []


def test_very_many_nodes_are_represented_by_their_largest_amounts() -> None:
    state = cluster(nodes=[node(f"n{number}", {"cpu": number}) for number in range(ROW_BY_ROW + 2)])
    classes = parked(state, fits={"cpu": (ROW_BY_ROW + 1) * CPUS}, not_anywhere={"cpu": (ROW_BY_ROW + 2) * CPUS})
    assert hopeful(classes, range(ROW_BY_ROW + 2)) == ["fits"]


def test_overcommitted_resources_do_not_matter_unless_requested() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 2, GPU: 0})], pods=[simple_pod({GPU: 3}, nodeName="n0")])
    assert hopeful(parked(state, small={"cpu": CPUS}), [0]) == ["small"]


def test_a_class_without_requests_always_may_fit() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 0})])
    assert hopeful(parked(state, anything={}), [0]) == ["anything"]


def test_new_resources_do_not_affect_known_classes() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 2})])
    classes = parked(state, first={"cpu": CPUS})
    classes.add("second", {"example.com/new": 1}.items())
    assert hopeful(classes, [0]) == ["first"]
    state.set_node(node("n0", {"cpu": 2, "example.com/new": 1}))
    assert hopeful(classes, [0]) == ["first", "second"]


def test_the_line_of_a_removed_class_is_reused() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 2})])
    classes = parked(state, first={"cpu": CPUS}, second={"cpu": CPUS})
    classes.discard("first")
    assert hopeful(classes, [0]) == ["second"]
    classes.add("third", {"cpu": CPUS}.items())
    classes.add("third", {"cpu": CPUS}.items())
    assert hopeful(classes, [0]) == ["third", "second"]
    assert len(classes) == 2


def test_a_node_with_a_new_resource_may_fit_classes_that_request_it() -> None:
    state = cluster(nodes=[node("n0", {"cpu": 2})])
    classes = parked(state, new={"cpu": CPUS, "example.com/new": 1}, other={"example.com/other": 1})
    assert hopeful(classes, [0]) == []
    state.set_node(node("n0", {"cpu": 2, "example.com/new": 1}))
    assert hopeful(classes, [0]) == ["new"]
