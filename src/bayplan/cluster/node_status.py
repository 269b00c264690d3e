"""Whether nodes take new pods, and if not by what they are closed: not ready, cordoned, tainted.

Columns come in; a `Closing` per node goes out, from which `nodes`, `topology`, maps and metrics tell which free amounts
are of no use. A taint in the name of a device keeps nodes for pods that ask for it, so it closes nothing, unless the
pods in question are known. Filters decide by taints and cordons alone, as kube-scheduler does; the
condition Ready precedes its taints only for a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.tolerations import KEEPS_PODS_OFF, UNSCHEDULABLE_TAINT, taint_text, tolerates
from bayplan.cluster.state import ClusterState
from bayplan.kube.validation.resources import is_extended
from bayplan.kube.wire.core_v1 import Taint, Toleration

NOT_READY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class Closing:
    """What closes a node; falsy if nothing does."""

    not_ready: bool = False
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()

    def __bool__(self) -> bool:
        return self.not_ready or self.cordoned or bool(self.taints)

    @property
    def status(self) -> str:
        """The words of kubectl's column STATUS, and Tainted."""
        words = ["NotReady" if self.not_ready else "Ready"]
        words += ["SchedulingDisabled"] if self.cordoned else []
        return ",".join([*words, "Tainted"] if self.taints else words)

    @property
    def causes(self) -> tuple[str, ...]:
        """`NotReady`, `cordoned`, and taints as kubectl writes them."""
        words = ["NotReady"] if self.not_ready else []
        words += ["cordoned"] if self.cordoned else []
        return (*words, *map(taint_text, self.taints))


OPEN = Closing()


@dataclass(frozen=True, slots=True)
class Closings:
    """Of some nodes: `numbers` has the position in `kinds` of what closes each; 0 is `OPEN`.

    Kinds are in the order of the first node of each.
    """

    kinds: tuple[Closing, ...]
    numbers: NDArray[np.intp]

    def __getitem__(self, position: int) -> Closing:
        return self.kinds[int(self.numbers[position])]

    @property
    def open(self) -> NDArray[np.bool_]:
        """By position, whether the node takes pods."""
        is_open: NDArray[np.bool_] = self.numbers == 0
        return is_open


def closings(
    state: ClusterState, rows: NDArray[np.intp], tolerations: Sequence[Toleration] = (), *, exactly: bool = False
) -> Closings:
    """What closes each of some nodes to pods with these tolerations.

    They also tolerate taints in the name of a device, unless they have `exactly` these tolerations.
    """
    kinds = {OPEN: 0}
    columns = state.columns
    differences = 4 * columns.taint_set[rows].astype(np.int64) + 2 * columns.ready[rows] + columns.unschedulable[rows]
    alike, examples, numbers = np.unique(differences, return_index=True, return_inverse=True)
    found = np.zeros(len(alike), dtype=np.intp)
    for number in np.argsort(examples).tolist():
        by = closing(state, int(rows[examples[number]]), tolerations, exactly=exactly)
        found[number] = kinds.setdefault(by, len(kinds))
    return Closings(tuple(kinds), found[numbers])


def closing(state: ClusterState, row: int, tolerations: Sequence[Toleration] = (), *, exactly: bool = False) -> Closing:
    """What closes one node."""
    columns = state.columns

    def tolerated(taint: Taint) -> bool:
        if any(tolerates(toleration, taint) for toleration in tolerations):
            return True
        of_device = taint.effect == "NoSchedule" and is_extended(taint.key) and taint.key in columns.resource_index
        return of_device and not exactly

    taints = [taint for taint in state.taint_sets[int(columns.taint_set[row])] if taint.effect in KEEPS_PODS_OFF]
    cordoned = bool(columns.unschedulable[row]) or any(taint.key == UNSCHEDULABLE_TAINT.key for taint in taints)
    special = (*NOT_READY_TAINTS, UNSCHEDULABLE_TAINT.key)
    return Closing(
        not columns.ready[row] or any(taint.key in NOT_READY_TAINTS for taint in taints),
        cordoned and not tolerated(UNSCHEDULABLE_TAINT),
        tuple(taint for taint in taints if taint.key not in special and not tolerated(taint)),
    )
