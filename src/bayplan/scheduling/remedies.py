"""The smallest change that would let a pod in, checked with the real filters and the kubelet's replay.

* Smaller requests. Less is not always easier: `restricted` admits 28 CPUs in two zones but not 16 where one empty zone
  could hold 16, and `full-pcpus-only` admits even numbers only. So the search tries amounts at which a node's answer
  changes, from large to small, then bisects.
  In turn, more can be easier: 96 CPUs and 8 GPUs need one zone and two, 113 CPUs may need two as well.
* Nodes that are closed by taints: those that would take the pod if it tolerated them.
* Other causes (a selector, the zone rule, the topology policy): the nodes that would take the pod without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.columns.columns import TOPOLOGY_USABLE
from bayplan.cluster.node_status import Closing, closings
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import CPU, ContainerRequest, PodRequest, is_memory
from bayplan.cluster.pods.tolerations import taint_text
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import TOO_MANY_ZONES, admit
from bayplan.engine.numa.admission import admits_in_single_zones, relevant_wants
from bayplan.engine.numa.demand import demand
from bayplan.engine.numa.placement import knowledge_of
from bayplan.engine.numa.rows import Mask
from bayplan.kube.volcano_annotations import NO_POLICIES, POLICIES
from bayplan.kube.wire.core_v1 import Toleration
from bayplan.plugins.node_basics import NodeUnschedulable, TaintToleration
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.scheduling.answers import NO_NODE, Answer, ClassAnswer
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Profile

MEBI = 1024 * 1024
EVERYTHING = Toleration(operator="Exists")
MOST_TRIES = 40
MOST_OPENINGS = 3
# Nodes replayed to find one that takes the pod, and to count those that do.
MOST_REPLAYS_TO_FIND = 16
MOST_REPLAYS_TO_COUNT = 64


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """`nodes` nodes (or more, if `at_least`) would take the container if it requested `amount`."""

    container: str
    resource: str
    amount: int
    instead_of: int
    nodes: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class OpenNodes:
    """The nodes `names` would take the pod if some were uncordoned, some were Ready, and it tolerated some taints."""

    uncordon: tuple[str, ...]
    ready: tuple[str, ...]
    tolerate: tuple[str, ...]
    names: tuple[str, ...]
    at_least: bool = False

    @property
    def nodes(self) -> int:
        """How many nodes it is about."""
        return len(self.names)


@dataclass(frozen=True, slots=True)
class WithoutFilter:
    """`nodes` nodes (or more), named by `names`, would take the pod without this plugin's refusal."""

    plugin: str
    cause: str
    nodes: int
    at_least: bool = False
    names: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ZonesCombined:
    """`nodes` nodes (or more) would take the pod if their policy let containers span zones."""

    nodes: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class OtherPolicy:
    """`nodes` nodes (or more) would take the pod if it asked for `policy` instead of `instead_of`."""

    policy: str
    instead_of: str
    nodes: int
    at_least: bool = False


Remedy = OtherRequest | ZonesCombined | OpenNodes | WithoutFilter | OtherPolicy


def remedies(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer) -> tuple[Remedy, ...]:
    """Return changes that would help, smallest request changes first."""
    found: list[Remedy] = list(_smaller_requests(state, pod, profile))
    found += _larger_requests(state, pod, profile, answer)
    found += _zones_combined(state, pod, profile, answer)
    found += _open_nodes(state, pod, profile, answer)
    found += _without_filters(state, pod, profile, answer)
    found += _other_policies(state, pod, profile)
    return tuple(found)


def _smaller_requests(state: ClusterState, pod: PodClass, profile: Profile) -> Iterator[OtherRequest]:
    for position, container in enumerate(pod.request.containers):
        for resource, amount in container.requests.items():
            search = _Search(state, pod, profile, position, resource)
            smaller = search.largest_found()
            if smaller:
                rows, at_least = _nodes_that_take(state, search.asking(smaller), profile)
                yield OtherRequest(container.name, resource, smaller, amount, len(rows), at_least)


