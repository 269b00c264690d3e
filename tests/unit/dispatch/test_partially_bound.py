"""Stories of started gangs: when they are complete, and when their running pods are deleted."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.partially_bound import FORBIDDEN_FOR, has_original_members
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Pod, PodCondition, PodStatus
from tests.builders.units import (
    RACK,
    being_deleted,
    dispatcher,
    fail,
    on_node,
    places,
    pod,
    pod_group,
)

LONG_AFTER = (61.0, 122.0, 400.0, 1000.0)


def bound_at(running: Pod, moment: str) -> Pod:
    condition = PodCondition(type="PodScheduled", status="True", last_transition_time=moment)
    return msgspec.structs.replace(running, status=PodStatus(phase="Running", conditions=[condition]))


def created_at(made: Pod, moment: str) -> Pod:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, creation_timestamp=moment))


def made_anew(group: PodGroup) -> PodGroup:
    return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, uid="another"))


def room_for_three(*, group: PodGroup | None = None) -> Dispatcher:
    scheduler = dispatcher("n1", racks={"n1": "r1"}, cpus=9)
    scheduler.set_group(group or pod_group(3, required=RACK), 0)
    return scheduler


def releases(scheduler: Dispatcher) -> list[Release]:
    return [action for moment in LONG_AFTER if isinstance(action := scheduler.decide(moment), Release)]


def decided(scheduler: Dispatcher) -> tuple[list[Pod], Bind]:
    """Three members arrive and are decided; no bind has been reported yet."""
    members = [pod(name, 3, gang="train") for name in "abc"]
    for member in members:
        scheduler.set_pod(member, 0)
    action = scheduler.decide(0)
    assert isinstance(action, Bind)
    return members, action


class TestComplete:
    def test_a_gang_is_complete_after_its_last_bind_even_if_a_member_has_ended(self) -> None:
        scheduler = room_for_three()
        members, action = decided(scheduler)
        for member in members:
            scheduler.set_pod(on_node(member, "n1"), 1)
        scheduler.remove_pod("ml/a", 1)
        scheduler.bound(action, 1)
        assert scheduler.decide(1) == Complete("ml/train")
        assert releases(scheduler) == []

    def test_a_gang_whose_pods_all_ended_early_was_complete(self) -> None:
        scheduler = room_for_three()
        _, action = decided(scheduler)
        for key in places(action):
            scheduler.remove_pod(key, 1)
        scheduler.bound(action, 1)
        assert scheduler.decide(1) == Complete("ml/train")
        assert scheduler.decide(1) is None

    def test_the_next_scheduler_assumes_that_missing_members_have_ended(self) -> None:
        """Members bound with their gang prove that all had arrived, and no member waits."""
        scheduler = room_for_three()
        for name in "bc":
            scheduler.set_pod(on_node(pod(name, 3, gang="train"), "n1"), 0)
        assert scheduler.decide(0) == Complete("ml/train")
        assert releases(scheduler) == []

    def test_a_failed_member_is_retried_even_if_another_has_ended(self) -> None:
        scheduler = room_for_three()
        members = {f"ml/{name}": pod(name, 3, gang="train") for name in "abc"}
        for member in members.values():
            scheduler.set_pod(member, 0)
        action = scheduler.decide(0)
        fail(scheduler, action, "ml/c", 1)
        for key in ("ml/a", "ml/b"):
            scheduler.set_pod(on_node(members[key], "n1"), 1)
        scheduler.remove_pod("ml/a", 2)
        assert list(places(scheduler.decide(5))) == ["ml/c"]

    def test_terminating_pods_are_not_part_of_the_recreated_gang(self) -> None:
        scheduler = room_for_three(group=pod_group(2))
        scheduler.set_pod(being_deleted(on_node(pod("old", 3, gang="train"), "n1")), 0)
        scheduler.set_pod(pod("a", 3, gang="train"), 0)
        action = scheduler.decide(0)
        assert isinstance(action, Unschedulable)
        assert action.reason == "waits for pods: 1 of 2 have arrived"


class TestAnotherPodGroup:
    """A PodGroup is deleted and recreated: `kubectl replace --force`, or a restored backup."""

    def complete(self) -> Dispatcher:
        scheduler = room_for_three()
        for name in "abc":
            scheduler.set_pod(on_node(pod(name, 3, gang="train"), "n1"), 0)
        assert scheduler.decide(0) == Complete("ml/train")
        scheduler.set_group(pod_group(3, required=RACK, phase="Scheduled"), 1)
        assert scheduler.decide(1) is None
        return scheduler

    @pytest.mark.parametrize("is_seen_to_go", [True, False])
    def test_it_is_told_that_its_gang_was_complete(self, is_seen_to_go: bool) -> None:
        scheduler = self.complete()
        if is_seen_to_go:
            scheduler.remove_group("ml/train", 2)
            assert scheduler.decide(2) is None
        scheduler.set_group(made_anew(pod_group(3, required=RACK)), 3)
        assert [scheduler.decide(second) for second in (3, 4)] == [Complete("ml/train"), None]
        assert scheduler.decide(34) == Complete("ml/train"), "said again until it can be read there"

    def test_also_if_a_member_has_ended_and_another_waits_in_its_place(self) -> None:
        scheduler = self.complete()
        scheduler.remove_pod("ml/a", 2)
        scheduler.set_pod(pod("too-large", 9, gang="train"), 2)
        scheduler.set_group(made_anew(pod_group(3, required=RACK)), 3)
        assert scheduler.decide(3) == Complete("ml/train")
        assert isinstance(scheduler.decide(4), Unschedulable)
        assert releases(scheduler) == []

    def test_but_not_if_all_pods_of_the_gang_leave(self) -> None:
        scheduler = self.complete()
        for name in "abc":
            scheduler.set_pod(being_deleted(on_node(pod(name, 3, gang="train"), "n1")), 2)
        scheduler.set_group(made_anew(pod_group(3, required=RACK)), 3)
        scheduler.set_pod(pod("new", 3, gang="train"), 3)
        assert isinstance(scheduler.decide(3), Unschedulable)


class TestDoubt:
    """Two of three have nodes, and the third has no room. They are deleted only if they were never complete."""

    def two_of_three(self, third: Pod) -> Dispatcher:
        scheduler = room_for_three()
        for name in "ab":
            running = on_node(pod(name, 3, gang="train"), "n1")
            scheduler.set_pod(bound_at(created_at(running, "2026-01-01T00:00:00Z"), "2026-01-01T00:00:05Z"), 0)
        scheduler.set_pod(third, 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        return scheduler

    @pytest.mark.parametrize(
        "created, released",
        [
            pytest.param("2026-01-01T00:00:05Z", True, id="it was there when the others were bound"),
            pytest.param("2026-01-01T00:00:06Z", False, id="it came later, perhaps for one that had a node"),
        ],
    )
    def test_members_created_after_the_first_bind_prevent_the_release(self, created: str, released: bool) -> None:
        scheduler = self.two_of_three(created_at(pod("c", 4, gang="train"), created))
        assert bool(releases(scheduler)) == released

    def test_a_gang_that_loses_a_member_is_neither_released_nor_retried_all_the_time(self) -> None:
        scheduler = self.two_of_three(created_at(pod("c", 4, gang="train"), "2026-01-01T00:00:00Z"))
        scheduler.remove_pod("ml/a", 30)
        scheduler.set_pod(pod("too-large", 99, gang="train"), 30)
        scheduler.decide(30)
        assert releases(scheduler) == []
        scheduler.decide(1001)
        due = scheduler.queue.next_time()
        assert due is not None
        assert due > 1060

    @pytest.mark.parametrize(
        "spec, number, here",
        [
            pytest.param(PodGroupSpec(size=3), 3, True, id="all"),
            pytest.param(PodGroupSpec(size=3), 2, False, id="one is missing"),
            pytest.param(PodGroupSpec(size=3, minimum=2), 2, False, id="one that is not needed may have had a node"),
            pytest.param(PodGroupSpec(minimum=2), 2, True, id="only a minimum is known"),
            pytest.param(PodGroupSpec(size=1, groups=[GroupSpec(name="w", size=2)]), 2, False, id="groups count"),
        ],
    )
    def test_all_members_of_a_pod_group_must_exist(self, spec: PodGroupSpec, number: int, here: bool) -> None:
        assert has_original_members(spec, [on_node(pod(f"p{each}"), "n1") for each in range(number)]) == here


class TestRelease:
    def released(self) -> tuple[Dispatcher, Release]:
        scheduler = room_for_three()
        for name in "ab":
            scheduler.set_pod(on_node(pod(name, 3, gang="train"), "n1"), 0)
        scheduler.set_pod(pod("c", 4, gang="train"), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        action = scheduler.decide(61)
        assert isinstance(action, Release)
        return scheduler, action

    def test_a_gang_that_is_being_released_is_not_decided(self) -> None:
        scheduler, action = self.released()
        assert [pod_key(each) for each in action.pods] == ["ml/a", "ml/b"]
        scheduler.remove_pod("ml/a", 62)
        assert [scheduler.decide(moment) for moment in (62, 70, 200)] == [None, None, None]

    def test_deleted_pods_do_not_count_before_their_watch_event(self) -> None:
        scheduler, action = self.released()
        scheduler.remove_pod("ml/a", 62)
        scheduler.gangs.released(action, action.pods, 62, refused=False)
        assert scheduler.decide(62) is None, "there would be room for c beside b"
        scheduler.set_pod(being_deleted(on_node(pod("b", 3, gang="train"), "n1")), 63)
        refusal = scheduler.decide(63)
        assert isinstance(refusal, Unschedulable)
        assert refusal.reason == "waits for pods: 1 of 3 have arrived"

    def test_a_gang_whose_release_is_forbidden_keeps_its_nodes_and_waits(self) -> None:
        scheduler, action = self.released()
        scheduler.gangs.released(action, (), 62, refused=True)
        assert isinstance(scheduler.decide(62), Unschedulable)
        assert not isinstance(scheduler.decide(62 + FORBIDDEN_FOR / 2), Release)
        scheduler.state.remove_node("n1")
        assert isinstance(scheduler.decide(62 + FORBIDDEN_FOR + 1), Release), "rights may have been given"
