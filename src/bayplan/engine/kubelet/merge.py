"""The Topology Manager's merge: from the preferences of each resource to the one set of zones that all must share.

The input is the providers' hints (device, cpu, memory), the output the merged `Hint`; `admits` is the policy's verdict
on it. The kubelet tries every combination of one hint per resource, which takes seconds on eight zones. Its order of
preference is total, so two steps that never look at a combination give the same answer:

1. A combination is preferred only if every hint in it is preferred and all that name zones name the same ones. So
   keep the set of masks that all resources can still share. If any are left, the best of them is the answer.
2. Otherwise nothing is preferred, and only the masks that intersections can produce matter. They are counted. Above
   `MOST_ZONES` this step is skipped and the answer is "all zones, not preferred".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add, mul, sub
from typing import NamedTuple

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.engine.kubelet.masks import MOST_ZONES, Distances, ZoneIds, badness, bits, mask_of


class Hint(NamedTuple):
    """Zones that would do, and whether they are as few as the request can possibly be served from.

    `mask` is None where the zones do not matter.
    """

    mask: int | None
    preferred: bool


# Per resource: None = no preference, an empty list = cannot be satisfied. A provider without any preference is None.
ResourceHints = Sequence[Hint] | None
ProviderHints = Mapping[str, ResourceHints] | None

NO_PREFERENCE = Hint(None, preferred=True)
IMPOSSIBLE = Hint(None, preferred=False)
NO_POLICY = Hint(None, preferred=False)


def merge(
    zone_ids: ZoneIds, policy: Policy, providers: Iterable[ProviderHints], prefer_closest: Distances = ()
) -> Hint:
    """The hint that the Topology Manager derives from all providers' hints.

    `prefer_closest` holds the distances (row and column by position in `zone_ids`) if that option is on, else nothing.
    """
    if policy is Policy.NONE:
        return NO_POLICY
    everywhere = mask_of(zone_ids)
    lists = _one_list_per_resource(providers)
    if policy is Policy.SINGLE_NUMA_NODE:
        # Only preferred single zones are left to combine, so there is nothing but a common one, or nothing.
        shared = _masks_preferred_by_all(everywhere, [_only_single_zones(hints) for hints in lists])
        best = min(shared, key=badness(zone_ids), default=everywhere)
        return Hint(None if best == everywhere else best, preferred=bool(shared))
    shared = _masks_preferred_by_all(everywhere, lists)
    if shared:
        return Hint(min(shared, key=badness(zone_ids, prefer_closest)), preferred=True)
    return Hint(_best_unpreferred(zone_ids, lists, prefer_closest) or everywhere, preferred=False)


def admits(policy: Policy, hint: Hint) -> bool:
    """Whether the policy lets a pod or container with this merged hint in."""
    return hint.preferred or policy in (Policy.NONE, Policy.BEST_EFFORT)


def _one_list_per_resource(providers: Iterable[ProviderHints]) -> list[Sequence[Hint]]:
    lists: list[Sequence[Hint]] = []
    for provider in providers:
        if not provider:
            lists.append((NO_PREFERENCE,))
            continue
        for hints in provider.values():
            if hints is None:
                lists.append((NO_PREFERENCE,))
            else:
                # "Cannot be satisfied" only spoils the preference; it does not narrow the zones down.
                lists.append(hints or (IMPOSSIBLE,))
    return lists


def _only_single_zones(hints: Sequence[Hint]) -> list[Hint]:
    return [hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)]


def _best_unpreferred(zone_ids: ZoneIds, lists: Sequence[Sequence[Hint]], prefer_closest: Distances) -> int | None:
    if len(zone_ids) > MOST_ZONES:
        return None
    key = badness(zone_ids, prefer_closest)
    wanted = _widest_need(lists)
    possible = _intersections(zone_ids, [hints for hints in lists if any(hint.mask is not None for hint in hints)])
    return min(possible, key=lambda mask: (_misfit(mask.bit_count(), wanted), key(mask)), default=None)


def _masks_preferred_by_all(everywhere: int, lists: Iterable[Sequence[Hint]]) -> set[int]:
    shared: set[int] = set()
    nobody_cares_yet = True
    for hints in lists:
        indifferent = NO_PREFERENCE in hints
        own = {hint.mask for hint in hints if hint.preferred and hint.mask is not None}
        still_shared = shared if indifferent else shared & own
        shared = still_shared | own if nobody_cares_yet else still_shared
        nobody_cares_yet = nobody_cares_yet and indifferent
        if not shared and not nobody_cares_yet:
            return set()
    if nobody_cares_yet:
        shared = shared | {everywhere}
    return {mask & everywhere for mask in shared if mask & everywhere}


def _intersections(zone_ids: ZoneIds, lists: Iterable[Sequence[Hint]]) -> list[int]:
    """Every non-empty mask that is the intersection of one hint per resource.

    Counted instead of tried: the combinations whose intersection contains a mask are those of which every hint does, a
    simple product. Taking away those whose intersection is larger leaves the ones that hit the mask exactly.
    """
    everywhere = mask_of(zone_ids)
    position = {1 << zone: 1 << index for index, zone in enumerate(zone_ids)}
    containing = [1] * 2 ** len(zone_ids)
    for hints in lists:
        count = [0] * 2 ** len(zone_ids)
        for mask in {everywhere if hint.mask is None else hint.mask & everywhere for hint in hints}:
            count[sum(position[1 << zone] for zone in bits(mask))] += 1
        _fold_supersets(count, add)
        containing = list(map(mul, containing, count))
    _fold_supersets(containing, sub)
    return [
        mask_of(zone_ids[index] for index in bits(packed))
        for packed, combinations in enumerate(containing)
        if packed and combinations
    ]


def _fold_supersets(count: list[int], combine: Callable[[int, int], int]) -> None:
    """Combine every entry with those of its supersets, one zone at a time: `add` sums them up, `sub` undoes that."""
    step = 1
    while step < len(count):
        for start in range(0, len(count), 2 * step):
            without = slice(start, start + step)
            count[without] = map(combine, count[without], count[start + step : start + 2 * step])
        step *= 2


def _widest_need(lists: Iterable[Sequence[Hint]]) -> int:
    """The size that no resource can go below: over all resources, the largest of their smallest masks."""
    widest = 0
    for hints in lists:
        sizes = [hint.mask.bit_count() for hint in hints if hint.mask is not None]
        if sizes:
            widest = max(widest, min(sizes))
    return widest


def _misfit(size: int, wanted: int) -> tuple[int, int]:
    """How far a size is from the wanted one: exact first, then just below, then just above."""
    if size == wanted:
        return 0, 0
    return (1, -size) if size < wanted else (2, size)
