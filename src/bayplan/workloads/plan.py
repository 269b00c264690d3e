"""From a workload to its pods and gangs: the entry point of this room.

    plan = plan_of(workload, around, settings, cluster)

A decoded object and what exists beside it come in. A `WorkloadPlan` goes out: each pod that the controller wants, the
existing one if there is one, with the pod grouper's labels, and the PodGroups. Invalid values raise `InvalidObject`
with the field in the workload, such as `spec.template.spec.containers[0].resources.limits.cpu`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import msgspec

from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.dialects.own.members import POD_GROUP
from bayplan.grouping.group import GroupingSettings, KnownRequests, group_for, settled_by_others
from bayplan.grouping.grouping import AskedIn, Grouping, InvalidValue, Lookup
from bayplan.grouping.raw import RawObject, Reference, WrongValue, metadata_of
from bayplan.kube.errors import NAMELESS, InvalidObject, ObjectPath, field_and_problem
from bayplan.kube.manifest_limits import count_pods, most_pods_of
from bayplan.kube.priority_classes import PriorityClasses
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Container, Metadata, OwnerReference, Pod, PodSpec, ResourceRequirements
from bayplan.workloads.existing import OwnerIndex, matched, owner_of, pods_of
from bayplan.workloads.kinds import WorkloadKind, kind_of
from bayplan.workloads.planned import Around, PlannedPod, generated, is_true


@dataclass(frozen=True, slots=True)
class Beside:
    """What exists beside a workload: pods, their owners, and Kubernetes' Workloads."""

    pods: Sequence[Pod] = ()
    owners: OwnerIndex = field(default_factory=OwnerIndex)
    workloads: KubernetesWorkloads = field(default_factory=KubernetesWorkloads)


