"""Decide about everything that waits: gangs as gangs, then the pods that stand alone.

What `snapshot` records and `replay` does again.

A gang that is wrong in itself is a decision too, and no error, and a pod that is wrong in itself is left out: the next
one must not suffer from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bayplan.cli.shared.gang_objects import gang_of_key, pod_groups
from bayplan.cli.shared.gangs import GangPlacer, outcome_of_invalid
from bayplan.cli.shared.group_trees import GroupTrees
from bayplan.cli.shared.output import working
from bayplan.cli.shared.placing import place_in_turn
from bayplan.cli.shared.session import ClusterSession
from bayplan.dialects.registry import gang_named, key_of
from bayplan.explain.documents import Document, outcome_document
from bayplan.explain.gangs.document import gang_document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers

RANKED = 5


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to decide: gangs by their keys, and pods that stand alone.

    `invalid` are pods that stand alone and that no node can be found for, because of an error in them.
    """

    gangs: Sequence[str]
    pods: Sequence[Pod]
    invalid: Sequence[InvalidPod] = ()


@dataclass(frozen=True, slots=True)
class InvalidPod:
    """A pod that an API server accepts and bayplan cannot read, and why."""

    pod: Pod
    error: InvalidObject


def work_of(session: ClusterSession, pods: Sequence[Pod], planned: Sequence[str] = ()) -> Work:
    """The units of pending pods; `planned` adds gangs whose pods need not exist yet."""
    groups = GroupTrees(pod_groups(session.objects))
    named = {key: None for pod in pods if (key := groups.gang_of(pod))}
    gangs = named | dict.fromkeys(groups.outermost(key) for key in planned)
    valid: list[Pod] = []
    invalid: list[InvalidPod] = []
    for pod in pods:
        if not gang_named(pod):
            try:
                session.state.classes.of(pod)
            except InvalidObject as error:
                invalid.append(InvalidPod(pod, error))
            else:
                valid.append(pod)
    return Work(list(gangs), valid, invalid)


def decide_all(session: ClusterSession, work: Work, now: datetime) -> list[Document]:
    """Decide one after another, each seeing what the earlier ones took; as `place -o json` writes it."""
    answers = ClassAnswers(session.state)
    placer = GangPlacer(session, answers, advice=False)
    members = members_of(session, work.gangs)
    with working("placing gangs"):
        gangs = [decide_gang(session, placer, key, members[key], now) for key in work.gangs]
    pods = place_in_turn(session, work.pods, RANKED, answers)
    return [*map(gang_document, gangs), *map(outcome_document, pods)]


def has_patience(session: ClusterSession, work: Work) -> bool:
    """Whether what is decided depends on the moment."""
    return any(
        isinstance(written, PodGroup) and written.spec.patience is not None and key_of(written) in work.gangs
        for written in pod_groups(session.objects)
    )


def members_of(session: ClusterSession, gangs: Sequence[str]) -> dict[str, list[Pod]]:
    """By the key of each gang its members among the cluster's pods."""
    members: dict[str, list[Pod]] = {key: [] for key in gangs}
    groups = GroupTrees(pod_groups(session.objects))
    for pod in session.objects.pods:
        if (key := groups.gang_of(pod)) in members:
            members[key].append(pod)
    return members


def decide_gang(
    session: ClusterSession, placer: GangPlacer, key: str, members: Sequence[Pod], now: datetime
) -> GangOutcome:
    """Decide about one gang, which takes its seats; one that is wrong in itself has no place for that reason."""
    try:
        gang, written = gang_of_key(session, key, members)
        return placer.place(gang, now, written)
    except InvalidObject as error:
        return outcome_of_invalid(session, key, error)
