"""The causes of a "no" in a few stages, each with the nodes lost there.

The `Shortfall` of a decision comes in (nodes per cause, in the order of the filters); `FilterStage`s with shrinking
counts go out. The words here are for people. Events and documents use kube-scheduler's own.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import KW_ONLY, dataclass

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.engine.kubelet import TOO_MANY_ZONES
from bayplan.engine.numa.admission import Verdict
from bayplan.explain.amounts import count
from bayplan.explain.topology.hostlist import compressed, hostlist
from bayplan.plugins.node_resource_topology_args import FilterMode
from bayplan.scheduling.decision import CauseCount, Shortfall
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.shortfall import REFUSED


@dataclass(frozen=True, slots=True)
class StageKind:
    """What a stage requires of a node, the lead of its losses, and the sentence if no node passes.

    `tells_cause`: the sentence ends with the cause if there is only one. `passing` says which nodes pass,
    `plugin` is the name of one without words of its own.
    """

    passed: str
    lost: str
    none_passes: str
    _: KW_ONLY
    tells_cause: bool = False
    passing: str = ""
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class FilterStage:
    """One step: `left` nodes remain; `lost` has the nodes lost to each cause."""

    kind: StageKind
    left: int
    lost: int
    causes: tuple[tuple[str, tuple[str, ...]], ...]

    def detail(self, longest: int = 64) -> str:
        """`short of hugepages-1Gi 162, cpu 17`, with node names if there is room."""
        if len(self.causes) == 1:
            cause, nodes = self.causes[0]
            lead = f"{self.kind.lost}{cause}"
            return f"{lead}: {hostlist(nodes, max(longest - len(lead), 24))}"
        named = self.kind.lost + ", ".join(f"{cause} ({', '.join(compressed(nodes))})" for cause, nodes in self.causes)
        if len(named) <= longest:
            return named
        return self.kind.lost + ", ".join(f"{cause} {len(nodes)}" for cause, nodes in self.causes)


OPEN = StageKind(
    "tolerated", "", "every node is cordoned or has a taint that it does not tolerate", passing="that is open to it"
)
NAMED = StageKind("named by it", "", "no node has the name in its spec.nodeName", passing="with its name")
MATCHING = StageKind(
    "matching", "", "no node that is open to it matches its node selector and affinity", passing="that matches it"
)
PORTS = StageKind("ports free", "", "no node has its host ports free", passing="with its ports free")
REPORTING = StageKind(
    "with resources", "", "no node that is open to it reports any resources", passing="with resources"
)
ENOUGH = StageKind("enough in total", "short of ", "no node has enough free", passing="with enough free")
DATA = StageKind("usable data", "", "no node with enough room has usable topology data")
ZONES_HOLD_IT = StageKind("enough in zones", "", "no node has enough in its NUMA zones")
ONE_ZONE = StageKind("in one zone", "", "no node has the request inside one NUMA zone")
ALLOWED_ZONES = StageKind(
    "in zones allowed", "fragmented under ", "no node has the request in the NUMA zones that its policy allows"
)
WHOLE_CORES = StageKind("in whole cores", "", "no node gives out so many CPUs: they are not whole cores")
ADMITTED = StageKind("admitted", "", "no kubelet would admit it", tells_cause=True)
CERTAIN = StageKind("certain", "", "nodes have too many NUMA zones for bayplan to be sure")
ALIGNED = StageKind("aligned", "", "no node can align it by scheduler-plugins' rules")

# Zones come last, in this order: every count is of nodes that passed all stages above.
_ZONE_STAGES = (DATA, WHOLE_CORES, ZONES_HOLD_IT, ONE_ZONE, ALLOWED_ZONES, ALIGNED, ADMITTED, CERTAIN)

_BY_PLUGIN = {
    "NodeUnschedulable": (OPEN, "cordoned"),
    "NodeName": (NAMED, "another name"),
    "TaintToleration": (OPEN, "untolerated taint"),
    "NodeAffinity": (MATCHING, "other labels"),
    "NodePorts": (PORTS, "host port taken"),
}
_BY_VERDICT = {
    Verdict.DATA_INVALID: (DATA, "invalid topology data"),
    Verdict.DATA_STALE: (DATA, "topology data not fresh"),
    Verdict.NO_REPORT: (DATA, "NUMA zones unknown (no NodeResourceTopology)"),
    Verdict.REPORT_EXPECTED: (DATA, "new, no NodeResourceTopology yet"),
    Verdict.ZONES_SHORT: (ZONES_HOLD_IT, "zones hold too little in sum"),
    Verdict.NOT_WHOLE_CORES: (WHOLE_CORES, "CPUs that are not whole cores (full-pcpus-only)"),
    Verdict.NOT_IN_ONE_ZONE: (ONE_ZONE, "fragmented"),
    Verdict.NO_COMMON_SET: (ALLOWED_ZONES, "restricted"),
}


def stages_of(
    shortfall: Shortfall, pod: PodClass, profile: Profile, silent: Container[str] = frozenset()
) -> list[FilterStage]:
    """Group causes into stages in the order of the filters; those about zones from loose to strict.

    `silent` are the nodes without any allocatable resources, which have their own cause.
    """
    collected: dict[StageKind, list[tuple[str, tuple[str, ...]]]] = {}
    for cause in shortfall.causes:
        kind, words = _kind_and_words(cause, pod, profile)
        speaking = cause.nodes
        if kind is ENOUGH:
            mute = tuple(node for node in cause.nodes if node in silent)
            speaking = tuple(node for node in cause.nodes if node not in silent)
            if mute:
                collected.setdefault(REPORTING, []).append(("no allocatable resources reported", mute))
        if speaking:
            collected.setdefault(kind, []).append((words, speaking))
    if ALLOWED_ZONES in collected and ONE_ZONE in collected:
        collected[ALLOWED_ZONES] += [("single-numa-node", nodes) for _, nodes in collected.pop(ONE_ZONE)]
    left = shortfall.nodes
    stages = []
    for kind, causes in sorted(collected.items(), key=lambda entry: _position(entry[0])):
        lost = sum(len(nodes) for _, nodes in causes)
        left -= lost
        most_first = sorted(causes, key=lambda entry: -len(entry[1]))
        stages.append(FilterStage(kind, left, lost, tuple(most_first)))
    return stages


def in_one_sentence(shortfall: Shortfall, stages: list[FilterStage]) -> str:
    """The answer: why the last nodes failed."""
    if not shortfall.nodes:
        return "the cluster has no nodes"
    if not stages:
        return "no node takes it"
    last = stages[-1]
    if last.kind is ENOUGH and len(last.causes) == 1:
        return f"no node has enough {last.causes[0][0]} free"
    if last.kind is CERTAIN:
        verb = "has" if last.lost == 1 else "have"
        return f"{count(last.lost, 'node')} {verb} too many NUMA zones for bayplan to be sure"
    sentence = last.kind.none_passes
    if last.kind.plugin and len(stages) > 1:
        # Its plugin is asked last: nodes that others refuse might pass it.
        sentence = f"no node {stages[-2].kind.passing} passes {last.kind.plugin}"
    return f"{sentence}: {last.causes[0][0]}" if last.kind.tells_cause and len(last.causes) == 1 else sentence


def _position(kind: StageKind) -> int:
    return _ZONE_STAGES.index(kind) if kind in _ZONE_STAGES else -1


def _kind_and_words(cause: CauseCount, pod: PodClass, profile: Profile) -> tuple[StageKind, str]:
    if cause.plugin in _BY_PLUGIN:
        return _BY_PLUGIN[cause.plugin]
    if cause.plugin == "NodeResourcesFit":
        resource = cause.cause.removeprefix("Insufficient ")
        return ENOUGH, "places for pods" if resource == cause.cause else resource
    if cause.reason:
        return CERTAIN if cause.reason == TOO_MANY_ZONES else ADMITTED, cause.cause.removeprefix(REFUSED)
    topology = profile.topology
    if topology is not None and cause.plugin == topology.name:
        if topology.arguments.mode is FilterMode.UPSTREAM:
            return ALIGNED, cause.cause
        for verdict, known in _BY_VERDICT.items():
            if topology.cause(pod, verdict) == cause.cause:
                return known
    name = cause.plugin
    sentence, passing = f"no node passes {name}", f"that passes {name}"
    return StageKind(name, "", sentence, tells_cause=True, passing=passing, plugin=name), cause.cause
