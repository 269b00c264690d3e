"""Members that join a gang whose segments run already: each takes a free place in a segment, and follows its fellows there.

A gang that starts is cut into segments by the order of its pods. Once some run, the others cannot be cut again: one replacement is no segment
of four. So each segment becomes a group of its own, with those of it that run and those that wait, and the search does with it what it does with any
group: running members bind it to their domain. Which segment a running pod is in was written on it with its bind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.gang import Group, Slices
from bayplan.scheduling.ranks import SEGMENT

CANNOT_KEEP_APART = (
    "segments: one that nobody runs of yet cannot be kept apart from those that run, which is not built yet"
)

_Member = tuple[int, Pod]
"""The number of a pod's lowest segment, and the pod."""


def by_segments(group: Group) -> Group:
    """The same group with segments as groups, wherever members that run have been cut into segments already.

    One thing stays as it is, for nobody can say it with groups: a segment of which nobody runs, and which is to be apart from those that run.
    """
    inner = tuple(by_segments(each) for each in group.groups)
    running = [(number, pod) for pod in group.running if (number := _segment_of(pod)) is not None]
    if not group.slices or not running or is_new_and_apart(group):
        return replace(group, groups=inner) if inner != group.groups else group
    lowest = group.slices[-1].size
    waiting = _places(group.pods, [number for number, _ in running], lowest)
    needed = {id(pod) for pod in group.pods[: group.least]}
    segments = _cut(group.name, group.slices, lowest, running, waiting, needed)
    elsewhere = tuple(pod for pod in group.running if all(pod is not each for _, each in running))
    at_least = None if group.minimum_groups is None else group.minimum_groups + len(segments)
    return replace(
        group, pods=(), minimum=None, minimum_groups=at_least, slices=(), running=elsewhere, groups=(*segments, *inner)
    )


def is_new_and_apart(group: Group) -> bool:
    """True if a segment of which nobody runs has to keep out of the domains of others, of which some do."""
    running = [number for pod in group.running if (number := _segment_of(pod)) is not None]
    if not group.slices or not running:
        return False
    lowest = group.slices[-1].size
    waiting = {number for number, _ in _places(group.pods, running, lowest)}
    return any(
        number * lowest // each.size not in {other * lowest // each.size for other in running}
        for each in group.slices
        if each.apart
        for number in waiting
    )


def _cut(
    name: str,
    slices: Sequence[Slices],
    lowest: int,
    running: Sequence[_Member],
    waiting: Sequence[_Member],
    needed: set[int],
) -> tuple[Group, ...]:
    """The segments of a layer, each with those of the next layer inside."""
    layer, *below = slices
    found: list[Group] = []
    for number in sorted({number * lowest // layer.size for number, _ in (*running, *waiting)}):
        here = [each for each in running if each[0] * lowest // layer.size == number]
        come = [each for each in waiting if each[0] * lowest // layer.size == number]
        label = f"{name} segment {number}".strip()
        inner = _cut(label, below, lowest, here, come, needed) if below else ()
        pods = () if below else tuple(pod for _, pod in come)
        found.append(
            Group(
                label,
                pods,
                inner,
                required=layer.level if layer.required else None,
                preferred=None if layer.required else layer.level,
                minimum=sum(id(pod) in needed for pod in pods),
                running=() if below else tuple(pod for _, pod in here),
                segment=None if below else number,
                segment_of=name,
            )
        )
    return tuple(found)


def _places(pods: Sequence[Pod], running: Sequence[int], size: int) -> list[_Member]:
    """A segment for each pod that waits, in their order: the first that has a free place."""
    left = {number: size - running.count(number) for number in running}
    number = 0
    placed: list[_Member] = []
    for pod in pods:
        while left.setdefault(number, size) < 1:
            number += 1
        left[number] -= 1
        placed.append((number, pod))
    return placed


def _segment_of(pod: Pod) -> int | None:
    text = (pod.metadata.annotations or {}).get(SEGMENT, "")
    return int(text) if text.isascii() and text.isdecimal() else None
