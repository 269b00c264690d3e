"""The gang of a pod: the entry point of this room.

    outcome = group_for(pod, owners, settings, answers, workloads)

Owners are decoded objects, the nearest first. The outcome is a `Grouping`: the PodGroup that should exist and the pod's
place in it, or that the pod stands alone, or why it waits. If another object is needed, the outcome is a `Lookup`
(`grouping.py`). The same input always gives the same outcome.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Literal

import msgspec

from bayplan.dialects.dialect import OWN
from bayplan.dialects.kai.pod_group import SKIP_POD_GROUPER
from bayplan.dialects.kubernetes import pod_group as upstream
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.registry import dialects
from bayplan.extensions import GROUPING, compat
from bayplan.gangs.ranks.ranks import RANK
from bayplan.grouping import grove
from bayplan.grouping.annotations import GANG, AnnotationReader, asks, meant_for_pods
from bayplan.grouping.exclusive import exclusive_source, level_of_groups
from bayplan.grouping.grouping import (
    Answers,
    AskedIn,
    Grouping,
    InvalidGrouping,
    InvalidValue,
    Lookup,
    Unanswered,
)
from bayplan.grouping.job_set import without_ended
from bayplan.grouping.kinds import KNOWN, spark_application, spark_workload
from bayplan.grouping.kubernetes_workload import is_asked_for, with_templates
from bayplan.grouping.one_scheduler import of_other_schedulers
from bayplan.grouping.podgroup import WorkloadRequest, asked_of, in_vain, manifest_of, place_of, pod_group, with_minimum
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    annotations_of,
    labels_of,
    look_up,
    managing,
    metadata_of,
    raw_pod,
)
from bayplan.grouping.rules import ASKED, Rule, Rules, rules_by_kind
from bayplan.grouping.workload import (
    ITS_PODS,
    OwningWorkload,
    RoleSpec,
    gang_rule,
    group_name,
    index_of,
    part_of,
    workload_of,
)
from bayplan.kube.errors import field_and_problem
from bayplan.kube.topology_levels import same_level
from bayplan.kube.wire.core_v1 import Pod

Mode = Literal["bayplan", "kai"]

# Pods of these kinds are never a gang.
NEVER = {("apps", "DaemonSet"), ("", "Node")}
# Leaves room for the workload's name and uid.
LONGEST_SUFFIX = 32
HASH_SHOWN = 6


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """The settings of KAI's pod grouper with their defaults.

    `defaults_namespace` and `defaults_name` name a ConfigMap with priority class and preemptibility per kind; empty for
    none.
    """

    queue_label: str = "kai.scheduler/queue"
    node_pool_label: str = "kai.scheduler/node-pool"
    search_for_legacy_groups: bool = False
    gangs_of_knative: bool = False
    defaults_namespace: str = ""
    defaults_name: str = ""


@dataclass(frozen=True, slots=True)
class GroupingSettings:
    """The mode of grouping, the rules for kinds, and the schedulers."""

    mode: Mode = "bayplan"
    rules: Rules = field(default_factory=lambda: KNOWN)
    kai: KaiSettings = field(default_factory=KaiSettings)
    # Only pods of these schedulers are grouped.
    scheduler_names: frozenset[str] = frozenset()


def settings_with(rules: Sequence[Rule], mode: Mode = "bayplan", kai: KaiSettings | None = None) -> GroupingSettings:
    """Settings with a user's own rules, which come before bayplan's."""
    return GroupingSettings(mode, KNOWN | rules_by_kind(rules), kai or KaiSettings())


def with_rules(settings: GroupingSettings, rules: Sequence[Rule]) -> GroupingSettings:
    """The same settings with further rules, which come first."""
    return replace(settings, rules=settings.rules | rules_by_kind(rules))


class _Request:
    """What the owners of a pod ask for, and the PodGroups made of that."""

    def __init__(self, owners: Sequence[RawObject], workload: OwningWorkload, asked: WorkloadRequest) -> None:
        self.owners = owners
        self.workload = workload
        self.asked = asked
        self._groups: dict[tuple[str, str], tuple[str, RawObject]] = {}
        self._others: dict[tuple[str, str], tuple[InvalidValue, ...]] = {}

    @cached_property
    def remarks(self) -> tuple[InvalidValue, ...]:
        return tuple(in_vain(self.workload, self.asked))

    @cached_property
    def asked_in(self) -> AskedIn:
        """The annotation behind each field and value of the PodGroup."""
        found = {key: source.seen_from(self.workload.about) for key, source in self.asked.sources.items()}
        level, where = exclusive_source(self.workload)
        return {**found, ("required", level): where} if level else found

    def of_other_schedulers(self, part: RoleSpec, pod: RawObject, ours: frozenset[str]) -> tuple[InvalidValue, ...]:
        key = part.name, str(look_up(pod, ("spec", "schedulerName")))
        if key not in self._others:
            self._others[key] = tuple(of_other_schedulers(self.workload, part, pod, ours))
        return self._others[key]

    def group(self, namespace: str, suffix: str) -> tuple[str, RawObject]:
        """The name of a PodGroup and its manifest."""
        if (namespace, suffix) not in self._groups:
            wanted = pod_group(self.workload, self.asked, namespace, suffix)
            self._groups[namespace, suffix] = wanted.metadata.name, manifest_of(wanted)
        return self._groups[namespace, suffix]


# By the namespace of the pods and the identities of their owners, which the request keeps alive.
KnownRequests = dict[tuple[str, tuple[int, ...]], _Request]


def group_for(
    pod: Pod | RawObject,
    owners: Sequence[RawObject],
    settings: GroupingSettings | None = None,
    answers: Answers | None = None,
    workloads: KubernetesWorkloads | None = None,
    known: KnownRequests | None = None,
) -> Grouping | Lookup:
    """The gang of a pod, or the question that must be answered first.

    `known` saves work for many pods of the same owners, as long as nothing but the pod changes from call to call.
    """
    settings = settings or GroupingSettings()
    answers = {} if answers is None else answers
    workloads = workloads or KubernetesWorkloads()
    known = {} if known is None else known
    member = raw_pod(pod)
    if any(annotations_of(each).get(SKIP_POD_GROUPER) == "true" for each in (member, *owners)):
        return Grouping()
    try:
        if settings.mode != OWN:
            grouping: Grouping = compat(GROUPING, settings.mode)(member, owners, settings.kai, answers)
            return grouping
        named = named_by_others(pod)
        if named and (settled_by_others(pod) or not _ask(owners)):
            return Grouping()
        if named and not is_asked_for(owners, _home(member), workloads):
            return Grouping(problems=(_not_merged(member, owners),))
        return _judged(member, owners, settings, answers, workloads, known)
    except Unanswered as unanswered:
        return unanswered.question
    except InvalidGrouping as refused:
        return Grouping(problems=(refused.problem,))


def may_have_group(pod: Pod) -> bool:
    """True if the pod grouper must see a pod before it is placed: it has owners and has not been grouped."""
    if POD_GROUP in (pod.metadata.labels or {}) or settled_by_others(pod):
        return False
    member = raw_pod(pod)
    if grove.gang_name(member) or spark_application(member):
        return True
    nearest = managing(metadata_of(member).get("ownerReferences") or [])
    if nearest is None:
        return False
    group = str(nearest.get("apiVersion") or "").rpartition("/")[0]
    return (group, nearest.get("kind")) not in NEVER


def asks_by_itself(pod: Pod) -> bool:
    """True if a pod without owners has gang annotations: it stands alone, but errors in them are reported."""
    return not pod.metadata.owner_references and asks(pod.metadata.annotations or {})


def named_by_others(pod: Pod | RawObject) -> bool:
    """True if a pod names its group in another system's terms; no pod is grouped twice."""
    try:
        wire = pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise InvalidGrouping(InvalidValue(Reference.of(raw_pod(pod)), field, None, problem)) from None
    return any(dialect.group_named(wire) for dialect in dialects() if dialect.name != OWN)


