"""Stories of started gangs whose members come late: their room is kept for a while, and for them alone."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from bayplan.dispatch.actions import Action, Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.allowance import UNUSED_COUNTS_FOR
from bayplan.dispatch.kept.late_room import MOST_OF_A_NAMESPACE, End, EndedRoom
from bayplan.kube.wire.bayplan_v1alpha1 import STARTED, GroupSpec, PodGroup, PodGroupSpec, PodGroupStatus
from bayplan.kube.wire.core_v1 import Metadata, Pod, PodCondition, PodStatus
from tests.builders.units import RACK, being_deleted, dispatcher, fail, on_node, places, pod

KEPT_FOR = 300.0
TWO_RACKS = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}


def staged(name: str, workers: int, *, leaders: int = 1, namespace: str = "ml") -> PodGroup:
    """A leader first, then its workers, all in one rack."""
    groups = [GroupSpec(name="leader", size=leaders), GroupSpec(name="workers", size=workers)]
    spec = PodGroupSpec(topology="network", required=RACK, groups=groups, minimum_groups=1)
    return PodGroup(metadata=Metadata(name=name, namespace=namespace, uid=f"uid-{name}"), spec=spec)


def flat(name: str, size: int, minimum: int, *, namespace: str = "ml") -> PodGroup:
    spec = PodGroupSpec(topology="network", required=RACK, size=size, minimum=minimum)
    return PodGroup(metadata=Metadata(name=name, namespace=namespace, uid=f"uid-{name}"), spec=spec)


def in_namespace(made: Pod, namespace: str) -> Pod:
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, namespace=namespace))


def leader(gang: str, cpus: int = 4, *, priority: int = 0) -> Pod:
    return pod(f"{gang}-leader", cpus, gang=gang, group="leader", priority=priority)


def workers(gang: str, number: int, cpus: int = 4, *, priority: int = 0) -> list[Pod]:
    return [pod(f"{gang}-worker-{each}", cpus, gang=gang, group="workers", priority=priority) for each in range(number)]


def decide_all(scheduler: Dispatcher, now: float) -> list[Action]:
    """Decide until nothing is due; what is bound runs at once."""
    actions = []
    scheduler.wake(now)
    while (action := scheduler.decide(now)) is not None:
        actions.append(action)
        if isinstance(action, Bind):
            for each in action.assignments:
                scheduler.set_pod(on_node(each.pod, each.node), now)
            scheduler.bound(action, now)
        scheduler.wake(now)
    return actions


def bound(actions: list[Action]) -> dict[str, str]:
    return {key: node for each in actions if isinstance(each, Bind) for key, node in places(each).items()}


def arrive(scheduler: Dispatcher, *pods: Pod, now: float) -> dict[str, str]:
    for each in pods:
        scheduler.set_pod(each, now)
    return bound(decide_all(scheduler, now))


def started(scheduler: Dispatcher, group: PodGroup, *pods: Pod, now: float = 0.0) -> dict[str, str]:
    scheduler.set_group(group, now)
    return arrive(scheduler, *pods, now=now)


def one_rack(cpus: int = 16) -> Dispatcher:
    return dispatcher("n1", racks={"n1": "r1"}, cpus=cpus)


class TestRoomIsKept:
    @pytest.mark.parametrize("keeps, racks", [(KEPT_FOR, 2), (0.0, 1)])
    def test_two_gangs_that_begin_with_a_leader_take_two_racks(self, keeps: float, racks: int) -> None:
        scheduler = dispatcher(*TWO_RACKS, racks=TWO_RACKS)
        scheduler.late.keeps_for = keeps
        for name in ("a", "b"):
            started(scheduler, staged(name, 2), leader(name))
        at = bound(decide_all(scheduler, 1)) | {
            key: scheduler.state.names[each.row] for key, each in scheduler.state.pods.items() if "leader" in key
        }
        assert len({TWO_RACKS[node] for key, node in at.items() if key.endswith("leader")}) == racks
        came = arrive(scheduler, *workers("a", 2), *workers("b", 2), now=2)
        assert len(came) == (4 if keeps else 2)

    def test_no_other_unit_takes_the_room_and_later_members_do(self) -> None:
        scheduler = one_rack()
        started(scheduler, staged("train", 3), leader("train"))
        assert scheduler.late.members == 3
        assert arrive(scheduler, pod("other", 4), now=1) == {}
        # They start together: the first ones leave the room as it is.
        assert arrive(scheduler, *workers("train", 3)[:2], now=2) == {}
        assert scheduler.late.members == 3
        assert len(arrive(scheduler, *workers("train", 3), now=3)) == 3
        assert (scheduler.late.members, scheduler.late.ends) == (0, Counter({End.USED: 3}))

    def test_members_beyond_the_minimum_use_it_one_by_one(self) -> None:
        scheduler = one_rack()
        members = [pod(f"train-{each}", 4, gang="train") for each in range(4)]
        started(scheduler, flat("train", 4, 1), members[0])
        assert arrive(scheduler, pod("other", 4), now=1) == {}
        for number, member in enumerate(members[1:]):
            assert scheduler.late.members == 3 - number
            assert arrive(scheduler, member, now=2 + number) == {f"ml/train-{number + 1}": "n1"}
        assert scheduler.late.members == 0

    def test_a_gang_that_may_go_anywhere_keeps_nothing(self) -> None:
        scheduler = one_rack()
        group = flat("train", 4, 1)
        spec = msgspec.structs.replace(group.spec, required=None)
        started(scheduler, msgspec.structs.replace(group, spec=spec), pod("train-0", 4, gang="train"))
        assert scheduler.late.members == 0

    def test_the_successor_of_a_lost_member_finds_its_seat(self) -> None:
        scheduler = one_rack(8)
        members = [pod(f"train-{each}", 4, gang="train") for each in range(2)]
        started(scheduler, flat("train", 2, 2), *members)
        scheduler.set_pod(being_deleted(on_node(members[1], "n1")), 500)
        scheduler.remove_pod("ml/train-1", 501)
        assert arrive(scheduler, pod("other", 4), now=502) == {}
        assert scheduler.late.members == 1
        assert arrive(scheduler, pod("train-1", 4, gang="train", uid="new"), now=503) == {"ml/train-1": "n1"}

    def test_a_member_that_has_succeeded_leaves_its_room_to_others(self) -> None:
        scheduler = one_rack(8)
        members = [pod(f"train-{each}", 4, gang="train") for each in range(2)]
        started(scheduler, flat("train", 2, 2), *members)
        scheduler.set_pod(msgspec.structs.replace(on_node(members[1], "n1"), status=PodStatus(phase="Succeeded")), 1)
        assert arrive(scheduler, pod("other", 4), now=2) == {"ml/other": "n1"}


class TestRoomEnds:
    def test_after_its_time_others_take_it(self) -> None:
        scheduler = one_rack()
        started(scheduler, staged("train", 3), leader("train"))
        arrive(scheduler, pod("other", 4), now=1)
        assert scheduler.next_time() == KEPT_FOR
        assert bound(decide_all(scheduler, KEPT_FOR - 1)) == {}
        assert bound(decide_all(scheduler, KEPT_FOR)) == {"ml/other": "n1"}
        assert scheduler.late.take_ended() == [EndedRoom("ml/train", 3, KEPT_FOR)]
        # A second time would have no end.
        assert arrive(scheduler, *workers("train", 3), now=KEPT_FOR + 1) == {}
        scheduler.remove_pod("ml/other", KEPT_FOR + 2)
        assert len(bound(decide_all(scheduler, KEPT_FOR + 2))) == 3

    def test_at_once_when_fewer_members_are_to_come(self) -> None:
        scheduler = one_rack()
        started(scheduler, staged("train", 3), leader("train"))
        scheduler.set_group(staged("train", 1), 1)
        assert arrive(scheduler, pod("a", 4), pod("b", 4), pod("c", 4), now=2).keys() == {"ml/a", "ml/b"}

    @pytest.mark.parametrize("what", ["pods", "group"])
    def test_at_once_when_the_gang_is_deleted(self, what: str) -> None:
        scheduler = one_rack()
        started(scheduler, staged("train", 3), leader("train"))
        if what == "pods":
            scheduler.set_pod(being_deleted(on_node(leader("train"), "n1")), 1)
        else:
            scheduler.remove_group("ml/train", 1)
        assert scheduler.decide(1) is None
        assert scheduler.late.members == 0

    def test_when_the_first_bind_fails_the_gang_chooses_anew(self) -> None:
        scheduler = one_rack()
        scheduler.set_group(staged("train", 3), 0)
        scheduler.set_pod(leader("train"), 0)
        action = scheduler.decide(0)
        assert scheduler.late.members == 3
        fail(scheduler, action, "ml/train-leader", 0)
        assert scheduler.late.members == 0
        assert bound(decide_all(scheduler, 5)) == {"ml/train-leader": "n1"}
        assert scheduler.late.members == 3


class TestWhoComesFirst:
    def test_a_more_important_pod_takes_the_room_and_the_rest_stays_kept(self) -> None:
        scheduler = dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"}, cpus=8)
        started(scheduler, staged("train", 3), leader("train"))
        assert arrive(scheduler, pod("same", 8), now=1) == {}
        assert arrive(scheduler, pod("urgent", 8, priority=10), now=2) == {"ml/urgent": "n2"}
        assert scheduler.late.ends[End.TAKEN] == 2
        assert scheduler.late.members == 1

    def test_small_pods_do_not_take_what_the_workers_wait_for_seat_by_seat(self) -> None:
        scheduler = one_rack()
        for each in range(3):
            scheduler.set_pod(on_node(pod(f"old-{each}", 4), "n1"), 0)
        started(scheduler, staged("train", 3), leader("train"))
        arrive(scheduler, *workers("train", 3), now=1)
        arrive(scheduler, *(pod(f"small-{each}", 4) for each in range(5)), now=2)
        came: dict[str, str] = {}
        for each in range(3):
            assert scheduler.late.members == each
            scheduler.remove_pod(f"ml/old-{each}", 3 + each)
            came = bound(decide_all(scheduler, 3 + each))
        assert came.keys() == {f"ml/train-worker-{each}" for each in range(3)}

    def test_members_of_a_started_gang_are_tried_before_older_pods(self) -> None:
        scheduler = one_rack(8)
        scheduler.late.keeps_for = 0
        scheduler.set_pod(on_node(pod("old", 4), "n1"), 0)
        arrive(scheduler, pod("other", 8), now=0)
        scheduler.set_pod(pod("older", 4, priority=-1), 0)
        scheduler.remove_pod("ml/older", 0)
        started(scheduler, flat("train", 2, 1), pod("train-0", 4, gang="train"), now=10)
        arrive(scheduler, pod("waits-longer", 3), pod("train-1", 4, gang="train"), now=11)
        scheduler.remove_pod("ml/old", 12)
        assert bound(decide_all(scheduler, 12)) == {"ml/train-1": "n1"}


class TestRestart:
    def as_recorded(self, group: PodGroup, moment: str) -> PodGroup:
        condition = PodCondition(type=STARTED, status="True", last_transition_time=moment)
        return msgspec.structs.replace(group, status=PodGroupStatus(phase="Scheduled", conditions=[condition]))

    @pytest.mark.parametrize("now, kept", [(60.0, 3), (299.0, 3), (301.0, 0)])
    def test_the_next_leader_keeps_the_room_for_the_rest_of_its_time(self, now: float, kept: int) -> None:
        scheduler = one_rack()
        scheduler.set_pod(on_node(leader("train"), "n1"), now)
        scheduler.set_pod(pod("other", 4), now)
        scheduler.set_group(self.as_recorded(staged("train", 3), "1970-01-01T00:00:00Z"), now)
        came = bound(decide_all(scheduler, now))
        assert scheduler.late.members == kept
        assert came == ({} if kept else {"ml/other": "n1"})
        if kept:
            assert scheduler.late.next_time() == KEPT_FOR
            assert len(arrive(scheduler, *workers("train", 3), now=now)) == 3


class TestHoarding:
    def test_gangs_that_announce_ten_thousand_pods_keep_a_bounded_number(self) -> None:
        nodes = [f"n{number}" for number in range(20)]
        scheduler = dispatcher(*nodes, racks=dict.fromkeys(nodes, "r1"), cpus=100)
        for name in ("a", "b"):
            started(scheduler, flat(name, 10_000, 1), pod(f"{name}-0", 1, gang=name))
        assert scheduler.late.members == MOST_OF_A_NAMESPACE
        other = flat("c", 4, 1, namespace="web")
        started(scheduler, other, in_namespace(pod("c-0", 1, gang="c"), "web"))
        assert scheduler.late.members == MOST_OF_A_NAMESPACE + 3

    def test_beyond_its_share_a_namespace_keeps_room_from_its_own_units_only(self) -> None:
        scheduler = one_rack()
        started(scheduler, staged("train", 3), leader("train"))
        assert arrive(scheduler, pod("ours", 4), now=1) == {}
        assert arrive(scheduler, in_namespace(pod("theirs", 4), "web"), now=1) == {"web/theirs": "n1"}
        assert scheduler.late.members == 2

    def test_within_its_share_it_keeps_it_from_all_but_not_again_and_again(self) -> None:
        scheduler = one_rack(64)
        scheduler.set_pod(on_node(pod("big", 48), "n1"), 0)
        filler = in_namespace(pod("theirs", 12), "web")
        started(scheduler, flat("a", 2, 1), pod("a-0", 4, gang="a"))
        assert arrive(scheduler, filler, now=1) == {}
        scheduler.remove_pod("ml/a-0", KEPT_FOR)
        decide_all(scheduler, KEPT_FOR)
        scheduler.remove_pod("web/theirs", KEPT_FOR)

        def again(name: str, now: float) -> dict[str, str]:
            started(scheduler, flat(name, 3, 1), pod(f"{name}-0", 4, gang=name), now=now)
            came = arrive(scheduler, in_namespace(pod(f"theirs-{name}", 8), "web"), now=now + 1)
            scheduler.remove_pod(f"web/theirs-{name}", now + 2)
            decide_all(scheduler, now + KEPT_FOR)
            scheduler.remove_pod(f"ml/{name}-0", now + KEPT_FOR)
            decide_all(scheduler, now + KEPT_FOR)
            return came

        assert again("b", 1000.0) == {}
        assert again("c", 1400.0) == {"web/theirs-c": "n1"}
        assert again("d", 1400.0 + KEPT_FOR + UNUSED_COUNTS_FOR) == {}


def test_the_pod_that_does_not_get_the_room_is_not_forgotten() -> None:
    scheduler = one_rack()
    started(scheduler, staged("train", 3), leader("train"))
    scheduler.set_pod(pod("other", 4), 1)
    assert any(isinstance(each, Unschedulable) for each in decide_all(scheduler, 1))
    scheduler.remove_pod("ml/train-leader", 2)
    assert bound(decide_all(scheduler, 2)) == {"ml/other": "n1"}
