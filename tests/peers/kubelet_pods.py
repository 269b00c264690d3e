"""Pods for the kubelet's families, and the order in which they come and go.

Guaranteed and not, whole and fractional CPUs, several containers, init containers and sidecars at any place, huge
pages, devices of several kinds, resources of the pod as a whole. Sizes follow the machine: many fit a zone, some need
two, some are larger than the node.
"""

from __future__ import annotations

from random import Random

from tests.peers.asking import Json
from tests.peers.kubelet_machines import PAGE_BYTES

MIB = 2**20
# Hints of so many resources are merged by going through every combination; three full lists of eight zones take
# seconds.
MOST_COMBINATIONS = 300_000


def steps(random: Random, machine: Json, kubelet: Json, number: int, *, pod_level: float, restarts: bool) -> list[Json]:
    """Pods that come, start and go. What is started or removed need not have been admitted."""
    found: list[Json] = []
    names: list[str] = []
    for index in range(number):
        name = f"p{index}"
        found.append({"op": "admit", "pod": pod(random, machine, kubelet, name, pod_level=pod_level)})
        names.append(name)
        if random.random() < 0.6:
            found.append({"op": "start", "name": random.choice(names)})
        if random.random() < 0.35:
            found.append({"op": "remove", "name": names.pop(random.randrange(len(names)))})
        if restarts and random.random() < 0.1:
            found.append({"op": "restart"})
    return found


def pod(random: Random, machine: Json, kubelet: Json, name: str, *, pod_level: float) -> Json:
    """One pod."""
    taste = _Taste(random, machine, kubelet)
    written: Json = {"name": name}
    init = [taste.container(f"i{index}", init=True) for index in range(random.choice((0, 0, 0, 0, 1, 1, 2, 3)))]
    if init:
        written["init"] = init
    written["containers"] = [taste.container(f"c{index}") for index in range(random.choice((1, 1, 1, 1, 2, 2, 3)))]
    if random.random() < pod_level:
        written["pod_req"] = _pod_request(random, written)
    return written


class _Taste:
    """What the containers of one pod have in common: their QoS, how large they are, and which kinds of resources they
    know.
    """

    def __init__(self, random: Random, machine: Json, kubelet: Json) -> None:
        self.random = random
        self.guaranteed = random.random() < 0.85
        cpus = len([core for core in machine["cpu"]["core"] if core >= 0])
        zones = len(set(machine["cpu"]["numa"]) - {-1})
        self.most_cpus = max(1, int(cpus / zones * random.choice((0.3, 0.5, 0.5, 1, 1, 1.5, 2.5))))
        memory = [zone["mem"] for zone in machine["numa"]]
        self.most_memory = int(sum(memory) / len(memory) * random.choice((0.1, 0.3, 0.5, 0.5, 1, 2)))
        self.whole = random.random() < 0.8
        self.pages = sorted({size for zone in machine["numa"] for size in zone.get("hp") or {}})
        self.machine = machine
        self.devices = list(machine.get("devices") or {})
        self.reusable = dict.fromkeys(self.devices, 0)
        self._spare(len(machine["numa"]), kubelet)

    def _spare(self, zones: int, kubelet: Json) -> None:
        """Leave out kinds of resources until all their hints can be combined in reasonable time."""
        if kubelet["topology_policy"] in ("none", "single-numa-node") or not zones:
            return
        sets = 2**zones - 1
        with_memory = kubelet["memory_policy"] == "Static" and self.guaranteed
        self.random.shuffle(self.devices)
        while sets ** (1 + with_memory * (1 + len(self.pages)) + len(self.devices)) > MOST_COMBINATIONS:
            if self.devices:
                self.devices.pop()
            elif self.pages:
                self.pages.pop()
            else:
                return

    def container(self, name: str, *, init: bool = False) -> Json:
        random = self.random
        request: dict[str, int] = {"cpu": self._cpu(), "memory": self._memory()}
        if self.pages and random.random() < 0.3:
            size = random.choice(self.pages)
            request[f"hugepages-{size}"] = self._huge(size)
        written: Json = {"name": name}
        sidecar = init and random.random() < 0.4
        if sidecar:
            written["sidecar"] = True
        for resource in self.devices:
            if random.random() < 0.4:
                request |= self._some_devices(resource, stays=not init or sidecar)
        if self.guaranteed:
            return {**written, "req": request, "lim": None}
        return {**written, **self._not_guaranteed(request)}

    def _cpu(self) -> int:
        random = self.random
        whole = random.randint(1, self.most_cpus) * 1000
        return whole if self.whole or random.random() < 0.5 else random.choice((100, 250, 500, 1500, 2001, whole + 500))

    def _memory(self) -> int:
        return max(4096, self.random.randint(1, max(1, self.most_memory // MIB)) * MIB)

    def _huge(self, size: str) -> int:
        pages = max((zone.get("hp") or {}).get(size, 0) for zone in self.machine["numa"])
        return self.random.randint(1, max(1, pages + 1)) * PAGE_BYTES[size]

    def _some_devices(self, resource: str, *, stays: bool) -> dict[str, int]:
        """At least as many as an init container has left: which of more it would use again is unknown."""
        number = self.random.randint(1, max(1, min(4, len(self.machine["devices"][resource]))))
        if self.random.random() < 0.06:  # as many charts write it
            number = 0
        if number < self.reusable[resource]:
            return {}
        self.reusable[resource] = 0 if stays else number
        return {resource: number}

    def _not_guaranteed(self, request: dict[str, int]) -> Json:
        random = self.random
        devices = {name: amount for name, amount in request.items() if "/" in name or name.startswith("hugepages")}
        kind = random.choice(("burstable", "burstable", "limits apart", "best effort"))
        if kind == "best effort" and not any(name.startswith("hugepages") for name in devices):
            return {"req": devices, "lim": devices or {}} if devices else {"lim": {}}
        if kind == "limits apart":
            limits = {**devices, "memory": request["memory"] * 2, "cpu": request["cpu"]}
            return {"req": request, "lim": limits}
        return {"req": request, "lim": {**devices, "memory": request["memory"]}}


def _pod_request(random: Random, written: Json) -> dict[str, int]:
    """Resources of the pod: what its containers ask for together, or more; some containers then ask for nothing
    themselves.

    Huge pages are always among them, for an API server adds those of the containers.
    """
    everything = [*written.get("init", ()), *written["containers"]]
    for each in everything:
        if random.random() < 0.4:
            kept = {name: amount for name, amount in (each.get("req") or {}).items() if "/" in name}
            each["req"], each["lim"] = kept, None
    total: dict[str, int] = {"cpu": 0, "memory": 0}
    for each in everything:
        for name, amount in (each.get("req") or {}).items():
            if "/" not in name:
                total[name] = total.get(name, 0) + amount
    extra = random.choice((0, 0, 1000, 2000))
    whole = max(1000, -(-total["cpu"] // 1000) * 1000 + extra)
    cpu = whole if random.random() < 0.9 else total["cpu"] + 500
    memory = max(64 * MIB, total["memory"]) + random.choice((0, 0, 256 * MIB))
    return {**total, "cpu": cpu, "memory": memory}
