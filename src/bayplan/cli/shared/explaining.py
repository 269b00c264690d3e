"""Explain one pod, gang or workload by its name: what `bayplan why` prints and the page shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import click

from bayplan.cli.shared.asked_workload import find_workload, outcome_of_workload
from bayplan.cli.shared.gang_objects import find_gang, find_member
from bayplan.cli.shared.gangs import outcome_of, outcome_of_gang_with
from bayplan.cli.shared.pod_views import find_pod, view_of
from bayplan.cli.shared.preempting import preemption_for_gang, preemption_for_pod
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.state import pod_key
from bayplan.explain.documents import Document
from bayplan.explain.gangs.document import gang_explanation
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.gangs.text import gang_text
from bayplan.explain.pod_view import (
    node_answer_document,
    node_answer_text,
    pending_for,
    pod_document,
    pod_text,
)
from bayplan.explain.preemption import PreemptionView, preemption_document, with_plan
from bayplan.explain.workload_text import explanation, explanation_text
from bayplan.gangs.closeness import unbound
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import verdict_on
from bayplan.workloads.plan import WorkloadPlan


@dataclass(frozen=True, slots=True)
class Explanation:
    """An answer for people, the same for programs, whether it is a yes, and the gangs that it is about."""

    good: bool
    text: Callable[[], str]
    facts: Callable[[], Document]
    gangs: Sequence[GangOutcome] = ()

    def document(self) -> Document:
        """The facts for programs, with the first line of the text."""
        facts = self.facts()
        head = {key: facts.pop(key) for key in ("apiVersion", "kind")}
        return {**head, "answer": self.text().partition("\n")[0], **facts}


def explained(
    session: ClusterSession, name: str, namespace: str | None, now: datetime, *, node: str | None, preempt: bool
) -> Explanation:
    """Explain what is called NAME, NAMESPACE/NAME or KIND/NAME; on one `node` alone,
    or with the victims of a preemption.
    """
    workload = find_workload(session, name, namespace)
    if workload is not None and preempt:
        raise click.UsageError("--preempt asks about one pod or gang; name a pod of the workload")
    if workload is not None:
        return _workload(session, workload, node, now)
    member = find_member(session, name, namespace)
    gang = find_gang(session, name, namespace) if member is None else None
    if (gang or member) is not None and node is not None:
        raise click.UsageError("--node asks about one pod, and this is a gang")
    if member is not None:
        outcome = outcome_of_gang_with(session, member, now)
        return _gang(outcome, _for_gang(session, outcome, now, wanted=preempt))
    if gang is not None:
        outcome = outcome_of(session, gang, now)
        return _gang(outcome, _for_gang(session, outcome, now, wanted=preempt))
    pod = find_pod(session, name, namespace)
    return _pod(session, pod, now, preempt=preempt) if node is None else _on_one_node(session, pod, node)


def _pod(session: ClusterSession, pod: Pod, now: datetime, *, preempt: bool) -> Explanation:
    shown = view_of(session, pod, now)
    view = None
    if preempt and not shown.good:
        gang = shown.gang
        view = preemption_for_pod(session, pod, now) if gang is None else preemption_for_gang(session, gang, now)
    return Explanation(
        shown.good,
        lambda: _with_lines(pod_text(shown), view),
        lambda: _with_document(pod_document(shown), view),
        [shown.gang] if shown.gang is not None else (),
    )


def _workload(session: ClusterSession, plan: WorkloadPlan, node: str | None, now: datetime) -> Explanation:
    if node is not None:
        return _on_one_node(session, plan.example, node)
    gangs, workload = outcome_of_workload(session, plan, now)
    good = not workload.suspended and workload.good and all(gang.good for gang in gangs)
    return Explanation(good, lambda: explanation_text(gangs, workload), lambda: explanation(gangs, workload), gangs)


def _for_gang(session: ClusterSession, outcome: GangOutcome, now: datetime, *, wanted: bool) -> PreemptionView | None:
    return preemption_for_gang(session, outcome, now) if wanted and not outcome.good else None


def _gang(outcome: GangOutcome, view: PreemptionView | None) -> Explanation:
    return Explanation(
        outcome.good,
        lambda: _with_lines(gang_text(outcome, pending_for(outcome.waiting_seconds)), view),
        lambda: _with_document(gang_explanation(outcome), view),
        [outcome],
    )


def _with_lines(text: str, view: PreemptionView | None) -> str:
    return text if view is None else with_plan(text, view)


def _with_document(document: Document, view: PreemptionView | None) -> Document:
    return document if view is None else {**document, "preemption": preemption_document(view)}


def _on_one_node(session: ClusterSession, pod: Pod, node: str) -> Explanation:
    state, profile, row = session.state, session.profile_for(pod), session.row_of(node)
    asked = unbound(pod)
    pod_class = state.classes.of(asked)
    answer = answer_for(state, asked, pod_class, profile, ClassAnswers(state))
    verdict = verdict_on(state, pod_class, profile, answer, row, incoming_pod(state, asked, pod_class))
    return Explanation(
        verdict.fits,
        lambda: node_answer_text(state, pod_key(pod), verdict),
        lambda: node_answer_document(state, pod_key(pod), verdict),
    )
