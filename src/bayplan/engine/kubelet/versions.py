"""What kubelets of one version do that those of others do not. Everything else in this room is the same in all of them.

In: the version in a node's settings. Out: its `Rules`. `devices.py`, `memory.py` and `cpu_assignment.py` ask.
docs/kubelet.md tells users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bayplan.cluster.reports.kubelet_version import KubeletVersion


@dataclass(frozen=True, slots=True)
class Rules:
    """One version's."""

    devices_hint_every_zone: bool
    """Hints for devices cover all zones, not only those with devices (kubernetes PR 138244)."""
    distributes_within_sockets: bool
    """align-by-socket counts for distribute-cpus-across-numa too (kubernetes PR 139778)."""
    serves_containers_without_memory: bool
    """With pod-level managers, a container that owns no memory is served all the same, and mostly refused."""


_V1_34 = Rules(
    devices_hint_every_zone=True,
    distributes_within_sockets=False,
    serves_containers_without_memory=True,
)
_V1_36 = replace(_V1_34, devices_hint_every_zone=False)
_V1_37 = replace(_V1_36, distributes_within_sockets=True, serves_containers_without_memory=False)

RULES: Mapping[KubeletVersion, Rules] = {
    KubeletVersion.V1_34: _V1_34,
    KubeletVersion.V1_35: _V1_34,
    KubeletVersion.V1_36: _V1_36,
    KubeletVersion.V1_37: _V1_37,
}
