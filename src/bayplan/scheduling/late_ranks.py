"""The numbers of pods that wait in a gang: 0, 1, 2, ... for one that starts, and what is free for those who join one that runs.

A pod that takes the place of another has the index of that one from its controller (`ranks.py`), and by it the number: where most members of its
group that run are numbered by their index, only further on, so is the newcomer. Whoever has no index, or one whose number is taken,
gets the first number that is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, count

from bayplan.cluster.state import pod_key
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.ranks import Index, index_of, written_rank

Members = tuple[Sequence[Pod], Sequence[Pod]]
"""The pods of a group that wait, in their order, and those that run."""


def numbers_of(groups: Sequence[Members]) -> dict[str, int]:
    """The number of each pod that waits, by its key. Groups come one after another."""
    waiting = [pod for pods, _ in groups for pod in pods]
    taken = {rank for _, running in groups for pod in running if (rank := written_rank(pod)) is not None}
    if not taken:
        return {pod_key(pod): number for number, pod in enumerate(waiting)}
    numbers: dict[str, int] = {}
    for key, number in chain.from_iterable(_by_index(*group) for group in groups):
        if number not in taken:
            numbers[key] = number
            taken.add(number)
    free = (number for number in count() if number not in taken)
    return {key: numbers[key] if key in numbers else next(free) for key in map(pod_key, waiting)}


def _by_index(waiting: Sequence[Pod], running: Sequence[Pod]) -> Iterator[tuple[str, int]]:
    """Pods that wait and the numbers that their indices mean, if those who run tell what they mean."""
    indices = {pod_key(pod): index for pod in (*waiting, *running) if (index := index_of(pod)) is not None}
    # Members are counted through: those of the first job, or of the first group, then those of the next.
    each = 1 + max((inner for _, inner in indices.values()), default=0)
    shifts = Counter(
        rank - _counted(indices[key], each)
        for pod in running
        if (key := pod_key(pod)) in indices and (rank := written_rank(pod)) is not None
    )
    shift, agreeing = shifts.most_common(1)[0] if shifts else (0, 0)
    if 2 * agreeing <= shifts.total():
        return
    for key in map(pod_key, waiting):
        if key in indices and (number := _counted(indices[key], each) + shift) >= 0:
            yield key, number


def _counted(index: Index, each: int) -> int:
    outer, inner = index
    return outer * each + inner
