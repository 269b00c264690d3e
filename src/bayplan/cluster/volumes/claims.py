"""What a pod, a claim and a volume say by themselves: names, classes, owners, zones and disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bayplan.cluster.volumes.attached import PLUGIN_OF_SOURCE
from bayplan.cluster.volumes.needs import Disk, UnboundClaim
from bayplan.cluster.volumes.static import BETA_CLASS, bytes_in
from bayplan.kube.wire.core_v1 import Pod, Volume
from bayplan.kube.wire.core_v1_volumes import PersistentVolumeClaim
from bayplan.kube.wire.storage_v1 import StorageClass

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

# Annotations of the class that claims without one get.
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)

# Labels of volumes that say where they are; the values of one may be several, joined by "__".
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
# Where a node lacks an old label, its successor counts.
GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_NAMES_OF_DISK = {
    "gce_persistent_disk": ("pdName",),
    "aws_elastic_block_store": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}
_WRITTEN = {each.name: each.encode_name for each in msgspec.structs.fields(Volume)}


def claims_of(pod: Pod) -> Iterator[tuple[str, bool]]:
    """The claims of a pod by `namespace/name`, each with whether it is made for this pod alone
    (an ephemeral volume).
    """
    namespace = pod.metadata.namespace or "default"
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield f"{namespace}/{volume.persistent_volume_claim.claim_name}", False
        elif volume.ephemeral is not None:
            yield f"{namespace}/{pod.metadata.name}-{volume.name}", True


def named_for(pod: Pod, claim: str, *, is_ephemeral: bool) -> str:
    """A claim as its user wrote it: replicas of a StatefulSet have one of each template."""
    if is_ephemeral:
        return f'the claim template of volume "{claim.removeprefix(f"{pod.metadata.name}-")}"'
    template = claim.removesuffix(f"-{pod.metadata.name}")
    replicated = any(owner.kind == "StatefulSet" for owner in pod.metadata.owner_references or ())
    return f'the claim template "{template}"' if replicated and template != claim else f'claim "{claim}"'


def is_for_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """True if a pod controls a claim."""
    owners = [owner for owner in claim.metadata.owner_references or () if owner.controller]
    if not pod.metadata.uid:  # a snapshot has none
        return any((owner.kind, owner.name) == ("Pod", pod.metadata.name) for owner in owners)
    return any(owner.uid == pod.metadata.uid for owner in owners)


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The class of a claim: the annotation of old clusters, or the field."""
    return (claim.metadata.annotations or {}).get(BETA_CLASS) or claim.spec.storage_class_name or ""


def has_class(claim: PersistentVolumeClaim) -> bool:
    """True if a claim says which class it has, even if that is none: then it does not get the default."""
    return claim.spec.storage_class_name is not None or BETA_CLASS in (claim.metadata.annotations or {})


def is_default(storage_class: StorageClass) -> bool:
    """True if claims without a class get this one."""
    annotations = storage_class.metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)


def unbound_claim(
    claim: PersistentVolumeClaim,
    reserved: str = "",
    selected: tuple[str, ...] = (),
    avoided: tuple[str, ...] = (),
    shared: str = "",
) -> UnboundClaim:
    """What a claim asks of the volume that it gets."""
    spec = claim.spec
    return UnboundClaim(
        size=bytes_in((spec.resources.requests or {}).get("storage")),
        storage_class=class_of_claim(claim),
        modes=tuple(sorted(spec.access_modes or ())),
        volume_mode=spec.volume_mode or "Filesystem",
        selector="" if spec.selector is None else msgspec.json.encode(spec.selector).decode(),
        attributes_class=spec.volume_attributes_class_name or "",
        reserved=reserved,
        selected=selected,
        avoided=avoided,
        shared=shared,
    )


def zones_of(labels: Mapping[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The zones and regions that the labels of a volume name."""
    return tuple((key, tuple(sorted(labels[key].split("__")))) for key in ZONE_LABELS if labels.get(key))


def _is_plain(volume: Volume) -> bool:
    """True for secrets, empty directories and the like, of which nothing is read: most volumes of most pods.

    Looking at each field instead took a tenth of taking in a pod.
    """
    return volume == Volume(name=volume.name)


def disks_of(pod: Pod) -> Iterator[Disk]:
    """The disks that a pod names itself, of kinds that not every two pods of a node can share."""
    for volume in pod.spec.volumes or ():
        if _is_plain(volume):
            continue
        for field, names in _NAMES_OF_DISK.items():
            source = getattr(volume, field)
            if source is not None:
                monitors = source.get("monitors") or () if field == "rbd" else ()
                listed = monitors if isinstance(monitors, list) else ()
                yield Disk(
                    _WRITTEN[field],
                    tuple(str(source.get(name) or "") for name in names),
                    bool(source.get("readOnly")),
                    tuple(sorted(map(str, listed))),
                )


def inline_disks(pod: Pod) -> Iterator[str]:
    """The disks that a pod names itself and that a CSI driver attaches, each as its in-tree plugin and a name."""
    for volume in pod.spec.volumes or ():
        if _is_plain(volume):
            continue
        for field, plugin in PLUGIN_OF_SOURCE.items():
            source = getattr(volume, field)
            if source is not None:
                yield f"{plugin} {msgspec.json.encode(source, order='sorted').decode()}"
