"""Real machines: recorded sysfs trees are read into the inventory that hwloc sees in the same tree.

The recordings are those of the hwloc project, one archive per machine. They are read where they lie beside the
checkout; without them these tests are skipped. `lstopo` is asked if it is installed, and installed if Debian's package
manager lets us.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import pytest

from bayplan.services.agent.accounting import account
from bayplan.services.agent.evidence import Evidence
from bayplan.services.agent.sources.sysfs import Hardware, read_hardware

RECORDINGS = Path(__file__).resolve().parents[5] / "shared" / "sysfs"
IN_MEMORY = Path("/dev/shm")
NOT_WANTED = ("*/sys/devices/pci*", "*/sys/bus/pci", "*/sys/class/net", "*/sys/devices/virtual", "*/sys/devices/LNX*")
ARCHIVES = sorted(RECORDINGS.glob("*.tar.bz2"))


@dataclass(frozen=True)
class Expected:
    """What a machine's name promises: CPUs that are online, cores, and zones that have CPUs or only memory."""

    cpus: int
    cores: int
    zones: tuple[int, ...]
    memory_only: tuple[int, ...] = ()


MACHINES = {
    "128arm-2pa2n8cluster4co": Expected(128, 128, (0, 1, 2, 3)),
    "20em64t-hybrid-1p6c2t+2ca4co1t": Expected(20, 14, (0,)),
    "256ppc-8n8s4t": Expected(256, 64, (0, 1, 4, 5, 8, 9, 12, 13)),
    "2i386-2t-hugepagesizecount": Expected(2, 1, (0,)),
    "32em64t-2n8c+dax+nvme+mic+dimms": Expected(16, 16, (0, 1)),
    "40intel64-2g2n4c+pcilocality": Expected(40, 40, (0, 1, 2, 3)),
    "48amd64-4pa2n6c-sparse": Expected(48, 48, (0, 1, 2, 33, 34, 45, 72, 73)),
    "64amd64-4s2n4ca2co": Expected(64, 64, tuple(range(8))),
    "96em64t-4no4pa3ca2co": Expected(96, 96, (0, 1, 2, 3)),
    "fakeheteromemtiers": Expected(6, 6, (0, 1, 2), (4, 6, 8, 9)),
    "nvidia-dgx-gb10": Expected(20, 20, (0,)),
    "offline-cpu0-node0": Expected(17, 17, (1,)),
}


def name_of(archive: Path) -> str:
    return archive.name.removesuffix(".tar.bz2")


pytestmark = pytest.mark.skipif(not ARCHIVES, reason=f"no recorded machines in {RECORDINGS}")


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The folder that holds `sys` and `proc` of a machine.

    The command is five times as fast as Python, and these are 70,000 files.
    """
    if shutil.which("tar") is None:
        pytest.skip("there is no tar to unpack recorded machines with")
    with TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        command = ["tar", "--extract", "--bzip2", "--file", str(archive), "--directory", folder]
        subprocess.run([*command, *(f"--exclude={each}" for each in NOT_WANTED)], check=True)
        yield next(Path(folder).iterdir())


@pytest.mark.parametrize("archive", ARCHIVES, ids=[name_of(archive) for archive in ARCHIVES])
def test_a_recorded_machine_is_read_as_hwloc_reads_it(archive: Path) -> None:
    with unpacked(archive) as folder:
        found = read_hardware(folder)
        check_distances(found)
        check_idle_account(found)
        if name_of(archive) in MACHINES:
            assert summary_of(found) == MACHINES[name_of(archive)]
        seen = as_hwloc_sees(folder)
        assert as_we_see(found, seen) == seen


def summary_of(found: Hardware) -> Expected:
    return Expected(
        cpus=len(found.cpus),
        cores=len({cpu.core for cpu in found.cpus.values()}),
        zones=tuple(zone.id for zone in found.zones if zone.cpus),
        memory_only=tuple(zone.id for zone in found.zones if not zone.cpus),
    )


def check_distances(found: Hardware) -> None:
    """Zones are ten from themselves and farther from all others."""
    for zone in found.zones:
        assert zone.distances.keys() == found.zone_ids
        assert [other for other, distance in zone.distances.items() if distance == 10] == [zone.id]


def check_idle_account(found: Hardware) -> None:
    """An idle machine has everything available, and a zone without CPUs has memory only."""
    for zone, counted in zip(found.zones, account(Evidence(found)).zones, strict=True):
        assert ("cpu" in counted.amounts) == bool(zone.cpus)
        assert counted.amounts["memory"].capacity == zone.memory > 0
        assert all(amounts.available == amounts.allocatable for amounts in counted.amounts.values())


# -- hwloc -------------------------------------------------------------------------------------------------------------


@cache
def lstopo() -> str | None:
    """hwloc's command, installed on the way if that can be done; None if not."""
    found = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
    if found is None and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "hwloc-nox"], capture_output=True, timeout=120, check=False)
        found = shutil.which("lstopo-no-graphics")
    return found


