"""The causes of a "no" in a few stages, each with the nodes lost there.

The `Shortfall` of a decision comes in (nodes per cause, in the order of the filters); `FilterStage`s with shrinking
counts go out. The words here are for people. Events and documents use kube-scheduler's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace

from bayplan.cluster.node_status import NOT_READY_TAINTS
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.engine.kubelet import TOO_MANY_ZONES
from bayplan.engine.numa.admission import Verdict
from bayplan.explain.topology.hostlist import compressed, hostlist
from bayplan.kube.wire.core_v1 import Taint
from bayplan.plugins.node_resource_topology_args import FilterMode
from bayplan.scheduling.decision import CauseCount, Shortfall
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.shortfall import REFUSED


@dataclass(frozen=True, slots=True)
class StageKind:
    """What a stage requires of a node, the lead of its losses, and the sentence if no node passes.

    `tells_cause`: the sentence ends with the cause if there is only one. The `adjective` is for nodes that pass.
    """

    passed: str
    lost: str
    none_passes: str
    _: KW_ONLY
    tells_cause: bool = False
    adjective: str = ""


@dataclass(frozen=True, slots=True)
class StageCause:
    """Nodes lost to one cause, and what closes them to the pod, whatever room they have; empty if room is the cause."""

    words: str
    nodes: tuple[str, ...]
    closing: tuple[str, str] = ("", "")
    """For one node and for several: `is cordoned`, `are cordoned`."""

    @property
    def closed(self) -> str:
        """What closes these nodes."""
        return self.closing[len(self.nodes) != 1]


@dataclass(frozen=True, slots=True)
class FilterStage:
    """One step: `left` nodes remain."""

    kind: StageKind
    left: int
    causes: tuple[StageCause, ...]

    @property
    def lost(self) -> int:
        """How many nodes were lost here."""
        return sum(len(cause.nodes) for cause in self.causes)

    def only(self, nodes: Container[str]) -> FilterStage:
        """The stage as far as it is about some nodes."""
        kept = (replace(each, nodes=tuple(filter(nodes.__contains__, each.nodes))) for each in self.causes)
        return replace(self, causes=tuple(cause for cause in kept if cause.nodes))

    def detail(self, longest: int = 72) -> str:
        """`short of hugepages-1Gi 162, cpu 17`, with node names if there is room."""
        if len(self.causes) == 1:
            lead = f"{self.kind.lost}{self.causes[0].words}"
            return f"{lead}: {hostlist(self.causes[0].nodes, max(longest - len(lead), 24))}"
        named = ", ".join(f"{cause.words} ({', '.join(compressed(cause.nodes))})" for cause in self.causes)
        if len(self.kind.lost + named) <= longest:
            return self.kind.lost + named
        return self.kind.lost + ", ".join(f"{cause.words} {len(cause.nodes)}" for cause in self.causes)


OPEN = StageKind("tolerated", "", "every node is closed to it", adjective="schedulable")
NAMED = StageKind("named by it", "", "no node has the name in its spec.nodeName")
MATCHING = StageKind("matching", "", "no node matches its node selector and affinity", adjective="matching")
PORTS = StageKind("ports free", "", "no node has its host ports free")
REPORTING = StageKind("with resources", "", "no node reports any resources")
LARGE_ENOUGH = StageKind("large enough", "too small in ", "no node is large enough")
ENOUGH = StageKind("enough in total", "short of ", "no node has enough free", adjective="remaining")
VOLUMES = StageKind("reaching volumes", "", "no node can reach its volumes", tells_cause=True)
DATA = StageKind("usable data", "", "no node with enough room has usable topology data")
ZONES_HOLD_IT = StageKind("enough in zones", "", "no node has enough in its NUMA zones")
ONE_ZONE = StageKind("in one zone", "", "no node has the request inside one NUMA zone")
ALLOWED_ZONES = StageKind(
    "in zones allowed", "fragmented under ", "no node has the request in the NUMA zones that its policy allows"
)
WHOLE_CORES = StageKind("in whole cores", "", "no node gives out that number of CPUs: they are not whole cores")
ADMITTED = StageKind("admitted", "", "no kubelet would admit it", tells_cause=True)
CERTAIN = StageKind("certain", "", "nodes have too many NUMA zones to be sure")
ALIGNED = StageKind("aligned", "", "no node can align it by scheduler-plugins' rules")

# Every count is of nodes that passed all stages above. Others stand with ENOUGH, in the order of the filters.
_ZONE_STAGES = (DATA, WHOLE_CORES, ZONES_HOLD_IT, ONE_ZONE, ALLOWED_ZONES, ALIGNED, ADMITTED, CERTAIN)
_IN_ORDER = (OPEN, NAMED, MATCHING, REPORTING, LARGE_ENOUGH, ENOUGH, *_ZONE_STAGES)

_BY_PLUGIN = {
    "NodeUnschedulable": (OPEN, "cordoned", ("is cordoned", "are cordoned")),
    "NodeName": (NAMED, "another name", ("has another name", "have other names")),
    "NodeAffinity": (
        MATCHING,
        "other labels",
        ("does not match its node selector and affinity", "do not match its node selector and affinity"),
    ),
    "NodePorts": (PORTS, "host port taken", ("", "")),
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
# Verdicts that depend on what is free in zones. A node that gets them even when empty is not fragmented but too small.
# The plugin of node selectors and node affinity, by its name in causes.
SELECTOR = "NodeAffinity"
OF_FREE_ZONES = (ZONES_HOLD_IT, ONE_ZONE, ALLOWED_ZONES)


def stages_of(
    shortfall: Shortfall, pod: PodClass, profile: Profile, silent: Container[str] = frozenset()
) -> list[FilterStage]:
    """Group causes into stages in the order of the filters; those about zones from loose to strict.

    `silent` are the nodes without any allocatable resources, which have their own cause.
    """
    found: dict[tuple[StageKind, str, tuple[str, str]], tuple[str, ...]] = {}
    taints = Counter(taint for cause in shortfall.causes for taint in cause.taints for _ in cause.nodes)
    for cause in shortfall.causes:
        kind, words, closing = _kind_and_words(cause, pod, profile, taints)
        for part, its_words, nodes in _parts(kind, words, cause.nodes, shortfall, silent):
            found[part, its_words, closing] = found.get((part, its_words, closing), ()) + nodes
    collected: dict[StageKind, list[StageCause]] = {}
    for (kind, words, closing), nodes in found.items():
        if nodes:
            collected.setdefault(kind, []).append(StageCause(words, nodes, closing))
    if ALLOWED_ZONES in collected and ONE_ZONE in collected:
        collected[ALLOWED_ZONES] += [replace(each, words="single-numa-node") for each in collected.pop(ONE_ZONE)]
    left = shortfall.nodes
    stages = []
    for kind, causes in sorted(collected.items(), key=lambda entry: _position(entry[0])):
        most_first = tuple(sorted(causes, key=lambda each: -len(each.nodes)))
        left -= sum(len(each.nodes) for each in causes)
        stages.append(FilterStage(kind, left, most_first))
    return stages


def _parts(
    kind: StageKind, words: str, nodes: tuple[str, ...], shortfall: Shortfall, silent: Container[str]
) -> Iterator[tuple[StageKind, str, tuple[str, ...]]]:
    """Nodes of one cause, and those among them that have another one in people's words."""
    if kind is ENOUGH:
        yield REPORTING, "no allocatable resources reported", tuple(node for node in nodes if node in silent)
        nodes = tuple(node for node in nodes if node not in silent)
    if kind is ENOUGH or kind in OF_FREE_ZONES:
        too_small = tuple(node for node in nodes if node not in shortfall.matter)
        of_zones = tuple(node for node in too_small if kind is not ENOUGH or node in shortfall.small_zones)
        yield LARGE_ENOUGH, "their NUMA zones", of_zones
        yield LARGE_ENOUGH, words, tuple(node for node in too_small if node not in of_zones)
        nodes = tuple(node for node in nodes if node in shortfall.matter)
    yield kind, words, nodes