def settled_by_others(pod: Pod | RawObject) -> bool:
    """True if a pod names its group in another system's terms, and what its owners ask for cannot change that.

    Kubernetes' Job controller names the PodGroup that it made. Annotations of the Job are merged with the Workload.
    """
    if not named_by_others(pod):
        return False
    wire = pod if isinstance(pod, Pod) else msgspec.convert(pod, Pod)
    named = [dialect.name for dialect in dialects() if dialect.name != OWN and dialect.group_named(wire)]
    return named != [upstream.DIALECT.name] or not wire.metadata.owner_references


def _ask(owners: Sequence[RawObject]) -> bool:
    return any(asks(annotations_of(owner)) for owner in owners)


def _not_merged(pod: RawObject, owners: Sequence[RawObject]) -> InvalidValue:
    """Annotations that cannot be merged: it is unknown what the pods' PodGroup was made from."""
    asking = next(owner for owner in owners if asks(annotations_of(owner)))
    named = upstream.group_named(msgspec.convert(pod, Pod))
    allowed = (
        f"ask for a gang, but its pods name the PodGroup {named} of Kubernetes, and no Workload "
        f"about {Reference.of(asking)} is"
        " known to merge them with; ask for the level in that PodGroup, or remove the annotations"
    )
    return InvalidValue(Reference.of(asking), "metadata.annotations", None, allowed)


