"""Counts, shares and simulated time as people read them; for tables, pictures and the page alike."""

from __future__ import annotations


def number(value: int) -> str:
    """`3,214`."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """`1 node`, `3,214 nodes`."""
    return f"{number(value)} {noun}" if value == 1 else f"{number(value)} {noun}s"


def percent(share: float) -> str:
    """`61 %` of a share from 0 to 1; only what is full is 100 %, and only what is empty is 0 %."""
    rounded = round(share * 100)
    if 0 < share < 0.01:
        return "<1 %"
    return f"{min(rounded, 99) if share < 1 else rounded} %"


def clock(seconds: float) -> str:
    """A moment of simulated time: `0.4s`, `45s`, `2m10s`, `1h05m`."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
