"""The numbers of waiting pods in a gang: an indexed pod gets the number that its index means, whether it starts with the others or joins later.

A rank given to a pod is its number. The meaning of a controller's index (`gangs/ranks/ranks.py`) depends on the members before it:

* If most running members of its group are numbered by their index plus an offset, so is the incoming.
* If no member runs, the first index of a group follows the numbers of the groups before it.
* A pod without an index, or with one whose number is taken, gets the first free number.
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
    """The pods of a group that wait, in their order, those that run, and how many are still to come."""

    waiting: Sequence[Pod]
    running: Sequence[Pod] = ()
    coming: int = 0

    @property
    def size(self) -> int:
        """How many there will be."""
        return len(self.waiting) + len(self.running) + self.coming


def numbers_of(groups: Sequence[Members]) -> dict[str, int]:
    """The number of each pod that waits, by its key. Groups come one after another."""
    waiting = [pod_key(pod) for group in groups for pod in group.waiting]
    taken = {rank for group in groups for pod in group.running if (rank := written_rank(pod)) is not None}
    meant = list(_meant(groups))
    if not taken and len({number for _, number in meant}) < len(meant):
        return {key: number for number, key in enumerate(waiting)}
    numbers: dict[str, int] = {}
    for key, number in meant:
        if number not in taken:
            numbers[key] = number
            taken.add(number)
    free = (number for number in count() if number not in taken)
    return {key: numbers[key] if key in numbers else next(free) for key in waiting}


def _meant(groups: Sequence[Members]) -> Iterator[tuple[str, int]]:
    """Pods that wait and the numbers that their indices mean."""
    before = 0
    for group in groups:
        yield from _by_index(group, before)
        before += group.size


def _by_index(group: Members, before: int) -> Iterator[tuple[str, int]]:
    """The same for one group, as those who run tell it; else behind so many members of the groups before."""
    indices = {pod_key(pod): index for pod in (*group.waiting, *group.running) if (index := index_of(pod)) is not None}
    # Members are counted through: those of the first job, or of the first group, then those of the next.
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
    """Numbers if no running member tells any: ranks as given, indices after those of the groups before."""
    given = {pod_key(pod) for pod in group.waiting if given_rank(pod) is not None}
    indexed = [index for key, index in counted.items() if key not in given]
    # Indices that reach beyond the size do not begin at 0: workers from 1 on, or the second half of a Job.
    start = max(max(indexed, default=0) + 1 - group.size, 0)
    are_told = start <= min(indexed, default=0)
    for key in map(pod_key, group.waiting):
        if key in given:
            yield key, counted[key]
        elif key in counted and are_told:
            yield key, before + counted[key] - start


def _counted(index: Index, each: int) -> int:
    outer, inner = index
    return outer * each + inner
