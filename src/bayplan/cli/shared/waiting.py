"""What keeps every waiting pod from its node, for `bayplan why -A`.

Gangs are decided first, then the pods that stand alone, each seeing what the earlier ones took, as `snapshot` does it.
Once a pod has no place, no equal pod that comes later has one either: so the cost grows with the kinds of pods, not
with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from time import monotonic

import click

from bayplan.cli.shared.deciding import Work, decide_gang, members_of, work_of
from bayplan.cli.shared.gangs import GangPlacer
from bayplan.cli.shared.output import show_progress, working
from bayplan.cli.shared.placing import SECONDS_BETWEEN_NEWS
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.workloads import warn_of_owners
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import pod_key
from bayplan.dialects.registry import gang_named
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.gangs.text import refusal_sentence
from bayplan.explain.overview.causes import CauseKind, StuckPod
from bayplan.explain.overview.nodes import refusal_reason
from bayplan.explain.refusal import refusal_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one, why_not_yet
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import shortfall_of

FITS = "fits now, waits for its turn"


def findings(session: ClusterSession, is_meant: Callable[[Pod], bool], now: datetime) -> list[StuckPod]:
    """The cause of every pod that is meant and waits, or that a kubelet refused."""
    waiting = list(session.state.waiting.values())
    ours = [pod for pod in waiting if not session.is_stranger(pod)]
    meant = {pod_key(pod) for pod in session.objects.pods if is_meant(pod)}
    found = [_elsewhere(pod) for pod in waiting if session.is_stranger(pod)]
    warn_of_owners(session.grouped, (pod for pod in ours if pod_key(pod) in meant), session.source)
    found += _decided(session, work_of(session, ours), now)
    found += [
        StuckPod(pod_key(pod), CauseKind.REFUSED, f"refused by the kubelet: {reason}", node=pod.spec.node_name or "")
        for pod in session.objects.pods
        if (reason := refusal_reason(pod))
    ]
    return [each for each in found if each.pod in meant]


def _decided(session: ClusterSession, work: Work, now: datetime) -> Iterator[StuckPod]:
    answers = ClassAnswers(session.state)
    placer = GangPlacer(session, answers, advice=False)
    members = members_of(session, work.gangs)
    told = monotonic()
    with working("placing gangs"):
        for number, key in enumerate(work.gangs):
            if monotonic() - told >= SECONDS_BETWEEN_NEWS:
                told = monotonic()
                show_progress(f"placing gangs: {number} of {len(work.gangs)}")
            outcome = decide_gang(session, placer, key, members[key], now)
            yield from _of_gang(outcome, [pod for pod in members[key] if pod_key(pod) in session.state.waiting])
    for each in work.invalid:
        yield StuckPod(pod_key(each.pod), CauseKind.INVALID, f"{each.error.at.field}: {each.error.problem}")
    alone = _Alone(session, answers)
    with working("placing pods"):
        for number, pod in enumerate(work.pods):
            if monotonic() - told >= SECONDS_BETWEEN_NEWS:
                told = monotonic()
                show_progress(f"placing pods: {number} of {len(work.pods)}")
            yield alone.finding(pod)


class _Alone:
    """Pods that stand alone, one after another."""

    def __init__(self, session: ClusterSession, answers: ClassAnswers) -> None:
        self._session = session
        self._answers = answers
        self._refused: dict[tuple[PodClass, str], str] = {}

    def finding(self, pod: Pod) -> StuckPod:
        key, state = pod_key(pod), self._session.state
        try:
            profile = self._session.profile_for(pod)
        except click.UsageError:
            return _elsewhere(pod)
        pod_class = state.classes.of(pod)
        held_back = self._session.grouped.held_back(pod) or why_not_yet(pod, pod_class)
        if held_back:
            return StuckPod(key, CauseKind.HELD_BACK, held_back)
        # Neighbours may let a pod in that they kept out before, so only pods without any are alike.
        alike = incoming_pod(state, pod, pod_class) is None
        known = self._refused.get((pod_class, profile.name)) if alike else None
        cause = known or self._decide(pod, pod_class, profile)
        if cause and alike:
            self._refused[pod_class, profile.name] = cause
        return StuckPod(key, CauseKind.UNSCHEDULABLE, cause) if cause else StuckPod(key, CauseKind.FITS, FITS)

    def _decide(self, pod: Pod, pod_class: PodClass, profile: Profile) -> str:
        """Why it has no place; empty if it has one, which it takes."""
        state = self._session.state
        decision = schedule_one(state, pod, profile, self._answers, explain=False)
        if decision.placed:
            assume(state, decision, pod)
            return ""
        answer = answer_for(state, pod, pod_class, profile, self._answers)
        refused = list(answer.refused_by_replay.items())
        counted = shortfall_of(state, pod_class, profile, answer, refused, most=0)
        return refusal_of(state, pod_class, profile, Decision(decision.pod, None, shortfall=counted), ()).cause


def _of_gang(outcome: GangOutcome, waiting: Sequence[Pod]) -> Iterator[StuckPod]:
    decision = outcome.decision
    if decision.problem:
        kind, cause = CauseKind.GANG, decision.problem
    elif decision.waits:
        kind, cause = CauseKind.GANG, "the gang waits for a better place"
    elif outcome.good:
        kind, cause = CauseKind.FITS, FITS
    else:
        kind, cause = CauseKind.GANG, refusal_sentence(outcome)
    left_out, who = set(decision.left_out), (outcome.name, "", outcome.owner)
    for pod in waiting:
        key = pod_key(pod)
        if kind is CauseKind.FITS and key in left_out:
            yield StuckPod(key, CauseKind.GANG, "its gang starts without it: it is beyond the minimum", *who)
        else:
            yield StuckPod(key, kind, cause, *who)


def _elsewhere(pod: Pod) -> StuckPod:
    name = pod.spec.scheduler_name or "default-scheduler"
    return StuckPod(
        pod_key(pod), CauseKind.OTHER_SCHEDULER, f"waits for scheduler {name}", gang_named(pod).rpartition(" ")[2]
    )
