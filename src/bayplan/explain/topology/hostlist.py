"""Many node names in few characters, as Slurm writes them: `b3-r07-n[02-07,11]`.

Names that differ only in their last number share one bracket; consecutive numbers become ranges. Of long lists
the first names are shown, whole, and the others counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LAST_NUMBER = re.compile(r"(?P<before>.*?)(?P<number>[0-9]+)(?P<after>[^0-9]*)")
_PARTS = re.compile(r"([0-9]{1,9})")
# A number longer than this is an identifier, not a counter: ranges over it would say nothing.
_LONGEST_COUNTER = 9


def compressed(names: Iterable[str]) -> list[str]:
    """Groups of names, in name order.

    >>> compressed(["n01", "n02", "n03", "login", "n07"])
    ['login', 'n[01-03,07]']
    """
    numbered: dict[tuple[str, str, int], list[int]] = {}
    groups: dict[tuple[str, str, int], str] = {}
    for name in sorted(set(names)):
        match = _LAST_NUMBER.fullmatch(name)
        if match is None or len(match["number"]) > _LONGEST_COUNTER:
            groups[name, "", 0] = name
        else:
            key = (match["before"], match["after"], len(match["number"]))
            numbered.setdefault(key, []).append(int(match["number"]))
    for (before, after, width), numbers in _joined(numbered).items():
        ranges = _ranges(sorted(numbers), width)
        inner = ",".join(ranges)
        only_one = len(ranges) == 1 and "-" not in inner
        groups[before, after, width] = f"{before}{inner}{after}" if only_one else f"{before}[{inner}]{after}"
    return [groups[key] for key in sorted(groups)]


def hostlist(names: Iterable[str], longest: int = 60) -> str:
    """The names as one text of about `longest` characters; the rest is counted."""
    every = sorted(set(names), key=_by_number)
    domain = common_domain(every)
    if domain:
        # Said once, and numbers in the domain are no counters: ip-10-0-1-[4-5].eu-west-1.compute.internal
        hosts = [name.removesuffix(domain) for name in every]
        in_full = hostlist(hosts, longest - len(domain) - len(" ()"))
        if in_full.endswith(" more"):
            # If names are omitted anyway, more of them are worth more than the domain.
            return f"{hostlist(hosts, longest - len(' (…)'))} (…)"
        return f"{in_full} ({domain})" if ", " in in_full else f"{in_full}{domain}"
    text = ", ".join(compressed(every))
    if len(text) <= longest:
        return text
    # Cut by name, not by group: one group alone can be too long.
    shown = len(every)
    while shown > 1 and len(", ".join(compressed(every[:shown]))) > longest:
        shown = shown * 3 // 4
    more = f" and {len(every) - shown} more" if shown < len(every) else ""
    return ", ".join(compressed(every[:shown])) + more


def common_domain(names: Iterable[str]) -> str:
    """The common part of all names after their host part: `.example.internal`; empty if there is none.

    >>> common_domain(["worker-1.eu.example.internal", "worker-2.eu.example.internal"]) '.eu.example.internal'
    """
    domains = set()
    number = 0
    for number, name in enumerate(names, start=1):  # noqa: B007 - how many there were
        domains.add(name.partition(".")[2])
        if len(domains) > 1:
            return ""
    domain = domains.pop() if number > 1 else ""
    return f".{domain}" if domain else ""


def domain_lines(domain: str) -> list[str]:
    """The omitted common domain, printed once."""
    return [f"  (node names end in {domain})"] if domain else []


def _by_number(name: str) -> list[tuple[int, str]]:
    """n9 before n10: numbers inside a name compare as numbers."""
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in _PARTS.split(name)]


def _joined(numbered: dict[tuple[str, str, int], list[int]]) -> dict[tuple[str, str, int], list[int]]:
    """Unpadded numbers of different length belong together (n9, n10); padded ones do not (n09, n010)."""
    joined: dict[tuple[str, str, int], list[int]] = {}
    for (before, after, width), numbers in numbered.items():
        padded = any(number < 10 ** (width - 1) for number in numbers) and width > 1
        key = (before, after, width if padded else 0)
        joined.setdefault(key, []).extend(numbers)
    return joined


def _ranges(numbers: list[int], width: int) -> list[str]:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in found]
