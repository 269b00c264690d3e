"""Why a pod fits nowhere, in one sentence: about the nodes that matter, those that would hold it if they were empty.

no node has nvidia.com/gpus (did you mean nvidia.com/gpu?)
no node has nvidia.com/gpu 16: the largest has 8
the 5 nodes with nvidia.com/gpu have a taint that it does not tolerate: nvidia.com/gpu=present:NoSchedule
no node has the request inside one NUMA zone
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import count, human, usual_order
from bayplan.explain.stages import CERTAIN, ENOUGH, LARGE_ENOUGH, MATCHING, NAMED, OF_FREE_ZONES, SELECTOR, FilterStage
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.errors import did_you_mean
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.validation.scheduling import NODE_NAME_FIELD
from bayplan.kube.wire.core_v1 import NodeSelectorTerm
from bayplan.scheduling.decision import Shortfall
from bayplan.scheduling.when_empty import Oversized, Where


def headline(state: ClusterState, pod: PodClass, shortfall: Shortfall, stages: Sequence[FilterStage]) -> str:
    """The answer in one sentence."""
    if not shortfall.nodes:
        return "the cluster has no nodes"
    return (
        _only_node(state, pod, shortfall, stages)
        or _unknown_resource(state, pod)
        or (_never(pod, shortfall.too_large) if shortfall.too_large is not None else "")
        or (_none_matches(pod, shortfall) if shortfall.matching == 0 else "")
        or _lost(state, pod, shortfall, stages)
    )


def cause_of(state: ClusterState, pod: PodClass, shortfall: Shortfall, stages: Sequence[FilterStage]) -> str:
    """The answer without amounts of the pod, so that pods of many sizes share it."""
    reason = shortfall.too_large
    if reason is None or not shortfall.nodes or _unknown_resource(state, pod):
        return headline(state, pod, shortfall, stages)
    if reason.where is Where.ALLOWED_ZONES:
        return f"refused by kubelets with policy {reason.policy} even on an empty node"
    place = "NUMA zone" if reason.where is Where.ZONE else "node"
    return f"larger than every {place}: {reason.resource or ', '.join(name for name, _ in reason.asked)}"


# -- never: even empty nodes refuse it ---------------------------------------------------------------------------------


def _never(pod: PodClass, reason: Oversized) -> str:
    """Why even empty nodes are too small, in numbers."""
    whose = f" for container {reason.container}" if reason.container and len(pod.request.containers) > 1 else ""
    want, have = human(reason.resource, reason.want), human(reason.resource, reason.have)
    amounts = [f"{name} {human(name, amount)}" for name, amount in reason.asked]
    together = " and ".join(filter(None, (", ".join(amounts[:-1]), *amounts[-1:])))
    match reason.where:
        case Where.NODE if reason.resource:
            return f"no node has {reason.resource} {want}: the largest has {have}"
        case Where.NODE:
            return f"no empty node has {together} together"
        case Where.ZONE if reason.resource:
            return f"no NUMA zone has {reason.resource} {want}{whose}: the largest offers {have}"
        case Where.ZONE:
            return f"no empty NUMA zone has {together} together{whose}"
        case _:
            refuse = f"kubelets with policy {reason.policy} refuse it even on an empty node"
            if not reason.asked:
                return f"{refuse}: NUMA zones hold its containers one by one, but not together"
            if not reason.zones_needed:
                return refuse
            if not reason.resource and len(set(reason.zones_needed)) == 1:
                zones = reason.zones_needed[0]
                where = "no NUMA zone has" if zones == 1 else f"no {zones} NUMA zones have"
                return f"{refuse}: {where} {together} together{whose}"
            return f"{refuse}: {_zones_needed(reason)}{whose}"


def _zones_needed(reason: Oversized) -> str:
    """`cpu 96 needs 1 NUMA zone, nvidia.com/gpu 8 needs 2`; or what the zones of the one that is short offer."""
    needs = [
        (name, human(name, want), zones) for (name, want), zones in zip(reason.asked, reason.zones_needed, strict=True)
    ]
    if reason.resource:
        name, want, zones = next(each for each in needs if each[0] == reason.resource)
        return f"{name} {want} needs {count(zones, 'NUMA zone')}, and pods can have {human(name, reason.have)} there"
    (name, want, zones), *others = needs
    first = f"{name} {want} needs {count(zones, 'NUMA zone')}"
    return ", ".join([first, *(f"{name} {want} needs {zones}" for name, want, zones in others)])


def _unknown_resource(state: ClusterState, pod: PodClass) -> str:
    """`no node has nvidia.com/gpus (did you mean nvidia.com/gpu?)` for an unknown resource; else empty."""
    offered = [name for name, index in state.columns.resource_index.items() if state.columns.allocatable[index].any()]
    if not offered:
        return ""  # nothing is known of any node
    missing = next((name for name, amount in pod.request.total.items() if amount and name not in offered), None)
    if missing is None:
        return ""
    hint = did_you_mean(missing, offered).removeprefix("; ")
    return f"no node has {missing} ({hint})" if hint else f"no node has {missing}"


# -- not now: where the nodes were lost that matter --------------------------------------------------------------------


def _lost(state: ClusterState, pod: PodClass, shortfall: Shortfall, stages: Sequence[FilterStage]) -> str:
    """The last stage that lost nodes that matter; if all of them are closed to the pod, by what."""
    narrowed = [stage.only(shortfall.matter) for stage in stages]
    relevant = [stage for stage in narrowed if stage.lost] or list(stages)
    if not relevant:
        return "no node takes it"
    if all(cause.closed for stage in relevant for cause in stage.causes):
        lost = {node for stage in relevant for cause in stage.causes for node in cause.nodes}
        return f"{_called(state, pod, shortfall, lost)} {_closed(relevant)}"
    last = relevant[-1]
    if last.kind is CERTAIN:
        return f"{count(last.lost, 'node')} {'has' if last.lost == 1 else 'have'} too many NUMA zones to be sure"
    sentence = last.kind.none_passes
    if last.kind is ENOUGH and len(last.causes) == 1:
        sentence = f"no node has enough {last.causes[0].words} free"
    elif last.kind.tells_cause and len(last.causes) == 1:
        sentence = f"{sentence}: {last.causes[0].words}"
    before = [stage.kind for stage in relevant[:-1] if stage.kind is not ENOUGH or last.kind.tells_cause]
    small = {
        node for stage in stages if stage.kind is LARGE_ENOUGH for cause in stage.causes for node in cause.nodes
    } & shortfall.small_zones
    adjectives = [kind.adjective for kind in before if kind.adjective]
    if small and last.kind not in OF_FREE_ZONES:
        # These may have enough free, so the sentence is not about them.
        adjectives.append("large enough")
        sentence += f"; the NUMA zones of {hostlist(small, 40)} are too small even when empty"
    adjective = " ".join(adjectives)
    return sentence.replace("no node ", f"no {adjective} node ", 1) if adjective else sentence


def _none_matches(pod: PodClass, shortfall: Shortfall) -> str:
    if pod.node_name is not None:
        return NAMED.none_passes
    terms = [detail for cause in shortfall.causes if cause.plugin == SELECTOR for detail in cause.details]
    return f"{MATCHING.none_passes} ({terms[0]})" if terms else MATCHING.none_passes


def _called(state: ClusterState, pod: PodClass, shortfall: Shortfall, nodes: Collection[str]) -> str:
    """`the 5 nodes with nvidia.com/gpu`: what sets the nodes apart that matter."""
    if len(nodes) == shortfall.nodes:
        return {1: "the only node", 2: "both nodes"}.get(len(nodes), f"all {len(nodes)} nodes")
    noun = "the only node" if len(nodes) == 1 else f"the {len(nodes)} nodes"
    columns = state.columns
    for name in reversed(usual_order(pod.request.total)):
        want, offered = pod.request.total[name], columns.allocatable[columns.index_of(name)]
        for least, words in ((1, f"with {name}"), (want, f"with {name} {human(name, want)}")):
            if want and {state.names[row] for row in np.flatnonzero(offered >= least).tolist()} == set(nodes):
                return f"{noun} {words}"
    selects = pod.node_selector or pod.node_affinity.required_during_scheduling_ignored_during_execution
    if selects and len(nodes) == shortfall.matching:
        return f"{noun} that {'matches' if len(nodes) == 1 else 'match'} its node selector and affinity"
    return f"{noun} large enough for it"


def _closed(stages: Sequence[FilterStage]) -> str:
    """`have a taint that it does not tolerate: nvidia.com/gpu=present:NoSchedule`, `are cordoned`."""
    causes = [cause for stage in stages for cause in stage.causes]
    if len(causes) == 1:
        return causes[0].closed
    return f"are closed to it: {', '.join(f'{cause.words} {len(cause.nodes)}' for cause in causes)}"


def _only_node(state: ClusterState, pod: PodClass, shortfall: Shortfall, stages: Sequence[FilterStage]) -> str:
    """Why the only node refuses a pod that can run on no other, as pods of a DaemonSet or those that Kueue pins to a
    node; empty for other pods.
    """
    required = pod.node_affinity.required_during_scheduling_ignored_during_execution
    terms = (required.node_selector_terms if required is not None else None) or ()
    named = {name for term in terms for name in _names_in(term)}
    hosts = _nodes_called(state, pod.node_selector[HOSTNAME]) if HOSTNAME in pod.node_selector else []
    if len(hosts) == 1:
        (node,), by = hosts, "selector"
    elif len(named) == 1 and all(map(_names_in, terms)):
        (node,), by = named, "affinity"
    else:
        return ""
    lead = f"node {node}, the only one that its node {by} allows,"
    if node not in state.rows:
        return f"{lead} does not exist"
    closed = [cause for stage in stages for cause in stage.only({node}).causes if cause.closed]
    if closed:
        return f"{lead} {closed[0].closed}"
    causes = [cause.cause for cause in shortfall.causes if node in cause.nodes]
    return f"{lead} refuses it: {causes[0]}" if causes else ""


def _nodes_called(state: ClusterState, hostname: str) -> list[str]:
    """The nodes with a host name, which is a label and mostly their name."""
    return [
        node.metadata.name for node in state.nodes if node and (node.metadata.labels or {}).get(HOSTNAME) == hostname
    ]


def _names_in(term: NodeSelectorTerm) -> list[str]:
    """The nodes that a term names; none if it does not."""
    fields = (each for each in term.match_fields or () if each.key == NODE_NAME_FIELD and each.operator == "In")
    return [name for each in fields for name in each.values or ()]