def _judged(
    pod: RawObject,
    owners: Sequence[RawObject],
    settings: GroupingSettings,
    answers: Answers,
    workloads: KubernetesWorkloads,
    known: KnownRequests,
) -> Grouping:
    rules, names = settings.rules, settings.scheduler_names
    if grove.gang_name(pod):
        return _unless_named_otherwise(pod, grove.grouping_of(pod, owners, answers))
    if spark_application(pod):
        return _gang(pod, _request(pod, owners, spark_workload(pod, owners), workloads), names)
    if not owners:
        return Grouping(problems=_remarks(pod))
    key = _home(pod), tuple(map(id, owners))
    if key in known:
        return _gang(pod, known[key], names)
    if any((Reference.of(each).group, Reference.of(each).kind) in NEVER for each in owners):
        return Grouping()
    owners_ask = gang_rule(owners, rules).gang != ASKED or _ask(owners) or is_asked_for(owners, _home(pod), workloads)
    if not owners_ask and not asks(annotations_of(pod)):
        # Before anything is counted: unused fields may have any content.
        told = (meant_for_pods(Reference.of(owner), annotations_of(owner)) for owner in owners)
        return Grouping(problems=tuple(chain.from_iterable(told)))
    request = _request(pod, owners, without_ended(workload_of(owners, rules), rules, answers), workloads)
    # Parts without a template are described by the pod itself.
    if owners_ask and all(part.role.template for part in request.workload.parts):
        known[key] = request
    return _gang(pod, request, names)


def _remarks(pod: RawObject) -> tuple[InvalidValue, ...]:
    """Errors in the annotations of a pod without owners. They never hold it back: a single pod is in one domain."""
    reader = AnnotationReader()
    reader.read(Reference.of(pod), annotations_of(pod))
    return tuple(replace(problem, holds=False) for problem in reader.problems)


def _home(pod: RawObject) -> str:
    return Reference.of(pod).namespace or "default"


