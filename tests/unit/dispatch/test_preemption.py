"""Preemption in the dispatcher, told as stories: who is evicted, for which unit the room is kept, and until when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from bayplan.dialects.registry import AnyPodGroup
from bayplan.dispatch.actions import Action, Bind, Complete, Release, Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.kept.nominations import ROOM_IS_KEPT
from bayplan.dispatch.preemption import LEFT_ALONE, LOOKS_EVERY, STUCK_AFTER
from bayplan.dispatch.units import GangUnit, PodUnit, Unit
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import ClaimVolumeSource, Metadata, Pod, PodStatus, SchedulingGate, Volume
from bayplan.kube.wire.core_v1_volumes import PersistentVolumeClaim
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption
from bayplan.scheduling.profile import PreemptionMode, default_profile
from tests.builders.storage import attachment, claim, storage_class, struct, volume
from tests.builders.units import RACK, add_node, being_deleted, on_node, places, pod, pod_group, reason


def preempting(
    *nodes: str,
    mode: PreemptionMode = PreemptionMode.ON,
    racks: dict[str, str] | None = None,
    why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "",
) -> Dispatcher:
    profiles = {"bayplan": replace(default_profile(), preemption=mode)}
    made = Dispatcher(profiles, why_gang_waits=why_gang_waits)
    for name in nodes:
        add_node(made, name, rack=(racks or {}).get(name, ""))
    made.set_levels("network", (RACK,))
    return made


def runs(scheduler: Dispatcher, name: str, node: str, cpus: int, priority: int = 0, gang: str = "") -> Pod:
    running = on_node(pod(name, cpus, priority=priority, gang=gang), node)
    scheduler.set_pod(running, 0.0)
    return running


def victims(action: Action | None) -> list[str]:
    assert isinstance(action, Unschedulable), action
    assert isinstance(action.preemption, Preemption | GangPreemption), action.preemption
    return [each.key for each in action.preemption.victims] if action.stage is Stage.CARRY_OUT else []


def why_not(action: Action | None) -> str:
    assert isinstance(action, Unschedulable), action
    assert isinstance(action.preemption, NoPreemption), action.preemption
    return str(action.preemption)


def test_less_important_pods_make_room_and_no_other_pod_takes_it() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.remove_pod("ml/web", 2.0)
    scheduler.set_pod(pod("late", 1, priority=5), 2.0)
    assert places(scheduler.decide(2.0)) == {"ml/db": "n1"}
    assert victims_or_nothing(scheduler.decide(2.0)) == []


def victims_or_nothing(action: Action | None) -> list[str]:
    return (
        victims(action) if isinstance(action, Unschedulable) and not isinstance(action.preemption, NoPreemption) else []
    )


def test_the_room_is_kept_from_less_important_pods_while_victims_leave() -> None:
    scheduler = preempting("n1")
    web = runs(scheduler, "web", "n1", 4)
    runs(scheduler, "log", "n1", 4, priority=3)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/log", "ml/web"]
    scheduler.set_pod(being_deleted(web), 1.5)
    scheduler.remove_pod("ml/web", 2.0)
    scheduler.set_pod(pod("late", 2, priority=5), 2.0)
    assert not isinstance(scheduler.decide(2.0), Bind)


def test_a_more_important_pod_takes_the_room_of_a_nominated_one() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.set_pod(pod("urgent", 8, priority=20), 2.0)
    action = scheduler.decide(2.0)
    assert isinstance(action, Unschedulable)
    assert action.unit == PodUnit("ml/urgent")
    scheduler.remove_pod("ml/web", 3.0)
    assert places(scheduler.decide(3.0)) == {"ml/urgent": "n1"}


def test_a_decision_that_fails_leaves_the_room_of_nominated_pods_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.set_pod(pod("urgent", 8, priority=20), 2.0)
    with monkeypatch.context() as broken:
        broken.setattr(scheduler.preempting, "for_pod", lambda *_: 1 / 0)
        assert isinstance(scheduler.decide(2.0), Unschedulable)
    assert scheduler.preempting.nominations.get(PodUnit("ml/db")) is not None


def test_pods_that_leave_already_are_waited_for_and_nothing_is_evicted() -> None:
    scheduler = preempting("n1", "n2")
    web = runs(scheduler, "web", "n1", 8)
    runs(scheduler, "other", "n2", 8)
    scheduler.set_pod(being_deleted(web), 1.0)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == []
    scheduler.remove_pod("ml/web", 2.0)
    assert places(scheduler.decide(2.0)) == {"ml/db": "n1"}


@pytest.mark.parametrize(
    "mode, evicts", [(PreemptionMode.OFF, None), (PreemptionMode.DRY_RUN, False), (PreemptionMode.ON, True)]
)
def test_the_mode_decides_whether_a_plan_is_made_and_carried_out(mode: PreemptionMode, evicts: bool | None) -> None:
    scheduler = preempting("n1", mode=mode)
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    action = scheduler.decide(1.0)
    assert isinstance(action, Unschedulable)
    assert (None if action.preemption is None else action.stage is Stage.CARRY_OUT) is evicts


def test_pods_of_the_same_priority_stay() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8, priority=10)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert why_not(scheduler.decide(1.0)) == (
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_preemption_policy_never_evicts_nothing() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    modest = pod("db", 8, priority=10)
    spec = msgspec.structs.replace(modest.spec, preemption_policy="Never")
    scheduler.set_pod(msgspec.structs.replace(modest, spec=spec), 1.0)
    assert why_not(scheduler.decide(1.0)) == "preemption: not eligible: preemptionPolicy is Never"


def test_a_refused_eviction_gives_the_room_up_and_the_pod_is_left_alone_for_a_while() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    action = scheduler.decide(1.0)
    assert victims(action) == ["ml/web"]
    scheduler.not_evicted(["ml/web"], 2.0)
    assert "No preemption victims" in why_not(scheduler.decide(2.0))
    assert scheduler.decide(2.0 + LEFT_ALONE / 2) is None
    assert victims(scheduler.decide(3.0 + LEFT_ALONE)) == ["ml/web"]


def test_units_that_count_on_a_refused_eviction_plan_again() -> None:
    scheduler = preempting("n1", "n2")
    runs(scheduler, "web", "n1", 8)
    runs(scheduler, "log", "n2", 8, priority=5)
    for name in ("db", "cache"):
        scheduler.set_pod(pod(name, 4, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    assert victims(scheduler.decide(1.0)) == []
    scheduler.not_evicted(["ml/web"], 2.0)
    assert victims(scheduler.decide(2.0)) == ["ml/log"]
    assert victims(scheduler.decide(2.0)) == []
    assert {each.metadata.name for each in scheduler.preempting.nominations.take_outdated()} == {"db", "cache"}


def test_room_that_no_report_confirms_is_given_up_and_counted_as_in_vain() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.remove_pod("ml/web", 2.0)
    runs(scheduler, "stranger", "n1", 8, priority=100)
    for now in (3.0, 8.0, 3.0 + ROOM_IS_KEPT, 10.0 + ROOM_IS_KEPT):
        assert not isinstance(scheduler.decide(now), Bind)
    assert scheduler.preempting.in_vain == 1


def test_budgets_decide_between_equal_pods() -> None:
    scheduler = preempting("n1", "n2")
    for name, node in (("a", "n1"), ("b", "n2")):
        runs(scheduler, name, node, 8)
    labelled(scheduler, "a", labels={"app": "a"})
    scheduler.set_budget(budget("keep-a", 0, app="a"))
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/b"]


def test_a_budget_with_a_broken_selector_covers_no_pod() -> None:
    scheduler = preempting("n1")
    expressions = [{"key": "app", "operator": "Is", "values": ["a"]}]
    written = {"metadata": {"name": "odd", "namespace": "ml"}, "spec": {"selector": {"matchExpressions": expressions}}}
    with pytest.raises(InvalidObject) as said:
        scheduler.set_budget(msgspec.convert(written, PodDisruptionBudget))
    assert str(said.value) == (
        'PodDisruptionBudget ml/odd: spec.selector: operator "Is" of key "app" is unknown: '
        "expected one of In, NotIn, Exists,"
        " DoesNotExist; the budget covers no pod, as in the eviction API"
    )
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]


def test_a_pod_under_several_budgets_is_not_evicted() -> None:
    scheduler = preempting("n1", "n2")
    runs(scheduler, "log", "n1", 8, priority=1)
    runs(scheduler, "web", "n2", 8)
    labelled(scheduler, "web", labels={"app": "web"})
    for name in ("all", "web"):
        scheduler.set_budget(budget(name, 5, app="web"))
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/log"]


def test_a_static_pod_is_not_evicted() -> None:
    scheduler = preempting("n1", "n2")
    runs(scheduler, "proxy", "n1", 8)
    labelled(scheduler, "proxy", annotations={"kubernetes.io/config.mirror": "3f2a"})
    runs(scheduler, "log", "n2", 8, priority=1)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/log"]


def labelled(scheduler: Dispatcher, name: str, **metadata: dict[str, str]) -> None:
    running = scheduler.state.bound[f"ml/{name}"]
    changed = msgspec.structs.replace(running.metadata, **metadata)
    scheduler.set_pod(msgspec.structs.replace(running, metadata=changed), 0.5)


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    written = {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(written, PodDisruptionBudget)


def test_a_plan_against_a_budget_is_only_shown_until_the_budget_allows_it() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_budget(budget("all", 0))
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    action = scheduler.decide(1.0)
    assert isinstance(action, Unschedulable)
    assert isinstance(action.preemption, Preemption)
    assert (action.preemption.cost[0], action.stage) == (1, Stage.PLANNED)
    assert scheduler.preempting.nominations.get(PodUnit("ml/db")) is None
    scheduler.set_budget(budget("all", 1))
    assert victims(scheduler.decide(2.0 + LEFT_ALONE)) == ["ml/web"]


def test_a_budget_whose_status_is_outdated_allows_no_eviction() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    counted = budget("all", 1)
    newer = msgspec.structs.replace(counted.metadata, generation=2)
    scheduler.set_budget(msgspec.structs.replace(counted, metadata=newer))
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    action = scheduler.decide(1.0)
    assert isinstance(action, Unschedulable)
    assert isinstance(action.preemption, Preemption)
    assert (action.preemption.cost[0], action.stage) == (1, Stage.PLANNED)
    scheduler.set_budget(counted)
    assert victims(scheduler.decide(2.0 + LEFT_ALONE)) == ["ml/web"]


def using(waiting: Pod, *claims: str) -> Pod:
    """The same pod with these claims."""
    volumes = [Volume(name=name, persistent_volume_claim=ClaimVolumeSource(claim_name=name)) for name in claims]
    return msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, volumes=volumes))


def with_claims_for_one_pod(*claims: str, racks: dict[str, str] | None = None) -> Dispatcher:
    scheduler = preempting("n1", "n2", "n3", racks=racks)
    once = ["ReadWriteOncePod"]
    for name in claims:
        bodies = claim(name, namespace="ml", modes=once, volume=name), volume(name, claim=f"ml/{name}", modes=once)
        for body in (*bodies, attachment(name, "n2")):
            scheduler.set_storage(struct(body))
    return scheduler


def test_the_pod_that_holds_a_claim_for_one_pod_makes_way_for_a_more_important_one() -> None:
    scheduler = with_claims_for_one_pod("data")
    holder = on_node(using(pod("web", 1), "data"), "n2")
    scheduler.set_pod(holder, 0.0)
    scheduler.set_pod(using(pod("db", 1, priority=10), "data"), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    nomination = scheduler.preempting.nominations.get(PodUnit("ml/db"))
    assert nomination is not None
    assert [decision.node for _, decision in nomination.seats] == ["n2"]
    scheduler.set_pod(using(pod("late", 1, priority=5), "data"), 1.5)
    scheduler.set_pod(being_deleted(holder), 1.5)
    assert not isinstance(scheduler.decide(1.5), Bind)
    scheduler.remove_pod("ml/web", 2.0)
    assert set(places(scheduler.decide(2.0))) == {"ml/db"}
    assert not isinstance(scheduler.decide(2.0), Bind)


@pytest.mark.parametrize(
    "holders, evicted",
    [
        ({"a": ("n2", 0), "b": ("n2", 3)}, ["ml/of-b", "ml/of-a"]),
        ({"a": ("n2", 0), "b": ("n1", 0)}, []),
        ({"a": ("n2", 0), "b": ("n2", 10)}, []),
    ],
    ids=["both on one node", "on two nodes, as in kube-scheduler", "one is as important"],
)
def test_all_holders_of_claims_must_leave_one_node(holders: dict[str, tuple[str, int]], evicted: list[str]) -> None:
    scheduler = with_claims_for_one_pod("a", "b")
    for name, (node, priority) in holders.items():
        scheduler.set_pod(on_node(using(pod(f"of-{name}", priority=priority), name), node), 0.0)
    scheduler.set_pod(using(pod("db", 1, priority=10), "a", "b"), 1.0)
    assert victims_or_nothing(scheduler.decide(1.0)) == evicted


def test_a_gang_takes_over_a_claim_for_one_pod() -> None:
    scheduler = with_claims_for_one_pod("data", racks={"n1": "r1", "n2": "r2", "n3": "r2"})
    scheduler.set_pod(on_node(using(pod("web", 1), "data"), "n2"), 0.0)
    scheduler.set_group(pod_group(2, required=RACK), 0.0)
    for number in range(2):
        member = pod(f"train-{number}", 4, gang="train", priority=10)
        scheduler.set_pod(using(member, "data") if number == 0 else member, 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.remove_pod("ml/web", 2.0)
    assert set(places(scheduler.decide(2.0))) == {"ml/train-0", "ml/train-1"}


def test_the_second_preemptor_of_a_node_counts_victims_of_the_first_as_leaving() -> None:
    scheduler = preempting("n1", "n2")
    runs(scheduler, "web", "n1", 8)
    runs(scheduler, "log", "n2", 8)
    for name in ("db", "cache"):
        scheduler.set_pod(pod(name, 4, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    assert victims(scheduler.decide(1.0)) == []
    scheduler.remove_pod("ml/web", 2.0)
    assert {*places(scheduler.decide(2.0)).values(), *places(scheduler.decide(2.0)).values()} == {"n1"}


def test_a_victim_that_does_not_terminate_is_given_up_and_another_one_evicted() -> None:
    scheduler = preempting("n1", "n2")
    web = runs(scheduler, "web", "n1", 8)
    runs(scheduler, "log", "n2", 8, priority=5)
    began = 1_767_225_600.0  # the deletionTimestamp of `being_deleted`
    scheduler.set_pod(pod("db", 8, priority=10), began)
    assert victims(scheduler.decide(began)) == ["ml/web"]
    scheduler.set_pod(being_deleted(web), began)
    waits = scheduler.decide(began + STUCK_AFTER)
    assert isinstance(waits, Unschedulable)
    assert waits.stage is Stage.UNDER_WAY
    assert victims(scheduler.decide(began + STUCK_AFTER + 2 * LOOKS_EVERY)) == ["ml/log"]


def test_a_hopeless_pod_leaves_the_room_of_less_important_ones_alone() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.set_pod(pod("huge", 64, priority=20), 2.0)
    assert "No preemption victims" in why_not(scheduler.decide(2.0))
    assert scheduler.preempting.nominations.get(PodUnit("ml/db")) is not None
    assert scheduler.preempting.nominations.take_outdated() == []


def test_the_room_of_a_deleted_gang_is_free_at_once() -> None:
    scheduler = preempting("n1", racks={"n1": "r1"})
    runs(scheduler, "web", "n1", 8)
    gang_waits(scheduler, 1, 8, 10)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    scheduler.remove_pod("ml/g-0", 2.0)
    assert scheduler.decide(2.0) is None
    scheduler.remove_pod("ml/web", 3.0)
    scheduler.set_pod(pod("late", 8), 3.0)
    assert places(scheduler.decide(3.0)) == {"ml/late": "n1"}


def test_after_a_restart_a_nominated_pod_evicts_nothing_before_reports_are_fresh() -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    nominated = msgspec.structs.replace(pod("db", 8, priority=10), status=PodStatus(nominated_node_name="n1"))
    scheduler.set_pod(nominated, 1.0)
    assert why_not(scheduler.decide(1.0)) == "preemption: its nominated node has yet to report the room"
    assert victims(scheduler.decide(2.0 + ROOM_IS_KEPT)) == ["ml/web"]


def test_after_a_restart_leaving_victims_are_waited_for_and_no_other_pod_is_evicted() -> None:
    scheduler = preempting("n1", "n2")
    scheduler.set_pod(being_deleted(runs(scheduler, "web", "n1", 8)), 0.0)
    runs(scheduler, "log", "n2", 8)
    nominated = msgspec.structs.replace(pod("db", 8, priority=10), status=PodStatus(nominated_node_name="n1"))
    scheduler.set_pod(nominated, 1.0)
    assert victims(scheduler.decide(1.0)) == []
    assert scheduler.preempting.nominations.get(PodUnit("ml/db")) is not None


def gang_waits(scheduler: Dispatcher, size: int, cpus: int, priority: int, required: str | None = None) -> None:
    scheduler.set_group(pod_group(size, required=required), 1.0)
    for number in range(size):
        scheduler.set_pod(pod(f"g-{number}", cpus, gang="train", priority=priority), 1.0)


def test_a_gang_preempts_inside_one_rack_and_starts_as_a_whole() -> None:
    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
    scheduler = preempting(*racks, racks=racks)
    runs(scheduler, "a", "n1", 8)
    runs(scheduler, "b", "n3", 8)
    runs(scheduler, "c", "n4", 8)
    gang_waits(scheduler, 2, 8, 10, required=RACK)
    assert victims(scheduler.decide(1.0)) == ["ml/a"]
    scheduler.remove_pod("ml/a", 2.0)
    assert sorted(places(scheduler.decide(2.0)).values()) == ["n1", "n2"]


def test_a_running_gang_goes_as_a_whole_or_not_at_all() -> None:
    scheduler = preempting("n1", "n2", "n3")
    scheduler.set_group(pod_group(2), 0.0)
    runs(scheduler, "g-0", "n1", 8, gang="train")
    runs(scheduler, "g-1", "n2", 8, gang="train")
    runs(scheduler, "single", "n3", 8, priority=5)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    # One pod of priority 5 is more important than a gang of priority 0, so the gang goes, and all of it.
    assert victims(scheduler.decide(1.0)) == ["ml/g-0", "ml/g-1"]


def assert_cleared(scheduler: Dispatcher, unit: Unit, *pods: str) -> None:
    """The unit has no nomination any more, and `nominatedNodeName` of these pods is cleared."""
    assert scheduler.preempting.nominations.get(unit) is None
    assert sorted(each.metadata.name for each in scheduler.preempting.nominations.take_outdated()) == sorted(pods)


def a_nominated_pod(claim_name: str = "") -> Dispatcher:
    """Two pods fill a node, and a third is nominated for all of it."""
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 4)
    runs(scheduler, "log", "n1", 4, priority=3)
    waiting = pod("db", 8, priority=10)
    if claim_name:
        for body in (claim(claim_name, namespace="ml"), storage_class(provisioner="csi.example.com")):
            scheduler.set_storage(struct(body))
        source = Volume(name="v", persistent_volume_claim=ClaimVolumeSource(claim_name=claim_name))
        waiting = msgspec.structs.replace(waiting, spec=msgspec.structs.replace(waiting.spec, volumes=[source]))
    scheduler.set_pod(waiting, 1.0)
    assert victims(scheduler.decide(1.0)) == ["ml/log", "ml/web"]
    return scheduler


def test_a_pod_whose_claim_is_deleted_is_nominated_no_longer() -> None:
    scheduler = a_nominated_pod("data")
    scheduler.remove_storage(PersistentVolumeClaim, "ml/data")
    assert "waits for its volumes" in reason(scheduler.decide(2.0 + LOOKS_EVERY))
    assert_cleared(scheduler, PodUnit("ml/db"), "db")


@pytest.mark.parametrize("error", [InvalidObject(ObjectPath("Pod db"), "is odd"), ZeroDivisionError()])
def test_a_pod_that_cannot_be_decided_is_nominated_no_longer(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = a_nominated_pod()

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("bayplan.dispatch.pod_units.schedule_one", fails)
    assert isinstance(scheduler.decide(2.0 + LOOKS_EVERY), Unschedulable)
    assert_cleared(scheduler, PodUnit("ml/db"), "db")


def test_a_plan_whose_decision_fails_afterwards_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = preempting("n1")
    runs(scheduler, "web", "n1", 8)
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    monkeypatch.setattr("bayplan.dispatch.pod_units._waits_for", lambda *_: 1 / 0)
    assert "internal error" in reason(scheduler.decide(1.0))
    assert_cleared(scheduler, PodUnit("ml/db"), "db")


def test_a_nominated_pod_that_is_being_deleted_gives_its_room_to_others() -> None:
    scheduler = a_nominated_pod()
    scheduler.set_pod(being_deleted(scheduler.waiting["ml/db"]), 2.0)
    scheduler.remove_pod("ml/web", 3.0)
    scheduler.set_pod(pod("late", 4), 3.0)
    assert scheduler.decide(3.0 + LOOKS_EVERY) is not None
    assert_cleared(scheduler, PodUnit("ml/db"), "db")


def a_nominated_gang(why_gang_waits: Callable[[AnyPodGroup], str] = lambda _: "") -> Dispatcher:
    """One pod fills a node of two, and a gang of two is nominated for both nodes."""
    scheduler = preempting("n1", "n2", racks={"n1": "r1", "n2": "r1"}, why_gang_waits=why_gang_waits)
    runs(scheduler, "web", "n1", 8)
    gang_waits(scheduler, 2, 8, 10)
    assert victims(scheduler.decide(1.0)) == ["ml/web"]
    return scheduler


def its_pod_group_waits(scheduler: Dispatcher) -> None:
    waits_for_quota = msgspec.structs.replace(pod_group(2), metadata=Metadata("train", "ml", uid="suspended"))
    scheduler.set_group(waits_for_quota, 2.0)


def a_member_is_gone(scheduler: Dispatcher) -> None:
    scheduler.remove_pod("ml/g-1", 2.0)


def its_pod_group_is_invalid(scheduler: Dispatcher) -> None:
    scheduler.set_group(pod_group(2, minimum=3), 2.0)


def a_member_is_gated(scheduler: Dispatcher) -> None:
    gated = pod("g-1", 8, gang="train", priority=10, uid="uid-successor")
    spec = msgspec.structs.replace(gated.spec, scheduling_gates=[SchedulingGate("example.com/hold")])
    scheduler.remove_pod("ml/g-1", 2.0)
    scheduler.set_pod(msgspec.structs.replace(gated, spec=spec), 2.0)


def a_member_is_being_deleted(scheduler: Dispatcher) -> None:
    scheduler.set_pod(being_deleted(scheduler.waiting["ml/g-1"]), 2.0)


@pytest.mark.parametrize(
    "happens, said",
    [
        (its_pod_group_waits, "waits for quota"),
        (a_member_is_gone, "waits for pods: 1 of 2 have arrived"),
        (its_pod_group_is_invalid, "minimum"),
        (a_member_is_gated, "waits for its scheduling gates"),
        (a_member_is_being_deleted, ""),
    ],
)
def test_a_gang_that_is_held_back_is_nominated_no_longer(happens: Callable[[Dispatcher], None], said: str) -> None:
    scheduler = a_nominated_gang(lambda group: "waits for quota" if group.metadata.uid == "suspended" else "")
    happens(scheduler)
    assert said in reason(scheduler.decide(2.0 + LOOKS_EVERY))
    assert_cleared(scheduler, GangUnit("ml/train"), "g-0", "g-1")
    scheduler.set_pod(pod("late", 8), 3.0 + LOOKS_EVERY)
    assert places(scheduler.decide(3.0 + LOOKS_EVERY)) == {"ml/late": "n2"}


def test_a_gang_that_is_released_is_nominated_no_longer() -> None:
    scheduler = a_nominated_gang()
    unit = GangUnit("ml/train")
    scheduler.preempting.settle(unit, Release("ml/train", (), "partially bound"))
    assert_cleared(scheduler, unit, "g-0", "g-1")


def test_a_gang_that_is_complete_keeps_the_room_for_members_beyond_its_need() -> None:
    scheduler = a_nominated_gang()
    unit = GangUnit("ml/train")
    preemption = scheduler.preempting
    preemption.resume(unit)
    preemption.settle(unit, Complete("ml/train"))
    assert preemption.nominations.get(unit) is not None
    assert preemption.nominations.take_outdated() == []


def test_members_beyond_the_minimum_go_first() -> None:
    scheduler = preempting("n1", "n2")
    scheduler.set_group(pod_group(2, minimum=1), 0.0)
    runs(scheduler, "g-0", "n1", 8, gang="train")
    runs(scheduler, "g-1", "n2", 8, gang="train")
    scheduler.set_pod(pod("db", 8, priority=10), 1.0)
    assert len(victims(scheduler.decide(1.0))) == 1