def as_hwloc_sees(folder: Path) -> dict[str, object]:
    """Zones with memory, page counts and CPUs; sets of CPUs that share a core, a package or a last-level cache."""
    command = lstopo()
    if command is None:
        pytest.skip("hwloc is not installed and cannot be")
    done = subprocess.run(
        [command, "--input", str(folder), "--no-io", "--of", "xml", "-"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    objects = list(ET.fromstring(done.stdout).iter("object"))

    def sets(kind: str) -> set[frozenset[int]]:
        return {cpu_set(each.get("cpuset")) for each in objects if each.get("type") == kind}

    named_packages = all(each.get("os_index") for each in objects if each.get("type") == "Package")
    return {
        "cpus": frozenset().union(*sets("PU")),
        "cores": sets("Core"),
        # Firmware that names no packages leaves hwloc to guess them from siblings.
        "sockets": sets("Package") if named_packages else None,
        "caches": sets("L3Cache") or None,
        "zones": {
            int(each.get("os_index", "")): (
                int(each.get("local_memory", "0")),
                {
                    int(page.get("size", "")): int(page.get("count", ""))
                    for page in each.findall("page_type")[1:]
                    if page.get("count") != "0"
                },
                cpu_set(each.get("cpuset")),
            )
            for each in objects
            if each.get("type") == "NUMANode"
        },
    }


def cpu_set(text: str | None) -> frozenset[int]:
    """hwloc's masks: 32 bits between commas, `0x` in front of each, zeros left out."""
    words = [word.removeprefix("0x").zfill(8) for word in (text or "").split(",")]
    bits = int("".join(words), 16)
    return frozenset(number for number in range(bits.bit_length()) if bits >> number & 1)


def as_we_see(found: Hardware, seen: dict[str, object]) -> dict[str, object]:
    """The same for our reading; of zones without CPUs hwloc tells which CPUs are near, and we
    tell that there are none.
    """

    def sets(unit: str) -> set[frozenset[int]]:
        members: dict[int, set[int]] = {}
        for cpu in found.cpus.values():
            members.setdefault(getattr(cpu, unit), set()).add(cpu.id)
        return {frozenset(each) for each in members.values()}

    zones = {}
    for zone in found.zones:
        pages = {page_size(name): amount // page_size(name) for name, amount in zone.huge_pages.items()}
        theirs = seen["zones"]
        assert isinstance(theirs, dict)
        near = zone.cpus or (theirs[zone.id][2] if zone.id in theirs else zone.cpus)
        zones[zone.id] = (zone.memory, pages, near)
    return {
        "cpus": frozenset(found.cpus),
        "cores": sets("core"),
        "sockets": sets("socket") if seen["sockets"] else None,
        "caches": sets("cache") if seen["caches"] else None,
        "zones": zones,
    }


def page_size(resource: str) -> int:
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    size = resource.removeprefix("hugepages-")
    return int(size[:-2]) * units[size[-2:]]
