"""Volcano's PodGroup (`scheduling.volcano.sh/v1beta1`), reduced to what decides where its pods go.

Volcano's controllers write it, one per Job or per owner of plain pods; pods name it in an annotation.
`dialects/volcano/pod_group.py` makes a gang of it.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import GroupObject, Int32, Int64, LabelSelector, Metadata, PodCondition, WireStruct

API_VERSION = "scheduling.volcano.sh/v1beta1"

HARD = "hard"
SOFT = "soft"
MODES = (HARD, SOFT)


class NetworkTopology(WireStruct, frozen=True):
    """How close pods must be (`hard`) or should be (`soft`): tiers count from 1, the closest.

    A tier may have a name instead.
    """

    mode: str = HARD
    highest_tier_allowed: Int64 | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(WireStruct, frozen=True):
    """Pods that a selector means, divided by the values of some labels into sub-groups of one size."""

    name: str = ""
    sub_group_size: Int32 | None = None
    min_sub_groups: Int32 | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(WireStruct, frozen=True):
    """How many pods start together, in all and of each task, and how close to each other."""

    min_member: Int32 = 0
    min_task_member: dict[str, Int32] | None = None
    queue: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroupStatus(WireStruct, frozen=True):
    """Scheduling progress, as Volcano or the scheduler in its place reports it."""

    phase: str = ""
    running: Int32 = 0
    conditions: list[PodCondition] | None = None


class PodGroup(GroupObject, frozen=True):
    """A gang, as Volcano's controllers write it."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None
