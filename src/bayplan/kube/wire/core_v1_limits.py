"""ResourceQuota and LimitRange of core/v1: what a namespace allows its new pods."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Metadata, Quantities, WireStruct

API_VERSION = "v1"


class ScopeRequirement(WireStruct, frozen=True):
    """Which pods a quota covers: `PriorityClass In [high]`."""

    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(WireStruct, frozen=True):
    """Requirements that must all hold."""

    match_expressions: list[ScopeRequirement] | None = None


class ResourceQuotaSpec(WireStruct, frozen=True):
    """What the pods of the namespace may request together, and which pods count."""

    hard: Quantities | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(WireStruct, frozen=True):
    """What the API server judges by."""

    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(WireStruct, frozen=True):
    """A ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(WireStruct, frozen=True):
    """Limits of each object of one type: Container, Pod, PersistentVolumeClaim."""

    type: str = ""
    max: Quantities | None = None
    min: Quantities | None = None
    default: Quantities | None = None
    default_request: Quantities | None = None
    max_limit_request_ratio: Quantities | None = None


class LimitRangeSpec(WireStruct, frozen=True):
    """The limits."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(WireStruct, frozen=True):
    """A LimitRange."""

    metadata: Metadata = Metadata()
    spec: LimitRangeSpec = LimitRangeSpec()
