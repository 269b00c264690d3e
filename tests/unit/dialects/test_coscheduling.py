"""coscheduling's PodGroups: a number of pods, and nothing else."""

from __future__ import annotations

import pytest

from bayplan.dialects.coscheduling.pod_group import DIALECT
from bayplan.kube.wire.coscheduling_v1alpha1 import PodGroup
from tests.builders.gangs import group_object, member
from tests.unit.dialects.readings import gang, outline, waits, wrong


def pod_group(least: int, phase: str = "") -> PodGroup:
    return group_object(PodGroup, {"minMember": least}, phase=phase)


def test_pods_name_their_group_in_a_label() -> None:
    assert DIALECT.group_named(member("a", {"scheduling.x-k8s.io/pod-group": "pg"})) == "pg"
    assert DIALECT.group_named(member("a")) == ""


def test_so_many_start_together_and_the_others_may_follow() -> None:
    found = gang(DIALECT, pod_group(2), [member("a"), member("b"), member("c")])
    assert (found.name, found.topology) == ("ml/pg", "")
    assert outline(found.root) == {"": (["a", "b", "c"], 2)}


def test_members_with_a_node_count() -> None:
    found = gang(DIALECT, pod_group(2), [member("a", node="n1"), member("b"), member("c")])
    assert outline(found.root) == {"": (["b", "c"], 1)}


def test_it_waits_until_enough_have_arrived() -> None:
    pods = [member("a"), member("b", phase="Failed")]
    assert waits(DIALECT, pod_group(2), pods) == "waits for pods: 1 of 2 have arrived"


def test_a_minimum_of_zero_is_wrong() -> None:
    assert wrong(DIALECT, pod_group(0), []) == "PodGroup ml/pg: spec.minMember: 0 must be 1 or more"


@pytest.mark.parametrize("phase, complete", [("", False), ("Pending", False), ("Scheduled", True), ("Running", True)])
def test_its_phase_tells_whether_it_has_been_complete(phase: str, *, complete: bool) -> None:
    assert DIALECT.was_complete(pod_group(1, phase)) is complete
