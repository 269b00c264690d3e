"""The CPU Manager's options by their kubelet names: what they mean here, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.reports.kubelet_settings import FULL_PCPUS_ONLY
from bayplan.cluster.reports.kubelet_version import NEWEST, KubeletVersion
from bayplan.simulate.kubelet.versions import SPREADS_INSIDE_SOCKETS

ACROSS_CORES = "distribute-cpus-across-cores"
ACROSS_ZONES = "distribute-cpus-across-numa"
BY_CACHE = "prefer-align-cpus-by-uncorecache"
BY_SOCKET = "align-by-socket"
STRICT_RESERVATION = "strict-cpu-reservation"

KNOWN = frozenset({FULL_PCPUS_ONLY, ACROSS_CORES, ACROSS_ZONES, BY_CACHE, BY_SOCKET, STRICT_RESERVATION})
EXCLUSIVE = (
    (FULL_PCPUS_ONLY, ACROSS_CORES),
    (ACROSS_ZONES, ACROSS_CORES),
    (BY_CACHE, ACROSS_CORES),
    (BY_CACHE, ACROSS_ZONES),
)


@dataclass(frozen=True, slots=True)
class CpuOptions:
    """Which options are on, each by what it does."""

    whole_cores: bool
    across_cores: bool
    across_zones: bool
    by_cache: bool
    by_socket: bool
    strict_reservation: bool
    spreads_inside_sockets: bool = False
    """Whether by_socket counts for across_zones, too, and no zone is asked for more than it has: newer kubelets."""


def cpu_options(names: frozenset[str], version: KubeletVersion = NEWEST) -> CpuOptions:
    """The options with these names, as a kubelet of this version understands them."""
    return CpuOptions(
        whole_cores=FULL_PCPUS_ONLY in names,
        across_cores=ACROSS_CORES in names,
        across_zones=ACROSS_ZONES in names,
        by_cache=BY_CACHE in names,
        by_socket=BY_SOCKET in names,
        strict_reservation=STRICT_RESERVATION in names,
        spreads_inside_sockets=version >= SPREADS_INSIDE_SOCKETS,
    )
