"""The Topology Manager's merge: from what each resource would accept to one zone set for all of them.

Input: one `Hints` per resource (what a hint provider says). Output: one `Hint`: a zone set, or none, and whether all
resources prefer it. `kubelet.py` admits or refuses by it and hands it to the managers.

The kubelet tries every combination of hints. A combination is preferred only if all its sets are the same one, so
preferred outcomes are an intersection; for the others only the zones that remain in common count. Both give the
kubelet's answer without the product, which on eight zones takes the real one seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.simulate.kubelet.zone_sets import ZoneSet, ZoneSets


class Hint(NamedTuple):
    """A zone set (None: no affinity) and whether it is as small as possible for everything that asked."""

    zones: ZoneSet | None
    preferred: bool


class Hints(NamedTuple):
    """What one resource would accept: the sets it prefers and the other ones. None stands for any zone.

    A resource that accepts nothing is unavailable; then nothing is preferred, but the choices of other resources are
    not narrowed.
    """

    preferred: Sequence[ZoneSet | None]
    others: Sequence[ZoneSet | None]


NO_AFFINITY = Hint(None, preferred=False)
DO_NOT_CARE = Hints((None,), ())
IMPOSSIBLE = Hints((), ())


def merge(policy: Policy, zones: ZoneSets, hints: Sequence[Hints], *, closest: bool) -> Hint:
    """The best zone set for all resources at once, as this policy sees it."""
    if policy is Policy.NONE:
        return NO_AFFINITY
    if policy is Policy.SINGLE_NUMA_NODE:
        return _merged_in_one_zone(zones, hints)
    if preferred := _preferred_by_all(zones, hints):
        return Hint(min(preferred, key=lambda each: zones.rank(each, closest=closest)), preferred=True)
    if possible := _in_common(zones, hints):
        size = _wanted_size(hints)
        best = min(possible, key=lambda each: (_off_size(each, size), zones.rank(each, closest=closest)))
        return Hint(best, preferred=False)
    return Hint(zones.all, preferred=False)


def admits(policy: Policy, hint: Hint) -> bool:
    """Whether a policy lets a pod in with this hint."""
    return hint.preferred or policy in (Policy.NONE, Policy.BEST_EFFORT)


def _merged_in_one_zone(zones: ZoneSets, hints: Sequence[Hints]) -> Hint:
    """The lowest zone that every resource prefers.

    On a machine with one zone, or if no resource has a preference, there is no affinity.
    """
    single = [
        Hints([each for each in listed.preferred if each is None or each.bit_count() == 1], ()) for listed in hints
    ]
    preferred = _preferred_by_all(zones, single)
    best = min(preferred, key=lambda each: zones.rank(each, closest=False), default=zones.all)
    return Hint(None if best == zones.all else best, preferred=bool(preferred))


def _preferred_by_all(zones: ZoneSets, hints: Sequence[Hints]) -> set[ZoneSet]:
    """Sets that every resource prefers; a resource that also prefers "any zone" agrees to everything."""
    particular = [set(each.preferred) for each in hints if None not in each.preferred]
    if particular:
        agreed: set[ZoneSet | None] = set.intersection(*particular)
    else:
        agreed = set().union((zones.all,), *(each.preferred for each in hints))
    return {common for each in agreed if each is not None and (common := each & zones.all)}


def _in_common(zones: ZoneSets, hints: Sequence[Hints]) -> set[ZoneSet]:
    """What can remain in common when each resource picks one of its sets."""
    common = {zones.all}
    for each in hints:
        picks = {zones.all if pick is None else pick for pick in (*each.preferred, *each.others)}
        if picks and picks != {zones.all}:
            common = {left for before in common for pick in picks if (left := before & pick)}
    return common


def _wanted_size(hints: Sequence[Hints]) -> int:
    """The size below which some resource has no set of its own."""
    smallest = (
        min((zones.bit_count() for zones in (*each.preferred, *each.others) if zones is not None), default=0)
        for each in hints
    )
    return max(smallest, default=0)


def _off_size(zones: ZoneSet, wanted: int) -> tuple[int, int]:
    """Sets that no resource prefers: of the wanted size first, then smaller ones from the largest, then larger ones."""
    size = zones.bit_count()
    if size == wanted:
        return 0, 0
    return (1, -size) if size < wanted else (2, size)
