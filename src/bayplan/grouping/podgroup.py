"""From a workload and its annotations to bayplan's own PodGroup, and to a pod's place in it.

A workload with one role becomes a flat gang, one with several a gang of groups. Annotations of the workload or an owner
apply to the whole gang; those of a role's pod template apply to that group. The PodGroup depends on the workload, not
on the pod at hand, so every pod leads to the same object. Without a known template, the pod's own annotations are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec.structs import replace as replaced

from bayplan.dialects.kai.pod_group import BATCH_MIN_MEMBER
from bayplan.dialects.own.pod_group import EXCLUSIVE_TOPOLOGY, KUBERNETES_WORKLOAD, TOPOLOGY_KIND
from bayplan.dialects.placement_annotations import PARALLELISM
from bayplan.engine.gangs.objective import Goal
from bayplan.grouping.annotations import SEGMENT_SIZES, SEGMENTS, AnnotatedRequest, AnnotationReader, Sources
from bayplan.grouping.exclusive import JOB_SET_KEY, exclusive_level, groups_of_jobs, level_of_jobs, place_in_job
from bayplan.grouping.grouping import NOT_SUPPORTED, InvalidGrouping, InvalidValue
from bayplan.grouping.raw import RawObject, Reference, annotations_of, labels_of
from bayplan.grouping.rules import first
from bayplan.grouping.segments import Cut, cut_of_part, cut_of_whole
from bayplan.grouping.workload import ITS_PODS, OwningWorkload, RoleSpec, group_name
from bayplan.kube.topology_levels import KAI, KUEUE, same_level
from bayplan.kube.wire.bayplan_v1alpha1 import API_VERSION, BINPACK, KIND, GroupSpec, PodGroup, PodGroupSpec, Segment
from bayplan.kube.wire.core_v1 import Metadata, OwnerReference

# bayplan ignores the gang's queue, but readers of the PodGroup may want it.
KEPT_LABELS = ("kai.scheduler/queue", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class")
LONGEST_NAME = 63  # the value of a label
UID_SHOWN = 8
# The group around all pods, if they share domains of two levels.
EVERYBODY = "everybody"


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """The requests for a workload: for the whole gang, and for each part.

    `kubernetes_workload` is the Kubernetes Workload that some of them are from.
    """

    whole: AnnotatedRequest
    parts: tuple[AnnotatedRequest, ...]
    problems: tuple[InvalidValue, ...]
    kubernetes_workload: str = ""
    # A further level that all pods share; the narrower of the two counts.
    within: str = ""

    @property
    def gang(self) -> bool | None:
        """True or False if a source says whether the pods are a gang; None if none does."""
        if self.whole.gang is not None:
            return self.whole.gang
        said = [part.gang for part in self.parts if part.gang is not None]
        return any(said) if said else None

    @property
    def sources(self) -> Sources:
        """Where each request stands."""
        return {key: source for request in (*self.parts, self.whole) for key, source in request.sources.items()}

    @property
    def topology_kind(self) -> str:
        """Whose Topologies are meant: the system in whose annotations the Topology is named, else the levels."""
        named = [source for (field, _), source in self.sources.items() if field == "topology"]
        fields = [source.field for source in (*named, *self.sources.values())]
        return next((system for field in fields for system in (KUEUE, KAI) if f'["{system}.' in field), "")

    def segments_of(self, part: RoleSpec, workload: OwningWorkload) -> tuple[Segment, ...]:
        """The segments requested for a part; in a flat gang those of the whole."""
        return self.whole.segments if workload.is_flat else self.parts[workload.parts.index(part)].segments

    def where_segments(self, workload: OwningWorkload, segments: Sequence[Segment]) -> str:
        """The annotation that requests segments, as a path seen from the workload."""
        source = self.sources.get((SEGMENTS, segments[0].level)) if segments else None
        return SEGMENTS if source is None else source.seen_from(workload.about)


def asked_of(workload: OwningWorkload, pod: RawObject) -> WorkloadRequest:
    """All requests for a workload.

    Those of the only part apply to the whole; segments of the whole apply to the last part.
    """
    reader = AnnotationReader()
    last = workload.parts[-1] if workload.parts else None
    segment = None if last is None else first(last.role.segment, last.source)
    whole = AnnotatedRequest()
    for thing in (*reversed(workload.above), workload.thing):
        whole = reader.read(Reference.of(thing), annotations_of(thing), segment=segment).over(whole)
    parts = [_asked_of_part(reader, workload, part, pod) for part in workload.parts]
    problems = tuple(reader.problems)
    if workload.is_flat:
        template = parts[0]
        # The workload decides whether there is a gang; otherwise the source nearest to the pods wins.
        gang = template.gang if whole.gang is None else whole.gang
        return WorkloadRequest(replace(template.over(whole), gang=gang), (AnnotatedRequest(),), problems)
    if parts and whole.segments:
        parts[-1] = parts[-1].over(AnnotatedRequest(segments=whole.segments))
    topology = next((each.topology for each in (whole, *parts) if each.topology), "")
    return WorkloadRequest(replace(whole, topology=topology), tuple(parts), problems)


def _asked_of_part(
    reader: AnnotationReader, workload: OwningWorkload, part: RoleSpec, pod: RawObject
) -> AnnotatedRequest:
    if not part.role.template:
        return reader.read(Reference.of(pod), annotations_of(pod))
    return reader.read(
        workload.about, part.annotations, f"{part.where}.metadata", first(part.role.segment, part.source)
    )


def with_minimum(workload: OwningWorkload, asked: WorkloadRequest) -> tuple[OwningWorkload, WorkloadRequest]:
    """The workload with the minimum that KAI's annotation asks for; it is for Jobs, and elsewhere without effect."""
    least = asked.whole.minimum
    if least is None:
        return workload, asked
    field = f'metadata.annotations["{BATCH_MIN_MEMBER}"]'
    if workload.about.kind != "Job" or not workload.is_flat:
        allowed = f"has no effect on a {workload.about.kind}: it is the minimum of a Job"
        problem = InvalidValue(workload.about, field, least, allowed, holds=False, reason=NOT_SUPPORTED)
        return workload, replace(asked, problems=(*asked.problems, problem))
    (part,) = workload.parts
    if least > part.size:
        allowed = f"is more than the pods of {workload.about}; there are {part.size}"
        return workload, replace(asked, problems=(*asked.problems, InvalidValue(workload.about, field, least, allowed)))
    return replace(workload, parts=(replace(part, least=min(least, part.coming)),)), asked


