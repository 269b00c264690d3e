"""What goes into a placement in Kueue's style and what comes out: pod sets with their wishes, settings, assignments.

Plain data only. Amounts are integers in Kueue's units (cpu in thousandths, everything else whole), and one `pods` per
pod is added by the counting itself. `snapshot.py` holds the cluster's side, `placement.py` answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from bayplan.kube.wire.core_v1 import NodeAffinity, Taint, Toleration

PODS = "pods"

Amounts = Mapping[str, int]


class Profile(Enum):
    """Which domains are filled first: the tightest that suffices, or the least free.

    Kueue has a gate `TASProfile...` for each.

    The mixed profile, Kueue's default, takes the least free for unconstrained pods and the best fit for all others.
    """

    MIXED = "Mixed"
    BEST_FIT = "BestFit"
    LEAST_FREE_CAPACITY = "LeastFreeCapacity"


@dataclass(frozen=True, slots=True)
class Settings:
    """The feature gates of Kueue that change where pods go, at Kueue's defaults.

    In order: `TASProfile...`, `TASBalancedPlacement`, `TASRespectNodeAffinityPreferred`,
    `ElasticJobsViaWorkloadSlicesWithTAS` and `SkipReassignmentForPodOwnedWorkloads`.
    """

    profile: Profile = Profile.MIXED
    balanced: bool = False
    preferred_affinity: bool = False
    elastic: bool = False
    single_pods_stay: bool = True


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """Pods stay together in groups of `size` within one domain of `level`. Size 0 means that none was given."""

    level: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """Where a pod set wants to be together; slice layers go from coarse to fine, the first being the outermost."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool = False
    slices: tuple[SliceLayer, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """How many pods go to which domain. With the host name as lowest level only host names are listed."""

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]

    @property
    def pods(self) -> int:
        """All pods of the assignment."""
        return sum(count for _, count in self.domains)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods. `implied` stands for a pod set without a request in a queue where everything is topology-aware.

    Two pod sets of one `group` are placed together; the smaller is the leader. `previous` is the assignment of the
    workload slice that this one replaces.
    """

    name: str
    count: int
    requests: Amounts
    topology: TopologyRequest | None = None
    implied: bool = False
    group: str | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: NodeAffinity | None = None
    previous: Assignment | None = None

    @property
    def amounts_per_pod(self) -> dict[str, int]:
        """What one pod takes from a leaf, its place among the node's pods included."""
        return {**self.requests, PODS: self.requests.get(PODS, 0) + 1}


@dataclass(frozen=True, slots=True)
class RunningWorkload:
    """A workload that has lost a node: where its pod sets are, and which nodes are unhealthy."""

    assignments: Mapping[str, Assignment]
    unhealthy_nodes: tuple[str, ...]
    owned_by_single_pod: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """The node behind a leaf, where the lowest level is the host name."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """What is left in one domain of the lowest level. Leaves with the same place are added up."""

    values: tuple[str, ...]
    remaining: Amounts
    host: Host | None = None


@dataclass(frozen=True, slots=True)
class AssignmentResult:
    """An assignment, or the reason why there is none."""

    assignment: Assignment | None = None
    reason: str | None = None
