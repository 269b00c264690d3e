"""The Memory Manager with policy Static: which zones the memory of Guaranteed pods comes from.

In come pods and the Topology Manager's hint, out go hints and memory blocks. All types (memory, huge pages) of a
container come from the same zones. `kubelet.py` asks for hints, has containers served in their order, tells when a
pod's init containers have finished, and has everything released at the end. `memory_zones.py` does the accounting.

Two things surprise users. If no zone set can serve a request, the hints are empty, which the Topology Manager reads as
"any zone will do", so the pod dies later, in `allocate`. And what a finished init container had can be used again only
for exactly the same zones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, Role, is_memory
from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.simulate.kubelet import pod_level
from bayplan.simulate.kubelet.answer import AdmissionError, MemoryBlock, ZoneMemoryState, allocation_failed
from bayplan.simulate.kubelet.memory_zones import Amounts, MemoryZones
from bayplan.simulate.kubelet.topology_manager import IMPOSSIBLE, Hint, Hints
from bayplan.simulate.kubelet.versions import PASSES_OVER_CONTAINERS_WITHOUT_MEMORY
from bayplan.simulate.kubelet.zone_sets import ZoneSet, zone_ids

STAGE = "memory"


class MemoryManager:
    """Hands out memory of one machine."""

    def __init__(self, zones: MemoryZones, settings: KubeletSettings) -> None:
        self._zones = zones
        self._pod_level_managers = settings.pod_level_managers
        self._passes_over_nothing = settings.version >= PASSES_OVER_CONTAINERS_WITHOUT_MEMORY
        self._of_pods: dict[str, dict[str, list[MemoryBlock]]] = {}
        self._whole_pods: dict[str, list[MemoryBlock]] = {}
        self._reusable: dict[tuple[ZoneSet, str], int] = {}

    @property
    def free(self) -> dict[int, ZoneMemoryState]:
        """What each zone has now."""
        return self._zones.state()

    def begin(self, key: str) -> None:
        """A new pod comes: nothing is its own yet."""
        self._of_pods[key] = {}
        self._reusable = {}

    def blocks_of(self, key: str) -> Mapping[str, list[MemoryBlock]]:
        """What the containers of a pod hold, by container."""
        return self._of_pods[key]

    def container_hints(self, pod: PodRequest, container: ContainerRequest) -> list[Hints]:
        """Zone sets that could serve a container, once for each type of memory; nothing if there are none."""
        return self._hints_by_type(self._request(pod, container)) if self._serves(pod) else []

    def pod_hints(self, pod: PodRequest) -> list[Hints]:
        """Zone sets that could serve the whole pod, once for each type of memory."""
        if not self._serves(pod):
            return []
        if pod.pod_level is None:
            return self._hints_by_type(self._request_of_pod(pod))
        request = pod_level.memory_of_pod(pod)
        if pod_level.memory_problem(pod, request):
            return [IMPOSSIBLE] * len(request)
        return self._hints_by_type(request)

    def allocate(self, key: str, pod: PodRequest, container: ContainerRequest, hint: Hint) -> None:
        """Give a container its memory, in the hinted zones or in a larger set that includes them."""
        if not self._serves(pod):
            return
        request = self._request(pod, container)
        if not request and self._passes_over_nothing:
            return
        zones = self._zones_for(request, hint)
        for type_, amount in request.items():
            self._zones.charge(type_, max(0, amount - self._reusable.get((zones, type_), 0)), zones)
        self._note_reuse(request, zones, container.role)
        self._take_over(key, pod, container, request, zone_ids(zones))
        self._of_pods[key][container.name] = _blocks(request, zones)

    def allocate_pod(self, key: str, pod: PodRequest, hint: Hint) -> None:
        """Give a pod with resources of its own memory as a whole, and each container its part of it."""
        if not self._serves(pod):
            return
        request = pod_level.memory_of_pod(pod)
        if problem := pod_level.memory_problem(pod, request):
            raise AdmissionError(STAGE, pod_level.EMPTY_SHARED_POOL, problem)
        zones = self._zones_for(request, hint)
        for type_, amount in request.items():
            self._zones.charge(type_, amount, zones)
        self._whole_pods[key] = _blocks(request, zones)
        self._of_pods[key] = {
            name: [block for block in _blocks(part, zones) if block.size > 0]
            for name, part in pod_level.memory_parts(pod, request).items()
        }

    def init_containers_finished(self, key: str, pod: PodRequest) -> None:
        """Give back what init containers had and no other container took over.

        A pod served as a whole keeps it to the end.
        """
        for container in pod.containers:
            if container.role is Role.INIT:
                blocks = self._of_pods[key].pop(container.name, [])
                if key not in self._whole_pods:
                    self._give_back(blocks)

    def release(self, key: str) -> None:
        """A pod ended or was refused: give back all it has."""
        by_container = self._of_pods.pop(key)
        if key in self._whole_pods:
            self._give_back(self._whole_pods.pop(key))
        else:
            for blocks in by_container.values():
                self._give_back(blocks)

    def _give_back(self, blocks: list[MemoryBlock]) -> None:
        for block in blocks:
            self._zones.give_back(block)

    def _serves(self, pod: PodRequest) -> bool:
        return pod.guaranteed and (pod.pod_level is None or self._pod_level_managers)

    def _request(self, pod: PodRequest, container: ContainerRequest) -> dict[str, int]:
        if pod.pod_level is not None:
            return pod_level.memory_of_container(container)
        return {type_: amount for type_, amount in container.requests.items() if is_memory(type_)}

    def _request_of_pod(self, pod: PodRequest) -> dict[str, int]:
        """The most that runs at a time, of the types that application containers ask for; others go unseen."""
        running: dict[str, int] = {}
        sidecars: dict[str, int] = {}
        starting: dict[str, int] = {}
        for container in pod.containers:
            for type_, amount in self._request(pod, container).items():
                if container.role is Role.INIT:
                    starting[type_] = max(starting.get(type_, 0), sidecars.get(type_, 0) + amount)
                elif container.role is Role.SIDECAR:
                    sidecars[type_] = sidecars.get(type_, 0) + amount
                else:
                    running[type_] = running.get(type_, 0) + amount
        return {
            type_: max(amount + sidecars.get(type_, 0), starting.get(type_, 0)) for type_, amount in running.items()
        }

    def _hints_by_type(self, request: Amounts) -> list[Hints]:
        hints = self._hints(request)
        return [hints] * len(request) if hints.preferred or hints.others else []

    def _hints(self, request: Amounts) -> Hints:
        """The sets that may be used and have enough of everything.

        Preferred are the smallest an empty machine allows.
        """
        memory = self._zones
        fewest = memory.fewest_zones_for(request)
        enough: Iterable[ZoneSet] = memory.sets.sets
        for type_, amount in request.items():
            free = dict(zip(memory.sets.sets, memory.free_sums(type_), strict=True))
            enough = [zones for zones in enough if free[zones] + self._reusable.get((zones, type_), 0) >= amount]
        usable = [zones for zones in enough if memory.may_be_used(zones)]
        return Hints(
            [zones for zones in usable if zones.bit_count() == fewest],
            [zones for zones in usable if zones.bit_count() != fewest],
        )

    def _zones_for(self, request: Amounts, hint: Hint) -> ZoneSet:
        zones, preferred = hint
        if zones is None:
            own = self._best(self._hints(request), including=0) if request else None
            if own is None:
                raise _failed("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            zones = _kept_preferred(own, "default", preferred=preferred)
            preferred = own.preferred
        if any(self._zones.free_in(zones, type_) < amount for type_, amount in request.items()):
            larger = self._best(self._hints(request), including=zones)
            if larger is None:
                raise _failed("failed to find NUMA nodes to extend the current topology hint")
            zones = _kept_preferred(larger, "extended", preferred=preferred)
        if zones.bit_count() > 1 and not self._zones.may_be_used(zones):
            raise _failed("preferred hint violates NUMA node allocation")
        return zones

    def _best(self, hints: Hints, *, including: ZoneSet) -> Hint | None:
        """The best of the own hints that includes these zones: preferred, then fewest zones, then lowest ids."""
        for candidates, preferred in ((hints.preferred, True), (hints.others, False)):
            fitting = [zones for zones in candidates if zones is not None and not including & ~zones]
            if fitting:
                return Hint(min(fitting, key=lambda zones: (zones.bit_count(), zones)), preferred)
        return None

    def _note_reuse(self, request: Amounts, zones: ZoneSet, role: Role) -> None:
        """What an init container gets can serve later containers in the same zones.

        What another one gets is used up.
        """
        for type_, amount in request.items():
            reusable = self._reusable.get((zones, type_), 0)
            self._reusable[zones, type_] = max(reusable, amount) if role is Role.INIT else max(0, reusable - amount)

    def _take_over(
        self, key: str, pod: PodRequest, container: ContainerRequest, request: Amounts, zones: tuple[int, ...]
    ) -> None:
        """Shrink the blocks of earlier init containers by what this container uses again, so that sums stay true."""
        blocks = self._of_pods[key]
        for type_, amount in request.items():
            left = amount
            for earlier in pod.containers:
                if earlier.name == container.name:
                    break
                if earlier.role is not Role.INIT:
                    continue
                for place, block in enumerate(blocks.get(earlier.name, ())):
                    if block.type == type_ and block.zones == zones:
                        reused = min(left, block.size)
                        blocks[earlier.name][place] = replace(block, size=block.size - reused)
                        left -= reused


def _blocks(request: Amounts, zones: ZoneSet) -> list[MemoryBlock]:
    return [MemoryBlock(type_, amount, zone_ids(zones)) for type_, amount in request.items()]


def _kept_preferred(hint: Hint, kind: str, *, preferred: bool) -> ZoneSet:
    """The zones of a replacement, which must not be worse than what it replaces."""
    assert hint.zones is not None
    if preferred and not hint.preferred:
        raise _failed(f"failed to find the {kind} preferred hint")
    return hint.zones


def _failed(cause: str) -> AdmissionError:
    return allocation_failed(STAGE, f"[memorymanager] {cause}")
