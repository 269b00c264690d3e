"""Plans that are carried out: what is evicted, what is spared, and what both sides are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from msgspec import structs

from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.preemption import LOOKS_EVERY
from bayplan.dispatch.units import PodUnit
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.wire.meta_v1 import Status, StatusCause, StatusDetails
from bayplan.scheduling.profile import PreemptionMode, default_profile
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.evicting import MAX_ATTEMPTS, Evictor
from bayplan.services.scheduler.nominating import NominationWriter
from tests.builders.bodies import Json
from tests.builders.services import api_error, in_virtual_time, now
from tests.builders.units import add_node, being_deleted, on_node, pod
from tests.unit.services.scheduler.announcing.test_announcer import Heard

BUDGET = ApiError(
    "POST",
    429,
    Status(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        StatusDetails(causes=[StatusCause("DisruptionBudget", "The disruption budget web needs 2 healthy pods")]),
    ),
)
SEVERAL = ApiError("POST", 500, Status(500, "InternalError", "This pod has more than one PodDisruptionBudget"))


@dataclass
class Cluster:
    """An API server that evicts pods, but first gives the answers that it has for them; `d` is a dry run, `e` an
    eviction.
    """

    answers: dict[str, list[Exception]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    patches: list[tuple[str, Json]] = field(default_factory=list)
    on_evicted: Callable[[str], None] = lambda _: None

    async def evict(self, namespace: str, name: str, uid: str, *, dry_run: bool) -> None:
        assert (namespace, uid) == ("ml", f"uid-{name}")
        self.asked.append(f"{'d' if dry_run else 'e'} {name}")
        if self.answers.get(self.asked[-1]):
            raise self.answers[self.asked[-1]].pop(0)
        if not dry_run:
            self.on_evicted(name)

    async def patch(self, resource: object, name: str, body: Json, namespace: str, *, subresource: str) -> None:
        assert subresource == "status"
        self.patches.append((name, body["status"]))


class Story:
    """Two pods fill a node, and a more important one needs all of it, or the room of one."""

    def __init__(self, needs: int = 8, grace: int | None = None, **answers: list[Exception]) -> None:
        self.cluster = Cluster({key.replace("_", " "): list(each) for key, each in answers.items()})
        self.heard = Heard()
        self.metrics = SchedulerMetrics()
        self.dispatcher = Dispatcher({"bayplan": replace(default_profile(), preemption=PreemptionMode.ON)})
        add_node(self.dispatcher, "n1")
        for name, priority in (("web", 0), ("log", 3)):
            victim = on_node(pod(name, 4, priority=priority), "n1")
            spec = structs.replace(victim.spec, termination_grace_period_seconds=grace)
            self.dispatcher.set_pod(structs.replace(victim, spec=spec), 0.0)
        self.dispatcher.set_pod(pod("db", needs, priority=10), 0.0)
        self.leads = True
        self.deletes_preemptor = False

    async def _run(self) -> None:
        client = cast("KubeClient", self.cluster)
        async with NominationWriter(client) as nominees:
            evictor = Evictor(
                client,
                self.dispatcher,
                cast("EventRecorder", self.heard),
                nominees,
                metrics=self.metrics.preemption,
                clock=now,
                side_thread=SideThread(threaded=False),
                may_write=lambda: self.leads,
            )
            action = self.dispatcher.decide(now())
            assert isinstance(action, Unschedulable)
            evictions = evictor.take(action)
            assert evictions is not None
            await evictions
            await asyncio.sleep(1.0)
            if self.deletes_preemptor:
                self.dispatcher.set_pod(being_deleted(self.dispatcher.waiting["ml/db"]), now())
                assert self.dispatcher.decide(now() + LOOKS_EVERY) is None
                evictor.withdraw_nominations()
                await asyncio.sleep(1.0)

    def run(self) -> None:
        in_virtual_time(self._run())

    def count(self, result: str) -> float:
        name, labels = "bayplan_preemption_evictions_total", {"result": result}
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @property
    def is_nominated(self) -> bool:
        return self.dispatcher.preempting.nominations.get(PodUnit("ml/db")) is not None


def test_all_victims_are_evicted_and_both_sides_are_told() -> None:
    story = Story()
    story.run()
    assert story.cluster.asked == ["d log", "d web", "e log", "e web"]
    frees = "frees cpu 4, memory 1Gi"
    assert story.heard.lines == [
        f"event Pod log, Preempted: preempted by ml/db (priority 10): {frees}",
        f"event Pod web, Preempted: preempted by ml/db (priority 10): {frees}",
        "event Pod db, Preempting: evicted ml/log (priority 3) and ml/web (priority 0); nominated to n1",
    ]
    assert story.is_nominated
    assert story.count("evicted") == 2


def test_victims_get_the_condition_and_the_preemptor_its_node() -> None:
    story = Story()
    story.run()
    log, web, db = story.cluster.patches
    (condition,) = log[1]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
    )
    assert (web[0], db) == ("web", ("db", {"nominatedNodeName": "n1"}))


def test_a_preemptor_that_is_being_deleted_names_no_node_any_more() -> None:
    story = Story()
    story.deletes_preemptor = True
    story.run()
    assert story.cluster.patches[-1] == ("db", {"nominatedNodeName": None})
    assert not story.is_nominated


def test_a_victim_without_a_grace_period_is_gone_before_a_condition_could_be_written() -> None:
    story = Story(grace=0)
    story.run()
    assert [name for name, _ in story.cluster.patches] == ["db"]
    assert story.count("evicted") == 2


def test_a_single_victim_is_evicted_without_a_dry_run() -> None:
    story = Story(needs=4)
    story.run()
    assert story.cluster.asked == ["e web"]


@pytest.mark.parametrize("refusal", [BUDGET, SEVERAL, api_error(403)], ids=["budget", "several budgets", "rights"])
def test_a_refused_dry_run_spares_all_victims_and_says_so(refusal: ApiError) -> None:
    story = Story(d_web=[refusal])
    story.run()
    assert story.cluster.asked == ["d log", "d web"]
    (line,) = story.heard.lines
    assert line.startswith("event Pod db, PreemptionFailed: cannot evict ml/web for ml/db (priority 10): ")
    assert refusal.message in line
    assert not story.is_nominated
    assert story.cluster.patches == []


def test_the_budget_that_refuses_is_named() -> None:
    story = Story(d_web=[BUDGET])
    story.run()
    assert story.heard.lines[0].endswith("disruption budget. The disruption budget web needs 2 healthy pods")


def test_an_eviction_refused_after_all_ends_the_plan_without_a_nomination() -> None:
    story = Story(e_web=[BUDGET])
    story.run()
    assert story.cluster.asked == ["d log", "d web", "e log", "e web"]
    assert (story.count("evicted"), story.count("refused")) == (1, 1)
    assert not story.is_nominated
    assert [name for name, _ in story.cluster.patches] == ["log"]


@pytest.mark.parametrize("trouble", [api_error(503), api_error(429), Unreachable("no answer")])
def test_transient_errors_are_retried(trouble: Exception) -> None:
    story = Story(e_log=[trouble] * 2)
    story.run()
    assert story.cluster.asked == ["d log", "d web", "e log", "e log", "e log", "e web"]
    assert story.is_nominated


def test_an_api_server_that_does_not_answer_ends_the_plan() -> None:
    story = Story(d_log=[Unreachable("no answer")] * MAX_ATTEMPTS)
    story.run()
    assert not story.is_nominated
    assert "e log" not in story.cluster.asked


@pytest.mark.parametrize("status", [404, 409])
def test_victims_that_are_gone_already_are_no_problem(status: int) -> None:
    story = Story(e_log=[api_error(status)])
    story.run()
    assert (story.count("gone"), story.count("evicted")) == (1, 1)
    assert story.is_nominated


def test_remaining_victims_are_spared_if_the_preemptor_goes() -> None:
    story = Story()
    story.cluster.on_evicted = lambda _: story.dispatcher.remove_pod("ml/db", now())
    story.run()
    assert story.cluster.asked == ["d log", "d web", "e log"]
    assert story.count("spared") == 1


def test_a_replica_that_no_longer_leads_evicts_nothing() -> None:
    story = Story()
    story.leads = False
    story.run()
    assert story.cluster.asked == []