@dataclass(frozen=True, slots=True)
class PlannedMember:
    """One pod of a workload: an existing one, or one that `is_new`; `where` is its template's field."""

    pod: Pod
    is_new: bool
    where: str


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload with all its pods and gangs.

    `asked_in` has the annotations behind each PodGroup, by its name, and `suspended` the field that keeps the workload
    from having pods.
    """

    about: Reference
    kind: WorkloadKind
    members: tuple[PlannedMember, ...]
    gangs: tuple[PodGroup, ...] = ()
    remarks: tuple[str, ...] = ()
    asked_in: Mapping[str, AskedIn] = field(default_factory=dict)
    suspended: str = ""

    @property
    def name(self) -> str:
        """`ml/web`."""
        return f"{self.about.namespace}/{self.about.name}"

    @property
    def example(self) -> Pod:
        """One of its pods, preferably without a node. Raises `InvalidObject` if it has none."""
        if not self.members:
            raise InvalidObject(ObjectPath(str(self.about)), "has no pods")
        waiting = (member.pod for member in self.members if not member.pod.spec.node_name)
        return next(waiting, self.members[0].pod)


def admitted(plan: WorkloadPlan, classes: PriorityClasses) -> WorkloadPlan:
    """The plan whose new pods have the priorities that admission would give them."""
    members = (replace(each, pod=classes.admitted(each.pod)) if each.is_new else each for each in plan.members)
    return replace(plan, members=tuple(members))


def with_names(thing: RawObject, namespace: str) -> RawObject:
    """The object with a name and a namespace, as `kubectl create` would set them."""
    metadata = metadata_of(thing)
    prefix = metadata.get("generateName")
    name = metadata.get("name") or (generated(prefix) if isinstance(prefix, str) and prefix else "")
    if not name or not isinstance(name, str):
        at = ObjectPath(str(Reference.of(thing))).child("metadata.name")
        raise InvalidObject(at, NAMELESS)
    return {**thing, "metadata": {**metadata, "name": name, "namespace": metadata.get("namespace") or namespace}}


def plan_of(thing: RawObject, around: Around, settings: GroupingSettings, beside: Beside | None = None) -> WorkloadPlan:
    """The pods and gangs of a named workload of a known kind."""
    beside = beside or Beside()
    thing = _as_it_exists(thing, beside.owners)
    about = Reference.of(thing)
    kind = kind_of(about, around.rules)
    if kind is None:
        raise InvalidObject(ObjectPath(str(about)).child("kind"), f'"{about.kind}" has no rule')
    counted_as = replace(about, uid="")
    try:
        planned = list(islice(kind.make(thing, around), most_pods_of(counted_as) + 1))
        stops = bool(kind.stopped) and is_true(thing, kind.stopped)
    except WrongValue as wrong:
        raise InvalidValue(about, wrong.field, wrong.value, wrong.allowed).as_error() from None
    count_pods(counted_as, ObjectPath(str(about)).child("spec"), len(planned), at_least=True)
    made = _pods(about, planned)
    existing = pods_of(about, planned, beside.pods, beside.owners)
    rule = settings.rules.get((about.group, about.kind))
    told_apart_by = [] if rule is None else [*rule.role_label, *(rank.label for rank in rule.rank)]
    slots = matched(made, existing, told_apart_by)
    members, gangs, problems, asked_in = _grouped(thing, planned, made, slots, settings, beside)
    remarks = [str(problem) for problem in problems]
    older = sum(each is not None and _is_of_another_template(each, pod) for each, pod in zip(slots, made, strict=True))
    if older:
        those = "1 pod exists" if older == 1 else f"{older} pods exist"
        remarks.append(
            f"{about}: {those} with other requests than its template; a rollout would replace them, and is not planned"
        )
    return WorkloadPlan(about, kind, members, gangs, tuple(remarks), asked_in, kind.stopped if stops else "")


def _is_of_another_template(existing: Pod, made: Pod) -> bool:
    """True if a rollout would replace an existing pod, by its containers; additions by admission do not count."""
    there = {container.name: container for container in existing.spec.containers or ()}
    return any(_asks_otherwise(there.get(each.name), each) for each in made.spec.containers or ())


def _asks_otherwise(existing: Container | None, made: Container) -> bool:
    if existing is None:
        return True
    has, wants = existing.resources or ResourceRequirements(), made.resources or ResourceRequirements()
    pairs = ((has.requests, wants.requests), (has.limits, wants.limits))
    return any(
        _amount((own or {}).get(name)) != _amount(amount)
        for own, told in pairs
        for name, amount in (told or {}).items()
    )


def _amount(written: str | float | None) -> object:
    """An amount in comparable form."""
    try:
        return None if written is None else parse(written).milli()
    except QuantityError:
        return written


def _as_it_exists(thing: RawObject, owners: OwnerIndex) -> RawObject:
    """A manifest with the uid and status of the existing object."""
    known = owners.named(Reference.of(thing))
    if known is None or known is thing or Reference.of(thing).uid:
        return thing
    metadata = {**metadata_of(thing), "uid": Reference.of(known).uid}
    return {**thing, "metadata": metadata, "status": known.get("status") or {}}


# -- pods ----------------------------------------------------------------------------------------------------------


def _pods(about: Reference, planned: Iterable[PlannedPod]) -> list[Pod]:
    """Planned pods as wire structs; those of one template share their spec."""
    specs: dict[int, PodSpec] = {}
    classes = PodClasses()
    found = []
    for each in planned:
        known = specs.get(id(each.spec))
        spec = known or specs.setdefault(id(each.spec), _spec(about, each))
        pod = Pod(metadata=_metadata(about, each), spec=spec)
        if known is None:
            _check(about, each, pod, classes)
        found.append(pod)
    return found


def _spec(about: Reference, planned: PlannedPod) -> PodSpec:
    try:
        spec = msgspec.convert(planned.spec, PodSpec)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        at = ObjectPath(str(about)).child(f"{planned.where}.spec")
        raise InvalidObject(at.child(field) if field else at, problem.replace("`", "")) from None
    if not spec.containers:
        at = ObjectPath(str(about)).child(f"{planned.where}.spec.containers")
        raise InvalidObject(at, "is empty: a pod needs at least one container")
    return spec


def _metadata(about: Reference, planned: PlannedPod) -> Metadata:
    owner = Reference.of(planned.owners[0])
    reference = OwnerReference(
        api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid, controller=True
    )
    return Metadata(
        name=planned.name,
        namespace=about.namespace,
        labels=dict(planned.labels),
        annotations=dict(planned.annotations),
        owner_references=[reference],
    )


def _check(about: Reference, planned: PlannedPod, pod: Pod, classes: PodClasses) -> None:
    """Report problems of a pod with the field of its template."""
    try:
        classes.of(pod)
    except InvalidObject as error:
        at = ObjectPath(str(about)).child(planned.where)
        raise InvalidObject(at.child(error.at.field), error.problem) from None


# -- gangs ---------------------------------------------------------------------------------------------------------


def _grouped(
    thing: RawObject,
    planned: Sequence[PlannedPod],
    made: Sequence[Pod],
    slots: Sequence[Pod | None],
    settings: GroupingSettings,
    beside: Beside,
) -> tuple[tuple[PlannedMember, ...], tuple[PodGroup, ...], tuple[InvalidValue, ...], dict[str, AskedIn]]:
    """Each pod with the labels of its gang, the gangs, problems, and the annotations behind each gang."""
    above_top = owner_of(thing)
    above = () if above_top is None else beside.owners.above(above_top)
    answers: dict[Lookup, list[RawObject]] = {}
    known: KnownRequests = {}
    members: list[PlannedMember] = []
    gangs: dict[str, PodGroup] = {}
    asked_in: dict[str, AskedIn] = {}
    problems: dict[InvalidValue, None] = {}
    alone: set[str] = set()
    for each, pod, existing in zip(planned, made, slots, strict=True):
        # Pods of one template are all in gangs or all alone.
        grouping = (
            Grouping()
            if each.where in alone
            else grouping_of(pod, (*each.owners, *above), settings, answers, beside, known)
        )
        if grouping.manifest is None:
            alone.add(each.where)
        for problem in grouping.problems:
            if problem.holds:
                raise problem.as_error()
            problems[problem] = None
        if grouping.manifest is not None and grouping.name not in gangs:
            gangs[grouping.name] = msgspec.convert(grouping.manifest, PodGroup)
            asked_in[grouping.name] = grouping.asked_in
        members.append(PlannedMember(labelled(existing or pod, grouping), existing is None, each.where))
    return tuple(members), tuple(gangs.values()), tuple(problems), asked_in


def grouping_of(
    pod: Pod,
    owners: Sequence[RawObject],
    settings: GroupingSettings,
    answers: dict[Lookup, list[RawObject]],
    beside: Beside,
    known: KnownRequests,
) -> Grouping:
    """The gang of a pod with these owners; `answers` caches lookups, `known` what the owners ask for."""
    while isinstance(outcome := group_for(pod, owners, settings, answers, beside.workloads, known), Lookup):
        answers[outcome] = beside.owners.answer(outcome)
    return outcome


def labelled(pod: Pod, grouping: Grouping) -> Pod:
    """The pod with the grouper's labels, unless it already names its gang."""
    own = pod.metadata.labels or {}
    if not grouping.labels or POD_GROUP in own or settled_by_others(pod):
        return pod
    metadata = msgspec.structs.replace(pod.metadata, labels={**own, **grouping.labels})
    return msgspec.structs.replace(pod, metadata=metadata)
