"""Amounts as people write them: `24`, `500m`, `32Gi`, `2`.

In come the exact integers of the columns (milli-CPUs, bytes, devices), out goes text. `human` may round down to one decimal
and is for reading; `canonical` is exact, the text Kubernetes itself would print, and is for documents that programs read.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.cluster.pod_request import CPU, is_memory
from bayplan.kube.quantity import NANO, Format, Quantity

_MILLI = NANO // 1000
_BYTE_RESOURCES = ("ephemeral-storage", "storage")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def human(resource: str, amount: int) -> str:
    """An amount for reading: whole where it is whole, else rounded down to one decimal of its largest unit.

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
    # Kubernetes would shorten 1000 devices to 1k; a count of things reads better as a number.
    return str(Quantity(amount * NANO, family)) if family is Format.BINARY_SI else str(amount)


def have_of_want(resource: str, have: int, want: int) -> str:
    """`cpu 22 of 24`; exact where rounding would make both look the same."""
    return f"{resource} {' of '.join(_apart(resource, have, want))}"


def instead(resource: str, amount: int, instead_of: int) -> str:
    """`cpu 22 instead of 24`; the first amount is a promise, so it is never rounded to something else."""
    return f"{resource} {' instead of '.join(_apart(resource, amount, instead_of))}"


def listing(amounts: Mapping[str, int]) -> str:
    """`cpu 24  memory 32Gi`: everything that is asked for, in the order written."""
    return "  ".join(f"{resource} {human(resource, amount)}" for resource, amount in amounts.items() if amount)


def counted_in_bytes(resource: str) -> bool:
    """True for memory, huge pages and storage."""
    return is_memory(resource) or resource in _BYTE_RESOURCES


def _apart(resource: str, one: int, other: int) -> tuple[str, str]:
    left, right = human(resource, one), human(resource, other)
    if left == right and one != other:
        return canonical(resource, one), canonical(resource, other)
    return left, right
