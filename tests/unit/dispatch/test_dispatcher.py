"""Stories of the dispatcher in virtual time: events in, actions out."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import pod_key
from bayplan.dialects.progress import MemberCounts
from bayplan.dispatch.actions import Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.grouping.group import awaits_look
from bayplan.kube.wire import k8s_scheduling_v1beta1 as kubernetes
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PatienceSpec, PodGroup, PodGroupSpec, PodGroupStatus
from bayplan.kube.wire.core_v1 import (
    Affinity,
    Metadata,
    OwnerReference,
    Pod,
    PodCondition,
    PodStatus,
    SchedulingGate,
    SchedulingGroup,
)
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import simple_pod
from tests.builders.units import (
    RACK,
    add_node,
    being_deleted,
    dispatcher,
    fail,
    on_node,
    places,
    pod,
    pod_group,
    reason,
)


def kubernetes_group(least: int) -> kubernetes.PodGroup:
    policy = kubernetes.SchedulingPolicy(gang=kubernetes.GangPolicy(min_count=least))
    metadata = Metadata(name="train", namespace="ml", uid="g")
    return kubernetes.PodGroup(metadata=metadata, spec=kubernetes.PodGroupSpec(scheduling_policy=policy))


def in_kubernetes_group(member: Pod) -> Pod:
    spec = msgspec.structs.replace(member.spec, scheduling_group=SchedulingGroup(pod_group_name="train"))
    return msgspec.structs.replace(member, spec=spec)


class TestPods:
    def test_a_pod_is_bound_and_its_room_is_taken_at_once(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(pod("a", 6), 0)
        scheduler.set_pod(pod("b", 6), 0)
        assert places(scheduler.decide(0)) == {"ml/a": "n1"}
        assert isinstance(scheduler.decide(0), Unschedulable)

    def test_pods_of_other_schedulers_are_ignored(self) -> None:
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

    def test_a_pod_that_can_join_a_gang_is_gated_until_the_grouper_decides(self) -> None:
        unjudged = {"ml/a"}
        scheduler = dispatcher("n1", expects_group=lambda pod: pod_key(pod) in unjudged)
        scheduler.set_pod(pod("a"), 0)
        scheduler.set_pod(pod("b"), 0)
        assert places(scheduler.decide(0)) == {"ml/b": "n1"}
        assert scheduler.decide(0) is None
        unjudged.clear()
        scheduler.pods.ungrouped("ml/a", 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}

    def test_a_pod_that_loses_its_owner_waits_for_no_grouper(self) -> None:
        owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="w", controller=True)
        scheduler, owned = dispatcher("n1", expects_group=awaits_look), pod("a")
        scheduler.set_pod(
            msgspec.structs.replace(owned, metadata=msgspec.structs.replace(owned.metadata, owner_references=[owner])),
            0,
        )
        assert scheduler.decide(0) is None
        scheduler.set_pod(owned, 1)  # kubectl delete --cascade=orphan
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}

    def test_a_member_of_a_kubernetes_gang_is_looked_at_by_the_grouper_first(self) -> None:
        looked_at: set[str] = set()
        scheduler = dispatcher("n1", expects_group=lambda pod: pod_key(pod) not in looked_at)
        scheduler.set_group(kubernetes_group(2), 0)
        members = [in_kubernetes_group(pod(name)) for name in "ab"]
        for member in members:
            scheduler.set_pod(member, 0)
        assert scheduler.decide(0) is None
        for member in members:
            looked_at.add(pod_key(member))
            scheduler.ungrouped(pod_key(member), 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1", "ml/b": "n1"}

    def test_a_pod_that_joined_a_gang_meanwhile_waits_with_it(self) -> None:
        scheduler = dispatcher("n1", expects_group=lambda pod: not (pod.metadata.labels or {}))
        scheduler.set_pod(pod("a"), 0)
        scheduler.set_pod(pod("a", gang="train"), 1)
        scheduler.pods.ungrouped("ml/a", 1)
        assert reason(scheduler.decide(1)) == "waits for PodGroup ml/train, which does not exist"

    def test_an_unschedulable_pod_is_retried_only_when_room_appears(self) -> None:
        scheduler = dispatcher("n1", cpus=2)
        scheduler.set_pod(pod("a", 4), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        scheduler.wake(20)
        assert scheduler.decide(20) is None
        add_node(scheduler, "n2", cpus=8)
        scheduler.wake(40)
        assert places(scheduler.decide(40)) == {"ml/a": "n2"}

    def test_a_status_change_does_not_retry_a_waiting_pod(self) -> None:
        scheduler = dispatcher("n1", cpus=2)
        waiting = pod("a", 4)
        scheduler.set_pod(waiting, 0)
        assert isinstance(scheduler.decide(0), Unschedulable)
        scheduler.set_pod(msgspec.structs.replace(waiting, status=PodStatus(phase="Pending", reason="told")), 20)
        assert scheduler.decide(20) is None

    def test_a_failed_bind_frees_the_room_and_retries_the_pod(self) -> None:
        scheduler = dispatcher("n1")
        waiting = pod("a", 6)
        scheduler.set_pod(waiting, 0)
        fail(scheduler, scheduler.decide(0), "ml/a", 0)
        assert scheduler.decide(0.1) is None
        assert places(scheduler.decide(5)) == {"ml/a": "n1"}

    def test_a_pod_deleted_during_its_bind_is_not_retried(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(pod("a"), 0)
        action = scheduler.decide(0)
        scheduler.set_pod(being_deleted(pod("a")), 1)
        fail(scheduler, action, "ml/a", 1)
        assert [scheduler.decide(second) for second in (2, 4, 400)] == [None, None, None]
        assert not scheduler.state.pods

    def test_a_pod_with_a_bind_in_flight_is_not_decided_again(self) -> None:
        scheduler = dispatcher("n1")
        waiting = pod("a")
        scheduler.set_pod(waiting, 0)
        scheduler.decide(0)
        scheduler.set_pod(
            msgspec.structs.replace(waiting, metadata=msgspec.structs.replace(waiting.metadata, labels={"x": "y"})), 1
        )
        assert scheduler.decide(1) is None

    def test_a_recreated_pod_of_the_same_name_is_a_new_pod(self) -> None:
        scheduler = dispatcher("n1")
        first, second = pod("a", 6), pod("a", 5, uid="second")
        scheduler.set_pod(first, 0)
        action = scheduler.decide(0)
        scheduler.set_pod(second, 1)
        assert places(scheduler.decide(1)) == {"ml/a": "n1"}
        fail(scheduler, action, "ml/a", 2)
        assert scheduler.pods.is_assumed(second, "n1")

    def test_a_bind_outcome_does_not_affect_a_recreated_pod(self) -> None:
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

    def test_a_pod_bound_by_another_client_counts_on_its_node(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_pod(on_node(pod("a", 6), "n1"), 0)
        scheduler.set_pod(pod("b", 6), 0)
        assert isinstance(scheduler.decide(0), Unschedulable)

    def test_an_invalid_pod_is_reported_and_does_not_block_others(self) -> None:
        scheduler = dispatcher("n1")
        wrong = simple_pod({"cpu": "9e99"}, "a")
        metadata = msgspec.structs.replace(wrong.metadata, namespace="ml", uid="w")
        spec = msgspec.structs.replace(wrong.spec, scheduler_name="bayplan")
        scheduler.set_pod(msgspec.structs.replace(wrong, metadata=metadata, spec=spec), 0)
        scheduler.set_pod(pod("b"), 1)
        assert "cpu" in reason(scheduler.decide(2))
        assert places(scheduler.decide(2)) == {"ml/b": "n1"}

    def test_an_assumed_place_is_lost_with_its_node(self) -> None:
        scheduler = dispatcher("n1", "n2")
        waiting = pod("a")
        scheduler.set_pod(waiting, 0)
        (node,) = places(scheduler.decide(0)).values()
        scheduler.state.remove_node(node)
        assert not scheduler.pods.is_assumed(waiting, node)


class TestPodsBesideOthers:
    """Pod `web` has affinity to a `db` of its own or a selected namespace, and there is none yet."""

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
    def test_only_pods_in_selected_namespaces_retry_the_pod(self, namespace: str, tried: bool) -> None:
        scheduler = self.waiting()
        scheduler.set_pod(self.db(namespace), 10)
        assert self.tried(scheduler, 10) == tried

    def test_unselected_pods_of_its_namespace_do_not_retry_it(self) -> None:
        scheduler = self.waiting()
        scheduler.set_pod(on_node(pod("other"), "n1"), 10)
        assert not self.tried(scheduler, 10)
        scheduler.remove_pod("ml/other", 20)
        assert not self.tried(scheduler, 20)
        scheduler.set_pod(self.db("ml"), 30)
        scheduler.wake(30)
        assert places(scheduler.decide(30)) == {"ml/web": "n2"}

    def test_relabelling_a_namespace_retries_a_pod_that_selects_it(self) -> None:
        scheduler = self.waiting(namespaceSelector={"matchLabels": {"team": "a"}})
        scheduler.set_pod(self.db("other"), 10)
        assert not self.tried(scheduler, 10)
        scheduler.set_namespace("other", {"team": "a"})
        scheduler.wake(30)
        assert places(scheduler.decide(30)) == {"ml/web": "n2"}

    def test_a_failed_bind_retries_it(self) -> None:
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


def test_slow_waking_runs_less_often() -> None:
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
    def test_all_members_are_bound_at_once_after_the_last_has_arrived(self) -> None:
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

    def test_a_gang_held_back_by_its_pod_group_waits(self) -> None:
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
    def test_a_replacement_follows_them_in_the_style_of_another_system(self, style: str) -> None:
        racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=4)
        written = pod_group(2, required=RACK, phase="Scheduled")
        scheduler.set_group(
            msgspec.structs.replace(written, spec=msgspec.structs.replace(written.spec, style=style)), 0
        )
        scheduler.set_pod(on_node(pod("a", 3, gang="train"), "n3"), 0)
        scheduler.set_pod(pod("b", 3, gang="train"), 0)
        assert places(scheduler.decide(0)) == {"ml/b": "n4"}

    def test_a_late_member_goes_before_pods_younger_than_its_gang(self) -> None:
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

    def test_a_failed_bind_is_retried_in_the_rack_of_the_other_members(self) -> None:
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

    def test_a_fully_bound_gang_is_reported_complete_once(self) -> None:
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

    def test_completion_is_reported_until_the_pod_group_shows_it(self) -> None:
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

    def test_completion_is_not_repeated_without_a_pod_group(self) -> None:
        scheduler = self.complete()
        scheduler.remove_group("ml/train", 1)
        assert not any(isinstance(scheduler.decide(second), Complete) for second in (2, 40, 80))

    def test_a_gang_without_waiting_pods_is_recounted_after_every_change(self) -> None:
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
    def test_a_refusal_tells_whether_the_gang_needs_the_pods(self, minimum: int, beyond_need: bool) -> None:
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

    def test_a_partially_bound_gang_that_cannot_be_completed_is_released(self) -> None:
        scheduler = self.partially_bound()
        assert isinstance(scheduler.decide(0), Unschedulable)
        action = scheduler.decide(61)
        assert isinstance(action, Release)
        assert [pod_key(each) for each in action.pods] == ["ml/a"]

    @pytest.mark.parametrize("by_us, phase", [(False, ""), (True, "Scheduled")])
    def test_foreign_pods_and_once_complete_gangs_are_never_released(self, by_us: bool, phase: str) -> None:
        scheduler = self.partially_bound(by_us=by_us, phase=phase)
        scheduler.decide(0)
        for moment in (61, 400, 1000):
            assert not isinstance(scheduler.decide(moment), Release)

    def test_pods_whose_pod_group_was_deleted_are_never_released(self) -> None:
        """The PodGroup recorded whether the gang was ever complete."""
        scheduler = self.partially_bound()
        scheduler.remove_group("ml/train", 0)
        scheduler.decide(0)
        for moment in (61, 400, 1000):
            assert not isinstance(scheduler.decide(moment), Release)

    def test_a_gang_without_pods_starts_anew(self) -> None:
        scheduler = dispatcher("n1")
        scheduler.set_group(pod_group(2), 0)
        for name in ("a", "b"):
            scheduler.set_pod(on_node(pod(name, gang="train"), "n1"), 0)
        assert isinstance(scheduler.decide(0), Complete)
        for key in ("ml/a", "ml/b"):
            scheduler.remove_pod(key, 1)
        assert scheduler.decide(1) is None
        # One pod of the second generation has a node, and the other has no room.
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
    def test_a_gang_recreated_under_its_pod_group_starts_anew(self, created: str, released: bool) -> None:
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

    def test_patience_counts_across_a_scheduler_restart(self) -> None:
        created = "2026-01-01T00:00:00Z"
        midnight = datetime.fromisoformat(created).timestamp()
        racks = {"n1": "r1", "n2": "r2"}
        scheduler = dispatcher(*racks, racks=racks, cpus=1)
        patient = PatienceSpec(domains=1, seconds=60)
        group = pod_group(2)
        spec = msgspec.structs.replace(group.spec, preferred=RACK, patience=patient)
        # It learns of the gang 40 seconds after its pods were created.
        scheduler.set_group(msgspec.structs.replace(group, spec=spec), midnight + 40)
        for name in "ab":
            member = pod(name, gang="train")
            metadata = msgspec.structs.replace(member.metadata, creation_timestamp=created)
            scheduler.set_pod(msgspec.structs.replace(member, metadata=metadata), midnight + 40)
        assert isinstance(scheduler.decide(midnight + 40), Unschedulable)
        assert scheduler.decide(midnight + 59) is None
        assert sorted(places(scheduler.decide(midnight + 60))) == ["ml/a", "ml/b"]

    @pytest.mark.parametrize("namespace, tried", [("ml", True), ("other", False)])
    def test_pods_in_unselected_namespaces_do_not_retry_a_gang(self, namespace: str, tried: bool) -> None:
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

    def test_a_label_with_an_unknown_group_is_reported(self) -> None:
        scheduler = dispatcher("n1", racks={"n1": "r1"})
        scheduler.set_group(pod_group(1), 0)
        scheduler.set_pod(pod("a", gang="train", group="lefft"), 0)
        assert '"lefft"' in reason(scheduler.decide(0))


def test_a_large_gang_is_not_queued_after_every_arriving_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queueing costs time per pod, so ten thousand pods arriving one by one would cost their square."""
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


