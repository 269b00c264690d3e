"""Amounts as people write them: `24`, `500m`, `32Gi`, `2`.

The exact integers of the columns come in (milli-CPUs, bytes, devices); text goes out. `human` can round down to one
decimal; `canonical` is exact, as Kubernetes prints it, for documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.cluster.pods.request import CPU, MEMORY, is_memory
from bayplan.kube.quantity import NANO, Format, Quantity, parse

_MILLI = NANO // 1000
_BYTE_RESOURCES = ("ephemeral-storage", "storage")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def human(resource: str, amount: int) -> str:
    """An amount for reading: whole if it is whole, else rounded down to one decimal of its largest unit.

    >>> human("cpu", 500), human("cpu", 2500), human("memory", 32 * 2**30), human("memory", 3 * 2**29), human("gpu", 2)
    ('500m', '2.5', '32Gi', '1.5Gi', '2')
    """
    if resource == CPU:
        if 0 < amount < 1000:
            return f"{amount}m"
        whole, rest = divmod(amount, 1000)
        return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
    if not counted_in_bytes(resource):
        return str(amount)
    power = 0
    while power + 1 < len(_UNITS) and amount >= 1024 ** (power + 1):
        power += 1
    whole, rest = divmod(amount, 1024**power)
    tenths = rest * 10 // 1024**power
    return f"{whole}.{tenths}{_UNITS[power]}" if tenths else f"{whole}{_UNITS[power]}"


def canonical(resource: str, amount: int) -> str:
    """An amount exactly, in Kubernetes' own spelling."""
    if resource == CPU:
        return str(Quantity(amount * _MILLI))
    family = Format.BINARY_SI if counted_in_bytes(resource) else Format.DECIMAL_SI
    # Kubernetes would shorten 1000 devices to 1k.
    return str(Quantity(amount * NANO, family)) if family is Format.BINARY_SI else str(amount)


def have_of_want(resource: str, have: int, want: int) -> str:
    """`cpu 22 of 24`; exact if rounding would make both look the same."""
    left, right = human(resource, have), human(resource, want)
    if left == right and have != want:
        left, right = canonical(resource, have), canonical(resource, want)
    return f"{resource} {left} of {right}"


def instead(resource: str, amount: int, instead_of: int) -> str:
    """`cpu 22 instead of 24`. The first amount was tested, so it is exact."""
    promised = human(resource, amount)
    if resource != CPU and parse(promised).value() != amount:
        promised = canonical(resource, amount)
    return f"{resource} {promised} instead of {human(resource, instead_of)}"


def listing(amounts: Mapping[str, int]) -> str:
    """`cpu 24  memory 32Gi`: all requests, in the order of `usual_order`."""
    return "  ".join(f"{name} {human(name, amounts[name])}" for name in usual_order(amounts) if amounts[name])


def count(number: int, noun: str) -> str:
    """`1 node`, `3 nodes`, `2 switches`."""
    plural = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number} {noun}{'' if number == 1 else plural}"


def fit_text(*told: tuple[int, int, str]) -> str:
    """`1 of 3 gangs fits`, `0 of 1 gang and 2 of 3 other pods fit`: how many of how many things."""
    parts = [f"{number} of {count(total, noun)}" for number, total, noun in told]
    every = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{every} {'fits' if len(told) == 1 and 1 in told[0][:2] else 'fit'}"


def share_text(shares: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """`45 % cpu`: the largest share with its resource; never 0 % for a positive share."""
    if not shares:
        return "-"
    worst = max(shares, key=lambda name: shares[name])
    share = shares[worst]
    if not share:
        return "0 %"
    return f"{'<1' if share < 0.01 else int(100 * share)} % {labels[worst]}"


def usual_order(resources: Iterable[str]) -> list[str]:
    """cpu, memory, huge pages, then everything else by name."""

    def rank(name: str) -> int:
        return 0 if name == CPU else 1 if name == MEMORY else 2 if is_memory(name) else 3

    return sorted(resources, key=lambda name: (rank(name), name))


def counted_in_bytes(resource: str) -> bool:
    """True for memory, huge pages and storage."""
    return is_memory(resource) or resource in _BYTE_RESOURCES
