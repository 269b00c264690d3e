"""bayplan's own PodGroup (`bayplan.io/v1alpha1`): a gang written in one object, pods included.

Other systems' groups refer to pods that exist somewhere; for planning, a shape and a number are enough. So a group says
how many pods of which spec it has, and groups may lie inside groups:

    apiVersion: bayplan.io/v1alpha1
    kind: PodGroup
    metadata: {name: pretrain, namespace: ml}
    spec:
      topology: network                    # a Topology object; its levels are node labels
      required: example.com/block          # all pods in one block
      preferred: example.com/rack          # in as few racks as possible
      size: 64
      pod: {resources: {cpu: 8, nvidia.com/gpu: 8}}     # or a whole pod spec
      objective: [closest]                 # before the usual fewest-domains, mean-distance,
      fewest-nodes, least-leftover, closest

A field that does not exist is an error, not a silence, and so are groups nested more than `MOST_GROUP_LEVELS` deep.
"""

from __future__ import annotations

from msgspec import Struct

from bayplan.kube.wire.core_v1 import GroupObject, Metadata, PodCondition, PodSpec, Quantities, WireStruct

API_VERSION = "bayplan.io/v1alpha1"
KIND = "PodGroup"
BINPACK = "binpack"
PLACEMENTS = (BINPACK, "spread")
WAITING = "Waiting"
SCHEDULED = "Scheduled"
DEGRADED = "Degraded"
ENDED = "Ended"
# The condition that lasts: all pods that the gang needs had nodes at the same time.
STARTED = "Started"
# How deep groups may be nested. Topologies have at most 16 levels; deeper nesting than this is a mistake.
MOST_GROUP_LEVELS = 32


class _Own(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of the structs whose every field is bayplan's own."""


class PodShape(_Own, frozen=True):
    """What a group's pods look like: a pod spec, or `resources` of one container, requests equal to limits."""

    spec: PodSpec | None = None
    resources: Quantities | None = None


class Segment(_Own, frozen=True):
    """Segments of `size` pods, each inside one domain of `level`.

    `apart`: no two in one domain; else only `preferred`.
    """

    size: int
    level: str
    apart: bool = False
    preferred: bool = False


class PatienceSpec(_Own, frozen=True):
    """Wait up to so many seconds for a place in at most so many preferred domains."""

    domains: int
    seconds: float


class ParallelGroup(_Own, frozen=True):
    """One kind of parallel groups of a training job: `size` ranks, or so many groups of the kind before."""

    name: str
    size: int


class GroupSpec(_Own, frozen=True):
    """A group inside a gang.

    It may be the `segment` of that number of the group around it, where segments are not all equal.
    """

    name: str
    size: int = 0
    minimum: int | None = None
    pod: PodShape | None = None
    required: str | None = None
    preferred: str | None = None
    segments: list[Segment] | None = None
    groups: list[GroupSpec] | None = None
    minimum_groups: int | None = None
    segment: int | None = None


class PodGroupSpec(_Own, frozen=True):
    """The gang itself."""

    topology: str = ""
    size: int = 0
    minimum: int | None = None
    pod: PodShape | None = None
    required: str | None = None
    preferred: str | None = None
    placement: str = BINPACK
    domain_placement: str = BINPACK
    style: str = "bayplan"
    objective: list[str] | None = None
    segments: list[Segment] | None = None
    patience: PatienceSpec | None = None
    parallelism: list[ParallelGroup] | None = None
    groups: list[GroupSpec] | None = None
    minimum_groups: int | None = None

    def __post_init__(self) -> None:
        # Level by level, because a recursion would fail where this is needed.
        level = self.groups or []
        for _ in range(MOST_GROUP_LEVELS):
            level = [inner for group in level for inner in group.groups or ()]
        if level:
            raise ValueError(f"groups are nested more than {MOST_GROUP_LEVELS} deep, the limit")


class PodGroupStatus(WireStruct, frozen=True):
    """How far a gang has come: `WAITING`; `SCHEDULED` while all that it needs have nodes.

    `DEGRADED` where some have lost theirs; `ENDED`.
    """

    phase: str = ""
    message: str = ""
    members: int = 0
    scheduled: int = 0
    running: int = 0
    conditions: list[PodCondition] | None = None


class PodGroup(GroupObject, frozen=True):
    """A gang to plan for."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None
