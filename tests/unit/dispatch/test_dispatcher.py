"""The scheduler without its edges, told as stories: what happens, at which second, and what is to be done then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec
import pytest

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import pod_key
from bayplan.dialects.progress import MemberCounts
from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import Action, Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.core_v1 import (
    Affinity,
    Metadata,
    Node,
    NodeStatus,
    Pod,
    PodCondition,
    PodStatus,
    Quantities,
    SchedulingGate,
)
from bayplan.kube.wire.podgroup_v1alpha1 import GroupSpec, PatienceSpec, PodGroup, PodGroupSpec, PodGroupStatus
from bayplan.scheduling.profile import default_profile
from tests.helpers import simple_pod

RACK = "example.com/rack"


def dispatcher(
    *nodes: str,
    cpus: int = 8,
    racks: dict[str, str] | None = None,
    expects_group: Callable[[Pod], bool] = lambda _: False,
    why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "",
) -> Dispatcher:
    made = Dispatcher({"bayplan": default_profile()}, expects_group=expects_group, why_gang_waits=why_gang_waits)
    for name in nodes:
        add_node(made, name, cpus, (racks or {}).get(name, ""))
    made.set_levels("network", (RACK,))
    return made


def add_node(to: Dispatcher, name: str, cpus: int = 8, rack: str = "") -> None:
    labels = {"kubernetes.io/hostname": name, **({RACK: rack} if rack else {})}
    amounts: Quantities = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
    to.state.set_node(Node(metadata=Metadata(name=name, labels=labels), status=NodeStatus(allocatable=amounts)))


def pod(name: str, cpus: int = 1, *, gang: str = "", priority: int = 0, uid: str = "", group: str = "") -> Pod:
    made = simple_pod({"cpu": str(cpus), "memory": "1Gi"}, name)
    labels = {**({"bayplan.io/pod-group": gang} if gang else {}), **({"bayplan.io/group": group} if group else {})}
    metadata = msgspec.structs.replace(made.metadata, labels=labels, uid=uid or f"uid-{name}", namespace="ml")
    spec = msgspec.structs.replace(made.spec, scheduler_name="bayplan", priority=priority)
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)


def on_node(waiting: Pod, node: str, *, by_us: bool = True) -> Pod:
    annotations = {"bayplan.io/rank": "0"} if by_us else None
    return msgspec.structs.replace(
        waiting,
        metadata=msgspec.structs.replace(waiting.metadata, annotations=annotations),
        spec=msgspec.structs.replace(waiting.spec, node_name=node),
    )


def pod_group(size: int, *, minimum: int | None = None, required: str | None = None, phase: str = "") -> PodGroup:
    spec = PodGroupSpec(topology="network", size=size, minimum=minimum, required=required)
    status = PodGroupStatus(phase=phase) if phase else None
    return PodGroup(metadata=Metadata(name="train", namespace="ml", uid="g"), spec=spec, status=status)


def being_deleted(alive: Pod) -> Pod:
    metadata = msgspec.structs.replace(alive.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(alive, metadata=metadata)


def places(action: Action | None) -> dict[str, str]:
    assert isinstance(action, Bind)
    return {pod_key(each.pod): each.node for each in action.assignments}


def fail(scheduler: Dispatcher, action: Action | None, key: str, now: float) -> None:
    """The bind of one pod failed."""
    assert isinstance(action, Bind)
    scheduler.not_bound(action, [each for each in action.assignments if pod_key(each.pod) == key], now)


def reason(action: Action | None) -> str:
    assert isinstance(action, Unschedulable)
    return action.reason


class TestPods:
    def test_a_pod_is_bound_and_its_room_is_taken_at_once(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(pod("a", 6), 0)
        scheduler.set_pod(pod("b", 6), 0)
        assert places(scheduler.decide(0)) == {"ml/a": "n1"}
        assert isinstance(scheduler.decide(0), Unschedulable)

    def test_pods_of_other_schedulers_are_left_alone(self) -> None:
        scheduler = dispatcher("n1")
        foreign = pod("a")
        scheduler.set_pod(
            msgspec.structs.replace(foreign, spec=msgspec.structs.replace(foreign.spec, scheduler_name="x")), 0
        )
        assert scheduler.decide(0) is None

    def test_the_highest_priority_goes_first(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(pod("low"), 0)
        scheduler.set_pod(pod("high", priority=10), 1)
        assert places(scheduler.decide(2)) == {"ml/high": "n1"}

    def test_a_gated_pod_waits_for_its_gates(self) -> None:
        scheduler = dispatcher("n1")
        gated = pod("a")
        spec = msgspec.structs.replace(gated.spec, scheduling_gates=[SchedulingGate(name="quota")])
        scheduler.set_pod(msgspec.structs.replace(gated, spec=spec), 0)
        assert scheduler.decide(0) is None
        scheduler.set_pod(gated, 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}

    def test_a_pod_that_may_belong_to_a_gang_waits_until_somebody_says_that_it_does_not(self) -> None:
        unjudged = {"ml/a"}
        scheduler = dispatcher("n1", expects_group=lambda pod: pod_key(pod) in unjudged)
        scheduler.set_pod(pod("a"), 0)
        scheduler.set_pod(pod("b"), 0)
        assert places(scheduler.decide(0)) == {"ml/b": "n1"}
        assert scheduler.decide(0) is None
        unjudged.clear()
        scheduler.pods.stands_alone("ml/a", 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}

    def test_a_pod_that_was_put_into_a_gang_meanwhile_waits_with_it(self) -> None:
        scheduler = dispatcher("n1", expects_group=lambda pod: not (pod.metadata.labels or {}))
        scheduler.set_pod(pod("a"), 0)
        scheduler.set_pod(pod("a", gang="train"), 1)
        scheduler.pods.stands_alone("ml/a", 1)
        assert reason(scheduler.decide(1)) == "waits for PodGroup ml/train, which does not exist"

    def test_a_pod_that_found_no_place_is_tried_again_when_room_appears_and_not_before(self) -> None:
        scheduler = dispatcher("n1", cpus=2)
        scheduler.set_pod(pod("a", 4), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        scheduler.wake(20)
        assert scheduler.decide(20) is None
        add_node(scheduler, "n2", cpus=8)
        scheduler.wake(40)
        assert places(scheduler.decide(40)) == {"ml/a": "n2"}

    def test_a_status_change_of_a_waiting_pod_is_no_reason_to_try_again(self) -> None:
        scheduler = dispatcher("n1", cpus=2)
        waiting = pod("a", 4)
        scheduler.set_pod(waiting, 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        scheduler.set_pod(msgspec.structs.replace(waiting, status=PodStatus(phase="Pending", reason="told")), 20)
        assert scheduler.decide(20) is None

    def test_a_failed_bind_gives_the_room_back_and_the_pod_is_tried_again_after_a_while(self) -> None:
        scheduler = dispatcher("n1")
        waiting = pod("a", 6)
        scheduler.set_pod(waiting, 0)
        fail(scheduler, scheduler.decide(0), "ml/a", 0)
        assert scheduler.decide(0.1) is None
        assert places(scheduler.decide(5)) == {"ml/a": "n1"}

    def test_a_pod_that_is_deleted_during_its_bind_gets_no_other(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(pod("a"), 0)
        action = scheduler.decide(0)
        scheduler.set_pod(being_deleted(pod("a")), 1)
        fail(scheduler, action, "ml/a", 1)
        assert [scheduler.decide(second) for second in (2, 4, 400)] == [None, None, None]
        assert not scheduler.state.pods

    def test_a_pod_whose_bind_is_under_way_is_not_decided_about_again(self) -> None:
        scheduler = dispatcher("n1")
        waiting = pod("a")
        scheduler.set_pod(waiting, 0)
        scheduler.decide(0)
        scheduler.set_pod(
            msgspec.structs.replace(waiting, metadata=msgspec.structs.replace(waiting.metadata, labels={"x": "y"})), 1
        )
        assert scheduler.decide(1) is None

    def test_another_pod_of_the_same_name_is_another_pod(self) -> None:
        scheduler = dispatcher("n1")
        first, second = pod("a", 6), pod("a", 5, uid="second")
        scheduler.set_pod(first, 0)
        action = scheduler.decide(0)
        scheduler.set_pod(second, 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}
        fail(scheduler, action, "ml/a", 2)
        assert scheduler.is_assumed(second, "n1")

    def test_the_end_of_a_bind_is_not_taken_for_the_end_of_the_successors(self) -> None:
        for first_ends in ("bound", "not bound"):
            scheduler = dispatcher("n1")
            scheduler.set_pod(pod("a", 6), 0)
            first = scheduler.decide(0)
            scheduler.set_pod(pod("a", 6, uid="second"), 1)
            second = scheduler.decide(1)
            if first_ends == "bound":
                assert isinstance(first, Bind)
                scheduler.bound(first, 2)
            else:
                fail(scheduler, first, "ml/a", 2)
            fail(scheduler, second, "ml/a", 3)
            assert places(scheduler.decide(10)) == {"ml/a": "n1"}, first_ends

    def test_a_pod_that_somebody_else_bound_counts_where_it_stands(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(on_node(pod("a", 6), "n1"), 0)
        scheduler.set_pod(pod("b", 6), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)

    def test_what_a_pod_says_wrongly_is_said_about_it_and_the_others_go_on(self) -> None:
        scheduler = dispatcher("n1")
        wrong = simple_pod({"cpu": "9e99"}, "a")
        metadata = msgspec.structs.replace(wrong.metadata, namespace="ml", uid="w")
        spec = msgspec.structs.replace(wrong.spec, scheduler_name="bayplan")
        scheduler.set_pod(msgspec.structs.replace(wrong, metadata=metadata, spec=spec), 0)
        scheduler.set_pod(pod("b"), 1)
        assert "cpu" in reason(scheduler.decide(2))
        assert places(scheduler.decide(2)) == {"ml/b": "n1"}

    def test_the_place_of_a_pod_goes_with_its_node(self) -> None:
        scheduler = dispatcher("n1", "n2")
        waiting = pod("a")
        scheduler.set_pod(waiting, 0)
        (node,) = places(scheduler.decide(0)).values()
        scheduler.state.remove_node(node)
        assert not scheduler.is_assumed(waiting, node)


class TestPodsBesideOthers:
    """Pod `web` wants to be where a `db` of its namespace (or of one that a selector means) is, and there is none yet."""

    def waiting(self, **term: object) -> Dispatcher:
        scheduler = dispatcher("n1", "n2")
        wants = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname", **term}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [wants]}}
        web = pod("web")
        spec = msgspec.structs.replace(web.spec, affinity=msgspec.convert(affinity, Affinity))
        scheduler.set_pod(msgspec.structs.replace(web, spec=spec), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        return scheduler

    def db(self, namespace: str, phase: str = "Running") -> Pod:
        made = on_node(pod("db"), "n2")
        metadata = msgspec.structs.replace(made.metadata, namespace=namespace, labels={"app": "db"})
        return msgspec.structs.replace(made, metadata=metadata, status=PodStatus(phase=phase))

    def tried(self, scheduler: Dispatcher, now: float) -> bool:
        scheduler.wake(now)
        return scheduler.decide(now) is not None

    @pytest.mark.parametrize("namespace, tried", [("ml", True), ("other", False)])
    def test_only_pods_of_the_namespaces_it_speaks_of_are_a_reason_to_try_again(
        self, namespace: str, tried: bool
    ) -> None:
        scheduler = self.waiting()
        scheduler.set_pod(self.db(namespace), 10)
        assert self.tried(scheduler, 10) == tried

    def test_pods_of_its_namespace_that_it_does_not_speak_of_are_none(self) -> None:
        scheduler = self.waiting()
        scheduler.set_pod(on_node(pod("other"), "n1"), 10)
        assert not self.tried(scheduler, 10)
        scheduler.remove_pod("ml/other", 20)
        assert not self.tried(scheduler, 20)
        scheduler.set_pod(self.db("ml"), 30)
        scheduler.wake(30)
        assert places(scheduler.decide(30)) == {"ml/web": "n2"}

    def test_labels_of_a_namespace_are_one_where_a_selector_asks_for_them(self) -> None:
        scheduler = self.waiting(namespaceSelector={"matchLabels": {"team": "a"}})
        scheduler.set_pod(self.db("other"), 10)
        assert not self.tried(scheduler, 10)
        scheduler.set_namespace("other", {"team": "a"})
        scheduler.wake(30)
        assert places(scheduler.decide(30)) == {"ml/web": "n2"}

    def test_a_bind_that_failed_is_one(self) -> None:
        scheduler = dispatcher("n1")
        apart = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        for name in "ab":
            made = pod(name)
            made = msgspec.structs.replace(
                made,
                metadata=msgspec.structs.replace(made.metadata, labels={"app": "x"}),
                spec=msgspec.structs.replace(made.spec, affinity=msgspec.convert(affinity, Affinity)),
            )
            scheduler.set_pod(made, 0)
        action = scheduler.decide(0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        fail(scheduler, action, "ml/a", 10)
        scheduler.wake(10)
        assert places(scheduler.decide(10)) == {"ml/b": "n1"}


def test_where_looking_whom_news_help_takes_long_it_is_done_less_often() -> None:
    readings = iter((0.0, 0.1, 0.1, 0.1))
    scheduler = Dispatcher({"bayplan": default_profile()}, stopwatch=lambda: next(readings))
    add_node(scheduler, "n1")
    assert scheduler.next_time() == 0
    scheduler.wake(10)
    assert scheduler.next_time() is None
    add_node(scheduler, "n2")
    scheduler.wake(10.3)
    assert scheduler.next_time() == pytest.approx(10.4)
    scheduler.wake(10.5)
    assert scheduler.next_time() is None


class TestGangs:
    def test_nobody_goes_before_all_have_arrived_and_then_all_go_at_once(self) -> None:
        scheduler = dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"})
        scheduler.set_group(pod_group(2), 0)
        scheduler.set_pod(pod("a", gang="train"), 0)
        assert reason(scheduler.decide(0)) == "waits for pods: 1 of 2 have arrived"
        scheduler.set_pod(pod("b", gang="train"), 1)
        assert set(places(scheduler.decide(2))) == {"ml/a", "ml/b"}

    def test_members_wait_for_their_pod_group(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_pod(pod("a", gang="train"), 0)
        assert "does not exist" in reason(scheduler.decide(0))
        scheduler.set_group(pod_group(1), 0)
        assert places(scheduler.decide(2)) == {"ml/a": "n1"}

    def test_a_gang_that_somebody_holds_back_waits_until_he_lets_it_go(self) -> None:
        why = ["its PodGroup is not what its owner means"]
        scheduler = dispatcher("n1", racks={"n1": "r1"}, why_gang_waits=lambda _: why[0])
        scheduler.set_group(pod_group(1), 0)
        scheduler.set_pod(pod("a", gang="train"), 0)
        assert reason(scheduler.decide(0)) == why[0]
        why[0] = ""
        assert scheduler.decide(5) is None
        scheduler.gangs.touch("ml/train", 5)
        assert places(scheduler.decide(6)) == {"ml/a": "n1"}

    def test_a_gang_that_does_not_fit_takes_nothing(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"}, cpus=8)
        scheduler.set_group(pod_group(2), 0)
        scheduler.set_pod(pod("a", 6, gang="train"), 0)
        scheduler.set_pod(pod("b", 6, gang="train"), 0)
        scheduler.set_pod(pod("alone", 6), 1)
        assert isinstance(scheduler.decide(2), Unschedulable)
        assert places(scheduler.decide(2)) == {"ml/alone": "n1"}

    def test_a_late_member_follows_the_others_into_their_rack(self) -> None:
        racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=4)
        scheduler.set_group(pod_group(3, minimum=2, required=RACK), 0)
        scheduler.set_pod(on_node(pod("a", 3, gang="train"), "n3"), 0)
        scheduler.set_pod(pod("b", 3, gang="train"), 0)
        assert places(scheduler.decide(0)) == {"ml/b": "n4"}

    @pytest.mark.parametrize("style", ["kueue", "kai"])
    def test_in_the_style_of_another_system_whoever_comes_back_does_too(self, style: str) -> None:
        racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=4)
        written = pod_group(2, required=RACK, phase="Scheduled")
        scheduler.set_group(
            msgspec.structs.replace(written, spec=msgspec.structs.replace(written.spec, style=style)), 0
        )
        scheduler.set_pod(on_node(pod("a", 3, gang="train"), "n3"), 0)
        scheduler.set_pod(pod("b", 3, gang="train"), 0)
        assert places(scheduler.decide(0)) == {"ml/b": "n4"}

    def test_room_in_its_rack_goes_to_a_late_member_before_pods_that_came_after_its_gang(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_group(pod_group(2, minimum=1, required=RACK), 0)
        scheduler.set_pod(pod("train-0", 4, gang="train"), 0)
        started = scheduler.decide(0)
        assert isinstance(started, Bind)
        scheduler.bound(started, 1)
        scheduler.set_pod(on_node(pod("train-0", 4, gang="train"), "n1"), 1)
        scheduler.set_pod(on_node(pod("old", 4), "n1"), 1)
        scheduler.set_pod(pod("alone", 4), 2)
        scheduler.set_pod(pod("train-1", 4, gang="train"), 3)
        while scheduler.decide(4) is not None:
            pass
        scheduler.remove_pod("ml/old", 5)
        scheduler.wake(5)
        assert places(scheduler.decide(5)) == {"ml/train-1": "n1"}

    def test_a_failure_in_the_middle_is_made_good_where_the_others_stand(self) -> None:
        racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=4)
        scheduler.set_group(pod_group(2, required=RACK), 0)
        members = {f"ml/{name}": pod(name, 3, gang="train") for name in "ab"}
        for member in members.values():
            scheduler.set_pod(member, 0)
        action = scheduler.decide(0)
        first = places(action)
        fail(scheduler, action, "ml/b", 1)
        scheduler.set_pod(on_node(members["ml/a"], first["ml/a"]), 1)
        second = places(scheduler.decide(5))
        assert list(second) == ["ml/b"]
        assert racks[second["ml/b"]] == racks[first["ml/a"]]

    def test_a_gang_all_of_whose_pods_have_nodes_is_complete_and_that_is_said_once(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_group(pod_group(2), 0)
        members = [pod(name, gang="train") for name in "ab"]
        for member in members:
            scheduler.set_pod(member, 0)
        action = scheduler.decide(0)
        assert isinstance(action, Bind)
        scheduler.bound(action, 0)
        for member in members:
            scheduler.set_pod(on_node(member, "n1"), 1)
        assert scheduler.decide(1) == Complete("ml/train")
        assert scheduler.decide(2) is None

    def complete(self) -> Dispatcher:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_group(pod_group(2), 0)
        for name in "ab":
            scheduler.set_pod(on_node(pod(name, gang="train"), "n1"), 0)
        assert scheduler.decide(0) == Complete("ml/train")
        return scheduler

    def test_that_a_gang_is_complete_is_said_again_until_its_pod_group_says_it(self) -> None:
        scheduler = self.complete()
        scheduler.remove_pod("ml/b", 10)
        assert [scheduler.decide(second) for second in (29, 30, 31, 59, 60)] == [
            None,
            Complete("ml/train"),
            None,
            None,
            Complete("ml/train"),
        ]
        scheduler.set_group(pod_group(2, phase="Scheduled"), 61)
        assert scheduler.decide(200) is None

    def test_that_a_gang_is_complete_is_not_said_again_without_its_pod_group(self) -> None:
        scheduler = self.complete()
        scheduler.remove_group("ml/train", 1)
        assert not any(isinstance(scheduler.decide(second), Complete) for second in (2, 40, 80))

    def test_one_in_which_nobody_waits_is_counted_again_whenever_something_happens_to_its_pods(self) -> None:
        scheduler = self.complete()
        scheduler.decide(1)
        assert list(scheduler.gangs.to_count()) == ["ml/train"]
        assert list(scheduler.gangs.to_count()) == []
        scheduler.remove_pod("ml/b", 2)
        scheduler.decide(2)
        assert list(scheduler.gangs.to_count()) == ["ml/train"]
        assert scheduler.roster.counts("ml/train") == MemberCounts(members=1, scheduled=1)
        scheduler.set_pod(pod("c", gang="train"), 3)
        assert places(scheduler.decide(3)) == {"ml/c": "n1"}
        assert list(scheduler.gangs.to_count()) == []

    @pytest.mark.parametrize("minimum, beyond_need", [(2, False), (1, True)])
    def test_who_is_refused_is_needed_or_not(self, minimum: int, beyond_need: bool) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"}, cpus=4)
        scheduler.set_group(pod_group(2, minimum=minimum, phase="Scheduled"), 0)
        scheduler.set_pod(on_node(pod("a", 3, gang="train"), "n1"), 0)
        scheduler.set_pod(pod("b", 3, gang="train"), 0)
        action = scheduler.decide(0)
        assert isinstance(action, Unschedulable)
        assert action.beyond_need == beyond_need

    def partially_bound(self, *, by_us: bool = True, phase: str = "") -> Dispatcher:
        scheduler = dispatcher("n1", racks={"n1": "r1"}, cpus=4)
        scheduler.set_group(pod_group(2, required=RACK, phase=phase), 0)
        scheduler.set_pod(on_node(pod("a", 3, gang="train"), "n1", by_us=by_us), 0)
        scheduler.set_pod(pod("b", 3, gang="train"), 0)
        return scheduler

    def test_a_gang_that_began_and_cannot_be_completed_is_released_after_a_while(self) -> None:
        scheduler = self.partially_bound()
        assert isinstance(scheduler.decide(0), Unschedulable)
        action = scheduler.decide(61)
        assert isinstance(action, Release)
        assert [pod_key(each) for each in action.pods] == ["ml/a"]

    @pytest.mark.parametrize("by_us, phase", [(False, ""), (True, "Scheduled")])
    def test_pods_that_others_bound_or_whose_gang_was_complete_once_are_never_released(
        self, by_us: bool, phase: str
    ) -> None:
        scheduler = self.partially_bound(by_us=by_us, phase=phase)
        scheduler.decide(0)
        for moment in (61, 400, 1000):
            assert not isinstance(scheduler.decide(moment), Release)

    def test_pods_whose_pod_group_was_deleted_are_never_released(self) -> None:
        """Whether the gang was whole once stood on the PodGroup."""
        scheduler = self.partially_bound()
        scheduler.remove_group("ml/train", 0)
        scheduler.decide(0)
        for moment in (61, 400, 1000):
            assert not isinstance(scheduler.decide(moment), Release)

    def test_a_gang_whose_pods_have_all_gone_begins_anew(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_group(pod_group(2), 0)
        for name in ("a", "b"):
            scheduler.set_pod(on_node(pod(name, gang="train"), "n1"), 0)
        assert isinstance(scheduler.decide(0), Complete)
        for key in ("ml/a", "ml/b"):
            scheduler.remove_pod(key, 1)
        assert scheduler.decide(1) is None
        # Of the second generation one has a node, and for the other there is no room.
        scheduler.set_pod(on_node(pod("a", gang="train", uid="second"), "n1"), 2)
        scheduler.set_pod(pod("b", 9, gang="train", uid="second-too"), 2)
        assert isinstance(scheduler.decide(2), Unschedulable)
        assert isinstance(scheduler.decide(63), Release)

    @pytest.mark.parametrize(
        "created, released",
        [
            pytest.param("2026-01-01T00:00:00Z", False, id="a member that was there when the gang was complete"),
            pytest.param("2026-01-03T00:00:00Z", True, id="another gang under the same PodGroup"),
        ],
    )
    def test_a_gang_created_anew_under_its_pod_group_begins_anew(self, created: str, released: bool) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"}, cpus=4)
        done = PodCondition(type="Started", status="True", last_transition_time="2026-01-02T00:00:00Z")
        group = pod_group(2, required=RACK)
        status = PodGroupStatus(phase="Scheduled", scheduled=2, conditions=[done])
        scheduler.set_group(msgspec.structs.replace(group, status=status), 0)
        for number, member in enumerate((on_node(pod("a", 3, gang="train"), "n1"), pod("b", 3, gang="train"))):
            moment = created if not number else "2026-01-04T00:00:00Z"
            metadata = msgspec.structs.replace(member.metadata, creation_timestamp=moment)
            scheduler.set_pod(msgspec.structs.replace(member, metadata=metadata), 0)
        scheduler.decide(0)
        assert isinstance(scheduler.decide(61), Release) == released

    def test_a_scheduler_that_is_started_again_does_not_forget_how_long_a_gang_has_waited(self) -> None:
        created = "2026-01-01T00:00:00Z"
        midnight = datetime.fromisoformat(created).timestamp()
        racks = {"n1": "r1", "n2": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=1)
        patient = PatienceSpec(domains=1, seconds=60)
        group = pod_group(2)
        spec = msgspec.structs.replace(group.spec, preferred=RACK, patience=patient)
        # It comes to know of the gang 40 seconds after its pods were created.
        scheduler.set_group(msgspec.structs.replace(group, spec=spec), midnight + 40)
        for name in "ab":
            member = pod(name, gang="train")
            metadata = msgspec.structs.replace(member.metadata, creation_timestamp=created)
            scheduler.set_pod(msgspec.structs.replace(member, metadata=metadata), midnight + 40)
        assert isinstance(scheduler.decide(midnight + 40), Unschedulable)
        assert scheduler.decide(midnight + 59) is None
        assert sorted(places(scheduler.decide(midnight + 60))) == ["ml/a", "ml/b"]

    @pytest.mark.parametrize("namespace, tried", [("ml", True), ("other", False)])
    def test_pods_of_namespaces_that_no_member_speaks_of_are_no_reason_to_try_a_gang_again(
        self, namespace: str, tried: bool
    ) -> None:
        scheduler = dispatcher("n1")
        apart = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
        scheduler.set_group(pod_group(2), 0)
        for name in "ab":
            member = pod(name, 9, gang="train")
            spec = msgspec.structs.replace(member.spec, affinity=msgspec.convert(affinity, Affinity))
            scheduler.set_pod(msgspec.structs.replace(member, spec=spec), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        stranger = on_node(pod("stranger"), "n1")
        metadata = msgspec.structs.replace(stranger.metadata, namespace=namespace)
        scheduler.set_pod(msgspec.structs.replace(stranger, metadata=metadata), 10)
        scheduler.wake(10)
        assert isinstance(scheduler.decide(10), Unschedulable) == tried

    def test_groups_find_their_members_by_label(self) -> None:
        racks = {"n1": "r1", "n2": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=2)
        groups = [GroupSpec(name=name, size=2, required=RACK) for name in ("left", "right")]
        scheduler.set_group(
            PodGroup(
                metadata=Metadata(name="train", namespace="ml"), spec=PodGroupSpec(topology="network", groups=groups)
            ),
            0,
        )
        for name in ("left", "right"):
            for number in range(2):
                scheduler.set_pod(pod(f"{name}-{number}", gang="train", group=name), 0)
        placed = places(scheduler.decide(0))
        assert placed["ml/left-0"] == placed["ml/left-1"] != placed["ml/right-0"] == placed["ml/right-1"]

    def test_a_label_that_names_no_group_is_said(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_group(pod_group(1), 0)
        scheduler.set_pod(pod("a", gang="train", group="lefft"), 0)
        assert '"lefft"' in reason(scheduler.decide(0))


def test_a_large_gang_is_not_looked_at_after_every_pod_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look costs as much as the gang has pods, so ten thousand pods that come one by one would cost their square."""
    scheduler = dispatcher()
    looks: list[str] = []
    waiting = scheduler.roster.waiting

    def look(name: str) -> list[Pod]:
        looks.append(name)
        return waiting(name)

    monkeypatch.setattr(scheduler.roster, "waiting", look)
    scheduler.set_group(pod_group(1000), 0.0)
    for number in range(1000):
        scheduler.set_pod(pod(f"p{number}", gang="train"), number / 1000)
        scheduler.next_may_be_long(number / 1000)
    small = 256 + 1
    assert len(looks) < small + 100
    scheduler.wake(1.0)
    due = scheduler.next_time()
    assert due is not None
    assert 1.0 <= due <= 1.0 + 1000 * 50e-6
    looks.clear()
    scheduler.next_may_be_long(due)
    assert looks


def test_a_bug_that_one_pod_brings_to_light_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = dispatcher("n1")
    scheduler.set_pod(pod("cursed", 7), 0)
    scheduler.set_pod(pod("b"), 1)
    real = scheduler.state.classes.of

    def of(each: Pod) -> PodClass:
        if each.metadata.name == "cursed":
            raise RuntimeError("nobody thought of this")
        return real(each)

    monkeypatch.setattr(scheduler.state.classes, "of", of)
    action = scheduler.decide(2)
    assert isinstance(action, Unschedulable)
    assert "nobody thought of this" in action.reason
    assert "in of\n" in action.traceback, "where it happened is for the log"
    assert places(scheduler.decide(2)) == {"ml/b": "n1"}


def test_a_bug_after_a_place_was_taken_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = dispatcher("n1")
    given_back: list[tuple[str, str]] = []

    def reserved(node: str, each: Pod) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(scheduler.reports, "reserved", reserved)
    monkeypatch.setattr(scheduler.reports, "unreserved", lambda node, each: given_back.append((node, pod_key(each))))
    scheduler.set_pod(pod("a", 7), 0)
    assert "nobody thought of this" in reason(scheduler.decide(0))
    assert given_back == [("n1", "ml/a")]
    assert not scheduler.state.pods
