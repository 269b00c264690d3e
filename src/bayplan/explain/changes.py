"""The smallest changes that would let a pod in, in words: `cpu 22 instead of 24 (3 nodes)`.

The remedies of `scheduling/remedies.py` come in; one phrase for each goes out, to follow "Would schedule now if".
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import count, instead
from bayplan.explain.topology.hostlist import hostlist
from bayplan.plugins.node_basics import tolerated
from bayplan.scheduling.remedies import OtherPolicy, Remedy, SmallerRequest, WithoutFilter, ZonesCombined


def changes(state: ClusterState, pod: PodClass, found: Sequence[Remedy]) -> list[str]:
    """One phrase for each remedy."""
    return [f"{_phrase(state, pod, remedy)} ({_how_many(remedy)})" for remedy in found]


def _how_many(remedy: Remedy) -> str:
    nodes = count(remedy.nodes, "node")
    return f"at least {nodes}" if remedy.at_least else nodes


def _phrase(state: ClusterState, pod: PodClass, remedy: Remedy) -> str:
    match remedy:
        case SmallerRequest():
            # Only one container: no name is needed.
            whose = f"{remedy.container}: " if len(pod.request.containers) > 1 else ""
            return f"{whose}{instead(remedy.resource, remedy.amount, remedy.instead_of)}"
        case ZonesCombined():
            return "a container could span NUMA zones"
        case WithoutFilter():
            return _without(state, pod, remedy)
        case OtherPolicy():
            return f"it asked for topology policy {remedy.policy} instead of {remedy.instead_of}"


def _without(state: ClusterState, pod: PodClass, remedy: WithoutFilter) -> str:
    if remedy.plugin == "NodeUnschedulable":
        return f"{hostlist(remedy.names, 40)} were uncordoned"
    if remedy.plugin == "TaintToleration":
        taints = _untolerated(state, pod, remedy.names)
        return f"it tolerated {taints[0] if len(taints) == 1 else 'the taints of nodes'}"
    words = {"NodeAffinity": "its node selector and affinity were dropped", "NodeName": "its nodeName were dropped"}
    return words.get(remedy.plugin, f"{remedy.plugin} were satisfied")


def _untolerated(state: ClusterState, pod: PodClass, nodes: Sequence[str]) -> list[str]:
    """The taints that keep the pod from these nodes, as kubectl writes them."""
    found: dict[str, None] = {}
    for name in nodes:
        for taint in state.taint_sets[state.columns.taint_set[state.rows[name]]]:
            if taint.effect != "PreferNoSchedule" and not tolerated(pod, taint):
                found[taint_text(taint)] = None
    return list(found)