def in_vain(workload: OwningWorkload, asked: WorkloadRequest) -> Iterator[InvalidValue]:
    """Remarks about segments larger than all pods, and about parallel groups of a workload with several roles."""
    of_parts = next((part.parallelism for part in asked.parts if part.parallelism), ())
    if not workload.is_flat and (asked.whole.parallelism or of_parts):
        where = f'metadata.annotations["{PARALLELISM}"]'
        allowed = "has no effect: it is for workloads whose pods are all of one sort"
        yield InvalidValue(workload.about, where, None, allowed, holds=False, reason=NOT_SUPPORTED)
    if asked.within and asked.whole.required and asked.whole.parallelism:
        allowed = f"has no effect: the pods share domains of two levels, {asked.whole.required} and {asked.within}"
        where = f'metadata.annotations["{PARALLELISM}"]'
        yield InvalidValue(workload.about, where, None, allowed, holds=False, reason=NOT_SUPPORTED)
    everybody = sum(part.size for part in workload.parts)
    for part in workload.parts:
        segments = asked.segments_of(part, workload)
        pods = everybody if workload.cut_through else part.size
        size = segments[0].size if segments else 0
        if segments and level_of_jobs(workload, part):
            allowed = f"has no effect: with {JOB_SET_KEY}, each Job has a domain to itself"
            where = asked.where_segments(workload, segments)
            yield InvalidValue(workload.about, where, None, allowed, holds=False, reason=NOT_SUPPORTED)
            continue
        source = asked.sources.get((SEGMENT_SIZES, str(size)))
        if source is not None and 0 < pods < size:
            allowed = f"is more than the {pods} pods that there are: all of them are one segment"
            yield InvalidValue(source.about, source.field, size, allowed, holds=False, reason=NOT_SUPPORTED)


