"""Ranks of waiting pods, whether they start with the others or join later.

A rank given by label counts as it is. A controller's index (`gangs/ranks/ranks.py`) depends on the other members:

* If most running members of the group are ranked by index plus an offset, so is a waiting pod.
* If no member runs, the first index of a group follows the ranks of the groups before it.
* A pod without an index, or whose rank is taken, gets the first free rank.
* If indices are not distinct in a gang that starts, only the order counts: 0, 1, 2, ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from bayplan.cluster.state import pod_key
from bayplan.gangs.ranks.ranks import Index, given_rank, index_of, written_rank
from bayplan.kube.wire.core_v1 import Pod


class Members(NamedTuple):
    """The waiting pods of a group in order, the running ones, and how many are still to come."""

    waiting: Sequence[Pod]
    running: Sequence[Pod] = ()
    coming: int = 0

    @property
    def size(self) -> int:
        """The final number of members."""
        return len(self.waiting) + len(self.running) + self.coming


def numbers_of(groups: Sequence[Members]) -> dict[str, int]:
    """Return the rank of each waiting pod, by key. Groups follow each other."""
    waiting = [pod_key(pod) for group in groups for pod in group.waiting]
    taken = {rank for group in groups for pod in group.running if (rank := written_rank(pod)) is not None}
    meant = list(_ranks_by_index(groups))
    if not taken and len({number for _, number in meant}) < len(meant):
        return {key: number for number, key in enumerate(waiting)}
    numbers: dict[str, int] = {}
    for key, number in meant:
        if number not in taken:
            numbers[key] = number
            taken.add(number)
    free = (number for number in count() if number not in taken)
    return {key: numbers[key] if key in numbers else next(free) for key in waiting}


def _ranks_by_index(groups: Sequence[Members]) -> Iterator[tuple[str, int]]:
    """Yield waiting pods with the ranks that follow from their indices."""
    before = 0
    for group in groups:
        yield from _by_index(group, before)
        before += group.size


def _by_index(group: Members, before: int) -> Iterator[tuple[str, int]]:
    """Yield ranks for one group: by the offset of running members, else after the members `before` it."""
    indices = {pod_key(pod): index for pod in (*group.waiting, *group.running) if (index := index_of(pod)) is not None}
    # Members are counted through: those of the first job or group, then those of the next.
    each = 1 + max((inner for _, inner in indices.values()), default=0)
    shifts = Counter(
        rank - _counted(indices[key], each)
        for pod in group.running
        if (key := pod_key(pod)) in indices and (rank := written_rank(pod)) is not None
    )
    if not shifts:
        yield from _from_the_start(group, before, {key: _counted(index, each) for key, index in indices.items()})
        return
    shift, agreeing = shifts.most_common(1)[0]
    if 2 * agreeing <= shifts.total():
        return
    for key in map(pod_key, group.waiting):
        if key in indices and (number := _counted(indices[key], each) + shift) >= 0:
            yield key, number


def _from_the_start(group: Members, before: int, counted: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield ranks if no running member has one: given ranks, else indices after those of the groups before."""
    given = {pod_key(pod) for pod in group.waiting if given_rank(pod) is not None}
    indexed = [index for key, index in counted.items() if key not in given]
    # Indices beyond the size do not begin at 0: workers from 1 on, or the second half of a Job.
    start = max(max(indexed, default=0) + 1 - group.size, 0)
    is_dense = start <= min(indexed, default=0)
    for key in map(pod_key, group.waiting):
        if key in given:
            yield key, counted[key]
        elif key in counted and is_dense:
            yield key, before + counted[key] - start


def _counted(index: Index, each: int) -> int:
    outer, inner = index
    return outer * each + inner
