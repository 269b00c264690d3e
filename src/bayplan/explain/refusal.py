"""Everything to report about a pod that fits nowhere.

The decision and the remedies come in. A `Refusal` goes out: the answer in one sentence, the shrinking counts, the
nearest misses with the pods that hold what is missing, and changes that would help. `why.py` prints it, `event_text`
shortens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import ContainerRequest, Role
from bayplan.cluster.reports.kubelet_settings import Scope
from bayplan.cluster.reports.pod_zones import zones_on_node
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import count
from bayplan.explain.changes import changes
from bayplan.explain.stages import CERTAIN, FilterStage, in_one_sentence, stages_of
from bayplan.explain.volumes import volumes_behind
from bayplan.kube.errors import did_you_mean
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.validation.scheduling import NODE_NAME_FIELD
from bayplan.kube.wire.core_v1 import NodeSelectorTerm
from bayplan.scheduling.decision import Decision, NearestNode, Shortfall
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.remedies import Remedy


@dataclass(frozen=True, slots=True)
class Holder:
    """A running pod that holds some of the missing amount, and how much."""

    pod: str
    amount: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A nearest miss, and the pod that would have to move, if known."""

    nearest: NearestNode
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The data behind a "no", with its words."""

    pod: str
    sentence: str
    asks_for: dict[str, int]
    described: str
    containers: tuple[ContainerRequest, ...]
    shortfall: Shortfall
    stages: tuple[FilterStage, ...]
    misses: tuple[Miss, ...]
    volumes: tuple[str, ...]
    changes: tuple[str, ...]
    remedies: tuple[Remedy, ...]

    @property
    def status(self) -> str:
        """`does not fit`, unless bayplan cannot be sure."""
        unsure = self.stages and self.stages[-1].kind is CERTAIN
        return "might not fit" if unsure else "does not fit"


def refusal_of(
    state: ClusterState, pod: PodClass, profile: Profile, decision: Decision, found: Sequence[Remedy]
) -> Refusal:
    """Put a refused decision into words."""
    shortfall = decision.shortfall or Shortfall(len(state.rows), (), ())
    silent = {
        node
        for cause in shortfall.causes
        if cause.plugin == "NodeResourcesFit"
        for node in cause.nodes
        if not state.columns.allocatable[:, state.rows[node]].any()
    }
    stages = stages_of(shortfall, pod, profile, silent)
    return Refusal(
        pod=decision.pod,
        sentence=_only_node(state, pod, shortfall)
        or _unknown_resource(state, pod)
        or in_one_sentence(shortfall, stages),
        asks_for=pod.request.total,
        described=description(state, pod, shortfall),
        containers=pod.request.containers,
        shortfall=shortfall,
        stages=tuple(stages),
        misses=tuple(Miss(miss, holder_of(state, miss)) for miss in shortfall.nearest),
        volumes=volumes_behind(state, pod, shortfall),
        changes=tuple(changes(state, pod, found)),
        remedies=tuple(found),
    )


def _only_node(state: ClusterState, pod: PodClass, shortfall: Shortfall) -> str:
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


def description(state: ClusterState, pod: PodClass, shortfall: Shortfall | None = None) -> str:
    """`Guaranteed, pod scope`; the scope only if all nodes with zones have the same."""
    words = [pod.request.qos.value]
    refused = [
        state.rows[node]
        for cause in (shortfall.causes if shortfall else ())
        if cause.plugin == "NodeResourceTopologyMatch"
        for node in cause.nodes
    ]
    scopes = {int(state.columns.scope[row]) for row in refused if state.columns.topology[row] == TOPOLOGY_USABLE}
    if len(scopes) == 1:
        words.append(f"{Scope(scopes.pop()).text} scope")
    for role, noun in ((Role.APP, "container"), (Role.SIDECAR, "sidecar"), (Role.INIT, "init container")):
        number = sum(container.role is role for container in pod.request.containers)
        if number and len(pod.request.containers) > 1:
            words.append(count(number, noun))
    return ", ".join(words)


def holder_of(state: ClusterState, miss: NearestNode) -> Holder | None:
    """The pod whose move would help: the smallest that holds enough in that zone, else the largest.

    Only containers in a single zone count: for others it is unknown which part is where.
    """
    row = state.rows.get(miss.node)
    if miss.zone is None or row is None:
        return None
    holders = []
    for key in state.pods_on(row):
        pod = state.bound.get(key)
        request = state.pods[key].request
        zones = zones_on_node(pod, key, request, state.reports[row]) if pod else {}
        held = sum(
            container.requests.get(miss.resource, 0)
            for container in request.containers
            if zones.get(container.name) == (miss.zone,) and container.role is not Role.INIT
        )
        if held:
            holders.append(Holder(key, held))
    missing = miss.want - miss.have
    sufficient = [holder for holder in holders if holder.amount >= missing]
    if sufficient:
        return min(sufficient, key=lambda holder: (holder.amount, holder.pod))
    return max(holders, key=lambda holder: (holder.amount, holder.pod), default=None)


# -- event text -------------------------------------------------------------------------------------------------------


LONGEST = 1024


def event_text(shortfall: Shortfall, changes: Sequence[str] = (), longest: int = LONGEST) -> str:
    """One paragraph of at most `longest` bytes."""
    if not shortfall.nodes:
        return "no nodes available to schedule pods"
    # Most frequent first: the least important is cut off.
    causes = [
        f"{len(cause.nodes)} {cause.cause}" + (f" ({cause.details[0]})" if cause.details else "")
        for cause in sorted(shortfall.causes, key=lambda cause: (-len(cause.nodes), cause.cause))
    ]
    hint = f" Would schedule now if: {changes[0]}." if changes else ""
    lead = f"0/{shortfall.nodes} nodes are available: "
    shown = len(causes)
    while True:
        left_out = len(causes) - shown
        rest = f", and {left_out} more cause{'s' if left_out > 1 else ''}" if left_out else ""
        text = f"{lead}{', '.join(causes[:shown])}{rest}.{hint}"
        if len(text.encode()) <= longest or shown <= 1:
            return _cut(text, longest)
        shown -= 1


def _cut(text: str, longest: int) -> str:
    raw = text.encode()
    return text if len(raw) <= longest else raw[: longest - 3].decode(errors="ignore") + "..."
