"""ReplicaSet and StatefulSet (`apps/v1`): which pods are theirs."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import LabelSelector, Metadata, WireStruct

API_VERSION = "apps/v1"


class ControllerSpec(WireStruct, frozen=True):
    """The pods of a controller."""

    selector: LabelSelector | None = None


class ReplicaSet(WireStruct, frozen=True):
    """A ReplicaSet."""

    metadata: Metadata = Metadata()
    spec: ControllerSpec = ControllerSpec()


class StatefulSet(WireStruct, frozen=True):
    """A StatefulSet."""

    metadata: Metadata = Metadata()
    spec: ControllerSpec = ControllerSpec()
