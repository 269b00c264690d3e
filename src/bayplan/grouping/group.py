"""Which gang a pod belongs to: the way in to this folder.

    outcome = group_for(pod, owners, settings, answers, workloads)

In come a pod, its owners as the API server has them (the nearest first, the top owner last), the settings and Kubernetes' Workloads; out comes a `Grouping`: the PodGroup that
should exist and the pod's place in it, or that the pod stands alone, or what is wrong and keeps it waiting. Where one more object must be known, a
`Question` comes out instead (`grouping/questions.py`). The same pod and owners give the same outcome always.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from bayplan.dialects.dialect import OWN
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.registry import dialects
from bayplan.extensions import GROUPING, compat
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping import grove, loose_pods
from bayplan.grouping.annotations import WishReader, asks
from bayplan.grouping.grouping import Grouping, Problem, Refused
from bayplan.grouping.job_set import without_ended
from bayplan.grouping.kinds import KNOWN
from bayplan.grouping.kubernetes_workload import is_asked_for, with_templates
from bayplan.grouping.one_scheduler import of_other_schedulers
from bayplan.grouping.podgroup import asked_of, in_vain, manifest_of, place_of, pod_group
from bayplan.grouping.questions import Answers, Question, Unanswered
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    annotations_of,
    labels_of,
    managing,
    metadata_of,
    raw_pod,
)
from bayplan.grouping.rules import ASKED, Rule, Rules, rules_by_kind
from bayplan.grouping.workload import (
    ITS_PODS,
    Workload,
    gang_rule,
    group_name,
    index_of,
    part_of,
    workload_of,
)
from bayplan.kube.errors import field_and_problem
from bayplan.kube.wire.core_v1 import Pod

Mode = Literal["bayplan", "kai"]

# Pods of these are everywhere or nowhere: nothing about them is a gang.
NEVER = {("apps", "DaemonSet"), ("", "Node")}
# What tells the gangs of one workload apart leaves room for the workload's name and uid.
LONGEST_SUFFIX = 32
HASH_SHOWN = 6


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """What KAI's pod grouper can be told, with its defaults; for the mode that follows it.

    `defaults_namespace` and `defaults_name` lead to a ConfigMap with priority class and preemptibility per kind; empty if there is none.
    """

    queue_label: str = "kai.scheduler/queue"
    node_pool_label: str = "kai.scheduler/node-pool"
    search_for_legacy_groups: bool = False
    gangs_of_knative: bool = False
    defaults_namespace: str = ""
    defaults_name: str = ""


@dataclass(frozen=True, slots=True)
class GroupingSettings:
    """Whose way of grouping is followed, and what is known about kinds and schedulers."""

    mode: Mode = "bayplan"
    rules: Rules = field(default_factory=lambda: KNOWN)
    kai: KaiSettings = field(default_factory=KaiSettings)
    # Whose pods are grouped; pods of other schedulers never come.
    scheduler_names: frozenset[str] = frozenset()


def settings_with(rules: Sequence[Rule], mode: Mode = "bayplan", kai: KaiSettings | None = None) -> GroupingSettings:
    """Settings with rules of a user's own, which count before those that bayplan has."""
    return GroupingSettings(mode, KNOWN | rules_by_kind(rules), kai or KaiSettings())


def with_rules(settings: GroupingSettings, rules: Sequence[Rule]) -> GroupingSettings:
    """The same settings with further rules, which count before those that are there."""
    return replace(settings, rules=settings.rules | rules_by_kind(rules))


def group_for(
    pod: Pod | RawObject,
    owners: Sequence[RawObject],
    settings: GroupingSettings | None = None,
    answers: Answers | None = None,
    workloads: KubernetesWorkloads | None = None,
) -> Grouping | Question:
    """The gang of a pod, or the question that must be answered first."""
    settings = settings or GroupingSettings()
    answers = {} if answers is None else answers
    workloads = workloads or KubernetesWorkloads()
    member = raw_pod(pod)
    try:
        if settings.mode != OWN:
            grouping: Grouping = compat(GROUPING, settings.mode)(member, owners, settings.kai, answers)
            return grouping
        if named_by_others(pod):
            return Grouping()
        return _judged(member, owners, settings, answers, workloads)
    except Unanswered as unanswered:
        return unanswered.question
    except Refused as refused:
        return Grouping(problems=(refused.problem,))


def may_have_group(pod: Pod) -> bool:
    """Whether the pod grouper must look at a pod before it is placed: it has owners and has not been grouped yet."""
    member = raw_pod(pod)
    if POD_GROUP in labels_of(member) or named_by_others(pod):
        return False
    if grove.gang_name(member) or loose_pods.spark_application(member):
        return True
    nearest = managing(metadata_of(member).get("ownerReferences") or [])
    if nearest is None:
        return False
    group = str(nearest.get("apiVersion") or "").rpartition("/")[0]
    return (group, nearest.get("kind")) not in NEVER


def asks_by_itself(pod: Pod) -> bool:
    """Whether a pod without owners has gang annotations: it stands alone regardless, but errors in them are reported."""
    return not pod.metadata.owner_references and asks(pod.metadata.annotations or {})


