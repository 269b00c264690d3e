"""Segments of members that join a running gang.

A gang that starts is cut into segments by rank. Late members cannot be cut again: one replacement is not a segment of
four. So each segment becomes a group with its running and waiting members. Running members bind it to their domain. A
running pod carries its segment as an annotation; that of a late pod follows from its rank
(`gangs/ranks/late_ranks.py`).

A gang that starts before all members exist is cut in the same way, unless the present ones form whole segments from the
first one on. The others will fill the gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import itemgetter

from bayplan.cluster.state import pod_key
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.ranks.ranks import written_rank, written_segment
from bayplan.kube.wire.core_v1 import Pod

_Member = tuple[int, Pod]
"""The number of a pod's lowest segment, and the pod."""


def by_segments(gang: Gang) -> Group:
    """Return the gang with segments as groups, where running members are already cut into segments."""
    if not any(group.segments for group in gang.root.every_group()):
        return gang.root
    return _by_segments(gang.root, gang)


def _by_segments(group: Group, gang: Gang) -> Group:
    inner = tuple(_by_segments(each, gang) for each in group.groups)
    if not group.segments or not group.running:
        with_inner = replace(group, groups=inner) if inner != group.groups else group
        return _with_gaps(with_inner, group, gang) if group.segments and group.coming else with_inner
    running = [(number, pod) for pod in group.running if (number := written_segment(pod)) is not None]
    if not running:
        # Segments were dropped when the gang started: preferring them does not bind a single late pod.
        divides = tuple(each for each in group.segments if each.required or len(group.pods) % each.size == 0)
        return replace(group, groups=inner, segments=divides)
    layers, first = _kept_layers(group.segments, running, _rank_behind(gang, group))
    needed = frozenset(id(pod) for pod in group.pods[: group.least])
    waiting = _places(group.pods, gang, running, layers[-1].size, first)
    segments = _cut(group.name, group.name, layers, layers[-1].size, _Members(running, waiting), needed)
    return _in_segments(replace(group, groups=inner), segments)


def _in_segments(group: Group, segments: tuple[Group, ...]) -> Group:
    """Return a group whose pods are in segments, which become groups inside it."""
    return replace(
        group,
        pods=(),
        minimum=None,
        minimum_groups=None if group.minimum_groups is None else group.minimum_groups + len(segments),
        segments=(),
        running=_in_none_of(segments, group.running),
        groups=(*segments, *group.groups),
    )


