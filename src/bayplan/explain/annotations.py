"""The annotation that says which NUMA zones a running pod was given; see `cluster/pod_zones.py`, which reads it."""

from __future__ import annotations

from bayplan.cluster.pod_zones import NUMA_ZONES, ZonesByContainer, zones_of_pod

__all__ = ["NUMA_ZONES", "ZonesByContainer", "zones_of_pod"]