def spec_of(workload: OwningWorkload, asked: WorkloadRequest) -> PodGroupSpec:
    """The gang of a workload. Raises `InvalidGrouping` if its numbers are invalid."""
    whole = asked.whole
    # KAI's and Kueue's preferred level asks for the lowest common domain.
    objective = list(whole.objective) or ([Goal.CLOSEST.value] if whole.preferred else None)
    frame = PodGroupSpec(
        topology=whole.topology,
        required=whole.required,
        preferred=whole.preferred,
        objective=objective,
        patience=whole.patience,
        placement=whole.placement or BINPACK,
        domain_placement=whole.domain_placement or BINPACK,
    )
    return _within(asked.within, _filled(workload, asked, frame))


def _filled(workload: OwningWorkload, asked: WorkloadRequest, frame: PodGroupSpec) -> PodGroupSpec:
    """The gang with its groups."""
    whole = asked.whole
    staged = 1 if workload.staged else None
    cut = _cut_of_whole(workload, asked)
    if cut is not None:
        return replaced(frame, groups=cut.groups(), minimum_groups=staged)
    groups = [
        _group(workload, asked, part, requests) for part, requests in zip(workload.parts, asked.parts, strict=True)
    ]
    if workload.is_flat:
        only = groups[0]
        parallelism = list(whole.parallelism) or None if not only.groups else None
        flat = replaced(frame, size=only.size, minimum=only.minimum, segments=only.segments, groups=only.groups)
        return replaced(flat, parallelism=parallelism)
    return replaced(frame, groups=_together(groups, asked.parts), minimum_groups=staged)


def _within(level: str, spec: PodGroupSpec) -> PodGroupSpec:
    """A gang whose pods share a domain of a further level: a group around all of them has it if both are required."""
    if not level or (spec.required and same_level(spec.required, level)):
        return spec
    if not spec.required:
        return replaced(spec, required=level)
    around = GroupSpec(
        name=EVERYBODY,
        required=level,
        size=spec.size,
        minimum=spec.minimum,
        minimum_groups=spec.minimum_groups,
        segments=spec.segments,
        groups=spec.groups,
    )
    return replaced(spec, size=0, minimum=None, minimum_groups=None, segments=None, parallelism=None, groups=[around])


def _group(workload: OwningWorkload, asked: WorkloadRequest, part: RoleSpec, request: AnnotatedRequest) -> GroupSpec:
    frame = GroupSpec(name=part.name, required=request.required, preferred=request.preferred)
    level_of_each_job = level_of_jobs(workload, part)
    if level_of_each_job:
        groups, unfinished = groups_of_jobs(part, level_of_each_job)
        return replaced(frame, groups=groups, minimum_groups=unfinished)
    segments = asked.segments_of(part, workload)
    cut = cut_of_part(workload.about, part, segments, asked.where_segments(workload, segments))
    if cut is not None:
        return replaced(frame, groups=cut.groups())
    least = _whole_segments(part, segments[0].size) if segments else part.least
    minimum = None if least == part.size else least
    return replaced(frame, size=part.size, minimum=minimum, segments=list(segments) or None)


