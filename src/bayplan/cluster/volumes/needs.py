"""What the volumes of a pod ask of a node, without the names of its claims.

Pods whose claims ask for the same share a class: ten thousand replicas, each with a claim of its own, cost one
evaluation. `catalogue.py` makes these from the objects, the volume plugins judge nodes by them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reach:
    """The nodes that can use a bound volume: its node affinity as JSON, and its zone labels with their values."""

    affinity: str = ""
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class UnboundClaim:
    """A claim that is bound when its pod has a node (`WaitForFirstConsumer`).

    `reserved` is a volume that is kept for this claim. While it is provisioned it can be used on the nodes `selected`,
    the first of which its provisioner is told. `avoided` are nodes where provisioning has failed. `shared` is its name
    if several pods of a gang use it: all of them use one volume.
    """

    size: int
    storage_class: str
    modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    selector: str = ""
    attributes_class: str = ""
    reserved: str = ""
    selected: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    shared: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Disk:
    """A disk that a pod names itself. Pods on one node share it only if all of them read it."""

    kind: str
    names: tuple[str, ...]
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts(self, other: Disk) -> bool:
        """True if a node cannot serve both."""
        same = (self.kind, self.names) == (other.kind, other.names)
        if not same or (self.monitors and not set(self.monitors) & set(other.monitors)):
            return False
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What a node must offer. `problem` says why no node can do yet.

    `attached` counts volumes by CSI driver. `shared` are claims among them that other pods use too: on the nodes of
    those pods they are attached already. `in_use` are ReadWriteOncePod claims that other pods hold.
    """

    problem: str = ""
    bound: tuple[Reach, ...] = ()
    unbound: tuple[UnboundClaim, ...] = ()
    attached: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    in_use: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()


NO_VOLUMES = VolumeNeeds()


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What binds the claims of a pod to its node: claims with their volume, and claims to provision, by
    `namespace/name`.
    """

    bindings: tuple[tuple[str, str], ...] = ()
    provisions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings or self.provisions)

    @property
    def claims(self) -> tuple[str, ...]:
        """All claims that are bound with the pod."""
        return (*(claim for claim, _ in self.bindings), *self.provisions)


NO_PLAN = VolumePlan()
