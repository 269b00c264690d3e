"""Mixes: whether a node's kubelet admits pods of several classes together, and in which order they must arrive.

Slots (`engine/slots/slots.py`) count equal pods. Where different pods meet on a node with zones, neither slots nor sums
are enough: a small pod in the wrong zone keeps a large one out. The order matters too, because a kubelet takes the
lowest zone that fits and never moves a pod. So the question is whether there is *some* order in which each pod in turn
is admitted. The answer is that order, and the binder follows it. The first order tried is large pods first, which is
nearly always right: by amounts per zone if they decide, otherwise by replaying the kubelet. Volumes
limit all pods of a node together, in any order (`cluster/volumes/mixes.py`).

A refusal names a smallest mix that is already refused and all nodes in the same state, so that a search does not hit it
again elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from bayplan.cluster.columns.columns import NO_TOPOLOGY
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.tree import Tree
from bayplan.cluster.volumes.mixes import VolumesTogether, compete
from bayplan.engine.budget import UNLIMITED, WORK_OF_AN_ADMISSION, Budget
from bayplan.engine.numa.admission import relevant_wants
from bayplan.engine.numa.demand import demand_of
from bayplan.engine.numa.one_node import lowest_zone_that_holds
from bayplan.engine.numa.placement import knowledge_of
from bayplan.engine.slots.outlook import Outlook, after
from bayplan.engine.slots.replay import listed_by_name
from bayplan.engine.slots.reports import reports_of

Mix = tuple[tuple[int, int], ...]
"""How many pods of which class, by its number: only classes that are there, in ascending order."""
Order = tuple[int, ...]
"""Classes by number, one entry per pod."""

# Admissions that are replayed for one question; a mix whose orders are not all tried by then counts as refused.
MOST_ADMISSIONS = 300
# To put one pod into a zone by amounts.
WORK_OF_A_STEP = 10


def needs_mixes(state: ClusterState, classes: Sequence[PodClass]) -> bool:
    """False if sums per node say everything about these classes together."""
    zones = state.columns.everywhere("topology") != NO_TOPOLOGY
    return len(classes) > 1 and (
        zones or any(pod.host_ports for pod in classes) or compete(state.volumes, [pod.volumes for pod in classes])
    )


class NodeMixes:
    """Answers for the nodes of a tree and some classes of pods, as long as the state stays as it is."""

    def __init__(
        self,
        state: ClusterState,
        tree: Tree,
        classes: Sequence[PodClass],
        assumptions: Assumptions,
        budget: Budget = UNLIMITED,
    ) -> None:
        self._state = state
        self._tree = tree
        self._classes = classes
        self._assumptions = assumptions
        self.budget = budget
        self._demands = [demand_of(pod.request) for pod in classes]
        self._rank = _ranks(classes)
        self._volumes = VolumesTogether(state.volumes, [pod.volumes for pod in classes])
        self._orders: dict[tuple[Hashable, Mix], Order | None] = {}
        self._keys: dict[int, Hashable] = {}
        self._positions: dict[Hashable, list[int]] | None = None
        self.gave_up = False

    def admits(self, position: int, counts: Mix) -> bool:
        """Whether a kubelet admits so many pods of each class in some order."""
        return self._rivals(counts) is None and self.order(position, counts) is not None

    def refused(self, position: int, counts: Mix) -> tuple[Mix, Sequence[int]] | None:
        """None if a kubelet admits these pods of each class; else a smallest mix that it refuses, and where."""
        rivals = self._rivals(counts)
        if rivals is not None:
            return rivals, range(self._tree.size)
        if self.order(position, counts) is not None:
            return None
        smallest = counts
        for pod, count in counts:
            for _ in range(count):
                if self.order(position, _one_less(smallest, pod)) is not None:
                    break
                smallest = _one_less(smallest, pod)
        return smallest, self._like(position)

    def order(self, position: int, counts: Mix) -> Order | None:
        """An order in which a kubelet admits so many pods of each class; None if there is none."""
        question = (self._key(position), counts)
        if question not in self._orders:
            self._orders[question] = self._find_order(int(self._tree.rows[position]), counts)
        return self._orders[question]

    def _rivals(self, counts: Mix) -> Mix | None:
        """Two classes that want the same port of the node."""
        met = [number for number, _ in counts if self._classes[number].host_ports]
        for index, one in enumerate(met):
            for other in met[index + 1 :]:
                ports = self._classes[other].host_ports
                if any(port.conflicts(own) for own in self._classes[one].host_ports for port in ports):
                    return ((one, 1), (other, 1))
        return None

    def _find_order(self, row: int, counts: Mix) -> Order | None:
        largest_first = sorted(counts, key=lambda each: self._rank[each[0]])
        simple = tuple(number for number, count in largest_first for _ in range(count))
        self.budget.spend(WORK_OF_A_STEP * len(simple))
        if not self._volumes.fit(row, counts):
            return None
        if self._state.columns.topology[row] <= NO_TOPOLOGY or self._fit_by_amounts(row, simple):
            return simple
        node = knowledge_of(self._state, row, self._assumptions)
        if node is None:
            return None
        waits = self._state.freshness.waits_for_reports
        if waits and self._state.is_ahead_of_report(row):
            # Where the report is behind, only what amounts tell may be promised.
            self.gave_up = True
            return None
        attempt = _Attempt(self._classes, self._rank, self.budget, settled_only=waits)
        found = attempt.order(Outlook(node), counts)
        self.gave_up |= found is None and attempt.admissions >= MOST_ADMISSIONS
        return found

    def _fit_by_amounts(self, row: int, order: Order) -> bool:
        """True if each step of each pod in turn fits into one zone, on a node where amounts are all that decides."""
        columns, report = self._state.columns, self._state.reports[row]
        if report is None or not report.usable or report.settings.policy is Policy.NONE:
            return False
        if reports_of(self._state).irregular[row] or columns.cpu_group[row] != 1:
            return False
        taken: dict[tuple[int, int], float] = {}
        for number in order:
            demand = self._demands[number]
            by_pod = demand.scope_matters and int(columns.scope[row]) == Scope.POD
            steps = demand.steps_by_amounts(by_pod=by_pod)
            if steps is None:
                return False
            for step in steps:
                wants = relevant_wants(columns, step.wants, row, self._assumptions)
                zone = lowest_zone_that_holds(columns, wants, row, taken)
                if zone is None:
                    return False
                if demand.has_init_containers:
                    starting = relevant_wants(columns, demand.starting_step.wants, row, self._assumptions)
                    if lowest_zone_that_holds(columns, starting, row, taken) != zone:
                        return False
                for index, want in wants:
                    taken[index, zone] = taken.get((index, zone), 0.0) + want
        return True

    def _like(self, position: int) -> Sequence[int]:
        """The positions of nodes in the same state, this one included."""
        if self._positions is None:
            self._positions = {}
            for each in range(self._tree.size):
                self._positions.setdefault(self._key(each), []).append(each)
        return self._positions[self._key(position)]

    def _key(self, position: int) -> Hashable:
        """Everything about a node that a replay depends on."""
        key = self._keys.get(position)
        if key is None:
            row = int(self._tree.rows[position])
            columns = self._state.columns
            kind = reports_of(self._state).kind(row) if self._state.reports[row] is not None else None
            amounts = (columns.zone_available[:, :, row], columns.free[:, row], columns.allocatable[:, row])
            ahead = self._state.freshness.waits_for_reports and self._state.is_ahead_of_report(row)
            seen = (kind, ahead, listed_by_name(self._state, row), int(columns.topology[row]), int(columns.policy[row]))
            volumes = self._volumes.key(row)
            key = self._keys[position] = (seen, volumes, *(numbers.tobytes() for numbers in amounts))
        return key


class _Attempt:
    """A search for an order on one node: depth first, large pods first, no state of the node twice."""

    def __init__(
        self, classes: Sequence[PodClass], rank: Mapping[int, int], budget: Budget, *, settled_only: bool
    ) -> None:
        self.classes = classes
        self.budget = budget
        self.rank = rank
        self.settled_only = settled_only
        self.admissions = 0
        self.seen: set[Hashable] = set()

    def order(self, outlook: Outlook, counts: Mix) -> Order | None:
        if not counts:
            return ()
        node, later = outlook.now, outlook.later
        state = (counts, node.free_cpus, repr(node.memory), repr(later and later.memory), repr(node.devices))
        if state in self.seen:
            return None
        self.seen.add(state)
        for number, _ in sorted(counts, key=lambda each: self.rank[each[0]]):
            if self.admissions >= MOST_ADMISSIONS:
                break
            self.admissions += 1
            self.budget.spend(WORK_OF_AN_ADMISSION)
            request = self.classes[number].request
            admission = outlook.admit(request)
            if admission is None or not admission.admitted:
                continue
            less = _one_less(counts, number)
            following = outlook.after(request, admission) if self.settled_only else Outlook(after(node, admission))
            if following is None and less:
                continue
            rest = () if following is None else self.order(following, less)
            if rest is not None:
                return (number, *rest)
        return None


def _one_less(counts: Mix, number: int) -> Mix:
    less = ((each, count - (each == number)) for each, count in counts)
    return tuple((each, count) for each, count in less if count)


def _ranks(classes: Sequence[PodClass]) -> dict[int, int]:
    """The largest class is number 0: by what it asks for, each resource as a share of the most that any asks."""
    most: dict[str, int] = {}
    for pod in classes:
        for name, amount in pod.request.total.items():
            most[name] = max(most.get(name, 0), amount)
    shares = [sum(amount / most[name] for name, amount in pod.request.total.items() if amount) for pod in classes]
    largest_first = sorted(range(len(classes)), key=lambda number: -shares[number])
    return {number: rank for rank, number in enumerate(largest_first)}
