"""Pods one after another, each of their steps in the lowest zone that holds it: how many fit, for many nodes at once.

A pod of one step fills zone after zone, so the answer is a sum. With several steps it matters which zone each of them gets, so pods
are sent through all nodes in step: 8 ms for 5,000 nodes that hold four pods of two containers each, where a replay of every node
would take a minute. `engine/slots/slots.py` knows for which nodes this is what their kubelet does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import Columns
from bayplan.engine.numa.admission import Want
from bayplan.engine.numa.rows import Mask, Rows

Counts = NDArray[np.float64]


def in_single_zones(columns: Columns, steps: list[list[Want]], rows: Rows, limit: Counts) -> Counts:
    """How many pods fit per node, at most `limit`; `steps` lists what each step wants."""
    if not steps:
        return limit
    if len(steps) == 1:
        return np.minimum(limit, _zone_by_zone(columns, steps[0], rows))
    return _in_step(columns, steps, rows, limit)


def _zone_by_zone(columns: Columns, wants: list[Want], rows: Rows) -> Counts:
    """One step: every zone holds as many as its scarcest resource does."""
    times: Counts | None = None
    for index, want, relevant in wants:
        if want:
            here = columns.zone_available[index][:, rows] / want
        else:
            # Zero devices are at home in any zone that has one, used or not.
            here = np.where(columns.zone_total[index][:, rows] > 0, np.inf, 0.0)
        if relevant is not None:
            here[:, ~relevant] = np.inf
        times = here if times is None else np.minimum(times, here, out=times)
    assert times is not None
    np.floor(times, out=times)
    total: Counts = np.add.reduce(times, axis=0)
    return total


def _in_step(columns: Columns, steps: list[list[Want]], rows: Rows, limit: Counts) -> Counts:
    """Several steps: all nodes take their next pod at the same time, until each has refused one."""
    counts = np.zeros_like(limit)
    nodes = np.nonzero(limit > 0)[0]
    indexes = {index for wants in steps for index, _, _ in wants}
    left = {index: columns.zone_available[index][:, rows][:, nodes] for index in indexes}
    while len(nodes):
        everyone = np.arange(len(nodes))
        admitted = np.ones(len(nodes), dtype=np.bool_)
        for wants in steps:
            fits = _zones_that_fit(columns, wants, left, rows, nodes)
            zone = fits.argmax(axis=0)
            admitted &= fits[zone, everyone]
            for index, want, relevant in wants:
                left[index][zone, everyone] -= want if relevant is None else want * relevant[nodes]
        counts[nodes] += admitted
        staying = admitted & (counts[nodes] < limit[nodes])
        if not staying.all():
            nodes = nodes[staying]
            left = {index: grid[:, staying] for index, grid in left.items()}
    return counts


def _zones_that_fit(
    columns: Columns, wants: list[Want], left: dict[int, Counts], rows: Rows, nodes: NDArray[np.intp]
) -> Mask:
    """fits[zone, node]: the zone holds every amount of a step that matters on the node."""
    fits: Mask | None = None
    for index, want, relevant in wants:
        enough = left[index] >= want if want else columns.zone_total[index][:, rows][:, nodes] > 0
        if relevant is not None:
            enough |= ~relevant[nodes]
        fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
    assert fits is not None
    return fits
