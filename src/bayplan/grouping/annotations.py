"""Annotations in which users request a tree, levels and segments, in KAI's or Kueue's terms.

    kai.scheduler/topology: network                                 on the workload, for all its pods
    kai.scheduler/topology-required-placement: example.com/block
    kai.scheduler/topology-preferred-placement: example.com/rack
    kai.scheduler/segment-size: "4"                                 on a pod template, for its pods
    kai.scheduler/segment-topology-required-placement: example.com/rack
    kai.scheduler/batch-min-member: "2"                             on a Job: the minimum that starts together
    kai.scheduler/skip-podgrouper: "true"                           its pods are left alone (`group.py`)

    kueue.x-k8s.io/podset-required-topology: example.com/block      on a pod template
    kueue.x-k8s.io/podset-slice-required-topology: example.com/rack
    kueue.x-k8s.io/podset-slice-size: "4"

    bayplan.io/topology: network                                    the tree, without kai.scheduler/topology
    bayplan.io/gang: "true"                                         is a gang, or "false" is none, whatever the kind
    bayplan.io/parallelism: tensor=8,pipeline=4,data=2              parallel groups by rank, innermost first
    bayplan.io/objective: fewest-domains,least-leftover             goals that come first
    bayplan.io/patience: domains=2,seconds=300                      how long to wait for few preferred domains
    bayplan.io/placement: spread                                    over nodes, or binpack
    bayplan.io/domain-placement: spread                             into the roomiest domains, or binpack

The result is `AnnotatedRequest`, and an `InvalidValue` for each invalid, contradictory or misspelt annotation.
`dialects/kueue/pod_set.py` reads Kueue's annotations, `dialects/placement_annotations.py` those about the placement;
the scheduler, which knows the tree, checks levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from bayplan.cluster.pods.pod_class import MOST_ZONES
from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.dialects.dialect import TOPOLOGY as OWN_TOPOLOGY
from bayplan.dialects.kai import pod_group as kai
from bayplan.dialects.kai.pod_group import (
    PREFERRED,
    REQUIRED,
    SEGMENT_PREFERRED,
    SEGMENT_REQUIRED,
    SEGMENT_SIZE,
    TOPOLOGY,
)
from bayplan.dialects.kueue import pod_set as kueue
from bayplan.dialects.misspelt import KeyFamily, complaint_about, judged
from bayplan.dialects.own.members import GROUP, POD_GROUP
from bayplan.dialects.own.pod_group import EXCLUSIVE_TOPOLOGY, KUBERNETES_WORKLOAD, TOPOLOGY_KIND
from bayplan.dialects.placement_annotations import (
    DOMAIN_PLACEMENT,
    OBJECTIVE,
    PARALLELISM,
    PATIENCE,
    PLACEMENT,
    objective_in,
    parallelism_in,
    patience_in,
    placement_in,
)
from bayplan.dialects.placement_annotations import FIELDS as PLACEMENT_FIELDS
from bayplan.dialects.pod_words import OWN_FAMILY
from bayplan.gangs.ranks.ranks import RANK, SEGMENT
from bayplan.grouping.exclusive import JOB_SET_KEY, LEADER_WORKER_SET_KEY
from bayplan.grouping.grouping import NOT_SUPPORTED, InvalidValue
from bayplan.grouping.raw import Reference
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.topology_levels import is_node_label, same_level
from bayplan.kube.volcano_annotations import POLICY
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.bayplan_v1alpha1 import ParallelGroup, PatienceSpec, Segment

_Value = TypeVar("_Value")
GANG = "bayplan.io/gang"
# Volcano's controllers turn these into a `networkTopology`; the pod grouper does not.
VOLCANO_NETWORK = ("volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier")
SEGMENTS = "segments"
SEGMENT_SIZES = "segments.size"

OWN_KEYS = (GANG, OWN_TOPOLOGY, *PLACEMENT_FIELDS)
KAI_KEYS = (*kai.TOPOLOGY_KEYS, kai.BATCH_MIN_MEMBER)
KEYS = frozenset((*OWN_KEYS, *KAI_KEYS, *kueue.TOPOLOGY_KEYS.known))
# The PodGroup field of each annotation. Of two about segments the later wins: required beats preferred.
_FIELDS = {
    TOPOLOGY: "topology",
    OWN_TOPOLOGY: "topology",
    PREFERRED: "preferred",
    kueue.PREFERRED: "preferred",
    REQUIRED: "required",
    kueue.REQUIRED: "required",
    SEGMENT_PREFERRED: SEGMENTS,
    SEGMENT_REQUIRED: SEGMENTS,
    kueue.SLICE_LEVEL: SEGMENTS,
    SEGMENT_SIZE: SEGMENT_SIZES,
    kueue.SLICE_SIZE: SEGMENT_SIZES,
}

_FAMILIES = (
    KeyFamily(
        "kai.scheduler/", (*KAI_KEYS, kai.SKIP_POD_GROUPER), re.compile("topo|segment|placement|min-member|podgrouper")
    ),
    kueue.TOPOLOGY_KEYS,
    replace(OWN_FAMILY, told=OWN_KEYS),
    # Exclusive placement; `workloads/` turns it into affinity, as the webhooks do.
    KeyFamily(
        "alpha.jobset.sigs.k8s.io/",
        tuple(
            f"alpha.jobset.sigs.k8s.io/{word}"
            for word in ("exclusive-topology", "node-selector", "namespaced-job", "no-schedule")
        ),
    ),
    KeyFamily(
        "leaderworkerset.sigs.k8s.io/",
        tuple(
            f"leaderworkerset.sigs.k8s.io/{word}"
            for word in ("exclusive-topology", "subgroup-exclusive-topology", "size", "leader-name", "replicas")
        ),
    ),
)
_NAME = re.compile(r"((kueue|kai)/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LARGEST_SEGMENT = 100_000
# Read from pods, which have their template's annotations, not those of their owner; and labels of pods.
_OF_PODS = (MOST_ZONES, POLICY)
_LABELS_OF_PODS = (POD_GROUP, GROUP, RANK, SEGMENT)
_WRITTEN_BY_BAYPLAN = (EXCLUSIVE_TOPOLOGY, KUBERNETES_WORKLOAD, TOPOLOGY_KIND, NUMA_ZONES)
# What an owner's annotations are that nothing reads there.
_IN_VAIN = {
    **dict.fromkeys(_OF_PODS, "has no effect here; write it in the metadata of the pod template"),
    **dict.fromkeys(
        _LABELS_OF_PODS, "has no effect here: it is a label of pods; write it in those of the pod template"
    ),
    **dict.fromkeys(_WRITTEN_BY_BAYPLAN, "has no effect here: only bayplan writes it"),
    EXCLUSIVE_TOPOLOGY: f"has no effect here; {JOB_SET_KEY} and {LEADER_WORKER_SET_KEY} ask for it",
}


def asks(annotations: Mapping[str, str]) -> bool:
    """True if annotations concern gangs, valid or not."""
    return any(key in KEYS for key in annotations) or any(map(misspelt, judged(annotations, *_FAMILIES)))


def meant_for_pods(about: Reference, annotations: Mapping[str, str]) -> Iterator[InvalidValue]:
    """Remarks about annotations of an owner that are read from pods alone, or not at all."""
    if about.kind == "Pod":
        return
    for key, why in _IN_VAIN.items():
        if key in annotations:
            yield InvalidValue(about, f'metadata.annotations["{key}"]', annotations[key], why, holds=False)


def misspelt(key: str) -> str:
    """What is wrong with a key that resembles a known one; empty if it is known or unrelated."""
    return next(filter(None, (complaint_about(key, family) for family in _FAMILIES)), "")


@dataclass(frozen=True, slots=True)
class Source:
    """The annotation that a request comes from: its object and its path."""

    about: Reference
    field: str

    def seen_from(self, about: Reference) -> str:
        """The path, with its object if that is another one."""
        return self.field if self.about == about else f"{self.about}: {self.field}"


# By PodGroup field and value.
Sources = Mapping[tuple[str, str], Source]


@dataclass(frozen=True, slots=True)
class AnnotatedRequest:
    """The requests of one set of annotations; `gang` is None if none says whether the pods are a gang.

    `together` is a name shared by roles that must be in one domain; `sources` has the annotation of each request.
    """

    gang: bool | None = None
    topology: str = ""
    required: str | None = None
    preferred: str | None = None
    segments: tuple[Segment, ...] = ()
    together: str = ""
    parallelism: tuple[ParallelGroup, ...] = ()
    objective: tuple[str, ...] = ()
    patience: PatienceSpec | None = None
    placement: str = ""
    domain_placement: str = ""
    minimum: int | None = None
    sources: Sources = field(default_factory=dict, compare=False)

    def over(self, below: AnnotatedRequest) -> AnnotatedRequest:
        """These requests, with those of another place for the fields that these leave open."""
        return AnnotatedRequest(
            below.gang if self.gang is None else self.gang,
            self.topology or below.topology,
            self.required or below.required,
            self.preferred or below.preferred,
            self.segments or below.segments,
            self.together or below.together,
            self.parallelism or below.parallelism,
            self.objective or below.objective,
            self.patience or below.patience,
            self.placement or below.placement,
            self.domain_placement or below.domain_placement,
            below.minimum if self.minimum is None else self.minimum,
            {**below.sources, **self.sources},
        )


@dataclass(frozen=True, slots=True)
class _Tree:
    """A Topology that is named, and where."""

    name: str
    source: Source


class AnnotationReader:
    """Reads all annotations about one gang, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[InvalidValue] = []
        self._trees: list[_Tree] = []

    def read(
        self, about: Reference, annotations: Mapping[str, str], where: str = "metadata", segment: int | None = None
    ) -> AnnotatedRequest:
        """The requests of one set of annotations; `segment` is the default size of segments."""
        place = _Place(self.problems, about, annotations, f"{where}.annotations", segment)
        place.check_keys()
        trees = place.trees()
        self._check_trees(trees)
        kai = AnnotatedRequest(
            topology=trees[0].name if trees else "",
            required=place.level(REQUIRED),
            preferred=place.level(PREFERRED),
            segments=place.kai_segments(),
            parallelism=place.read(PARALLELISM, parallelism_in, ()),
            objective=place.read(OBJECTIVE, objective_in, ()),
            patience=place.read(PATIENCE, patience_in, None),
            placement=place.read(PLACEMENT, placement_in, ""),
            domain_placement=place.read(DOMAIN_PLACEMENT, placement_in, ""),
            minimum=place.minimum(),
        )
        in_kueues_words = place.kueue()
        place.check_agreement(kai, in_kueues_words)
        asked = place.gang()
        if asked is None and asks(annotations):
            asked = True
        request = kai.over(in_kueues_words)
        return replace(request, gang=asked, sources=place.sources(request))

    def _check_trees(self, trees: list[_Tree]) -> None:
        """Check that all sources name the same tree: a gang is placed in one tree."""
        for tree in trees:
            self._trees.append(tree)
            before = self._trees[0]
            if tree.name != before.name:
                source = tree.source
                there = before.source.seen_from(source.about)
                allowed = f'is another tree than "{before.name}" in {there}; a gang is placed in one'
                self.problems.append(InvalidValue(source.about, source.field, tree.name, allowed))