def test_a_bug_triggered_by_one_pod_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = dispatcher("n1")
    scheduler.set_pod(pod("cursed", 7), 0)
    scheduler.set_pod(pod("b"), 1)
    real = scheduler.state.classes.of

    def of(each: Pod) -> PodClass:
        if each.metadata.name == "cursed":
            raise RuntimeError("an unforeseen bug")
        return real(each)

    monkeypatch.setattr(scheduler.state.classes, "of", of)
    action = scheduler.decide(2)
    assert isinstance(action, Unschedulable)
    assert "an unforeseen bug" in action.reason
    assert "in of\n" in action.traceback, "where it happened is for the log"
    assert places(scheduler.decide(2)) == {"ml/b": "n1"}


def test_a_bug_after_assuming_a_place_rolls_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = dispatcher("n1")
    given_back: list[tuple[str, str]] = []

    def reserved(node: str, each: Pod) -> None:
        raise RuntimeError("an unforeseen bug")

    monkeypatch.setattr(scheduler.reports, "reserved", reserved)
    monkeypatch.setattr(scheduler.reports, "unreserved", lambda node, each: given_back.append((node, pod_key(each))))
    scheduler.set_pod(pod("a", 7), 0)
    assert "an unforeseen bug" in reason(scheduler.decide(0))
    assert given_back == [("n1", "ml/a")]
    assert not scheduler.state.pods
