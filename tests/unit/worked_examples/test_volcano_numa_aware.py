"""Volcano's "NUMA Aware Plugin": fewer zones, higher score; 750, 500 and 0 for one, two and four zones."""

from __future__ import annotations

import numpy as np

from bayplan.cluster.pod_request import CPU
from bayplan.engine.least_numa import narrowest_sets, relative_width_scores
from tests.helpers import cluster, topology, zone


def test_the_priority_function() -> None:
    """A pod of 8 CPUs needs one zone on Node-A, two on Node-B, all four on Node-C."""
    cpus_per_zone = {"Node-A": 8, "Node-B": 4, "Node-C": 2}
    state = cluster(
        *(
            topology(*(zone(number, {"cpu": cpus}) for number in range(4)), name=name, policy="best-effort")
            for name, cpus in cpus_per_zone.items()
        )
    )
    (hardware_class,) = set(state.columns.hardware_class[:3].tolist())
    index = state.columns.resource_index[CPU]
    needed = narrowest_sets(
        state.hardware_classes[hardware_class],
        {CPU: state.columns.zone_available[index][:, :3]},
        {CPU: state.columns.zone_reported[index][:3]},
        {CPU: 8000},
        guaranteed=True,
    )
    zones_of = {
        name: [number for number in range(4) if int(bits) >> number & 1]
        for name, bits in zip(state.names, needed.bits, strict=True)
    }
    assert zones_of == {"Node-A": [0], "Node-B": [0, 1], "Node-C": [0, 1, 2, 3]}

    scores = dict(zip(state.names, relative_width_scores(needed.width, weight=10).tolist(), strict=True))
    assert scores == {"Node-A": 750, "Node-B": 500, "Node-C": 0}
    assert max(scores, key=lambda name: scores[name]) == "Node-A"


def test_the_widest_of_the_filtered_nodes_sets_the_scale() -> None:
    """maxNumaNodeNum is "the maximum NUMA node number in all filtered nodes": without Node-C, Node-B is at the bottom."""
    assert relative_width_scores(np.array([1, 2]), weight=10).tolist() == [500, 0]
