"""The Device Manager: which devices of the device plugins are whose.

In come pods and the Topology Manager's hint, out go hints and device ids. It looks at every pod, whatever its QoS
class. A real kubelet leaves the choice among equal devices to the plugin; here the plugin takes what must be included,
then ascending ids. Devices of a finished init container are used again by later containers of its pod, and stay with
the pod if not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, Role, sidecar_aware_sum
from bayplan.simulate.kubelet.answer import AdmissionError, allocation_failed
from bayplan.simulate.kubelet.machine import MachineDevice
from bayplan.simulate.kubelet.topology_manager import DO_NOT_CARE, IMPOSSIBLE, Hint, Hints
from bayplan.simulate.kubelet.zone_sets import ZoneSet, zone_ids, zone_set, zone_sets_of

STAGE = "device"


class DeviceLayout:
    """The devices of one resource. Only zones that host one of them, and `further` ones, appear in hints."""

    def __init__(self, devices: tuple[MachineDevice, ...], further: tuple[int, ...]) -> None:
        self.zones_of: dict[str, ZoneSet] = {device.id: zone_set(device.zones) for device in devices}
        self.healthy = tuple(sorted(device.id for device in devices if device.healthy))
        hosting = 0
        for zones in self.zones_of.values():
            hosting |= zones
        # Whether the plugin says of any device where it is.
        self.has_zones = bool(hosting)
        self.sets = zone_sets_of(zone_ids(hosting | zone_set(further)))

    def fewest_zones_for(self, devices: int) -> int:
        """How many zones it takes if every device, broken ones included, were free.

        All of them if that is not enough.
        """
        enough = (size for size, most in enumerate(self._most_by_size, start=1) if most >= devices)
        return next(enough, len(self.sets.ids))

    @cached_property
    def _most_by_size(self) -> list[int]:
        """The most devices that one zone, two zones, three zones, ... host together."""
        most = [0] * len(self.sets.ids)
        for total, size in zip(self.count_by_set(self.zones_of), self.sets.sizes, strict=True):
            most[size - 1] = max(most[size - 1], total)
        return most

    def count_by_set(self, devices: Iterable[str]) -> list[int]:
        """For each zone set how many of these devices touch it."""
        counts: dict[ZoneSet, int] = {}
        for device in devices:
            zones = self.zones_of[device]
            counts[zones] = counts.get(zones, 0) + 1
        if all(zones.bit_count() <= 1 for zones in counts):
            return self.sets.sums([counts.get(1 << zone, 0) for zone in self.sets.ids])
        grouped = tuple(counts.items())
        return [sum(count for zones, count in grouped if zones & each) for each in self.sets.sets]


@lru_cache(maxsize=256)
def device_layout(devices: tuple[MachineDevice, ...], further: tuple[int, ...]) -> DeviceLayout:
    """The one layout of these devices."""
    return DeviceLayout(devices, further)


class DeviceManager:
    """Hands out the devices of one machine.

    Older kubelets give hints for `further` zones, too, which host none of a resource.
    """

    def __init__(self, devices: Mapping[str, tuple[MachineDevice, ...]], further: tuple[int, ...] = ()) -> None:
        self._layouts = {resource: device_layout(listed, further) for resource, listed in devices.items()}
        self._in_use: dict[str, set[str]] = {resource: set() for resource in devices}
        self._of_pods: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
        self._reusable: dict[str, set[str]] = {}

    @property
    def free(self) -> dict[str, tuple[str, ...]]:
        """Healthy devices that are not in use, by resource, ids ascending."""
        return {resource: tuple(self._available(resource)) for resource in self._layouts}

    def begin(self, key: str) -> None:
        """A new pod comes: nothing is its own yet."""
        self._of_pods[key] = {}
        self._reusable = {}

    def devices_of(self, key: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """What the containers of a pod hold, by container and resource."""
        return self._of_pods[key]

    def container_hints(self, _pod: PodRequest, container: ContainerRequest) -> list[Hints]:
        """Zone sets that could give a container its devices, for each resource."""
        return [
            self._hints(resource, wanted, self._reusable.get(resource, set()))
            for resource, wanted in self._requested(container.limits).items()
        ]

    def pod_hints(self, pod: PodRequest) -> list[Hints]:
        """Zone sets that could give the whole pod its devices, for each resource."""
        together = sidecar_aware_sum(pod.containers, of_limits=True)
        return [self._hints(resource, wanted, set()) for resource, wanted in self._requested(together).items()]

    def allocate(self, key: str, _pod: PodRequest, container: ContainerRequest, hint: Hint) -> None:
        """Give a container its devices: what can be used again, then in the hinted zones, then anywhere."""
        got: dict[str, tuple[str, ...]] = {}
        self._of_pods[key][container.name] = got
        for resource, wanted in self._requested(container.limits).items():
            if not self._layouts[resource].healthy:
                raise _failed(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
            chosen = self._choose(resource, wanted, hint.zones)
            self._in_use[resource].update(chosen)
            if chosen:
                got[resource] = tuple(sorted(chosen))
            reusable = self._reusable.setdefault(resource, set())
            if container.role is Role.INIT:
                reusable.update(chosen)
            else:
                reusable.difference_update(chosen)

    def allocate_pod(self, key: str, pod: PodRequest, hint: Hint) -> None:
        """Nothing: for a pod served as a whole the kubelet picks devices only when a container starts."""

    def release(self, key: str) -> None:
        """A pod ended or was refused: its devices are free again."""
        for by_resource in self._of_pods.pop(key).values():
            for resource, ids in by_resource.items():
                self._in_use[resource].difference_update(ids)

    def _requested(self, limits: Mapping[str, int]) -> dict[str, int]:
        return {resource: amount for resource, amount in limits.items() if resource in self._layouts}

    def _available(self, resource: str) -> list[str]:
        in_use = self._in_use[resource]
        return [device for device in self._layouts[resource].healthy if device not in in_use]

    def _hints(self, resource: str, wanted: int, reusable: set[str]) -> Hints:
        layout = self._layouts[resource]
        if not layout.has_zones:
            return DO_NOT_CARE
        available = self._available(resource)
        if len(available) + len(reusable) < wanted:
            return IMPOSSIBLE
        placed = [zones for device in reusable if (zones := layout.zones_of[device])]
        fewest = layout.fewest_zones_for(wanted)
        preferred: list[ZoneSet | None] = []
        others: list[ZoneSet | None] = []
        counts = layout.count_by_set(available)
        for zones, size, count in zip(layout.sets.sets, layout.sets.sizes, counts, strict=True):
            if count + len(placed) >= wanted and all(each & zones for each in placed):
                (preferred if size == fewest else others).append(zones)
        return Hints(preferred, others)

    def _choose(self, resource: str, wanted: int, zones: ZoneSet | None) -> set[str]:
        layout = self._layouts[resource]
        chosen = set(sorted(self._reusable.get(resource, ()))[:wanted])
        available = self._available(resource)
        missing = wanted - len(chosen)
        if missing > len(available):
            raise _failed(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {missing}, Available: {len(available)}"
            )
        if layout.has_zones and zones is not None:
            near = [device for device in available if layout.zones_of[device] & zones]
            available = near + [device for device in available if device not in near]
        return chosen.union(available[:missing])


def _failed(cause: str) -> AdmissionError:
    return allocation_failed(STAGE, cause)