def _larger_requests(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer) -> Iterator[OtherRequest]:
    """Try amounts that are just too large for as few zones as now: under `restricted`, all must need equally many."""
    rows = _refused_for_zones(profile, answer)
    rows = rows[state.columns.policy[rows] == Policy.RESTRICTED]
    for position, container in enumerate(pod.request.containers if len(rows) else ()):
        for resource, amount in container.requests.items():
            search = _Search(state, pod, profile, position, resource)
            reach = state.columns.total_reach(state.columns.index_of(resource))[:, rows]
            # What no node has in total is no candidate.
            larger = np.unique(reach[:-1][reach[:-1] < reach[-1]] // search.step + 1) * search.step
            for each in larger[larger > amount][:MOST_TRIES].astype(np.int64).tolist():
                taking, at_least = _nodes_that_take(state, search.asking(each), profile)
                if taking:
                    yield OtherRequest(container.name, resource, each, amount, len(taking), at_least)
                    break


def _refused_for_zones(profile: Profile, answer: Answer) -> NDArray[np.intp]:
    """Return the rows where the zone rule is the first filter that refuses."""
    topology = profile.topology
    if topology is None:
        return np.zeros(0, dtype=np.intp)
    first = profile.filters.index(topology) * CODES_PER_FILTER
    return np.flatnonzero(np.isin(answer.blocked, [first + code for code in topology.zone_rules]))


class _Search:
    """The search for a smaller amount of one resource of one container, in sensible steps."""

    def __init__(self, state: ClusterState, pod: PodClass, profile: Profile, position: int, resource: str) -> None:
        self.state, self.pod, self.profile = state, pod, profile
        self.position, self.resource = position, resource
        container = pod.request.containers[position]
        self.amount = container.requests[resource]
        self.step = _step_of(pod.request, container, resource)

    def largest_found(self) -> int:
        """Return an amount that fits while one step more does not; 0 if none is found."""
        fails = -(-self.amount // self.step)
        if fails <= 1:
            return 0
        rows = self._rows_that_amounts_decide()
        if not len(rows):
            return 0
        fits = 0
        for steps in self._candidates(rows, fails):
            if self._fits(steps):
                fits = steps
                break
            fails = steps
        if fits and (fits + 1 == fails or not self._fits(fits + 1)):
            return fits * self.step
        # Invariant: `fits` steps fit somewhere (or are zero), `fails` steps do not.
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if self._fits(middle) else (fits, middle)
        return fits * self.step

    def asking(self, amount: int) -> PodClass:
        """Return the pod with this amount; a Guaranteed pod stays Guaranteed."""
        containers = list(self.pod.request.containers)
        old, resource = containers[self.position], self.resource
        equal = old.limits.get(resource) == old.requests[resource]
        limits = {**old.limits, resource: amount} if equal else old.limits
        containers[self.position] = replace(old, requests={**old.requests, resource: amount}, limits=limits)
        return replace(self.pod, request=replace(self.pod.request, containers=tuple(containers)))

    def _fits(self, steps: int) -> bool:
        return some_node_takes(self.state, self.asking(steps * self.step), self.profile)

    def _rows_that_amounts_decide(self) -> NDArray[np.intp]:
        """Return the nodes that a smaller amount could open: with one step only the zone rule refuses them."""
        blocked = ClassAnswer(self.state, self.asking(self.step), self.profile).refresh().blocked
        undecided: Mask = np.equal(blocked, PASSES)
        for position, plugin in enumerate(self.profile.filters):
            if isinstance(plugin, NodeResourceTopologyMatch):
                undecided |= (blocked // CODES_PER_FILTER == position) & (blocked != PASSES)
        return np.nonzero(undecided & (blocked != NO_NODE))[0]

    def _candidates(self, rows: NDArray[np.intp], below: int) -> list[int]:
        """Return the steps at which a node's answer may change, largest first.

        They come from free amounts of nodes, zones and sets of zones, also minus what other containers take.
        """
        columns = self.state.columns
        index = columns.resource_index.get(self.resource)
        if index is None:
            return []
        in_zones = -np.sort(-columns.zone_available[index][:, rows], axis=0)
        free = np.concatenate([columns.free[index][rows], np.unique(in_zones), np.unique(np.cumsum(in_zones, axis=0))])
        others = self.pod.request.total.get(self.resource, 0) - self.amount
        amounts = np.unique(np.concatenate([free, free - others, [self.amount]]))
        steps = np.unique(amounts // self.step).astype(np.int64)
        if self.resource == CPU:
            steps = np.unique(np.concatenate([steps, *(steps // cores * cores for cores in (2, 4, 8))]))
        steps = steps[(steps > 0) & (steps < below)][::-1]
        if len(steps) > MOST_TRIES:
            # The largest, and evenly spaced ones of the rest; bisection covers the gaps.
            half = MOST_TRIES // 2
            rest = np.linspace(half, len(steps) - 1, half).astype(np.intp)
            steps = np.concatenate([steps[:half], steps[rest]])
        return [int(step) for step in steps]


def _step_of(request: PodRequest, container: ContainerRequest, resource: str) -> int:
    """Whole CPUs if pinned, else tenths of a CPU; mebibytes for large amounts; single devices."""
    if resource == CPU:
        return 1000 if request.exclusive_cpus(container) else 100
    return MEBI if container.requests[resource] >= MEBI else 1


def some_node_takes(state: ClusterState, pod: PodClass, profile: Profile) -> bool:
    """True if a node passes all filters and the replay. Replays only some nodes."""
    rows = _passing(state, pod, profile)[:MOST_REPLAYS_TO_FIND].tolist()
    return any(_taken(state, pod, profile, row) for row in rows)


def _nodes_that_take(state: ClusterState, pod: PodClass, profile: Profile) -> tuple[list[int], bool]:
    """Return the nodes that certainly take a pod, and whether nodes beyond the replay limit may too."""
    taking: list[int] = []
    replays = 0
    for row in _passing(state, pod, profile).tolist():
        if not _certain(state, pod, profile, row):
            if replays == MOST_REPLAYS_TO_COUNT:
                return taking, True
            replays += 1
        if _taken(state, pod, profile, row):
            taking.append(row)
    return taking, False


def _passing(state: ClusterState, pod: PodClass, profile: Profile) -> NDArray[np.intp]:
    return np.nonzero(ClassAnswer(state, pod, profile).refresh().blocked == PASSES)[0]


def _taken(state: ClusterState, pod: PodClass, profile: Profile, row: int) -> bool:
    return profile.topology is None or profile.topology.place(state, pod, row).refusal is None


def _certain(state: ClusterState, pod: PodClass, profile: Profile, row: int) -> bool:
    """True if placing on a node needs no expensive replay."""
    topology = profile.topology
    if topology is None or state.columns.topology[row] != TOPOLOGY_USABLE:
        return True
    return admits_in_single_zones(state.columns, demand(pod), row, topology.arguments.assumptions)


def _zones_combined(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer) -> Iterator[ZonesCombined]:
    """Count nodes that refuse only because of their policy, replaying each as best-effort."""
    topology = profile.topology
    if topology is None or demand(pod).nothing_to_align:
        return
    # A strict policy may also be why the replay refused a node that passes all filters.
    refused = (answer.blocked == PASSES) & (state.columns.policy[: len(answer.blocked)] >= Policy.RESTRICTED)
    refused[_refused_for_zones(profile, answer)] = True
    others = Profile(profile.name, tuple(plugin for plugin in profile.filters if plugin is not topology), ())
    rows = np.intersect1d(np.nonzero(refused)[0], _passing(state, pod, others)).tolist()
    nodes = replays = 0
    at_least = False
    for row in rows:
        if _short_in_sum(state, pod, topology, row):
            continue
        if replays == MOST_REPLAYS_TO_COUNT:
            at_least = True
            break
        replays += 1
        nodes += _would_combine(state, pod, topology, row)
    if nodes:
        yield ZonesCombined(nodes, at_least)


def _short_in_sum(state: ClusterState, pod: PodClass, topology: NodeResourceTopologyMatch, row: int) -> bool:
    """True if the zones together hold too little. Devices outside of zones are left to the replay."""
    columns = state.columns
    for index, want in relevant_wants(columns, demand(pod).in_sum, row, topology.arguments.assumptions):
        name = columns.resource_names[index]
        in_zones_only = (
            name == CPU or is_memory(name) or columns.allocatable[index, row] <= columns.zone_total[index, :, row].sum()
        )
        if in_zones_only and columns.zone_available_sum[index, row] < want:
            return True
    return False


def _would_combine(state: ClusterState, pod: PodClass, topology: NodeResourceTopologyMatch, row: int) -> bool:
    node = knowledge_of(state, row, topology.arguments.assumptions)
    if node is None or node.settings.policy < Policy.RESTRICTED:
        return False
    admission = admit(replace(node, settings=replace(node.settings, policy=Policy.BEST_EFFORT)), pod.request)
    # Too many zones to name them: best-effort takes any, and the sum is enough.
    return admission.admitted or admission.reason == TOO_MANY_ZONES


def _open_nodes(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer) -> Iterator[OpenNodes]:
    """Group nodes that would take the pod if it tolerated everything by what closes them, fewest obstacles first."""
    closed: Mask = np.zeros(len(answer.blocked), dtype=np.bool_)
    for position, plugin in enumerate(profile.filters):
        if isinstance(plugin, NodeUnschedulable | TaintToleration):
            closed |= (answer.blocked // CODES_PER_FILTER == position) & (answer.blocked != PASSES)
    if not closed.any():
        return
    rows, at_least = _nodes_that_take(state, replace(pod, tolerations=(EVERYTHING,)), profile)
    by_row = closings(state, np.array(rows, dtype=np.intp), pod.tolerations, exactly=True)
    groups: dict[Closing, list[str]] = {}
    for position, row in enumerate(rows):
        if closed[row]:
            groups.setdefault(by_row[position], []).append(state.names[row])
    fewest_obstacles = sorted(groups.items(), key=lambda each: (len(each[0].causes), -len(each[1])))
    for closing, names in fewest_obstacles[:MOST_OPENINGS]:
        yield opened(dict.fromkeys(names, closing), at_least=at_least)


def opened(closed: Mapping[str, Closing], *, at_least: bool = False) -> OpenNodes:
    """Return what opens all of these nodes together."""
    return OpenNodes(
        tuple(name for name, closing in closed.items() if closing.cordoned),
        tuple(name for name, closing in closed.items() if closing.not_ready),
        tuple(dict.fromkeys(taint_text(taint) for closing in closed.values() for taint in closing.taints)),
        tuple(closed),
        at_least,
    )


def _without_filters(state: ClusterState, pod: PodClass, profile: Profile, answer: Answer) -> Iterator[WithoutFilter]:
    for position, plugin in enumerate(profile.filters):
        refused_first: Mask = (answer.blocked // CODES_PER_FILTER == position) & (answer.blocked != NO_NODE)
        refused_first &= answer.blocked != PASSES
        if plugin.reads_usage or isinstance(plugin, NodeUnschedulable | TaintToleration) or not refused_first.any():
            continue
        others = Profile(profile.name, tuple(other for other in profile.filters if other is not plugin), ())
        rows, at_least = _nodes_that_take(state, pod, others)
        if rows:
            cause = profile.cause(pod, int(answer.blocked[rows[0]]))[1]
            names = tuple(state.names[row] for row in rows)
            yield WithoutFilter(plugin.name, cause, len(rows), at_least, names)


def _other_policies(state: ClusterState, pod: PodClass, profile: Profile) -> list[OtherPolicy]:
    """Try the policies that nodes have, then none, where a plugin compares them with the pod's."""
    if pod.numa_policy in NO_POLICIES or not profile.compares_policies:
        return []

    def helpful(policies: list[str]) -> list[OtherPolicy]:
        taking = {policy: _nodes_that_take(state, replace(pod, numa_policy=policy), profile) for policy in policies}
        return [
            OtherPolicy(policy, pod.numa_policy, len(rows), at_least)
            for policy, (rows, at_least) in taking.items()
            if rows
        ]

    on_nodes = {Policy(code).text for code in np.unique(state.columns.policy[: state.columns.size]).tolist()}
    of_nodes = [each for each in POLICIES if each in on_nodes - {pod.numa_policy}]
    return helpful(of_nodes) or helpful([Policy.NONE.text])
