"""The data behind a "no": which filters refused how many nodes, and which nodes came closest.

In comes a class's answer that leaves no node, out goes a `Shortfall`; or, for one node, a `NodeAnswer`. `explain/`
writes them down. `scheduling/remedies.py` searches for changes that would help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.reports.kubelet_settings import Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import REPORT_BEHIND, TOO_MANY_ZONES, Admission, admit
from bayplan.engine.numa.demand import demand, missing_share_of_best_zone, missing_share_of_node
from bayplan.engine.numa.placement import ContainerZones, Placement, knowledge_of
from bayplan.engine.numa.rows import Mask
from bayplan.kube.wire.core_v1 import Taint
from bayplan.plugins.base import IncomingPod, RelationPlugin
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.plugins.node_basics import NodeName, TaintToleration
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.plugins.node_resources_fit import NodeResourcesFit, asked_of_node
from bayplan.scheduling.answers import NO_NODE, Answer
from bayplan.scheduling.decision import CauseCount, NearestNode, Shortfall
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Blocked, Profile
from bayplan.scheduling.when_empty import hold_when_empty, refusals_when_empty, too_large

MOST_MISSES = 5
# The estimate on columns selects this many times more nodes than are named; the exact amounts decide among them.
CANDIDATES_PER_MISS = 4
REFUSED = "kubelet: "
# Refusals by a replay that no kubelet would give.
OUR_OWN = {
    TOO_MANY_ZONES: "too many NUMA zones to be sure",
    REPORT_BEHIND: "waits for the node's next report: the last one does not show all pods there",
}
# Wrapping around the kubelet's messages, and the message that adds nothing to its reason.
_WRAPPING = ("SMT Alignment Error: ", "Allocate failed due to ", ", which is unexpected", "[memorymanager] ")
_UNINFORMATIVE = "Resources cannot be allocated with Topology locality"


def shortfall_of(
    state: ClusterState,
    pod: PodClass,
    profile: Profile,
    answer: Answer,
    refused_by_replay: Sequence[tuple[int, Admission]] = (),
    incoming: IncomingPod | None = None,
    *,
    most: int = MOST_MISSES,
) -> Shortfall:
    """Count causes over all nodes and find the nearest misses; with `incoming`, also name the pods behind them.

    Misses are replayed on several nodes, which costs ten times as much as counting. Pass `most=0` to skip them.
    """
    refusals = refusals_when_empty(state, pod, profile)
    causes = _causes_of_filters(state, pod, profile, answer, refusals, incoming)
    causes += _causes_of_replays(state, pod, refused_by_replay)
    holding, matching = hold_when_empty(state, profile, refusals), _matching(state, pod, profile)
    too_small = refusals // CODES_PER_FILTER == _position_of_fit(profile)
    small_zones = np.flatnonzero(state.columns.present[: len(holding)] & ~holding & ~too_small)
    near = holding & matching if (holding & matching).any() else holding
    anywhere = near if near.any() else None
    return Shortfall(
        len(state.rows),
        tuple(causes),
        nearest_misses(state, pod, profile, answer, refused_by_replay, most, anywhere) if most else (),
        int(matching.sum()),
        frozenset(map(state.names.__getitem__, np.flatnonzero(near).tolist())),
        frozenset(map(state.names.__getitem__, small_zones.tolist())),
        too_large(state, pod, profile, refusals) if state.rows and anywhere is None else None,
    )


def _position_of_fit(profile: Profile) -> int:
    """Return the position of NodeResourcesFit; one that no filter has, if the profile is without it."""
    return next((at for at, each in enumerate(profile.filters) if isinstance(each, NodeResourcesFit)), -1)


def _matching(state: ClusterState, pod: PodClass, profile: Profile) -> Mask:
    """Return the rows with the node that the pod names, or that its selector and affinity match."""
    matching: Mask = state.columns.present[: state.columns.size].copy()
    for plugin in profile.filters:
        if isinstance(plugin, NodeName | NodeAffinity) and plugin.applies(pod):
            codes = plugin.refusals(state, pod, slice(0, len(matching)))
            matching &= codes == 0
    return matching


def _causes_of_filters(
    state: ClusterState,
    pod: PodClass,
    profile: Profile,
    answer: Answer,
    refusals: Blocked,
    incoming: IncomingPod | None,
) -> list[CauseCount]:
    """Return one cause per message; per set of taints, where taints refuse."""
    grouped: dict[tuple[int, str, tuple[Taint, ...]], list[NDArray[np.intp]]] = {}
    for number, rows in _rows_by_cause(answer):
        plugin = profile.filter_of(number)
        parts = np.full(len(rows), number % CODES_PER_FILTER, dtype=np.intp)
        if isinstance(plugin, TaintToleration):
            parts = state.columns.taint_set[rows].astype(np.intp)
        elif isinstance(plugin, NodeResourcesFit):
            # A node that is too small is named by the resource of which it has least, not by the first that is short.
            too_small = refusals[rows] // CODES_PER_FILTER == number // CODES_PER_FILTER
            parts = np.where(too_small & (refusals[rows] != PASSES), plugin.scarcest(state, pod, rows), parts)
        for part in np.unique(parts).tolist():
            taints: tuple[Taint, ...] = ()
            code = part
            if isinstance(plugin, TaintToleration):
                code, taints = number % CODES_PER_FILTER, plugin.untolerated(pod, state.taint_sets[part])
            key = number // CODES_PER_FILTER * CODES_PER_FILTER + code, plugin.cause(pod, code), taints
            grouped.setdefault(key, []).append(rows[parts == part])
    causes = []
    for (number, cause, taints), found in grouped.items():
        rows = np.sort(np.concatenate(found))
        names = tuple(map(state.names.__getitem__, rows.tolist()))
        details = details_behind(state, pod, incoming, profile, number, rows)
        causes.append(CauseCount(profile.filter_of(number).name, cause, names, details=details, taints=taints))
    return causes


def details_behind(
    state: ClusterState,
    pod: PodClass,
    incoming: IncomingPod | None,
    profile: Profile,
    blocked: int,
    rows: NDArray[np.intp],
) -> tuple[str, ...]:
    """Return the terms and pods behind a `blocked` number of these rows: of selectors, or about other pods."""
    plugin = profile.filters[blocked // CODES_PER_FILTER]
    if isinstance(plugin, NodeAffinity):
        return plugin.details(state, pod)
    if incoming is None or not isinstance(plugin, RelationPlugin):
        return ()
    return plugin.details(state, incoming, blocked % CODES_PER_FILTER, rows)


def refusal_words(pod: PodClass, admission: Admission) -> str:
    """Return the kubelet's reason, the container if there are several, and its message without the wrapping."""
    where = f" in container {admission.container}" if admission.container and len(pod.request.containers) > 1 else ""
    message = _short(admission)
    return f"{admission.reason}{where}" + (f" ({message})" if message else "")


