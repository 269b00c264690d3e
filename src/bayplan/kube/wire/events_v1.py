"""Event (`events.k8s.io/v1`): what `kubectl describe` shows below an object, reduced to what is looked at again."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int32, Metadata, WireStruct

API_VERSION = "events.k8s.io/v1"


class ObjectReference(WireStruct, frozen=True):
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(WireStruct, frozen=True):
    """How often an event was repeated, and when last."""

    count: Int32 = 0
    last_observed_time: str = ""


class Event(WireStruct, frozen=True):
    """An event."""

    metadata: Metadata = Metadata()
    type: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""
    regarding: ObjectReference = ObjectReference()
    reporting_controller: str = ""
    series: EventSeries | None = None
