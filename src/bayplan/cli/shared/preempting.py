"""`--preempt` of `why` and `place`: the plan that the scheduler would make for a pod or gang without a place.

Nothing is evicted. The dispatcher's own `Preempting` plans, on the cluster as it was read: gangs of running pods,
PodDisruptionBudgets and priorities count as in the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

import msgspec

from bayplan.cli.shared.gang_objects import pod_groups
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.reading import asked_live
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.state import TERMINAL_PHASES, ClusterState, pod_key
from bayplan.dispatch.preemption import COUNTING, Preempting, PreemptionResult
from bayplan.dispatch.roster import GangRoster
from bayplan.dispatch.units import GangUnit
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.placement import PodOutcome
from bayplan.explain.preemption import AnyPlan, PreemptionView, Unevictable, freed_amounts
from bayplan.gangs.closeness import unbound
from bayplan.gangs.preemption.plan import WORK_OF_A_PROOF
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.errors import InvalidObject, decoding_words
from bayplan.kube.json_text import decode
from bayplan.kube.resources import POD_DISRUPTION_BUDGETS
from bayplan.kube.unread_fields import unread
from bayplan.kube.wire.core_v1 import LabelSelector, Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import priority_of
from bayplan.scheduling.preemption.plan import NoPreemption
from bayplan.scheduling.profile import PreemptionMode, Profile
from bayplan.scheduling.relations import incoming_pod


def preemption_for_pod(session: ClusterSession, pod: Pod, now: datetime) -> PreemptionView:
    """The plan for a pod that fits on no node."""
    answers = ClassAnswers(session.state)
    preempting, profile, asked = _preempting(session, answers), session.profile_for(pod), unbound(pod)
    with preempting.kept_room.deciding(profile) as closing:
        found = _counted(lambda: preempting.for_pod(asked, _planning(profile), closing, now.timestamp())).plan
    if isinstance(found, NoPreemption):
        obstacles = () if found.reason else preempting.obstacles_for_pod(asked, profile)
        return PreemptionView(found, (), profile.preemption, obstacles)
    return _view(session, found, (asked,), profile, preempting.budgets)


def preemption_for_gang(session: ClusterSession, outcome: GangOutcome, now: datetime) -> PreemptionView:
    """The plan for a gang that has no place."""
    gang = outcome.gang
    if gang is None or not gang.pods:
        reason = outcome.decision.problem or "no member waits"
        return PreemptionView(NoPreemption(reason), (), PreemptionMode.OFF)
    answers = ClassAnswers(session.state)
    preempting, profile = _preempting(session, answers), session.profile_for(gang.pods[0])
    scheduler = GangScheduler(session.state, session.trees, _planning(profile), answers)
    with preempting.kept_room.deciding(profile) as closing:
        attempt = partial(preempting.for_gang, GangUnit(gang.name), scheduler, gang, closing, now.timestamp())
        found = _counted(attempt).plan
    if isinstance(found, NoPreemption):
        obstacles = () if found.reason else preempting.obstacles_for_gang(scheduler, gang)
        view = PreemptionView(found, (), profile.preemption, obstacles)
    else:
        view = _view(session, found, gang.pods, profile, preempting.budgets)
    least = min(gang.pods, key=priority_of)
    differ = any(priority_of(pod) > priority_of(least) for pod in gang.pods)
    return replace(view, least_important=least if differ else None)


def preemption_for_refused(
    session: ClusterSession,
    gangs: Sequence[GangOutcome],
    pods: Sequence[Pod],
    outcomes: Sequence[PodOutcome],
    now: datetime,
    most: int | None = None,
) -> dict[str, PreemptionView]:
    """The plans for gangs and pods without room, by name and each by itself; at most so many, if that is given.

    Pods that differ in nothing but their names share one.
    """
    refused = {outcome.decision.pod for outcome in outcomes if outcome.refusal is not None}
    alike: dict[object, list[Pod]] = {}
    for pod in pods:
        if pod_key(pod) in refused:
            alike.setdefault(_alike(session, pod), []).append(pod)
    plans = [
        *(([each.name], partial(preemption_for_gang, session, each, now)) for each in gangs if _lacks_room(each)),
        *(([*map(pod_key, equal)], partial(preemption_for_pod, session, equal[0], now)) for equal in alike.values()),
    ]
    return {name: view for names, plan in plans[:most] for view in (plan(),) for name in names}


def _lacks_room(gang: GangOutcome) -> bool:
    return not gang.good and not gang.decision.problem


def _alike(session: ClusterSession, pod: Pod) -> object:
    """What pods have in common that get the same plan."""
    pod_class = session.state.classes.of(pod)
    if incoming_pod(session.state, pod, pod_class) is not None:
        return pod_key(pod)
    return pod_class, session.profile_for(pod).name, priority_of(pod), pod.spec.preemption_policy


def _planning(profile: Profile) -> Profile:
    return replace(profile, preemption=PreemptionMode.DRY_RUN)


def _counted(attempt: Callable[[], PreemptionResult | None]) -> PreemptionResult:
    """The outcome once all pods have been counted, which the scheduler does in steps."""
    while (outcome := attempt()) is not None and outcome.plan is COUNTING:
        pass
    if outcome is None:
        raise AssertionError("a profile that plans has an outcome")
    return outcome


def _view(
    session: ClusterSession, plan: AnyPlan, pods: Sequence[Pod], profile: Profile, budgets: DisruptionBudgets
) -> PreemptionView:
    state = session.state
    wanted = {name for pod in pods for name in state.classes.of(pod).request.total}
    freed = tuple(freed_amounts(state, each.key, wanted) for each in plan.victims)
    covering = {budget for each in plan.victims for budget in each.pdbs}
    outdated = tuple(key for key in budgets.outdated() if key in covering)
    passed_over = _unevictable(state, pods, budgets)
    return PreemptionView(plan, freed, profile.preemption, unevictable=passed_over, outdated=outdated)


def _unevictable(state: ClusterState, pods: Sequence[Pod], budgets: DisruptionBudgets) -> tuple[Unevictable, ...]:
    """The less important pods that several budgets cover."""
    priority = min(map(priority_of, pods))
    less_important = ((key, pod) for key, pod in state.bound.items() if priority_of(pod) < priority)
    covered = ((key, budgets.too_many(pod)) for key, pod in less_important)
    return tuple(Unevictable(key, several) for key, several in sorted(covered) if several)


def _preempting(session: ClusterSession, answers: ClassAnswers) -> Preempting:
    """Preemption on the session's cluster, with the gangs and budgets that are there."""
    roster = GangRoster(lambda: session.trees.topologies)
    for written in pod_groups(session.objects):
        roster.set_group(written)
    for pod in session.objects.pods:
        if pod.status is None or pod.status.phase not in TERMINAL_PHASES:
            roster.set_member(pod)
    preempting = Preempting(session.state, roster, answers, WORK_OF_A_PROOF)
    _take_budgets(session, preempting.budgets)
    return preempting


