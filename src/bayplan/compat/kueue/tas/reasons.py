"""Why pods do not fit, in Kueue's words: how much would fit, and which leaves were left out for which cause.

All of it is worked out only after the search has failed, from the same counts that the search used.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.compat.kueue.tas.counting import MOST_PODS, LevelCounts
from bayplan.compat.kueue.tas.model import Amounts
from bayplan.compat.kueue.tas.request import Plan
from bayplan.compat.kueue.tas.snapshot import Snapshot
from bayplan.engine.numa.rows import Mask


@dataclass(frozen=True, slots=True)
class Context:
    """What a reason may speak of: the counts, and why leaves were not counted before any resource was looked at."""

    snapshot: Snapshot
    plan: Plan
    per_pod: Amounts
    counts: Sequence[LevelCounts]
    allowed: Mask | None
    causes: Counter[str]


def no_fit(context: Context, level: int, fitting: int) -> str:
    """The pods do not fit at `level`, where `fitting` slices would."""
    plan, topology = context.plan, json.dumps(context.snapshot.name)
    if plan.layers:
        return f"topology {topology} doesn't allow to fit{_fit_per_layer(context, level)}{_exclusions(context)}"
    unit = "slice" if plan.slicing.size > 1 else "pod"
    if fitting:
        said = f"allows to fit only {fitting} out of {plan.slices} {unit}(s)"
    else:
        said = f"doesn't allow to fit any of {plan.slices} {unit}(s)"
    return f"topology {topology} {said}{_exclusions(context)}"


def _fit_per_layer(context: Context, level: int) -> str:
    """What every layer of slices finds in the domain that holds most of the outermost slices."""
    snapshot, counts = context.snapshot, context.counts
    best = int(np.argmax(counts[level].alone.slices))
    parts = []
    for layer in context.plan.layers:
        target = snapshot.levels.index(layer.level)
        start, stop = snapshot.tree.range_at(level, best, best + 1, target)
        fitting = int((counts[target].alone.pods[start:stop] // layer.size).sum())
        parts.append(f"; {fitting}/{context.plan.pods // layer.size} slice(s) fit on level {layer.level}")
    return "".join(parts)


def _exclusions(context: Context) -> str:
    causes = context.causes + short_resources(context.snapshot, context.per_pod, _without_room(context))
    if not causes:
        return ""
    listed = ", ".join(sorted(f"{cause}: {leaves}" for cause, leaves in causes.items()))
    return f". Total nodes: {len(context.snapshot.paths)}; excluded: {listed}"


def _without_room(context: Context) -> Mask:
    empty = np.asarray(context.counts[-1].alone.pods == 0)
    return empty if context.allowed is None else empty & context.allowed


def short_resources(snapshot: Snapshot, per_pod: Amounts, leaves: Mask) -> Counter[str]:
    """How many of the leaves lack which resource. Of several, a leaf counts for the first by name."""
    names = sorted(per_pod)
    columns = []
    for name in names:
        amount = per_pod[name]
        fits = snapshot.left_of(name)[leaves] // amount if amount > 0 else np.full(int(leaves.sum()), MOST_PODS)
        columns.append(np.clip(fits, 0, MOST_PODS))
    scarcest = np.argmin(np.array(columns), axis=0)
    return Counter(
        {f'resource "{names[index]}"': int(count) for index, count in enumerate(np.bincount(scarcest)) if count}
    )