@dataclass(frozen=True, slots=True)
class _Place:
    """The annotations of one object, and their path for messages."""

    problems: list[InvalidValue]
    about: Reference
    annotations: Mapping[str, str]
    field: str
    segment: int | None

    def has(self, keys: tuple[str, ...]) -> bool:
        return any(key in self.annotations for key in keys)

    def source(self, key: str) -> Source:
        return Source(self.about, f'{self.field}["{key}"]')

    def sources(self, request: AnnotatedRequest) -> Sources:
        """The annotation of each PodGroup field."""
        found = {(field, self.annotations[key]): self.source(key) for key, field in _FIELDS.items() if self.has((key,))}
        if kueue.SLICE_LAYERS in self.annotations:
            found |= {(SEGMENTS, each.level): self.source(kueue.SLICE_LAYERS) for each in request.segments}
        return found

    def wrong(self, key: str, allowed: str) -> None:
        self.problems.append(InvalidValue(self.about, self.source(key).field, self.annotations.get(key), allowed))

    def check_keys(self) -> None:
        if self.field == "metadata.annotations":
            self.problems.extend(meant_for_pods(self.about, self.annotations))
        meant = set(judged(self.annotations, *_FAMILIES))
        for key in self.annotations:
            complaint = misspelt(key) if key in meant else ""
            if complaint:
                self.problems.append(InvalidValue(self.about, self.source(key).field, None, complaint))
            elif key in VOLCANO_NETWORK:
                field, why = self.source(key).field, f"has no effect on this gang; write {REQUIRED} or {PREFERRED}"
                self.problems.append(
                    InvalidValue(self.about, field, self.annotations[key], why, holds=False, reason=NOT_SUPPORTED)
                )

    def check_agreement(self, kai: AnnotatedRequest, in_kueues_words: AnnotatedRequest) -> None:
        """Check that KAI's and Kueue's annotations agree."""
        levels = (
            (REQUIRED, kai.required, kueue.REQUIRED, in_kueues_words.required),
            (PREFERRED, kai.preferred, kueue.PREFERRED, in_kueues_words.preferred),
        )
        for key, level, other_key, other in levels:
            if level and other and not same_level(level, other):
                self.wrong(key, f'is another level than "{other}" in {other_key}; only one of them can be meant')
        if kai.segments and in_kueues_words.segments and kai.segments != in_kueues_words.segments:
            key = kueue.SLICE_LAYERS if kueue.SLICE_LAYERS in self.annotations else kueue.SLICE_LEVEL
            self.wrong(key, "asks for other segments than kai.scheduler/segment-...; only one of them can be meant")

    def gang(self) -> bool | None:
        text = self.annotations.get(GANG)
        if text is None:
            return None
        if text not in ("true", "false"):
            self.wrong(GANG, "must be true or false")
            return None
        return text == "true"

    def minimum(self) -> int | None:
        text = self.annotations.get(kai.BATCH_MIN_MEMBER)
        if text is None:
            return None
        number = whole_number(text)
        if number is None or number < 1:
            self.wrong(kai.BATCH_MIN_MEMBER, "must be a whole number, 1 or more")
            return None
        return number

    def trees(self) -> list[_Tree]:
        """The named Topologies, each with its key."""
        found: list[_Tree] = []
        for key in (TOPOLOGY, OWN_TOPOLOGY):
            name = self.annotations.get(key)
            if name is not None and not _NAME.fullmatch(name):
                self.wrong(key, "must be the name of a Topology")
            elif name is not None:
                found.append(_Tree(name, self.source(key)))
        return found

    def read(self, key: str, reader: Callable[[str], _Value], otherwise: _Value) -> _Value:
        """What an annotation about the placement says; `otherwise` without it."""
        text = self.annotations.get(key)
        if text is None:
            return otherwise
        try:
            return reader(text)
        except ValueError as wrong:
            self.wrong(key, str(wrong))
            return otherwise

    def level(self, key: str) -> str | None:
        label = self.annotations.get(key)
        if label is not None and not is_node_label(label):
            self.wrong(key, kueue.MUST_BE_A_LABEL)
            return None
        return label

    def size(self, key: str) -> int | None:
        text = self.annotations.get(key)
        if text is None:
            return None
        size = whole_number(text)
        if size is None or not 1 <= size <= _LARGEST_SEGMENT:
            self.wrong(key, f"must be a whole number from 1 to {_LARGEST_SEGMENT}")
            return None
        return size

    def kai_segments(self) -> tuple[Segment, ...]:
        """Segments of a size. With both levels, each must be in one required and should be in one preferred domain."""
        size, required, preferred = self.size(SEGMENT_SIZE), self.level(SEGMENT_REQUIRED), self.level(SEGMENT_PREFERRED)
        for key, level in ((SEGMENT_REQUIRED, required), (SEGMENT_PREFERRED, preferred)):
            if level and SEGMENT_SIZE not in self.annotations and self.segment is None:
                self.wrong(key, f"needs {SEGMENT_SIZE} beside it")
        if SEGMENT_SIZE in self.annotations and size and not self.has((SEGMENT_REQUIRED, SEGMENT_PREFERRED)):
            self.wrong(SEGMENT_SIZE, f"needs {SEGMENT_REQUIRED} or {SEGMENT_PREFERRED} beside it")
        if SEGMENT_SIZE not in self.annotations:
            size = self.segment
        if not size:
            return ()
        hard = (Segment(size=size, level=required),) if required else ()
        soft = (Segment(size=size, level=preferred, preferred=True),) if preferred and preferred != required else ()
        return hard + soft

    def kueue(self) -> AnnotatedRequest:
        annotations = dict(self.annotations)
        if self.segment and kueue.SLICE_LEVEL in annotations:
            annotations.setdefault(kueue.SLICE_SIZE, str(self.segment))
        try:
            request = kueue.request_of(annotations, ObjectPath(str(self.about), self.field))
        except InvalidObject as wrong:
            self.problems.append(InvalidValue(self.about, wrong.at.field, None, wrong.problem))
            return AnnotatedRequest()
        segments = tuple(Segment(size=each.size, level=each.level) for each in request.slices)
        return AnnotatedRequest(None, "", request.required, request.preferred, segments, request.shares_with)