def _whole_segments(part: RoleSpec, unit: int) -> int:
    """The minimum in whole segments, rounded up if enough pods are to come, else down."""
    up = -(-part.least // unit) * unit
    return up if up <= part.coming else part.coming - part.coming % unit


def place_of(workload: OwningWorkload, asked: WorkloadRequest, part: RoleSpec, index: int | None) -> str:
    """The group of a pod: its part, or its segment if segments are groups.

    Raises `InvalidGrouping` if the pod has no index for that.
    """
    segments = asked.segments_of(part, workload)
    through_all = _cut_of_whole(workload, asked)
    in_jobs = bool(level_of_jobs(workload, part))
    where = asked.where_segments(workload, segments)
    cut = through_all or (None if in_jobs else cut_of_part(workload.about, part, segments, where))
    if cut is None and not in_jobs:
        return part.name
    if index is None:
        labels = " and ".join(rank.label for rank in part.role.rank) or "an index label"
        what = "segment" if cut is not None else "Job"
        allowed = f"{labels} is missing: which {what} is a pod in?"
        raise InvalidGrouping(InvalidValue(workload.about, f"{ITS_PODS}metadata.labels", None, allowed))
    if cut is None:
        return place_in_job(part, index)
    first_of_part = part.first_rank if workload.rule.ranks_of_whole and through_all is None else 0
    return cut.place(index - first_of_part)


def _cut_of_whole(workload: OwningWorkload, asked: WorkloadRequest) -> Cut | None:
    """How all pods are cut, if segments run through leaders and workers."""
    segments = asked.segments_of(workload.parts[-1], workload)
    return cut_of_whole(workload, segments, asked.where_segments(workload, segments))


def _together(groups: list[GroupSpec], requests: Sequence[AnnotatedRequest]) -> list[GroupSpec]:
    """Roles that must be together become one group around them, with the request of the first."""
    found: dict[str, GroupSpec] = {}
    for group, request in zip(groups, requests, strict=True):
        if not request.together:
            found[group.name] = group
            continue
        around = f"together-{group_name(request.together)}"
        inner = replaced(group, required=None, preferred=None)
        before = found.get(around) or GroupSpec(name=around, required=group.required, preferred=group.preferred)
        found[around] = replaced(before, groups=[*(before.groups or []), inner])
    return list(found.values())


def pod_group(workload: OwningWorkload, asked: WorkloadRequest, namespace: str, suffix: str = "") -> PodGroup:
    """The PodGroup, owned by the workload. Raises `InvalidGrouping` if its numbers are invalid."""
    about = workload.about
    labels = {key: value for key, value in labels_of(workload.thing).items() if key in KEPT_LABELS}
    owner = OwnerReference(api_version=about.api_version, kind=about.kind, name=about.name, uid=about.uid)
    said = {
        KUBERNETES_WORKLOAD: asked.kubernetes_workload,
        EXCLUSIVE_TOPOLOGY: exclusive_level(workload),
        TOPOLOGY_KIND: asked.topology_kind,
    }
    notes = {key: value for key, value in said.items() if value} or None
    metadata = Metadata(
        name=name_of(about, suffix),
        namespace=namespace or None,
        labels=labels or None,
        annotations=notes,
        owner_references=[owner],
    )
    return PodGroup(metadata=metadata, spec=spec_of(workload, asked))


def name_of(about: Reference, suffix: str = "") -> str:
    """A recognisable name that a later workload of the same name does not share: `train-1b4e28ba`."""
    tail = "-".join(part for part in (about.uid[:UID_SHOWN], suffix) if part)
    head = about.name[: LONGEST_NAME - len(tail) - 1].rstrip("-.")
    return "-".join(part for part in (head, tail) if part)


def manifest_of(group: PodGroup) -> RawObject:
    """The PodGroup as it is applied, without defaults."""
    metadata = {key: value for key, value in msgspec.to_builtins(group.metadata).items() if value}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _said(metadata),
        "spec": _said(msgspec.to_builtins(group.spec)),
    }


_DEFAULTS = {
    "placement": "binpack",
    "domainPlacement": "binpack",
    "style": "bayplan",
    "apart": False,
    "preferred": False,
    "size": 0,
    "topology": "",
}


def _said(written: Any) -> Any:
    """A map without absent and default values."""
    if isinstance(written, dict):
        return {
            key: _said(value)
            for key, value in written.items()
            if value is not None and not (key in _DEFAULTS and value == _DEFAULTS[key])
        }
    return [_said(entry) for entry in written] if isinstance(written, list) else written
