"""Pods of a group: which count as arrived, and which wait, run or have finished.

Failed pods do not count, nor do bound pods that are being deleted: their controllers replace them. A group that needs
more pods than have arrived is incomplete, unless it `has_started`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bayplan.gangs.model import Group, Segments
from bayplan.gangs.ranks.ranks import RANK, rank_key
from bayplan.kube.wire.core_v1 import Pod


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Why a gang cannot be decided yet."""

    gang: str
    reason: str


def counted(pods: Iterable[Pod]) -> list[Pod]:
    """Pods that count as arrived, by rank: all but failed ones and bound ones that are being deleted."""
    return sorted((pod for pod in pods if _phase(pod) != "Failed" and not _leaves(pod)), key=rank_key)


def succeeded(pod: Pod) -> bool:
    """True if a pod has succeeded: it has arrived, but needs no place."""
    return _phase(pod) == "Succeeded"


def has_place(pod: Pod) -> bool:
    """True if a pod that counts as arrived has a node, or needs none any more."""
    return succeeded(pod) or (bool(pod.spec.node_name) and _phase(pod) != "Failed" and not _leaves(pod))


def _phase(pod: Pod) -> str:
    return (pod.status.phase or "") if pod.status is not None else ""


def _leaves(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.metadata.deletion_timestamp is not None


def bound_with_its_gang(pod: Pod) -> bool:
    """True if bayplan bound a pod as a gang member, which requires that all needed members had arrived."""
    return bool(pod.spec.node_name) and RANK in (pod.metadata.annotations or {})


def has_started(pods: Iterable[Pod], *, was_complete: bool) -> bool:
    """True if the gang no longer waits for pods: all were there once and one still is, so the others have ended.

    All were there if the gang `was_complete`, or if a member was bound with it. If all pods are being deleted, the gang
    starts over.
    """
    return any(pod.spec.node_name and not _leaves(pod) and (was_complete or bound_with_its_gang(pod)) for pod in pods)


def group_of(
    pods: Sequence[Pod],
    least: int,
    *,
    name: str = "",
    required: str | None = None,
    preferred: str | None = None,
    segments: tuple[Segments, ...] = (),
) -> Group:
    """A group of which `least` pods must get nodes; running and succeeded pods count."""
    present = [pod for pod in pods if not succeeded(pod)]
    waiting = tuple(pod for pod in present if not pod.spec.node_name)
    running = tuple(pod for pod in present if pod.spec.node_name)
    started = len(pods) - len(waiting)
    return Group(
        name=name,
        pods=waiting,
        running=running,
        minimum=min(max(least - started, 0), len(waiting)),
        required=required,
        preferred=preferred,
        segments=segments,
    )


def arrived(here: int, least: int, group: str = "") -> str:
    """`waits for pods: 3 of 8 have arrived`; empty if no pod is missing."""
    if here >= least:
        return ""
    return f"waits for pods: {here} of {least}{f' in group {group}' if group else ''} have arrived"
