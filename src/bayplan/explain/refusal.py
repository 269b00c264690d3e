"""Everything to report about a pod that fits nowhere.

The decision and the remedies come in. A `Refusal` goes out: the answer in one sentence, the shrinking counts, the
nearest misses with the pods that hold what is missing, and changes that would help. `why.py` prints it, `event_text`
shortens it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.cluster.arrangements import inferred_zones_on
from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import ContainerRequest, Role
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.reports.kubelet_settings import Scope
from bayplan.cluster.reports.pod_zones import zones_on_node
from bayplan.cluster.state import ClusterState
from bayplan.explain.amounts import count
from bayplan.explain.changes import changes
from bayplan.explain.headline import cause_of, headline
from bayplan.explain.stages import CERTAIN, FilterStage, stages_of
from bayplan.explain.volumes import volumes_behind
from bayplan.scheduling.decision import CauseCount, Decision, NearestNode, Shortfall
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
    """The data behind a "no", with its words: the answer, and the cause that it shares with pods of other sizes."""

    pod: str
    sentence: str
    cause: str
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
        sentence=headline(state, pod, shortfall, stages),
        cause=cause_of(state, pod, shortfall, stages),
        asks_for=pod.request.total,
        described=description(state, pod, shortfall),
        containers=pod.request.containers,
        shortfall=shortfall,
        stages=tuple(stages),
        misses=tuple(Miss(miss, holder_of(state, miss)) for miss in shortfall.nearest),
        volumes=volumes_behind(state, pod, shortfall),
        changes=tuple(changes(pod, found)),
        remedies=tuple(found),
    )


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
    inferred = inferred_zones_on(state, row)
    for key in state.pods_on(row):
        pod = state.bound.get(key)
        request = state.pods[key].request
        zones = (zones_on_node(pod, key, request, state.reports[row]) if pod else {}) or inferred.get(key, {})
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
    # First what keeps the pod off nodes that would hold it, then the most frequent: the least important is cut off.
    matter = shortfall.matter
    by_weight = sorted(shortfall.causes, key=lambda each: (matter.isdisjoint(each.nodes), -len(each.nodes), each.cause))
    causes = [f"{len(cause.nodes)} {cause.cause}{because(cause)}" for cause in by_weight]
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


def because(cause: CauseCount) -> str:
    """What stands behind a cause, in brackets: the first term about other pods, or the taints."""
    reason = cause.details[0] if cause.details else ", ".join(map(taint_text, cause.taints))
    return f" ({reason})" if reason else ""


def _cut(text: str, longest: int) -> str:
    raw = text.encode()
    return text if len(raw) <= longest else raw[: longest - 3].decode(errors="ignore") + "..."
