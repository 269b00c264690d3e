"""How a virtual kubelet is configured: what the KubeletConfiguration of a real one would say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.cluster.reports.kubelet_settings import KubeletSettings

MOST_PODS = 110


@dataclass(frozen=True)
class KubeletConfiguration:
    """Settings of the managers and what is kept from pods.

    `settings` has no unknowns here: `cpu_static` and `memory_static` are True or False. `reserved_cpus`
    (reservedSystemCPUs) wins over `reserved_cpu_milli` (kubeReserved plus systemReserved). `reserved_memory` is by zone
    id and resource name.
    """

    settings: KubeletSettings
    reserved_cpus: frozenset[int] = frozenset()
    reserved_cpu_milli: int = 0
    reserved_memory: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    most_pods: int = MOST_PODS


class CannotStart(ValueError):
    """The kubelet would not start on this machine with this configuration; the text says why."""


class TooManyZones(CannotStart):
    """A real kubelet may start on so many zones, but the virtual one cannot go through all their sets."""
