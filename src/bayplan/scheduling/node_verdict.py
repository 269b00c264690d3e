"""One pod on one node: does it fit there, in which zones, and if not, what exactly is missing.

The question behind "but why not on *this* node?". It is answered from the class's answer and, where zones matter, from the kubelet's
replay, so it never says anything else than a placement would. `explain/node_verdict.py` writes it down.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.placement import ContainerZones, Placement
from bayplan.plugins.base import IncomingPod
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.scheduling.answers import Answer
from bayplan.scheduling.decision import NearestMiss
from bayplan.scheduling.profile import PASSES, Profile
from bayplan.scheduling.shortfall import miss_of_replay, miss_on, neighbours_behind, refusal_words


class NodeVerdict(Struct, frozen=True):
    """Zones per container if the pod fits; else the plugin that refuses, its cause, and what is missing if an amount is."""

    node: str
    fits: bool
    containers: tuple[ContainerZones, ...] = ()
    plugin: str = ""
    cause: str = ""
    miss: NearestMiss | None = None
    details: tuple[str, ...] = ()
    remark: str = ""


def verdict_on(
    state: ClusterState, pod: PodClass, profile: Profile, answer: Answer, row: int, incoming: IncomingPod | None = None
) -> NodeVerdict:
    """Judge one node by itself."""
    name, blocked = state.names[row], int(answer.blocked[row])
    if blocked != PASSES:
        plugin, cause = profile.cause(pod, blocked)
        return NodeVerdict(
            name,
            fits=False,
            plugin=plugin,
            cause=cause,
            miss=miss_on(state, pod, profile, row, blocked),
            details=neighbours_behind(state, incoming, profile, blocked, np.array([row])),
        )
    placement = profile.topology.place(state, pod, row) if profile.topology else Placement()
    if placement.refusal is None:
        remark = profile.topology.remark(state, pod, row) if profile.topology else ""
        return NodeVerdict(name, fits=True, containers=placement.containers, remark=remark)
    return NodeVerdict(
        name,
        fits=False,
        plugin=TOPOLOGY_MATCH,
        cause=refusal_words(pod, placement.refusal),
        miss=miss_of_replay(state, pod, row, placement.refusal),
    )
