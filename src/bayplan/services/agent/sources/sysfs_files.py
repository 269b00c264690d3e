"""Single values out of sysfs files: texts, numbers, lists of ids and bit masks, and numbers in names of folders.

A file that is not there, cannot be read or makes no sense is no value: sysfs differs from kernel to kernel, and `services/agent/sources/sysfs.py` knows what
to do without. Recordings of sysfs have bytes of zero at the end of texts.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.cluster.reports.inventory import MOST_CPUS, NotUnderstood, cpu_set

# Linux knows at most 1,024 NUMA nodes and 8,192 CPUs; a longer mask than for so many is no mask.
LONGEST_MASK = 4096


class SysfsError(ValueError):
    """There is no machine to be seen; the text says where, and what should be there."""


def read_text(file: Path) -> str | None:
    """The text of a file without what surrounds it, or None."""
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
    """The ids in a list such as `0-3,8`; none if there is no such list."""
    try:
        return members(cpu_set(read_text(file) or ""))
    except NotUnderstood:
        return frozenset()


def read_mask(file: Path) -> frozenset[int]:
    """The ids in a mask such as `0000,0000003f`, 32 bits between commas; none if there is no such mask."""
    text = read_text(file) or ""
    words = text.split(",")
    try:
        found = members(int("".join(word.zfill(8) for word in words), 16)) if len(text) <= LONGEST_MASK else frozenset()
    except ValueError:
        return frozenset()
    return frozenset(member for member in found if member < MOST_CPUS)


def members(bits: int) -> frozenset[int]:
    """The positions of the bits that are set. Only those are visited: masks have a thousand bits and more, and few are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return frozenset(found)


def folder_numbers(folder: Path, before: str, after: str = "") -> list[int]:
    """The numbers in the names of folders such as `node33`, ascending."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
    numbers = (name.removeprefix(before).removesuffix(after) for name in names if name.startswith(before))
    return sorted(int(number) for number in numbers if number.isdecimal())