def _position(kind: StageKind) -> int:
    return _IN_ORDER.index(kind) if kind in _IN_ORDER else _IN_ORDER.index(ENOUGH)


def _kind_and_words(
    cause: CauseCount, pod: PodClass, profile: Profile, taints: Mapping[Taint, int]
) -> tuple[StageKind, str, tuple[str, str]]:
    if cause.plugin in _BY_PLUGIN:
        return _BY_PLUGIN[cause.plugin]
    if cause.plugin == "TaintToleration":
        of_people = [taint for taint in cause.taints if taint.key not in NOT_READY_TAINTS]
        if not of_people:
            return OPEN, "NotReady", ("is NotReady", "are NotReady")
        # Of several taints, the one that most nodes have.
        taint = taint_text(max(of_people, key=taints.__getitem__))
        rest = f"a taint that it does not tolerate: {taint}"
        return OPEN, f"taint {taint}", (f"has {rest}", f"have {rest}")
    if cause.plugin == "NodeResourcesFit":
        resource = cause.cause.removeprefix("Insufficient ")
        return ENOUGH, "places for pods" if resource == cause.cause else resource, ("", "")
    if cause.reason:
        return CERTAIN if cause.reason == TOO_MANY_ZONES else ADMITTED, cause.cause.removeprefix(REFUSED), ("", "")
    topology = profile.topology
    if topology is not None and cause.plugin == topology.name:
        if topology.arguments.mode is FilterMode.UPSTREAM:
            return ALIGNED, cause.cause, ("", "")
        for verdict, (kind, words) in _BY_VERDICT.items():
            if topology.cause(pod, verdict) == cause.cause:
                return kind, words, ("", "")
    if cause.plugin == "VolumeBinding":
        return VOLUMES, cause.cause, ("", "")
    kind = StageKind(cause.plugin, "", f"no node passes {cause.plugin}", tells_cause=True)
    return kind, cause.cause, ("", "")
