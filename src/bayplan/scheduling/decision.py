"""A decision as data: where a pod goes and what it takes, or why it goes nowhere.

`schedule_one` returns it, `explain/` turns it into text and pictures, the services into bindings and events.
"""

from __future__ import annotations

from msgspec import Struct

from bayplan.cluster.state import ZoneCharge
from bayplan.cluster.volumes.needs import NO_PLAN, VolumePlan
from bayplan.engine.numa.placement import ContainerZones
from bayplan.kube.wire.core_v1 import Taint
from bayplan.scheduling.when_empty import Oversized


class CauseCount(Struct, frozen=True):
    """The nodes that one cause of one plugin refused, in filter order.

    `reason` is the kubelet's (`SMTAlignmentError`) if a replay refused, else empty. `details` name the terms and pods
    behind a relation filter, `taints` those that the pod does not tolerate.
    """

    plugin: str
    cause: str
    nodes: tuple[str, ...]
    reason: str = ""
    details: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()


class NearestNode(Struct, frozen=True):
    """A node that almost fits: the resource it lacks most, in which zone, and the amounts.

    `reason` is the kubelet's if an amount is not the obstacle. `resource` may then be empty. `container` is empty if
    the pod as a whole is refused.
    """

    node: str
    resource: str
    zone: int | None
    have: int
    want: int
    reason: str = ""
    container: str = ""

    @property
    def missing_share(self) -> float:
        """The missing part of the wanted amount; 0 if an amount is not the obstacle."""
        return max(0.0, (self.want - self.have) / self.want) if self.want else 0.0


class Shortfall(Struct, frozen=True):
    """The data behind a "no".

    `matter` are the nodes that an answer is about: they match the pod's node selector and affinity, as `matching` nodes
    do, and would hold it if they were empty. If no node is both, those that would hold it; if no node would,
    `too_large` says why. Nodes of `small_zones` are large enough in sum, but their NUMA zones are not.
    """

    nodes: int
    causes: tuple[CauseCount, ...]
    nearest: tuple[NearestNode, ...] = ()
    matching: int | None = None
    matter: frozenset[str] = frozenset()
    small_zones: frozenset[str] = frozenset()
    too_large: Oversized | None = None


class Decision(Struct, frozen=True, gc=False):
    """The outcome of one scheduling cycle for one pod."""

    pod: str
    node: str | None
    row: int = -1
    score: int = 0
    containers: tuple[ContainerZones, ...] = ()
    charges: tuple[ZoneCharge, ...] = ()
    by_amounts: bool = True
    shortfall: Shortfall | None = None
    held_back: str = ""
    remark: str = ""
    """A warning about the chosen node."""
    volumes: VolumePlan = NO_PLAN
    """Claims that are bound before the pod is."""

    @property
    def placed(self) -> bool:
        """True if the pod has a node."""
        return self.node is not None