def nearest_misses(
    state: ClusterState,
    pod: PodClass,
    profile: Profile,
    answer: Answer,
    refused_by_replay: Sequence[tuple[int, Admission]] = (),
    most: int = MOST_MISSES,
    near: Mask | None = None,
) -> tuple[NearestNode, ...]:
    """Return the nodes that lack the smallest share of the request, and nothing else; only those that are `near`.

    Candidates lack amounts in total or in zones, or their replay refused. A cordoned node is never one.
    """
    found: list[tuple[int, NearestNode | None]] = [
        (row, miss_of_replay(state, pod, row, admission))
        for row, admission in refused_by_replay[: most * CANDIDATES_PER_MISS]
    ]
    for position, plugin in enumerate(profile.filters):
        refused = (answer.blocked // CODES_PER_FILTER == position) & (answer.blocked != PASSES)
        rows = np.flatnonzero(refused if near is None else refused & near)
        if not len(rows):
            continue
        if isinstance(plugin, NodeResourcesFit):
            shares = missing_share_of_node(state.columns, asked_of_node(pod), rows)
            found += [(row, _miss_in_sum(state, pod, row)) for row in _smallest(shares, rows, most)]
        elif isinstance(plugin, NodeResourceTopologyMatch):
            rows = rows[state.columns.topology[rows] == TOPOLOGY_USABLE]
            shares = _missing_in_zones(state, pod, rows)
            closest = _smallest(shares, rows, most * CANDIDATES_PER_MISS)
            found += [(row, _miss_in_zones(state, pod, plugin, row)) for row in closest]
    misses = [(miss.missing_share, row, miss) for row, miss in found if miss is not None]
    return tuple(miss for _, _, miss in sorted(misses, key=lambda entry: entry[:2])[:most])


def miss_on(state: ClusterState, pod: PodClass, profile: Profile, row: int, blocked: int) -> NearestNode | None:
    """Return what one node lacks, given its `blocked` number; None if an amount is not the obstacle."""
    plugin = profile.filters[blocked // CODES_PER_FILTER]
    if isinstance(plugin, NodeResourcesFit):
        return _miss_in_sum(state, pod, row)
    if isinstance(plugin, NodeResourceTopologyMatch) and state.columns.topology[row] == TOPOLOGY_USABLE:
        return _miss_in_zones(state, pod, plugin, row)
    return None


def _causes_of_replays(
    state: ClusterState, pod: PodClass, refused: Sequence[tuple[int, Admission]]
) -> list[CauseCount]:
    """Return one cause per reason and container, with the message if all nodes give the same one."""
    grouped: dict[tuple[str, str], list[tuple[int, Admission]]] = {}
    for row, admission in refused:
        grouped.setdefault((admission.reason, admission.container), []).append((row, admission))
    causes: dict[tuple[str, str], list[int]] = {}
    for (reason, _), entries in grouped.items():
        first = entries[0][1]
        if any(_short(admission) != _short(first) for _, admission in entries):
            first = replace(first, message="")
        words = OUR_OWN.get(reason) or f"{REFUSED}{refusal_words(pod, first)}"
        causes.setdefault((words, reason), []).extend(row for row, _ in entries)
    return [
        CauseCount(TOPOLOGY_MATCH, words, tuple(state.names[row] for row in sorted(rows)), reason)
        for (words, reason), rows in causes.items()
    ]


def _short(admission: Admission) -> str:
    message = "" if admission.message == _UNINFORMATIVE else admission.message
    for wrapping in _WRAPPING:
        message = message.replace(wrapping, "")
    return message


def _rows_by_cause(answer: Answer) -> list[tuple[int, NDArray[np.intp]]]:
    """Return rows per `blocked` number, in filter order."""
    numbers = np.unique(answer.blocked)
    return [
        (int(number), np.nonzero(answer.blocked == number)[0]) for number in numbers if number not in (PASSES, NO_NODE)
    ]


def _missing_in_zones(state: ClusterState, pod: PodClass, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    wanted = demand(pod)
    of_pod = missing_share_of_best_zone(state.columns, wanted.pod_step, rows)
    per_container = [missing_share_of_best_zone(state.columns, step, rows) for step in wanted.container_steps]
    of_containers = np.maximum.reduce(per_container) if per_container else of_pod
    # Containers may fit alone but not together: then the pod's sum says how much is missing.
    of_containers = np.where(of_containers == 0, of_pod, of_containers)
    return np.where(state.columns.scope[rows] == Scope.POD, of_pod, of_containers)


def _smallest(shares: NDArray[np.float64], rows: NDArray[np.intp], most: int) -> list[int]:
    order = np.argsort(shares, kind="stable")[:most]
    return [int(rows[index]) for index in order if np.isfinite(shares[index])]


def _miss_in_sum(state: ClusterState, pod: PodClass, row: int) -> NearestNode | None:
    columns = state.columns
    worst: tuple[float, NearestNode] | None = None
    for name, want in asked_of_node(pod):
        index = columns.resource_index.get(name)
        have = 0 if index is None else int(columns.free[index, row])
        share = (want - have) / want
        if share > 0 and (worst is None or share > worst[0]):
            worst = share, NearestNode(state.names[row], name, None, max(have, 0), want)
    return worst[1] if worst else None


def _miss_in_zones(
    state: ClusterState, pod: PodClass, plugin: NodeResourceTopologyMatch, row: int
) -> NearestNode | None:
    node = knowledge_of(state, row, plugin.arguments.assumptions)
    admission = admit(node, pod.request) if node else None
    if admission is None or admission.admitted:
        return None
    return miss_of_replay(state, pod, row, admission)


def miss_of_replay(state: ClusterState, pod: PodClass, row: int, admission: Admission) -> NearestNode:
    """Return what a replay says is missing, or its reason if an amount is not the obstacle."""
    name, missing = state.names[row], admission.nearest_miss
    if missing is not None and missing.have < missing.want:
        return NearestNode(
            name, missing.resource, missing.zone, missing.have, missing.want, container=admission.container
        )
    reason = OUR_OWN.get(admission.reason) or refusal_words(pod, admission)
    if missing is None:
        return NearestNode(name, "", None, 0, 0, reason, admission.container)
    return NearestNode(
        name, missing.resource, missing.zone, missing.have, missing.want, reason, container=admission.container
    )


class NodeAnswer(Struct, frozen=True):
    """The zones of each container if the pod fits; else the refusing plugin, its cause and the missing amount."""

    node: str
    fits: bool
    containers: tuple[ContainerZones, ...] = ()
    plugin: str = ""
    cause: str = ""
    miss: NearestNode | None = None
    details: tuple[str, ...] = ()
    remark: str = ""


def verdict_on(
    state: ClusterState, pod: PodClass, profile: Profile, answer: Answer, row: int, incoming: IncomingPod | None = None
) -> NodeAnswer:
    """Judge one node by itself, with the answer a placement would give."""
    name, blocked = state.names[row], int(answer.blocked[row])
    if blocked != PASSES:
        plugin, cause = profile.cause(pod, blocked)
        taints = TaintToleration.untolerated(pod, state.taint_sets[state.columns.taint_set[row]])
        of_taints = isinstance(profile.filter_of(blocked), TaintToleration)
        return NodeAnswer(
            name,
            fits=False,
            plugin=plugin,
            cause=f"{cause}: {', '.join(map(taint_text, taints))}" if of_taints else cause,
            miss=miss_on(state, pod, profile, row, blocked),
            details=details_behind(state, pod, incoming, profile, blocked, np.array([row])),
        )
    placement = profile.topology.place(state, pod, row) if profile.topology else Placement()
    if placement.refusal is None:
        remark = profile.topology.remark(state, pod, row) if profile.topology else ""
        return NodeAnswer(name, fits=True, containers=placement.containers, remark=remark)
    return NodeAnswer(
        name,
        fits=False,
        plugin=TOPOLOGY_MATCH,
        cause=refusal_words(pod, placement.refusal),
        miss=miss_of_replay(state, pod, row, placement.refusal),
    )
