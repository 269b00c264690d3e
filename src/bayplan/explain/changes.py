"""The smallest changes that would let a pod in, in words: `cpu <= 22 (3 nodes)`.

In come the remedies that `scheduling/remedies.py` found by asking the real filters, out goes one phrase for each, ready to stand
after "Would schedule now if". Nothing is worked out here but the names: which taint, which container.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import human
from bayplan.explain.hostlist import hostlist
from bayplan.kube.core_v1 import Taint
from bayplan.plugins.node_basics import tolerated
from bayplan.scheduling.decision import Shortfall
from bayplan.scheduling.remedies import Remedy, SmallerRequest, WithoutFilter, ZonesCombined


def changes(state: ClusterState, pod: PodClass, shortfall: Shortfall, found: Sequence[Remedy]) -> list[str]:
    """One phrase for each remedy."""
    return [f"{_phrase(state, pod, shortfall, remedy)} ({count(remedy.nodes, 'node')})" for remedy in found]


def count(number: int, noun: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _phrase(state: ClusterState, pod: PodClass, shortfall: Shortfall, remedy: Remedy) -> str:
    match remedy:
        case SmallerRequest():
            # With one container there is no doubt whose amount it is.
            whose = f"{remedy.container}: " if len(pod.request.containers) > 1 else ""
            return f"{whose}{remedy.resource} <= {human(remedy.resource, remedy.amount)}"
        case ZonesCombined():
            return "a container could span NUMA zones"
        case WithoutFilter():
            return _without(state, pod, _refused_by(shortfall, remedy.plugin), remedy)


def _without(state: ClusterState, pod: PodClass, refused: list[str], remedy: WithoutFilter) -> str:
    if remedy.plugin == "NodeUnschedulable":
        # Not every cordoned node would take the pod; which ones would is known only if all of them do.
        return f"{hostlist(refused, 40) if len(refused) == remedy.nodes else 'cordoned nodes'} were uncordoned"
    if remedy.plugin == "TaintToleration":
        taints = _untolerated(state, pod, refused)
        return f"it tolerated {taints[0] if len(taints) == 1 else 'the taints of nodes'}"
    words = {"NodeAffinity": "its node selector and affinity were dropped", "NodeName": "its nodeName were dropped"}
    return words.get(remedy.plugin, f"{remedy.plugin} were satisfied")


def _refused_by(shortfall: Shortfall, plugin: str) -> list[str]:
    return [node for cause in shortfall.causes if cause.plugin == plugin for node in cause.nodes]


def _untolerated(state: ClusterState, pod: PodClass, nodes: list[str]) -> list[str]:
    """The taints that keep the pod from these nodes, as kubectl writes them."""
    found: dict[str, None] = {}
    for name in nodes:
        for taint in state.taint_sets[state.columns.taint_set[state.rows[name]]]:
            if taint.effect != "PreferNoSchedule" and not tolerated(pod, taint):
                found[_taint_text(taint)] = None
    return list(found)


def _taint_text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
