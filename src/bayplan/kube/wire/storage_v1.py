"""`storage.k8s.io/v1`: classes of volumes, and what CSI drivers say about nodes, capacity and attachments."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from bayplan.kube.wire.core_v1 import LabelSelector, Metadata, WireStruct

GROUP = "storage.k8s.io"
API_VERSION = f"{GROUP}/v1"


class TopologyRequirement(WireStruct, frozen=True):
    """A label that must have one of these values."""

    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(WireStruct, frozen=True):
    """Labels that must all match; a term without any matches no node."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(WireStruct, frozen=True):
    """How volumes of a class are provisioned, and when claims are bound."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class DriverLimit(WireStruct, frozen=True):
    """How many volumes of a driver fit on a node."""

    count: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class NodeDriver(WireStruct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    topology_keys: list[str] | None = None
    allocatable: DriverLimit | None = None


class CSINodeSpec(WireStruct, frozen=True):
    """The drivers of a node."""

    drivers: list[NodeDriver] | None = None


class CSINode(WireStruct, frozen=True):
    """The CSI drivers on the node of the same name."""

    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(WireStruct, frozen=True):
    """Whether a driver reports capacity."""

    storage_capacity: bool | None = None


class CSIDriver(WireStruct, frozen=True):
    """A CSI driver."""

    metadata: Metadata = Metadata()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(WireStruct, frozen=True):
    """How much a driver can still provision for a class, for the nodes that a selector matches."""

    metadata: Metadata = Metadata()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSource(WireStruct, frozen=True):
    """The attached volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(WireStruct, frozen=True):
    """The driver, the node and the volume."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(WireStruct, frozen=True):
    """A volume that is attached to a node, or is about to be."""

    metadata: Metadata = Metadata()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
