"""Claims, volumes, classes and CSI drivers, and what they mean for a pod.

Events come in (`set`, `remove`), rows whose answers may change go into the usage log, and `needs_of` says what a node
must offer for the volumes of a pod. A decision is *assumed* (`assume`) until its pod is gone: its volumes are taken,
and its claims have a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.volumes.attached import DRIVER_OF_PLUGIN, IN_TREE, Attached
from bayplan.cluster.volumes.capacities import Capacities
from bayplan.cluster.volumes.claims import (
    BIND_COMPLETED,
    SELECTED_NODE,
    claims_of,
    class_of_claim,
    disks_of,
    inline_disks,
    is_default,
    is_for_pod,
    named_for,
    unbound_claim,
    zones_of,
)
from bayplan.cluster.volumes.needs import NO_PLAN, NO_VOLUMES, Disk, Reach, UnboundClaim, VolumeNeeds, VolumePlan
from bayplan.cluster.volumes.static import NO_VOLUME, StaticVolumes, affinity_of, claim_of
from bayplan.kube.object_set import StorageObject
from bayplan.kube.wire.core_v1 import Pod, Volume
from bayplan.kube.wire.core_v1_volumes import PersistentVolume, PersistentVolumeClaim
from bayplan.kube.wire.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment

if TYPE_CHECKING:
    from bayplan.cluster.state import ClusterState

DELAYED = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
# Before the name of an attachment that uses a volume: no key of a pod begins like this.
ATTACHMENT = f"{VolumeAttachment.__name__} "
# Nodes that a claim avoids after its provisioning has failed there.
MOST_AVOIDED = 4


class Volumes:
    """The storage objects of a cluster, and the volumes that decisions have taken.

    It has many methods because each event of an object, a node and a pod has one; `static.py`, `attached.py` and
    `capacities.py` have the rules.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.static = StaticVolumes(state.labels, state.terms)
        self.attached = Attached(self._driver_of, self._changed)
        self.capacities = Capacities(state.labels, state.terms, self._changed_rows)
        self._objects: dict[type[Any], dict[str, Any]] = {
            PersistentVolumeClaim: {},
            StorageClass: {},
            CSINode: {},
            CSIDriver: {},
            VolumeAttachment: {},
        }
        self._plans: dict[str, VolumePlan] = {}
        # By claim: the volume or the nodes that decisions have taken for it, by how many, and nodes that it avoids.
        self._reserved: dict[str, str] = {}
        self._selected: dict[str, tuple[str, ...]] = {}
        self._holders: Counter[str] = Counter()
        self._avoided: dict[str, tuple[str, ...]] = {}
        # Claims that several pods of a gang use.
        self._shared: set[str] = set()
        # Disks that pods name themselves, with the row and the pod.
        self._disks: dict[tuple[str, tuple[str, ...]], list[tuple[Disk, int, str]]] = {}
        self._disks_of: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        # Pods that stepped aside, with their rows and claims.
        self._aside: dict[str, tuple[int, tuple[str, ...]]] = {}

    # -- objects ---------------------------------------------------------------------------------------------------

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """A claim by `namespace/name`."""
        found: PersistentVolumeClaim | None = self._objects[PersistentVolumeClaim].get(key)
        return found

    def set(self, thing: StorageObject) -> tuple[str, ...]:
        """Take in an object; returns the claims about which pods must be asked again."""
        key = _key(thing)
        match thing:
            case PersistentVolume():
                self._changed_rows(self.static.put(thing))
                claim = claim_of(thing)
                self.attached.recount(claim)
                return (claim,) if claim else ()
            case PersistentVolumeClaim():
                self._objects[PersistentVolumeClaim][key] = thing
                self.attached.recount(key)
                return (key,)
            case CSIStorageCapacity():
                self.capacities.set(key, thing)
                return ()
        self._objects[type(thing)][key] = thing
        return self._other_changed(type(thing), key, thing)

    def remove(self, kind: type[Any], key: str) -> tuple[str, ...]:
        """An object is gone; returns the claims about which pods must be asked again."""
        if kind is PersistentVolume:
            volume = self.static.get(key)
            self._changed_rows(self.static.remove(key))
            claim = "" if volume is None else claim_of(volume)
            return (claim,) if claim else ()
        if kind is CSIStorageCapacity:
            self.capacities.remove(key)
            return ()
        gone = self._objects[kind].pop(key, None)
        if kind is PersistentVolumeClaim:
            self._avoided.pop(key, None)
            self._shared.discard(key)
            self.attached.recount(key)
            return (key,)
        return self._other_changed(kind, key, gone, gone=True)

    def _other_changed(self, kind: type[Any], key: str, thing: Any, *, gone: bool = False) -> tuple[str, ...]:
        if kind is CSINode:
            row = self._state.rows.get(key)
            if row is not None:
                self.attached.set_limits(row, None if gone else thing)
        elif kind is VolumeAttachment and thing is not None:
            self._attach(f"{ATTACHMENT}{key}", None if gone else thing)
        elif kind in (StorageClass, CSIDriver):
            self.attached.recount_all()
            self._changed_rows(range(self._state.columns.size))
            if kind is StorageClass:
                claims = self._objects[PersistentVolumeClaim].items()
                return tuple(each for each, claim in claims if class_of_claim(claim) == key)
        return ()

    def _attach(self, user: str, attachment: VolumeAttachment | None) -> None:
        name = (attachment.spec.source.persistent_volume_name if attachment else None) or ""
        row = self._state.rows.get(attachment.spec.node_name) if attachment else None
        if row is None or not name:
            self.attached.leave(user)
            return
        volume = self.static.get(name)
        self.attached.use(user, row, [(claim_of(volume) if volume else "") or f"{PersistentVolume.__name__} {name}"])

    def node_came(self, row: int, name: str) -> None:
        """A node has a row now; objects about it may have come before."""
        known = self._objects[CSINode].get(name)
        if known is not None:
            self.attached.set_limits(row, known)
        for key, attachment in self._objects[VolumeAttachment].items():
            if attachment.spec.node_name == name:
                self._attach(f"{ATTACHMENT}{key}", attachment)

    def node_gone(self, row: int, name: str) -> None:
        """A node has no row any more."""
        self.attached.set_limits(row, None)
        for key, attachment in self._objects[VolumeAttachment].items():
            if attachment.spec.node_name == name:
                self.attached.leave(f"{ATTACHMENT}{key}")

    # -- pods ------------------------------------------------------------------------------------------------------

    def pod_placed(self, key: str, row: int, pod: Pod) -> None:
        """A pod is on a node, or is about to be."""
        if pod.spec.volumes:
            self._aside.pop(key, None)
            self.attached.use(key, row, [*(claim for claim, _ in claims_of(pod)), *inline_disks(pod)])
            self._drop_disks(key)
            for disk in disks_of(pod):
                self._disks.setdefault((disk.kind, disk.names), []).append((disk, row, key))
                self._disks_of.setdefault(key, []).append((disk.kind, disk.names))

    def pod_left(self, key: str) -> tuple[str, ...]:
        """A pod is gone, or its decision is taken back; returns the claims that it used."""
        claims = self._leave(key)
        plan = self._plans.pop(key, NO_PLAN)
        for claim in plan.claims:
            self._holders[claim] -= 1
            if not self._holders[claim]:
                del self._holders[claim]
        for claim, volume in plan.bindings:
            if claim not in self._holders:
                self._reserved.pop(claim, None)
                self._changed_rows(self.static.take(volume, taken=False))
        for claim in plan.provisions:
            if claim not in self._holders:
                self._selected.pop(claim, None)
        return claims

    def step_aside(self, key: str, row: int) -> None:
        """Look at a node as if a pod had left, with the volumes that are bound for it."""
        claims = self._leave(key)
        if claims:
            self._aside[key] = row, claims

    def row_left_by_holders(self, claim: str) -> int | None:
        """The row where a claim would be free if the pods that stepped aside left; None if pods elsewhere hold it."""
        rows = {row for row, claims in self._aside.values() if claim in claims}
        return rows.pop() if len(rows) == 1 and not self.holders_of(claim) else None

    def _leave(self, key: str) -> tuple[str, ...]:
        """A pod uses no volumes any more; returns the claims that it used."""
        self._aside.pop(key, None)
        self._drop_disks(key)
        return self.attached.leave(key)

    def _drop_disks(self, key: str) -> None:
        for named in dict.fromkeys(self._disks_of.pop(key, ())):
            self._disks[named] = [each for each in self._disks[named] if each[2] != key]
            if not self._disks[named]:
                del self._disks[named]

    def assume(self, key: str, plan: VolumePlan, *nodes: str) -> None:
        """Take the volumes of a decision. Provisioners are told the first of the nodes."""
        if plan:
            self._plans[key] = plan
            self._holders.update(plan.claims)
            for claim, volume in plan.bindings:
                self._reserved[claim] = volume
                self._changed_rows(self.static.take(volume, taken=True))
            for claim in plan.provisions:
                self._selected.setdefault(claim, nodes)

    def share(self, claims: Iterable[str]) -> None:
        """Several pods of a gang use these claims: their classes name them from now on."""
        self._shared.update(claim for claim in claims if claim in self._objects[PersistentVolumeClaim])

    def provisioned_for(self, claim: str) -> str:
        """The node that the provisioner of a claim is told; empty if no decision waits for it."""
        return next(iter(self._selected.get(claim, ())), "")

    def holders_of(self, claim: str) -> list[str]:
        """The pods on nodes that use a claim. A volume can stay attached for a while after its pod has ended."""
        return [user for user in self.attached.users_of(claim) if not user.startswith(ATTACHMENT)]

    def disks_like(self, disk: Disk) -> Iterator[tuple[Disk, int]]:
        """The disks of the same kind and name on nodes, each with its row."""
        return ((held, row) for held, row, _ in self._disks.get((disk.kind, disk.names), ()))

    def avoid(self, claim: str, node: str) -> None:
        """Provisioning failed on a node: try others first."""
        known = self._avoided.get(claim, ())
        self._avoided[claim] = (*(each for each in known if each != node), node)[-MOST_AVOIDED:]

    def forget_avoided(self, pod: Pod) -> bool:
        """Let a pod use nodes again where provisioning failed before; True if there are any."""
        found = [claim for claim, _ in claims_of(pod) if self._avoided.pop(claim, None)]
        return bool(found)

    def needs_of(self, pod: Pod) -> VolumeNeeds:
        """What a node must offer for the volumes of a pod."""
        if not pod.spec.volumes:
            return NO_VOLUMES
        if all(volume == Volume(name=volume.name) for volume in pod.spec.volumes):
            return NO_VOLUMES  # Most pods have only a token or a ConfigMap.
        disks = tuple(sorted(disks_of(pod)))
        claims = list(dict.fromkeys(claims_of(pod)))
        inline = list(inline_disks(pod))
        if not (claims or disks or inline):
            return NO_VOLUMES
        problem = next(self._problems(pod, claims), "")
        if problem:
            return VolumeNeeds(problem)
        reach: dict[Reach, None] = {}
        unbound: list[UnboundClaim] = []
        drivers: dict[str, int] = {}
        shared = []
        in_use = []
        for key, _ in claims:
            claim = self._objects[PersistentVolumeClaim][key]
            if "ReadWriteOncePod" in (claim.spec.access_modes or ()) and self.holders_of(key):
                in_use.append(key)
            if claim.spec.volume_name:
                reach[self._reach(claim.spec.volume_name)] = None
            else:
                unbound.append(self._unbound(key, claim))
        for key in dict.fromkeys((*(claim for claim, _ in claims), *inline)):
            driver = self._driver_of(key)
            if driver and self.attached.is_limited(driver):
                drivers[driver] = drivers.get(driver, 0) + 1
                if self.attached.has_users(key) or key in self._shared:
                    shared.append((driver, key))
        return VolumeNeeds(
            bound=tuple(
                sorted((each for each in reach if each != Reach()), key=lambda each: (each.affinity, each.zones))
            ),
            unbound=tuple(sorted(unbound)),
            attached=tuple(sorted(drivers.items())),
            shared=tuple(sorted(shared)),
            in_use=tuple(sorted(in_use)),
            disks=disks,
        )

    def plan_for(self, pod: Pod, row: int) -> VolumePlan:
        """The volumes that the claims of a pod get on a row, and the claims that are provisioned there."""
        if not pod.spec.volumes:
            return NO_PLAN
        waiting = []
        for key, _ in dict.fromkeys(claims_of(pod)):
            claim = self.claim(key)
            if claim is not None and not claim.spec.volume_name:
                waiting.append((self._unbound(key, claim), key))
        waiting.sort()
        provisions = [key for unbound, key in waiting if unbound.selected]
        searching = [(unbound, key) for unbound, key in waiting if not unbound.selected]
        bindings = []
        chosen = self.static.choices_on(row, [each for each, _ in searching])
        for (_, key), number in zip(searching, chosen, strict=True):
            if number != NO_VOLUME:
                bindings.append((key, self.static.name(number)))
            else:
                provisions.append(key)
        return VolumePlan(tuple(bindings), tuple(provisions))

    # -- what objects say ------------------------------------------------------------------------------------------

    def provisioned_on(self, claim: UnboundClaim) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The rows on which a claim can be provisioned, and how many bytes there are.

        A very large number if unknown.
        """
        size = self._state.columns.size
        room = np.full(size, np.iinfo(np.int64).max, dtype=np.int64)
        written: StorageClass | None = self._objects[StorageClass].get(claim.storage_class)
        if written is None or written.provisioner in ("", NO_PROVISIONER):
            return np.zeros(size, dtype=np.bool_), room
        allowed = np.ones(size, dtype=np.bool_)
        if written.allowed_topologies:
            allowed[:] = False
            for term in written.allowed_topologies:
                matches = np.full(size, bool(term.match_label_expressions))
                for each in term.match_label_expressions or ():
                    matches &= self._state.terms.has_value(each.key, each.values or [], slice(0, size))
                allowed |= matches
        driver: CSIDriver | None = self._objects[CSIDriver].get(written.provisioner)
        if driver is not None and driver.spec.storage_capacity and claim.size:
            room = self.capacities.room(claim.storage_class)
        return allowed, room

    def provisioner_of(self, storage_class: str) -> str:
        """What makes volumes of a class; empty if nothing does."""
        written: StorageClass | None = self._objects[StorageClass].get(storage_class)
        return "" if written is None or written.provisioner == NO_PROVISIONER else written.provisioner

    def default_class(self) -> str | None:
        """The class that the API server gives to a claim without one: the newest default; None if there is none."""
        classes: Iterable[StorageClass] = self._objects[StorageClass].values()
        defaults = sorted((each for each in classes if is_default(each)), key=lambda each: each.metadata.name)
        if not defaults:
            return None
        # One without a time stamp is created now.
        return max(defaults, key=lambda each: each.metadata.creation_timestamp or "~").metadata.name

    def topology_keys(self, storage_class: str) -> tuple[str, ...]:
        """The labels of nodes that share what a class provisions: its driver's, else those of `allowedTopologies`."""
        written: StorageClass | None = self._objects[StorageClass].get(storage_class)
        if written is None:
            return ()
        nodes: Iterable[CSINode] = self._objects[CSINode].values()
        drivers = [each for node in nodes for each in node.spec.drivers or () if each.name == written.provisioner]
        named = {key for each in drivers for key in each.topology_keys or ()}
        if not drivers:
            terms = written.allowed_topologies or ()
            named = {each.key for term in terms for each in term.match_label_expressions or ()}
        return tuple(sorted(named))

    def is_bound(self, key: str) -> bool:
        """True if a claim has its volume, and the controller has said so."""
        claim = self.claim(key)
        return claim is not None and _fully_bound(claim)

    def _problems(self, pod: Pod, claims: Iterable[tuple[str, bool]]) -> Iterator[str]:
        """Why no node can do, in kube-scheduler's words."""
        unbound: list[str] = []
        for key, is_ephemeral in claims:
            claim, name = self.claim(key), key.partition("/")[2]
            if claim is None:
                waits = "waiting for ephemeral volume controller to create the " if is_ephemeral else ""
                yield f'{waits}persistentvolumeclaim "{name}"{"" if waits else " not found"}'
                return
            if claim.status.phase == "Lost":
                yield (
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
                )
            if claim.metadata.deletion_timestamp:
                yield f'persistentvolumeclaim "{name}" is being deleted'
            if is_ephemeral and not is_for_pod(claim, pod):
                yield (
                    f"PVC {key} was not created for pod {pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
                )
            if _fully_bound(claim):
                if self.static.get(claim.spec.volume_name) is None:
                    yield f'persistentvolume "{claim.spec.volume_name}" not found'
                continue
            storage_class = class_of_claim(claim)
            written: StorageClass | None = self._objects[StorageClass].get(storage_class)
            if storage_class and written is None and not claim.spec.volume_name:
                yield f'storageclass.storage.k8s.io "{storage_class}" not found'
            if claim.spec.volume_name or written is None or written.volume_binding_mode != DELAYED:
                unbound.append(f"{named_for(pod, name, is_ephemeral=is_ephemeral)} {self._binds_at_once(claim)}")
        if unbound:
            yield f"{UNBOUND}: {unbound[0]}"

    def _binds_at_once(self, claim: PersistentVolumeClaim) -> str:
        """Why the controller for volumes binds a claim before its pod has a node."""
        if claim.spec.volume_name:
            return f'is being bound to persistentvolume "{claim.spec.volume_name}"'
        storage_class = class_of_claim(claim)
        if storage_class:
            return f'is of class "{storage_class}", whose claims are bound before their pods have nodes'
        if claim.spec.storage_class_name is not None:
            return 'asks for a volume without a class (storageClassName is "")'
        default = self.default_class()
        if default is not None:
            return f'has no class yet; the default is "{default}"'
        return "has no class, and no StorageClass is the default"

    def unbound(self, key: str) -> UnboundClaim | None:
        """What a claim asks for that is bound with its pod; None if it is bound, or unknown."""
        claim = self.claim(key)
        return None if claim is None or claim.spec.volume_name else self._unbound(key, claim)

    def _unbound(self, key: str, claim: PersistentVolumeClaim) -> UnboundClaim:
        reserved = self._reserved.get(key, "") or self.static.kept_for(key, claim.metadata.uid)
        told = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        selected = self._selected.get(key) or ((told,) if told else ())
        shared = key if key in self._shared else ""
        return unbound_claim(claim, reserved, selected, self._avoided.get(key, ()), shared)

    def _reach(self, volume_name: str) -> Reach:
        volume = self.static.get(volume_name)
        if volume is None:
            return Reach()
        return Reach(affinity_of(volume), zones_of(volume.metadata.labels or {}))

    def _driver_of(self, key: str) -> str:
        """The CSI driver or in-tree plugin that attaches the volume of a claim."""
        kind, _, name = key.partition(" ")
        if kind in DRIVER_OF_PLUGIN:
            return kind
        claim = self.claim(key)
        if claim is None and kind != PersistentVolume.__name__:
            return ""
        volume = self.static.get(name if claim is None else claim.spec.volume_name)
        if volume is None:
            written = None if claim is None else self._objects[StorageClass].get(class_of_claim(claim))
            return "" if written is None else str(written.provisioner)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver
        return next((plugin for field, plugin, _ in IN_TREE if getattr(volume.spec, field) is not None), "")

    def _changed(self, row: int) -> None:
        self._state.usage_log.append(row)

    def _changed_rows(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._state.usage_log.append(row)

    def copied(self, state: ClusterState) -> Volumes:
        """A copy for another state, which can change by itself."""
        copy = Volumes(state)
        copy.static = self.static.copied(state.labels, state.terms)
        copy.attached = self.attached.copied(copy._driver_of, copy._changed)
        copy.capacities = self.capacities.copied(state.labels, state.terms)
        copy._objects = {kind: dict(objects) for kind, objects in self._objects.items()}
        copy._plans = dict(self._plans)
        copy._reserved = dict(self._reserved)
        copy._selected = dict(self._selected)
        copy._holders = Counter(self._holders)
        copy._shared = set(self._shared)
        copy._avoided = dict(self._avoided)
        copy._disks = {named: list(held) for named, held in self._disks.items()}
        copy._aside = dict(self._aside)
        copy._disks_of = {key: list(named) for key, named in self._disks_of.items()}
        return copy


def _fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def _key(thing: StorageObject) -> str:
    metadata = thing.metadata
    in_namespace = metadata.namespace and isinstance(thing, PersistentVolumeClaim | CSIStorageCapacity)
    return f"{metadata.namespace}/{metadata.name}" if in_namespace else metadata.name