def _take_budgets(session: ClusterSession, budgets: DisruptionBudgets) -> None:
    """Take over the PodDisruptionBudgets of a dump or cluster;
    one that is invalid forbids all evictions it may cover.
    """
    found = asked_live(_read_budgets) if session.runs else []
    kind = (POD_DISRUPTION_BUDGETS.api_version, POD_DISRUPTION_BUDGETS.kind)
    for each in session.objects.others:
        if (each.api_version, each.kind) != kind:
            continue
        key = f"{each.metadata.namespace or 'default'}/{each.metadata.name}"
        try:
            budget = decode(each.document, PodDisruptionBudget)
        except msgspec.DecodeError as error:
            budgets.set_unreadable(key)
            assumed = "assumed: the budget covers every pod of the namespace and allows no disruption"
            warn([f"PodDisruptionBudget {key}: {decoding_words(error)}; {assumed}"])
            continue
        found.append(budget)
        everything = "; the selector is empty without it and covers every pod of the namespace"
        effect = everything if budget.spec.selector == LabelSelector() else ""
        for told in unread(decode(each.document), PodDisruptionBudget):
            warn([f"PodDisruptionBudget {key}: {told}{effect if told.startswith('spec.selector.') else ''}"])
    for budget in found:
        try:
            budgets.set(budget)
        except InvalidObject as error:
            warn([str(error)])


async def _read_budgets(access: Access) -> list[PodDisruptionBudget]:
    async with KubeClient(access) as client:
        try:
            listed = await client.list(POD_DISRUPTION_BUDGETS)
        except ApiError as error:
            warn([f"PodDisruptionBudgets cannot be read, so none count: {error.message}"])
            return []
    return listed.items