def _request(
    pod: RawObject, owners: Sequence[RawObject], workload: OwningWorkload, workloads: KubernetesWorkloads
) -> _Request:
    workload, asked = with_templates(workload, asked_of(workload, pod), owners, _home(pod), workloads)
    workload, asked = with_minimum(workload, asked)
    level = level_of_groups(workload)
    if level:
        if asked.within and not same_level(asked.within, level):
            allowed = f"is a third level beside {asked.whole.required} and {asked.within}; pods can share two"
            raise InvalidGrouping(InvalidValue(workload.about, "metadata.annotations", level, allowed))
        workload, asked = replace(workload, staged=True), replace(asked, within=level)
    return _Request(owners, workload, asked)


def _gang(pod: RawObject, request: _Request, scheduler_names: frozenset[str]) -> Grouping:
    """The gang of a workload, if it is one."""
    workload, asked = request.workload, request.asked
    if asked.gang is False or (asked.gang is None and workload.rule.gang == ASKED):
        return Grouping(problems=tuple(replace(problem, holds=False) for problem in asked.problems))
    if any(problem.holds for problem in asked.problems):
        return Grouping(owner=workload.about, problems=asked.problems)
    about = Reference.of(pod)
    part = part_of(workload, pod)
    others = request.of_other_schedulers(part, pod, scheduler_names)
    problems = (*asked.problems, *others, *request.remarks)
    if any(problem.holds for problem in problems):
        return Grouping(owner=workload.about, problems=problems)
    index = index_of(workload, part, pod)
    place = place_of(workload, asked, part, index)
    namespace = about.namespace or workload.about.namespace
    name, manifest = request.group(namespace, _which(workload, pod))
    rank = index if index is None or workload.rule.ranks_of_whole else part.first_rank + index
    labels = {POD_GROUP: name}
    if place:
        labels[GROUP] = place
    # An existing rank stays: the user wins over the controller.
    given = labels_of(pod).get(RANK)
    if given is not None or rank is not None:
        labels[RANK] = str(rank) if given is None else given
    return _unless_named_otherwise(
        pod,
        Grouping(
            name=name,
            manifest=manifest,
            owner=workload.about,
            group=place,
            rank=rank,
            labels=labels,
            problems=problems,
            asked_in=request.asked_in,
        ),
    )


def _which(workload: OwningWorkload, pod: RawObject) -> str:
    """The gang of a pod whose workload has several."""
    key = workload.rule.one_gang_per
    if not key:
        return ""
    value = labels_of(pod).get(key, "")
    if not value:
        allowed = f"{key} is missing: which gang is a pod in?"
        raise InvalidGrouping(InvalidValue(workload.about, f"{ITS_PODS}metadata.labels", None, allowed))
    return _as_name(value)


def _as_name(value: str) -> str:
    """A label's value as the end of a PodGroup's name, with a hash if it is not valid there."""
    name = group_name(value)
    if name == value and len(name) <= LONGEST_SUFFIX:
        return name
    told_apart = hashlib.sha256(value.encode()).hexdigest()[:HASH_SHOWN]
    return f"{name[: LONGEST_SUFFIX - HASH_SHOWN - 1]}-{told_apart}".lstrip("-")


def _unless_named_otherwise(pod: RawObject, grouping: Grouping) -> Grouping:
    """Respect a pod that names another of bayplan's PodGroups: that is deliberate."""
    named = labels_of(pod).get(POD_GROUP, grouping.name)
    return grouping if named == grouping.name else Grouping()


# -- pods that wait for the pod grouper -------------------------------------------------------------------------------


GROUPED = "bayplan.io/grouped"
ALONE = "alone"


def awaits_look(pod: Pod) -> bool:
    """True if a pod can belong to a gang, and no pod grouper has marked it yet."""
    return (pod.metadata.annotations or {}).get(GROUPED) != ALONE and may_have_group(pod)


def asks_for_group(pod: Pod) -> bool:
    """True if an owned pod requests a gang by its own annotations, and names none yet."""
    annotations = pod.metadata.annotations or {}
    return asks(annotations) and annotations.get(GANG) != "false" and may_have_group(pod)