def _with_gaps(group: Group, original: Group, gang: Gang) -> Group:
    """Cut a group by rank while members are still to come; unchanged if that makes no difference or is unknown."""
    numbers = [gang.ranks[pod_key(pod)] for pod in group.pods]
    size = len(group.pods) + len(group.coming)
    # Ranks beyond the size count on from a group that is absent.
    first = max(_members_before(gang, original), max(numbers, default=0) + 1 - size)
    places = [number - first for number in numbers]
    outermost, lowest = group.segments[0], group.segments[-1].size
    are_whole = places == list(range(len(places))) and len(places) % outermost.size == 0
    if are_whole or min(places, default=0) < 0:
        return group
    waiting = [(place // lowest, pod) for place, pod in zip(places, group.pods, strict=True)]
    needed = frozenset(id(pod) for pod in group.pods[: group.least])
    like = group.coming[0]
    segments = _cut(group.name, group.name, group.segments, lowest, _Members(waiting=waiting), needed, like)
    begun = {place // outermost.size for place in places}
    absent = tuple(
        replace(
            _segment(group.name, group.name, number, outermost),
            segments=group.segments[1:],
            coming=(like,) * outermost.size,
        )
        for number in range(size // outermost.size)
        if number not in begun
    )
    return replace(_in_segments(group, segments), coming=(), absent=(*absent, *group.absent))


def _members_before(gang: Gang, group: Group) -> int:
    """Return how many members the groups before this one will have."""
    before = takewhile(lambda each: each is not group, gang.root.every_group())
    return sum(len(each.pods) + len(each.running) + len(each.coming) for each in before)


@dataclass(frozen=True, slots=True)
class _Members:
    """Running and waiting members."""

    running: list[_Member] = field(default_factory=list)
    waiting: list[_Member] = field(default_factory=list)


def _cut(
    group: str,
    around: str,
    layers: Sequence[Segments],
    lowest: int,
    members: _Members,
    needed: frozenset[int],
    like: Pod | None = None,
) -> tuple[Group, ...]:
    """Return the segments of a layer as groups, with those of the next layer inside; only those a waiting pod needs.

    With a pod `like` the missing ones, pods that the lowest segments lack are still to come.
    """
    layer, *below = layers
    times = layer.size // lowest
    by_number: dict[int, _Members] = {}
    for each in members.running:
        by_number.setdefault(each[0] // times, _Members()).running.append(each)
    for each in members.waiting:
        by_number.setdefault(each[0] // times, _Members()).waiting.append(each)
    keep_apart = any(each.apart for each in layers)
    found: list[Group] = []
    for number, inside in sorted(by_number.items(), key=itemgetter(0)):
        if not inside.waiting and not keep_apart:
            continue
        segment = _segment(group, around, number, layer)
        inner = _cut(group, segment.name, below, lowest, inside, needed, like) if below else ()
        pods = () if below else tuple(pod for _, pod in inside.waiting)
        found.append(
            replace(
                segment,
                pods=pods,
                groups=inner,
                minimum=sum(id(pod) in needed for pod in pods),
                running=_in_none_of(inner, [pod for _, pod in inside.running]),
                segment=None if below else number,
                coming=() if below or like is None else (like,) * (lowest - len(pods)),
            )
        )
    return tuple(found)


def _segment(group: str, around: str, number: int, layer: Segments) -> Group:
    """Return an empty segment of a layer."""
    return Group(
        f"{around} segment {number}".strip(),
        required=layer.level,
        segment_of=group,
        apart=f"{group}/{layer.level}" if layer.apart else None,
        optional=not layer.required,
    )


def _in_none_of(segments: Sequence[Group], running: Sequence[Pod]) -> tuple[Pod, ...]:
    """Return running members that are in no segment: they carry no number, or no pod of their segment waits."""
    inside = {id(pod) for segment in segments for each in segment.every_group() for pod in each.running}
    return tuple(pod for pod in running if id(pod) not in inside)


# -- segments of members ---------------------------------------------------------------------------------------------


def _kept_layers(
    segments: Sequence[Segments], running: Sequence[_Member], behind: int
) -> tuple[Sequence[Segments], int | None]:
    """Return the layers that were kept when the gang started, and the rank of the group's first member, if known.

    Segment numbers refer to the lowest layer that was kept. Ranks tell which one that is.
    """
    for depth in range(len(segments), 0, -1):
        layer = segments[depth - 1]
        first = _first_rank(running, layer.size, behind)
        if first is not None:
            return segments[:depth], first
        if layer.required:
            break
    return segments, None


def _first_rank(running: Sequence[_Member], size: int, behind: int) -> int | None:
    """Return the rank of the first member of segment 0, at least `behind`, if ranks and segments agree about it."""
    ranked = [(rank, number) for number, pod in running if (rank := written_rank(pod)) is not None]
    latest = min((rank - number * size for rank, number in ranked), default=-1)
    earliest = max((rank - number * size - size + 1 for rank, number in ranked), default=0)
    return max(earliest, behind) if max(earliest, behind) <= latest else None


def _rank_behind(gang: Gang, group: Group) -> int:
    """Return the rank that follows those of all groups before this one."""
    behind = 0
    for each in gang.root.every_group():
        if each is group:
            break
        ranks = [gang.ranks[pod_key(pod)] for pod in each.pods]
        ranks += [rank for pod in each.running if (rank := written_rank(pod)) is not None]
        behind = max(behind, *(rank + 1 for rank in ranks)) if ranks else behind
    return behind


def _places(pods: Sequence[Pod], gang: Gang, running: Sequence[_Member], size: int, first: int | None) -> list[_Member]:
    """Assign each waiting pod a segment: the one of its rank, else the first with a free place."""
    left = {number: size - members for number, members in Counter(number for number, _ in running).items()}
    placed: list[_Member] = []
    open_from = 0
    for pod in pods:
        place = -1 if first is None else gang.ranks[pod_key(pod)] - first
        number = place // size
        if place < 0 or left.get(number, size) < 1:
            while left.get(open_from, size) < 1:
                open_from += 1
            number = open_from
        left[number] = left.get(number, size) - 1
        placed.append((number, pod))
    return placed
