"""A scheduler is killed at every step of binding a gang, and another one takes over from what it left.

A gang of three takes seven steps: three binds, each sent and then answered, and the note on its PodGroup that it was
whole. Death may come before a write reaches the API server or before its answer comes back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_cluster, check_placed
from tests.kubernetes.faults.meddler import Fate, Kind, Meddler, at
from tests.kubernetes.faults.workload import (
    SCHEDULER,
    add_gang,
    add_nodes,
    add_pods,
    bound,
    phase_of,
    pod,
    wait_until_bound,
)
from tests.kubernetes.running_scheduler import RunningScheduler, running_scheduler
from tests.kubernetes.workloads import pods_in

ALONE = "--no-leader-elect"
SIZE = 3
BEFORE, AFTER = "before", "after"


def deadly(when: str, scheduler: RunningScheduler, meddler: Meddler) -> Fate:
    """The scheduler does not survive this request, and nothing that it has sent besides arrives."""

    def die() -> None:
        scheduler.kill()
        meddler.cut_off()

    return Fate(before=die) if when == BEFORE else Fate(after=die)


def has_died(scheduler: RunningScheduler) -> None:
    wait_until(lambda: scheduler.process.poll() is not None, "the scheduler is dead")


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("number", range(SIZE))
def test_a_gang_is_completed_by_the_next_scheduler_wherever_the_first_one_died(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path], number: int, when: str
) -> None:
    meddler, kubeconfig = meddled
    # Two racks with room for the gang: only those that have a node already say which one it must be.
    add_nodes(plane, "a1", "a2", rack="a")
    add_nodes(plane, "b1", "b2", rack="b")
    with running_scheduler(plane, ALONE, kubeconfig=kubeconfig) as first:
        meddler.decide(Kind.BIND, at(number, deadly(when, first, meddler)))
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        has_died(first)
    assert len(bound(plane, namespace)) == number + (when == AFTER)
    with running_scheduler(plane, ALONE):
        check_placed(plane, namespace, SIZE)
        wait_until(lambda: phase_of(plane, namespace, "gang") == "Scheduled", "it is noted that the gang is whole")
    check_cluster(plane, namespace, witness)


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_death_around_the_note_that_a_gang_is_whole_changes_nothing_for_the_gang(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path], when: str
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", rack="a")
    with running_scheduler(plane, ALONE, kubeconfig=kubeconfig) as first:
        meddler.decide(Kind.WHOLE, at(0, deadly(when, first, meddler)))
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        has_died(first)
    before = bound(plane, namespace)
    assert len(before) == SIZE
    with running_scheduler(plane, ALONE):
        wait_until(lambda: phase_of(plane, namespace, "gang") == "Scheduled", "it is noted that the gang is whole")
    assert bound(plane, namespace) == before
    check_cluster(plane, namespace, witness)


def test_a_gang_that_the_next_scheduler_cannot_complete_makes_room_and_says_why(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", "a3", rack="a", cpus=2)
    with running_scheduler(plane, ALONE, kubeconfig=kubeconfig) as first:
        meddler.decide(Kind.BIND, at(1, deadly(BEFORE, first, meddler)))
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        has_died(first)
    [(_, node)] = bound(plane, namespace).items()
    # While no scheduler ran, another client took a node that the gang needs.
    taken = next(name for name in ("a1", "a2", "a3") if name != node)
    foreign = pod("foreign", cpus=2, scheduler="another-scheduler")
    add_pods(plane, namespace, [{**foreign, "spec": {**foreign["spec"], "nodeName": taken}}])
    with running_scheduler(plane, ALONE, "--gangs-complete-in", "1"):
        wait_until(lambda: set(bound(plane, namespace)) == {"foreign"}, "the gang makes room")
        # Of its pods two are left, which wait; the room is for those who can use it.
        add_pods(plane, namespace, [pod("single", cpus=2)])
        wait_until_bound(plane, namespace, 2)
    assert {each["metadata"]["name"] for each in pods_in(plane, namespace)} > {"foreign", "single"}
    events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    assert any("cannot be completed, deleting its pods" in each["note"] for each in events)
    check_cluster(plane, namespace, witness)


def test_single_pods_under_way_at_death_are_placed_once_and_all(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", "a3", cpus=4)
    with running_scheduler(plane, ALONE, kubeconfig=kubeconfig) as first:
        meddler.decide(Kind.BIND, at(5, deadly(AFTER, first, meddler)))
        add_pods(plane, namespace, (pod(f"p{number}") for number in range(12)))
        has_died(first)
    assert len(bound(plane, namespace)) == 6
    with running_scheduler(plane, ALONE):
        check_placed(plane, namespace, 12)
    check_cluster(plane, namespace, witness)
    assert {each["spec"]["schedulerName"] for each in pods_in(plane, namespace)} == {SCHEDULER}
