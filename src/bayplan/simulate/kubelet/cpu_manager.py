"""The CPU Manager with policy static: which container has which exclusive CPUs.

Input: pods and the Topology Manager's hint. Output: hints and CPU ids. `kubelet.py` asks for hints, has CPUs assigned
to containers in their order, and has everything released when a pod ends or is refused. Later containers of a pod may
reuse the CPUs of a finished init container; CPUs that are not reused stay with the pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, Role
from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.simulate.kubelet import pod_level
from bayplan.simulate.kubelet.answer import AdmissionError, allocation_failed
from bayplan.simulate.kubelet.cpu_choice import NotEnoughCpus, packed
from bayplan.simulate.kubelet.cpu_distribution import distributed
from bayplan.simulate.kubelet.cpu_layout import CpuLayout, CpuSet
from bayplan.simulate.kubelet.cpu_options import CpuOptions, cpu_options
from bayplan.simulate.kubelet.topology_manager import IMPOSSIBLE, Hint, Hints
from bayplan.simulate.kubelet.zone_sets import ZoneSet

STAGE = "cpu"
NONE: CpuSet = frozenset()


class CpuManager:
    """Hands out CPUs of one machine. `shared` are the CPUs that are not exclusively assigned."""

    def __init__(self, layout: CpuLayout, reserved: CpuSet, settings: KubeletSettings) -> None:
        self._layout = layout
        self._options = options = cpu_options(settings.cpu_options, settings.version)
        self._reserved = reserved
        self._cores_with_reserved = layout.with_siblings(reserved)
        self._pod_level_managers = settings.pod_level_managers
        self._shared = layout.all - reserved if options.strict_reservation else layout.all
        self._of_pods: dict[str, dict[str, CpuSet]] = {}
        self._whole_pods: dict[str, CpuSet] = {}
        self._reusable: CpuSet = NONE

    @property
    def free(self) -> CpuSet:
        """What a container could get exclusively now."""
        return self._shared - self._reserved

    def begin(self, key: str) -> None:
        """A new pod comes: nothing is its own yet."""
        self._of_pods[key] = {}
        self._reusable = NONE

    def cpus_of(self, key: str) -> Mapping[str, CpuSet]:
        """What the containers of a pod hold, by container."""
        return self._of_pods[key]

    def container_hints(self, pod: PodRequest, container: ContainerRequest) -> list[Hints]:
        """Zone sets that could give a container its exclusive CPUs; nothing if it has none."""
        wanted = self._exclusive(pod, container)
        return [self._hints(wanted, self._reusable)] if wanted else []

    def pod_hints(self, pod: PodRequest) -> list[Hints]:
        """Zone sets that could give the whole pod its exclusive CPUs."""
        wanted = self._exclusive_of_pod(pod)
        if not wanted:
            return []
        if pod.pod_level is not None and pod_level.cpu_problem(pod, wanted):
            return [IMPOSSIBLE]
        return [self._hints(wanted, NONE)]

    def allocate(self, key: str, pod: PodRequest, container: ContainerRequest, hint: Hint) -> None:
        """Give a container its exclusive CPUs, in the hinted zones as far as they go, then anywhere."""
        wanted = self._exclusive(pod, container)
        if not wanted:
            return
        self._refuse_split_cores(wanted)
        taken = self._take_near(wanted, hint.zones, self._reusable)
        self._of_pods[key][container.name] = taken
        self._reusable = self._reusable | taken if container.role is Role.INIT else self._reusable - taken

    def allocate_pod(self, key: str, pod: PodRequest, hint: Hint) -> None:
        """Give a pod with resources of its own CPUs as a whole, and each container its part of them."""
        wanted = self._exclusive_of_pod(pod)
        if not wanted:
            return
        if problem := pod_level.cpu_problem(pod, wanted):
            raise AdmissionError(STAGE, pod_level.EMPTY_SHARED_POOL, problem)
        self._refuse_split_cores(wanted)
        whole = self._take_near(wanted, hint.zones, NONE)
        self._whole_pods[key] = whole
        self._of_pods[key] = pod_level.cpu_parts(pod, whole, self._choose)

    def release(self, key: str) -> None:
        """A pod ended or was refused: all its CPUs are shared again."""
        held = self._of_pods.pop(key)
        # On machines with uneven sockets, the kubelet's choice for a container can lie outside its pod's CPUs.
        whole = self._whole_pods.pop(key, None)
        self._shared = self._shared.union(*held.values()) if whole is None else self._shared | whole

    def _exclusive(self, pod: PodRequest, container: ContainerRequest) -> int:
        if pod.pod_level is None:
            return pod.exclusive_cpus(container)
        return pod_level.exclusive_cpus(pod, container) if self._pod_level_managers else 0

    def _exclusive_of_pod(self, pod: PodRequest) -> int:
        if pod.pod_level is not None:
            return pod_level.exclusive_cpus_of_pod(pod) if self._pod_level_managers else 0
        running = starting = sidecars = 0
        for container in pod.containers:
            wanted = pod.exclusive_cpus(container)
            if container.role is Role.INIT:
                starting = max(starting, sidecars + wanted)
            elif container.role is Role.SIDECAR:
                sidecars += wanted
            else:
                running += wanted
        return max(starting, running + sidecars)

    def _hints(self, wanted: int, reusable: CpuSet) -> Hints:
        layout = self._layout
        must_include = layout.zones_of(reusable)
        fewest = layout.fewest_zones_for(wanted)
        missing = wanted - len(reusable)
        free = layout.zone_sets.sums(layout.count_by_zone(self.free))
        preferred: list[ZoneSet | None] = []
        others: list[ZoneSet | None] = []
        for zones, size, cpus in zip(layout.zone_sets.sets, layout.zone_sets.sizes, free, strict=True):
            if cpus >= missing and not must_include & ~zones:
                if size == fewest or (self._options.by_socket and self._fits_sockets(zones, fewest)):
                    preferred.append(zones)
                else:
                    others.append(zones)
        return Hints(preferred, others)

    def _fits_sockets(self, zones: ZoneSet, fewest_zones: int) -> bool:
        """Under align-by-socket a set is as good as the smallest one if it touches no more sockets."""
        fewest_sockets = -(-fewest_zones // self._layout.zones_per_socket)
        return len(self._layout.sockets_of(zones)) == fewest_sockets

    def _refuse_split_cores(self, wanted: int) -> None:
        if not self._options.whole_cores:
            return
        per_core = self._layout.cpus_per_core
        if wanted % per_core:
            problem = f"requested {wanted} cpus not multiple cpus per core = {per_core}"
        elif wanted > (in_whole_cores := len(self._shared - self._cores_with_reserved)):
            problem = (
                f"not enough free physical CPUs: available physical CPUs = {in_whole_cores}, "
                f"requested CPUs = {wanted}, CPUs per core = {per_core}"
            )
        else:
            return
        raise AdmissionError(STAGE, "SMTAlignmentError", f"SMT Alignment Error: {problem}")

    def _take_near(self, wanted: int, zones: ZoneSet | None, reusable: CpuSet) -> CpuSet:
        candidates = self.free | reusable
        taken = NONE
        if zones is not None:
            near = candidates & self._near(zones)
            taken = self._choose(near, min(wanted, len(near)))
        taken |= self._choose(candidates - taken, wanted - len(taken))
        self._shared -= taken
        return taken

    def _near(self, zones: ZoneSet) -> CpuSet:
        if self._options.by_socket:
            return self._layout.in_sockets(self._layout.sockets_of(zones))
        return self._layout.in_zones(zones)

    def _choose(self, free: CpuSet, wanted: int) -> CpuSet:
        try:
            return choose(self._layout, self._options, free, wanted)
        except NotEnoughCpus as error:
            raise allocation_failed(STAGE, str(error)) from None


def choose(layout: CpuLayout, options: CpuOptions, free: CpuSet, wanted: int) -> CpuSet:
    """The CPUs that these options would pick from the free ones; too few raise `NotEnoughCpus`."""
    if options.across_zones:
        group = layout.cpus_per_core if options.whole_cores else 1
        return distributed(
            layout,
            free,
            wanted,
            group=group,
            spread=options.across_cores,
            by_socket=options.by_socket and options.spreads_inside_sockets,
            within_reach=options.spreads_inside_sockets,
        )
    return packed(layout, free, wanted, spread=options.across_cores, by_cache=options.by_cache)