def named_by_others(pod: Pod | RawObject) -> bool:
    """Whether a pod names its group in another system's terms; those are used as they are, and no pod is grouped twice."""
    try:
        wire = pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise Refused(Problem(Reference.of(raw_pod(pod)), field, None, problem)) from None
    return any(dialect.group_named(wire) for dialect in dialects() if dialect.name != OWN)


def _judged(
    pod: RawObject,
    owners: Sequence[RawObject],
    settings: GroupingSettings,
    answers: Answers,
    workloads: KubernetesWorkloads,
) -> Grouping:
    rules, names = settings.rules, settings.scheduler_names
    if grove.gang_name(pod):
        return _unless_named_otherwise(pod, grove.grouping_of(pod, owners, answers))
    if loose_pods.spark_application(pod):
        return _gang(pod, owners, loose_pods.spark_workload(pod, owners), workloads, names)
    if not owners:
        return Grouping(problems=_remarks(pod))
    if any((Reference.of(each).group, Reference.of(each).kind) in NEVER for each in owners):
        return Grouping()
    is_asked = any(asks(annotations_of(thing)) for thing in (pod, *owners))
    if gang_rule(owners, rules).gang == ASKED and not is_asked and not is_asked_for(owners, _home(pod), workloads):
        return Grouping()  # before anything is counted: unused fields may have any content
    return _gang(pod, owners, without_ended(workload_of(owners, rules), rules, answers), workloads, names)


def _remarks(pod: RawObject) -> tuple[Problem, ...]:
    """Errors in the annotations of a pod without owners. A single pod is in one domain of any level, so nothing holds it."""
    reader = WishReader()
    reader.read(Reference.of(pod), annotations_of(pod))
    return tuple(replace(problem, holds=False) for problem in reader.problems)


def _home(pod: RawObject) -> str:
    return Reference.of(pod).namespace or "default"


def _gang(
    pod: RawObject,
    owners: Sequence[RawObject],
    workload: Workload,
    workloads: KubernetesWorkloads,
    scheduler_names: frozenset[str],
) -> Grouping:
    """The gang of a workload, if it is one."""
    workload, asked = with_templates(workload, asked_of(workload, pod), owners, _home(pod), workloads)
    if asked.gang is False or (asked.gang is None and workload.rule.gang == ASKED):
        return Grouping(problems=tuple(replace(problem, holds=False) for problem in asked.problems))
    if any(problem.holds for problem in asked.problems):
        return Grouping(owner=workload.about, problems=asked.problems)
    about = Reference.of(pod)
    part = part_of(workload, pod)
    others = of_other_schedulers(workload, part, pod, scheduler_names)
    problems = (*asked.problems, *others, *in_vain(workload, asked))
    if any(problem.holds for problem in problems):
        return Grouping(owner=workload.about, problems=problems)
    index = index_of(workload, part, pod)
    place = place_of(workload, asked, part, index)
    namespace = about.namespace or workload.about.namespace
    wanted = pod_group(workload, asked, namespace, _which(workload, pod))
    rank = index if index is None or workload.rule.ranks_of_whole else part.first_rank + index
    labels = {POD_GROUP: wanted.metadata.name}
    if place:
        labels[GROUP] = place
    # A rank that is there already stays: it is the user's, who goes before the controller.
    given = labels_of(pod).get(RANK)
    if given is not None or rank is not None:
        labels[RANK] = str(rank) if given is None else given
    return _unless_named_otherwise(
        pod,
        Grouping(
            name=wanted.metadata.name,
            manifest=manifest_of(wanted),
            owner=workload.about,
            group=place,
            rank=rank,
            labels=labels,
            problems=problems,
            asked_in={key: source.seen_from(workload.about) for key, source in asked.sources.items()},
        ),
    )


def _which(workload: Workload, pod: RawObject) -> str:
    """Which of a workload's gangs a pod is in, where it has several."""
    key = workload.rule.one_gang_per
    if not key:
        return ""
    value = labels_of(pod).get(key, "")
    if not value:
        allowed = f"{key} is missing: which gang is a pod in?"
        raise Refused(Problem(workload.about, f"{ITS_PODS}metadata.labels", None, allowed))
    return _as_name(value)


def _as_name(value: str) -> str:
    """A label's value as the end of a PodGroup's name: itself if it may be one, else with a hash, so that no two values share a name."""
    name = group_name(value)
    if name == value and len(name) <= LONGEST_SUFFIX:
        return name
    told_apart = hashlib.sha256(value.encode()).hexdigest()[:HASH_SHOWN]
    return f"{name[: LONGEST_SUFFIX - HASH_SHOWN - 1]}-{told_apart}".lstrip("-")


def _unless_named_otherwise(pod: RawObject, grouping: Grouping) -> Grouping:
    """Respect a pod that names another of bayplan's PodGroups: it was put there deliberately."""
    named = labels_of(pod).get(POD_GROUP, grouping.name)
    return grouping if named == grouping.name else Grouping()
