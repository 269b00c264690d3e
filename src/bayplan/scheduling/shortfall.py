"""The data behind a "no": which filter kept the pod from how many nodes, and which nodes came closest.

Built from a class's answer once it is clear that no node is left. `explain/why.py` writes it down; what would have to change
is worked out separately (`scheduling/remedies.py`), because it costs a search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns import TOPOLOGY_USABLE
from bayplan.cluster.kubelet_settings import Scope
from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import TOO_MANY_ZONES, Admission, admit
from bayplan.engine.nearest import missing_share_of_best_zone, missing_share_of_node
from bayplan.engine.placement import knowledge_of
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, demand
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.answers import NO_NODE, ClassAnswer
from bayplan.scheduling.decision import CauseCount, NearestMiss, Shortfall
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Profile

MOST_MISSES = 5
REPLAY_REFUSES = "the kubelet would refuse a later container of the pod"
REPLAY_GIVES_UP = "too many NUMA zones to find a set that the kubelet would admit"


def shortfall_of(
    state: ClusterState,
    pod: PodClass,
    profile: Profile,
    answer: ClassAnswer,
    refused_by_replay: Sequence[tuple[int, Admission]] = (),
) -> Shortfall:
    """Count causes over all nodes and find the nearest misses."""
    causes = [
        CauseCount(*profile.cause(pod, int(number)), tuple(state.names[row] for row in rows))
        for number, rows in _rows_by_cause(answer)
    ]
    if refused_by_replay:
        for cause, given_up in ((REPLAY_REFUSES, False), (REPLAY_GIVES_UP, True)):
            rows = [row for row, admission in refused_by_replay if (admission.reason == TOO_MANY_ZONES) == given_up]
            if rows:
                causes.append(CauseCount(TOPOLOGY_MATCH, cause, tuple(state.names[row] for row in rows)))
    return Shortfall(len(state.rows), tuple(causes), nearest_misses(state, pod, profile, answer))


def nearest_misses(
    state: ClusterState, pod: PodClass, profile: Profile, answer: ClassAnswer, most: int = MOST_MISSES
) -> tuple[NearestMiss, ...]:
    """The nodes that lack the smallest share of the request, among those that lack nothing else.

    Nodes short in sum and nodes short in zones are both candidates; a cordoned node is not, whatever it has.
    """
    closeness: list[tuple[float, int, bool]] = []
    for position, plugin in enumerate(profile.filters):
        rows = np.nonzero((answer.blocked // CODES_PER_FILTER == position) & (answer.blocked != PASSES))[0]
        if not len(rows):
            continue
        if isinstance(plugin, NodeResourcesFit):
            shares = missing_share_of_node(state.columns, asked_of_node(pod), rows)
            closeness += [(float(share), int(row), False) for share, row in _smallest(shares, rows, most)]
        elif isinstance(plugin, NodeResourceTopologyMatch):
            rows = rows[state.columns.topology[rows] == TOPOLOGY_USABLE]
            shares = _missing_in_zones(state, pod, rows)
            closeness += [(float(share), int(row), True) for share, row in _smallest(shares, rows, most)]
    closeness.sort()
    misses = (
        _miss_in_zones(state, pod, profile, row) if in_zones else _miss_in_sum(state, pod, row)
        for _, row, in_zones in closeness[:most]
    )
    return tuple(miss for miss in misses if miss is not None)


def _rows_by_cause(answer: ClassAnswer) -> list[tuple[int, NDArray[np.intp]]]:
    """Rows per `blocked` number, in the order of the filters."""
    numbers = np.unique(answer.blocked)
    return [
        (int(number), np.nonzero(answer.blocked == number)[0]) for number in numbers if number not in (PASSES, NO_NODE)
    ]


def _missing_in_zones(state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    wanted = demand(pod)
    of_pod = missing_share_of_best_zone(state.columns, wanted.pod_step, rows)
    per_container = [missing_share_of_best_zone(state.columns, step, rows) for step in wanted.container_steps]
    of_containers = np.maximum.reduce(per_container) if per_container else of_pod
    # Containers that each fit alone but not together: the pod's sum says how much is missing.
    of_containers = np.where(of_containers == 0, of_pod, of_containers)
    return np.where(state.columns.scope[rows] == Scope.POD, of_pod, of_containers)


def _smallest(shares: NDArray[np.float64], rows: NDArray[np.intp], most: int) -> list[tuple[np.float64, np.intp]]:
    order = np.argsort(shares, kind="stable")[:most]
    return [(shares[index], rows[index]) for index in order if np.isfinite(shares[index])]


def _miss_in_sum(state: ClusterState, pod: PodClass, row: int) -> NearestMiss | None:
    columns = state.columns
    worst: tuple[float, NearestMiss] | None = None
    for name, want in asked_of_node(pod):
        index = columns.resource_index.get(name)
        have = 0 if index is None else int(columns.free[index, row])
        share = (want - have) / want
        if share > 0 and (worst is None or share > worst[0]):
            worst = share, NearestMiss(state.names[row], name, None, max(have, 0), want)
    return worst[1] if worst else None


def _miss_in_zones(state: ClusterState, pod: PodClass, profile: Profile, row: int) -> NearestMiss | None:
    plugin = profile.topology
    node = knowledge_of(state, row, plugin.arguments.assumptions) if plugin else None
    admission = admit(node, pod.request) if node else None
    if admission is None or admission.shortfall is None:
        return None
    missing = admission.shortfall
    return NearestMiss(state.names[row], missing.resource, missing.zone, missing.have, missing.want)
