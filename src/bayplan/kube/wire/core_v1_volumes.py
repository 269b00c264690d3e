"""PersistentVolume and PersistentVolumeClaim of the core group, reduced to the fields that
decide where a pod can run.
"""

from __future__ import annotations

from msgspec import field

from bayplan.kube.wire.core_v1 import (
    LabelSelector,
    Metadata,
    NodeSelector,
    Quantities,
    ResourceRequirements,
    WireStruct,
)

API_VERSION = "v1"


class ClaimReference(WireStruct, frozen=True):
    """The claim that a volume is bound to, or reserved for if the uid is missing."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(WireStruct, frozen=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class CSISource(WireStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(WireStruct, frozen=True):
    """What a volume offers. The in-tree sources are those that Kubernetes hands over to CSI drivers."""

    capacity: Quantities | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSISource | None = None
    gce_persistent_disk: dict[str, object] | None = None
    aws_elastic_block_store: dict[str, object] | None = None
    azure_disk: dict[str, object] | None = None
    azure_file: dict[str, object] | None = None
    cinder: dict[str, object] | None = None
    vsphere_volume: dict[str, object] | None = None
    portworx_volume: dict[str, object] | None = None


class VolumeStatus(WireStruct, frozen=True):
    """Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(WireStruct, frozen=True):
    """A volume."""

    metadata: Metadata = Metadata()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class ClaimSpec(WireStruct, frozen=True):
    """What a claim asks for. An absent class means none; the API server fills in the default class."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)


class ClaimStatus(WireStruct, frozen=True):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(WireStruct, frozen=True):
    """A claim."""

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
