"""The smallest changes that would let a pod in, in words: `cpu 22 instead of 24 (3 nodes)`.

The remedies of `scheduling/remedies.py` come in; one phrase for each goes out, to follow "Would schedule now if".
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.explain.amounts import count, instead
from bayplan.explain.topology.hostlist import hostlist
from bayplan.scheduling.remedies import OpenNodes, OtherPolicy, OtherRequest, Remedy, WithoutFilter, ZonesCombined


def changes(pod: PodClass, found: Sequence[Remedy]) -> list[str]:
    """One phrase for each remedy."""
    return [f"{_phrase(pod, remedy)} ({_how_many(remedy)})" for remedy in found]


def _how_many(remedy: Remedy) -> str:
    nodes = count(remedy.nodes, "node")
    return f"at least {nodes}" if remedy.at_least else nodes


def _phrase(pod: PodClass, remedy: Remedy) -> str:
    match remedy:
        case OtherRequest():
            # Only one container: no name is needed.
            whose = f"{remedy.container}: " if len(pod.request.containers) > 1 else ""
            return f"{whose}{instead(remedy.resource, remedy.amount, remedy.instead_of)}"
        case ZonesCombined():
            return "the nodes' topologyManagerPolicy were best-effort"
        case OpenNodes():
            return opened_phrase(remedy, "it")
        case WithoutFilter():
            return _without(remedy)
        case OtherPolicy():
            return f"it asked for topology policy {remedy.policy} instead of {remedy.instead_of}"


def opened_phrase(remedy: OpenNodes, who: str) -> str:
    """`gpu-1 were uncordoned and it tolerated nvidia.com/gpu=present:NoSchedule`."""
    states: dict[tuple[str, ...], list[str]] = {}
    for word, names in (("uncordoned", remedy.uncordon), ("Ready", remedy.ready)):
        states.setdefault(names, []).append(word)
    parts = [f"{hostlist(names, 40)} were {' and '.join(words)}" for names, words in states.items() if names]
    parts += [f"{who} tolerated {' and '.join(remedy.tolerate)}"] if remedy.tolerate else []
    return " and ".join(parts)


def _without(remedy: WithoutFilter) -> str:
    words = {"NodeAffinity": "its node selector and affinity were dropped", "NodeName": "its nodeName were dropped"}
    return words.get(remedy.plugin, f"{remedy.plugin} were satisfied")
