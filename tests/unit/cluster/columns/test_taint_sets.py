"""Sets of taints have numbers that are used again, and only those are judged that are asked about."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.columns.taint_sets import NO_TAINTS, TaintSets
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeSpec, Taint


def taint(value: str) -> Taint:
    return Taint(key="DeletionCandidateOfClusterAutoscaler", value=value, effect="PreferNoSchedule")


def node(name: str, *taints: Taint) -> Node:
    return Node(metadata=Metadata(name=name), spec=NodeSpec(taints=list(taints)))


def test_equal_sets_share_a_number() -> None:
    sets = TaintSets()
    first, second = (sets.replace(NO_TAINTS, (taint("1"),)) for _ in range(2))
    assert first == second != NO_TAINTS
    assert sets[first] == (taint("1"),)


def test_a_set_stays_as_long_as_one_node_has_it() -> None:
    sets = TaintSets()
    shared, _ = (sets.replace(NO_TAINTS, (taint("1"),)) for _ in range(2))
    sets.replace(shared, ())
    assert sets[shared] == (taint("1"),)
    assert sets.replace(NO_TAINTS, (taint("1"),)) == shared


def test_moments_in_taints_do_not_add_up() -> None:
    state = ClusterState()
    for moment in range(100):
        state.set_node(node("n1", taint(str(moment))))
    assert len(state.taint_sets) <= 3
    assert state.taint_sets[state.columns.taint_set[0]] == (taint("99"),)


def test_the_taints_of_a_node_go_with_it() -> None:
    state = ClusterState()
    state.set_node(node("n1", taint("1")))
    state.remove_node("n1")
    state.set_node(node("n2"))
    assert state.taint_sets[state.columns.taint_set[state.rows["n2"]]] == ()
    assert state.taint_sets.replace(NO_TAINTS, (taint("2"),)) == 1


def test_each_set_that_is_asked_about_is_judged_once_and_no_other() -> None:
    sets = TaintSets()
    numbers = [sets.replace(NO_TAINTS, (taint(value),)) for value in "1234"]
    judged: list[str] = []

    def judge(taints: tuple[Taint, ...]) -> int:
        judged.append(taints[0].value)
        return int(taints[0].value)

    rows = np.array([numbers[2], numbers[0], numbers[2]], dtype=np.int32)
    assert sets.judged(rows, judge).tolist() == [3, 1, 3]
    assert sorted(judged) == ["1", "3"]
