"""Machines and kubelet configurations for the kubelet's families, odd ones first of all.

Sockets of different sizes, several sockets in a zone or zones in a socket, cores with and without a sibling thread,
CPUs that are offline, zones with memory only, gaps between zone ids, caches that cut zones, huge pages of four sizes,
devices in two zones, in none, broken ones. Each policy, scope and option that a kubelet starts with.
"""

from __future__ import annotations

from random import Random

from tests.peers.asking import Json

GI = 2**30
PAGE_BYTES = {"64Ki": 65536, "2Mi": 2 * 2**20, "32Mi": 32 * 2**20, "1Gi": GI}
POLICIES = ("none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node")
# Zones per machine: sets of zones double with each, and so does what a case costs.
ZONES = (1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6, 8, 8)
MOST_ZONES_BY_DEFAULT = 8


def machine(random: Random) -> Json:
    """A machine with one to eight zones, now and then ten."""
    number = random.choice(ZONES) if random.random() < 0.99 else 10
    ids = _zone_ids(random, number)
    with_cpus = (
        ids if number == 1 or random.random() < 0.88 else sorted(random.sample(ids, random.randint(1, number - 1)))
    )
    cpus = _cpus(random, with_cpus)
    sizes = random.choice(((), (), ("2Mi",), ("1Gi",), ("2Mi", "1Gi"), ("64Ki", "2Mi", "32Mi", "1Gi")))
    zones = []
    for index, zone in enumerate(ids):
        memory = random.randint(2, 16) * GI + random.randrange(GI // 4096) * 4096
        written: Json = {"id": zone, "mem": memory, "dist": _distances(random, index, number)}
        if sizes:
            written["hp"] = {size: _pages(random, size, memory // (2 * len(sizes))) for size in sizes}
        zones.append(written)
    for one, first in enumerate(zones):
        for other in range(one):
            first["dist"][other] = zones[other]["dist"][one]
    found: Json = {"sockets": len(set(cpus["socket"]) - {-1}), "numa": zones, "cpu": cpus}
    devices = _devices(random, ids)
    if devices:
        found["devices"] = devices
    return found


def _zone_ids(random: Random, number: int) -> list[int]:
    if random.random() < 0.9:
        return list(range(number))
    return sorted(random.sample(range(min(24, 3 * number)), number))


def _distances(random: Random, index: int, number: int) -> list[int]:
    row = [random.choice((11, 12, 20, 21, 21, 32)) for _ in range(number)]
    row[index] = 10
    return row


def _pages(random: Random, size: str, most_bytes: int) -> int:
    most = most_bytes // PAGE_BYTES[size]
    return random.choice((0, min(1, most), most // 2, random.randint(0, most)))


def _cpus(random: Random, zones: list[int]) -> Json:
    """Columns by CPU id: cores first, then how their threads are numbered."""
    threads = random.choice((1, 2, 2, 2, 2, 4))
    base = random.choice((2, 3, 4, 4, 6, 8)) if len(zones) <= 4 else random.choice((2, 3, 4))
    uneven = random.random() < 0.25
    split_cores = threads > 1 and random.random() < 0.15
    socket_of = _sockets(random, zones)
    cores: list[tuple[int, int, int, int]] = []  # zone, socket, cache, threads
    caches = random.choice((None, "zone", "half", "any"))
    for zone in zones:
        number = random.randint(1, base + 2) if uneven else base
        for core in range(number):
            sockets = socket_of[zone]
            socket = sockets[core * len(sockets) // number]
            cache = {"zone": zone, "half": 2 * zone + (core >= number // 2), "any": random.randrange(4)}.get(
                caches or "", 0
            )
            cores.append((zone, socket, cache, 1 if split_cores and random.random() < 0.4 else threads))
    order = _numbering(random, cores)
    columns: Json = {"core": [], "socket": [], "numa": [], "l3": []}
    names: dict[int, int] = {}
    for cpu, core in enumerate(order):
        zone, socket, cache, _ = cores[core]
        columns["core"].append(names.setdefault(core, cpu))
        columns["socket"].append(socket)
        columns["numa"].append(zone)
        columns["l3"].append(cache)
    if random.random() < 0.12 and len(order) > 2:
        _switch_off(random, columns)
    if caches is None:
        del columns["l3"]
    return columns


def _sockets(random: Random, zones: list[int]) -> dict[int, list[int]]:
    """The sockets of each zone: one for each, one for several zones, or several in a zone."""
    kind = random.choice(("each", "each", "shared", "shared", "several"))
    if kind == "several":
        per_zone = random.choice((2, 2, 3))
        return {zone: [per_zone * index + number for number in range(per_zone)] for index, zone in enumerate(zones)}
    sharing = random.choice((2, 3, 4)) if kind == "shared" else 1
    return {zone: [index // sharing] for index, zone in enumerate(zones)}


def _numbering(random: Random, cores: list[tuple[int, int, int, int]]) -> list[int]:
    """The core of each CPU id: siblings side by side, all first threads first, or zones in turns."""
    kind = random.choice(("side by side", "first threads", "first threads", "in turns"))
    threads = [core for core, (*_, number) in enumerate(cores) for _ in range(number)]
    if kind == "side by side":
        return threads
    first = [core for level in range(4) for core, (*_, number) in enumerate(cores) if level < number]
    if kind == "first threads":
        return first
    place = dict.fromkeys(range(len(cores)), 0)
    seen: dict[int, int] = {}
    for core, (zone, *_) in enumerate(cores):
        place[core] = seen[zone] = seen.get(zone, -1) + 1
    return sorted(first, key=lambda core: place[core])


def _switch_off(random: Random, columns: Json) -> None:
    """Some CPUs are offline.

    A core is called by its lowest CPU, so it may get another name; no zone loses all of its CPUs.
    """
    for cpu in random.sample(range(len(columns["core"])), random.randint(1, max(1, len(columns["core"]) // 6))):
        zone = columns["numa"][cpu]
        if columns["numa"].count(zone) > 1:
            for column in columns.values():
                column[cpu] = -1
    lowest: dict[int, int] = {}
    for cpu, core in enumerate(columns["core"]):
        if core >= 0:
            columns["core"][cpu] = lowest.setdefault(core, cpu)


def _devices(random: Random, zones: list[int]) -> dict[str, list[Json]]:
    kinds = random.sample(("gpu", "nic", "span", "mix", "bare"), random.choice((0, 1, 1, 2, 3)))
    found = {}
    for kind in kinds:
        number = random.randint(1, 2 * len(zones) + 2)
        homes = zones if random.random() < 0.5 else random.sample(zones, random.randint(1, len(zones)))
        listed = []
        for index in range(number):
            device: Json = {"id": f"{kind}-{index:02}", "numa": _device_zones(random, kind, homes)}
            if random.random() < 0.08:
                device["unhealthy"] = True
            listed.append(device)
        found[f"vendor.io/{kind}"] = listed
    return found


def _device_zones(random: Random, kind: str, homes: list[int]) -> list[int]:
    match kind:
        case "bare":
            return []
        case "span":
            return sorted(random.sample(homes, min(len(homes), random.choice((1, 2, 2)))))
        case "mix":
            return [] if random.random() < 0.3 else [random.choice(homes)]
        case _:
            return [random.choice(homes)]


# -- the kubelet ------------------------------------------------------------------------------------------------------


def configuration(random: Random, found: Json) -> Json:
    """What a kubelet starts with on this machine."""
    zones = [zone["id"] for zone in found["numa"]]
    policy = random.choice(POLICIES)
    kubelet: Json = {
        "topology_policy": policy,
        "topology_scope": random.choice(("container", "pod")),
        "cpu_policy": "static" if random.random() < 0.85 else "none",
        "memory_policy": "Static" if random.random() < 0.6 else "None",
    }
    options: dict[str, str] = {}
    # With gaps between zone ids a kubelet that prefers close zones crashes.
    if zones == list(range(len(zones))) and random.random() < 0.35:
        options["prefer-closest-numa-nodes"] = "true"
    if len(zones) > MOST_ZONES_BY_DEFAULT or random.random() < 0.02:
        options["max-allowable-numa-nodes"] = "16"
    if options:
        kubelet["topology_options"] = options
    _reserve_cpus(random, found["cpu"], kubelet)
    if kubelet["cpu_policy"] == "static":
        cpu_options = _cpu_options(random, found, kubelet)
        if cpu_options:
            kubelet["cpu_options"] = dict.fromkeys(cpu_options, "true")
    reserved = random.sample(found["numa"], random.randint(1, len(zones)))
    kubelet["reserved_memory"] = {
        str(zone["id"]): {"memory": random.choice((2**27, 2**28, 2**29, 2**29 + 4096))}
        for zone in sorted(reserved, key=lambda zone: int(zone["id"]))
    }
    return kubelet


def _reserve_cpus(random: Random, cpus: Json, kubelet: Json) -> None:
    kubelet["reserved_cpu_milli"] = 0
    online = [cpu for cpu, core in enumerate(cpus["core"]) if core >= 0]
    if random.random() < 0.5:
        chosen = set(random.sample(online, random.randint(1, min(4, len(online)))))
        if random.random() < 0.5:  # whole cores
            chosen = {cpu for cpu in online if cpus["core"][cpu] in {cpus["core"][each] for each in chosen}}
        if len(chosen) < len(online):
            kubelet["reserved_cpus"] = cpu_list(sorted(chosen))
            return
    kubelet["reserved_cpu_milli"] = random.choice((100, 500, 1000, 1500, 2000))
    if kubelet["reserved_cpu_milli"] > 1000 * (len(online) - 1):
        kubelet["reserved_cpu_milli"] = 500


def _cpu_options(random: Random, found: Json, kubelet: Json) -> list[str]:
    options = [
        name
        for name, chance in (
            ("full-pcpus-only", 0.3),
            ("strict-cpu-reservation", 0.2),
            ("distribute-cpus-across-numa", 0.25),
            ("prefer-align-cpus-by-uncorecache", 0.2),
            ("align-by-socket", 0.2),
            ("distribute-cpus-across-cores", 0.1),
        )
        if random.random() < chance
    ]
    excluded = (
        ("full-pcpus-only", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
    )
    for one, other in excluded:
        if one in options and other in options:
            options.remove(random.choice((one, other)))
    sockets = len(set(found["cpu"]["socket"]) - {-1})
    zones = len(set(found["cpu"]["numa"]) - {-1})
    if "align-by-socket" in options and (kubelet["topology_policy"] == "single-numa-node" or sockets > zones):
        options.remove("align-by-socket")
    # With cores that are in part reserved or of different sizes, these two together are an endless loop in the kubelet.
    if {"full-pcpus-only", "distribute-cpus-across-numa"} <= set(options) and not _cores_are_whole(
        found["cpu"], kubelet
    ):
        options.remove("distribute-cpus-across-numa")
    return options


def _cores_are_whole(cpus: Json, kubelet: Json) -> bool:
    threads = {core: cpus["core"].count(core) for core in set(cpus["core"]) - {-1}}
    if len(set(threads.values())) != 1:
        return False
    if not kubelet.get("reserved_cpus"):
        per_core: int = 1000 * next(iter(threads.values()))
        return int(kubelet["reserved_cpu_milli"]) % per_core == 0
    reserved = parsed(kubelet["reserved_cpus"])
    return all(
        cpus["core"].count(cpus["core"][cpu]) == sum(cpus["core"][each] == cpus["core"][cpu] for each in reserved)
        for cpu in reserved
    )


def cpu_list(cpus: list[int]) -> str:
    """CPU ids as Linux writes them: 0-3,8."""
    parts: list[str] = []
    start = 0
    for index, cpu in enumerate(cpus):
        if index + 1 == len(cpus) or cpus[index + 1] != cpu + 1:
            parts.append(str(cpu) if start == index else f"{cpus[start]}-{cpu}")
            start = index + 1
    return ",".join(parts)


def parsed(text: str) -> list[int]:
    """CPU ids of such a list."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
