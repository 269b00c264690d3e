"""How a node's kubelet is configured, as far as the cluster tells.

A node's topology report carries the Topology Manager's policy and scope. It rarely says which CPU and Memory
Manager policies run, although the verdict depends on them. Unknown values stay `None` here; `resolved()` fills them
from `Assumptions`, an explicit setting with a stated direction of error, so that no guess is silent.
The engine (`engine/kubelet/`) reads these values; this module only holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from bayplan.cluster.reports.kubelet_version import NEWEST, KubeletVersion


class Policy(IntEnum):
    """Topology Manager policy; the number is what the policy column of the cluster holds."""

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE_NUMA_NODE = 3

    @property
    def text(self) -> str:
        """The kubelet's own spelling."""
        return _POLICY_TEXT[self]


class Scope(IntEnum):
    """Topology Manager scope; the number is what the scope column of the cluster holds."""

    CONTAINER = 0
    POD = 1

    @property
    def text(self) -> str:
        """The kubelet's own spelling."""
        return self.name.lower()


FULL_PCPUS_ONLY = "full-pcpus-only"

_POLICY_TEXT = {
    Policy.NONE: "none",
    Policy.BEST_EFFORT: "best-effort",
    Policy.RESTRICTED: "restricted",
    Policy.SINGLE_NUMA_NODE: "single-numa-node",
}
# Policies under which a kubelet refuses pods for what stands in which zone.
REFUSING_POLICIES = (Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE)
POLICY_BY_TEXT = {text: policy for policy, text in _POLICY_TEXT.items()}
SCOPE_BY_TEXT = {scope.text: scope for scope in Scope}


class MissingReport(Enum):
    """What a node without a report is worth to a pod that a kubelet would align."""

    ALLOW = "Allow"
    PREFER_REPORTED = "PreferReported"
    REFUSE = "Refuse"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What to believe about a kubelet that does not report its manager policies.

    Measured on recorded kubelets: assuming static managers never accepts a pod that the kubelet refuses and refuses
    1.8 % of what it would admit; assuming none accepts 11.7 % wrongly. Unknown memory groups are ignored by default
    (0.7 % false accepts); `strict_memory_groups` instead treats every zone with memory in use as closed to allocations
    that span zones (false refusals only).
    """

    cpu_manager_static: bool = True
    memory_manager_static: bool = True
    strict_memory_groups: bool = False
    policy: Policy | None = None
    scope: Scope | None = None
    """Topology Manager policy and scope of a kubelet whose report names none, or one that no kubelet has. None: the
    kubelet's default in the first case, the strictest (`single-numa-node`, `pod`) in the second, which refuses pods but
    never sends one to a kubelet that refuses it.
    """

    missing_report: MissingReport = MissingReport.PREFER_REPORTED
    first_report_within: float = 120.0
    """Seconds from a node's creation in which its first report is expected, where other nodes have reports."""

    def policy_if(self, *, odd: bool) -> Policy:
        """The policy to believe in; `odd` if the report names one that no kubelet has."""
        if self.policy is not None:
            return self.policy
        return Policy.SINGLE_NUMA_NODE if odd else Policy.NONE

    def scope_if(self, *, odd: bool) -> Scope:
        """The scope to believe in."""
        if self.scope is not None:
            return self.scope
        return Scope.POD if odd else Scope.CONTAINER


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The kubelet options that decide whether a pod is admitted. `None` means: the node did not say."""

    policy: Policy = Policy.NONE
    scope: Scope = Scope.CONTAINER
    max_numa_nodes: int = 8
    prefer_closest: bool = False
    cpu_static: bool | None = None
    cpu_options: frozenset[str] = frozenset()
    memory_static: bool | None = None
    threads_per_core: int | None = None
    pod_level_managers: bool = False
    version: KubeletVersion = NEWEST

    @property
    def believed_threads_per_core(self) -> int:
        """Sibling threads of a core: as reported, else one, or two under `full-pcpus-only`.

        That option is never set on a machine without sibling threads.
        """
        return self.threads_per_core or (2 if FULL_PCPUS_ONLY in self.cpu_options else 1)

    @property
    def cpu_group(self) -> int:
        """CPUs are only handed out in multiples of this."""
        return self.believed_threads_per_core if FULL_PCPUS_ONLY in self.cpu_options else 1

    def resolved(self, assumptions: Assumptions) -> KubeletSettings:
        """The same settings with every unknown replaced by the stated assumption."""
        return replace(
            self,
            cpu_static=assumptions.cpu_manager_static if self.cpu_static is None else self.cpu_static,
            memory_static=assumptions.memory_manager_static if self.memory_static is None else self.memory_static,
        )
