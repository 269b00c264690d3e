"""Read single values from sysfs: texts, numbers, lists of ids, bit masks, and numbers in names of folders.

A missing or malformed file has no value, because sysfs differs between kernels. Recordings of sysfs end with NUL bytes.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.cluster.reports.inventory import MOST_CPUS, NotUnderstood, cpu_set

# Characters; Linux has at most 1,024 NUMA nodes and 8,192 CPUs.
MAX_MASK = 4096


class SysfsError(ValueError):
    """The folder shows no machine; the message says what is missing."""


def read_text(file: Path) -> str | None:
    """The stripped text of a file, or None."""
    try:
        return file.read_bytes().decode("ascii", "replace").strip("\0 \n\t")
    except OSError:
        return None


def read_number(file: Path) -> int | None:
    """The integer in a file, or None."""
    text = read_text(file)
    try:
        return int(text) if text else None
    except ValueError:
        return None


def read_ids(file: Path) -> frozenset[int]:
    """The ids in a list such as `0-3,8`, if any."""
    try:
        return members(cpu_set(read_text(file) or ""))
    except NotUnderstood:
        return frozenset()


def read_mask(file: Path) -> frozenset[int]:
    """The ids in a mask such as `0000,0000003f`, with 32 bits between commas, if any."""
    text = read_text(file) or ""
    words = text.split(",")
    try:
        found = members(int("".join(word.zfill(8) for word in words), 16)) if len(text) <= MAX_MASK else frozenset()
    except ValueError:
        return frozenset()
    return frozenset(member for member in found if member < MOST_CPUS)


def members(bits: int) -> frozenset[int]:
    """The positions of the set bits. Visits only those: masks have a thousand bits, and few are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return frozenset(found)


def folder_numbers(folder: Path, before: str, after: str = "") -> list[int]:
    """The numbers in names of folders such as `node33`, ascending."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
    numbers = (name.removeprefix(before).removesuffix(after) for name in names if name.startswith(before))
    return sorted(int(number) for number in numbers if number.isdecimal())
