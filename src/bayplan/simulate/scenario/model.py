"""A scenario, read and expanded: which nodes there are, what runs already, which pods arrive when.

Everything random has been decided here from the scenario's seed, so that every scheduler that is compared meets the
same pods at the same moments. `simulate/scenario/` reads the file, `simulate/simulation.py` lets it happen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from bayplan.kube.wire.bayplan_v1alpha1 import PodGroupSpec
from bayplan.kube.wire.core_v1 import Pod, Taint
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.kubelet.machine import Machine

Seconds = float

# What the controllers of Kubernetes do with a pod that a kubelet has refused.
REPLACE_AFTER: Seconds = 1.0
JOB_BACKOFF: Seconds = 10.0
JOB_BACKOFF_LIMIT = 6


class Kind(Enum):
    """The controller of a workload's pods.

    A refused bare pod stays Failed. A replicated set replaces it at once, endlessly: the runaway. A job replaces it
    after a backoff that doubles, until its limit is reached; its pods end after their run time.
    """

    POD = "Pod"
    REPLICA_SET = "ReplicaSet"
    JOB = "Job"


@dataclass(frozen=True, slots=True)
class ScenarioPod:
    """One pod that a workload wants: when it arrives, and how long it runs once started (None: until the end).

    `shape` is set where it does not look like the workload's template: in a gang whose groups differ. `name` is the
    name that its controller gives it, where that is known.
    """

    arrives: Seconds
    runs_for: Seconds | None = None
    shape: Pod | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class GangPattern:
    """A workload's pods are gangs of `size`, in their order, each as the spec of bayplan's own PodGroup says it."""

    spec: PodGroupSpec
    size: int


@dataclass(frozen=True)
class Workload:
    """Pods of one shape, but for gangs of several.

    `template` has namespace, labels and spec; names are made from `name` by the simulation.

    `together` is set if its pods start together or not at all, `written_as` if its kind has another name than `kind`.
    """

    name: str
    kind: Kind
    template: Pod
    members: tuple[ScenarioPod, ...]
    backoff_limit: int = JOB_BACKOFF_LIMIT
    together: GangPattern | None = None
    written_as: str = ""

    @property
    def namespace(self) -> str:
        """Where its pods live."""
        return self.template.metadata.namespace or "default"

    def pod_names(self, own_name: str = "") -> list[str]:
        """The names of its first pods, by their controller's way or numbered.

        As if the workload were called otherwise where a name is given.
        """
        stem = own_name or self.name
        return [member.name or f"{stem}-{number}" for number, member in enumerate(self.members)]

    @property
    def templates(self) -> list[Pod]:
        """What its pods look like, each shape once."""
        shapes = [member.shape or self.template for member in self.members]
        return list({id(shape): shape for shape in shapes}.values())


@dataclass(frozen=True)
class SimulatedNode:
    """A machine with a name, and the kubelet that runs on it."""

    name: str
    group: str
    machine: Machine
    kubelet: KubeletConfiguration
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True)
class Scenario:
    """All that happens. `running` are bound pods that are there from the beginning, in the order of their admission.

    `report_delay` is how long a node's report takes to arrive after what it shows; `lasts` is when the simulation ends
    at the latest. `preemption`: pods are evicted for more important ones. `remarks` are things about the file that its
    author should know, each with file, line and key.
    """

    name: str
    nodes: tuple[SimulatedNode, ...]
    workloads: tuple[Workload, ...]
    running: tuple[Pod, ...] = ()
    seed: int = 0
    report_delay: Seconds = 0.0
    lasts: Seconds = 600.0
    levels: tuple[str, ...] = ()
    preemption: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def pods_wanted(self) -> int:
        """How many pods arrive in all."""
        return sum(len(workload.members) for workload in self.workloads)
