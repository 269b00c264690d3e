"""Pods into groups: what all dialects do with the pods that name a group.

Pods that have ended do not count. The others are put in the order of their ranks and divided into those that wait and those that have a node; so many
that a group needs more and are not there yet make it incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bayplan.cluster.state import TERMINAL_PHASES
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.gang import Group, Slices
from bayplan.scheduling.ranks import rank_key


def alive(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that have not ended, in the order of their ranks."""
    return sorted((pod for pod in pods if pod.status is None or pod.status.phase not in TERMINAL_PHASES), key=rank_key)


def group_of(
    pods: Sequence[Pod],
    least: int,
    *,
    name: str = "",
    required: str | None = None,
    preferred: str | None = None,
    slices: tuple[Slices, ...] = (),
) -> Group:
    """A group of these pods of which `least` must have a node in the end; those that run have theirs already."""
    waiting = tuple(pod for pod in pods if not pod.spec.node_name)
    running = tuple(pod for pod in pods if pod.spec.node_name)
    return Group(
        name=name,
        pods=waiting,
        running=running,
        minimum=min(max(least - len(running), 0), len(waiting)),
        required=required,
        preferred=preferred,
        slices=slices,
    )


def arrived(here: int, least: int, group: str = "") -> str:
    """`waits for pods: 3 of 8 have arrived`; an empty text if nobody is missing."""
    if here >= least:
        return ""
    return f"waits for pods: {here} of {least}{f' in group {group}' if group else ''} have arrived"
