"""PodDisruptionBudget (`policy/v1`): how many of some pods may be evicted now."""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int32, Int64, LabelSelector, Metadata, WireStruct

API_VERSION = "policy/v1"


class VersionedMetadata(Metadata, frozen=True):
    """Metadata with the number of the spec, which tells whether a status was counted for it."""

    generation: Int64 = 0


class PodDisruptionBudgetSpec(WireStruct, frozen=True):
    """The pods that a budget covers. An absent selector covers none, an empty one all pods of the namespace."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(WireStruct, frozen=True):
    """What the disruption controller counted. `disrupted_pods` are evicted already, but not gone."""

    disruptions_allowed: Int32 = 0
    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(WireStruct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: VersionedMetadata = VersionedMetadata()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus | None = None
