"""Random small clusters with a random gang each, for `exhaustive_gangs.py` to judge. Everything follows from one seed.

Two to eight nodes under one to three levels whose values repeat under different parents and contain dots; groups up to
three deep, mixed shapes, segments, members that run already. `plain_case` has a little of everything; `tight_case` has
equal pods and hardly more room than they need, so that groups stand in each other's way; in a `returning_case` some
members run and others come back; `numa_case` puts virtual kubelets with two zones under the nodes, `odd_case` any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from random import Random

import msgspec

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from bayplan.simulate.kubelet import KubeletConfiguration, Machine, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.machine_text import machine_of
from bayplan.simulate.scenario.model import Scenario
from tests.builders.objects import GI, GPU, node, simple_pod
from tests.exhaustive_gangs import INDEX, Cluster, Mix, Place, admitted_together, fitting_together
from tests.random_clusters import SHAPES, scenario

HOSTNAME = "kubernetes.io/hostname"
TOPOLOGY = "network"
VALUES = ("r1", "r2", "r10", "a.b", "a", "b.c")
PLAIN_SHAPES: tuple[dict[str, int], ...] = ({GPU: 1}, {GPU: 2}, {GPU: 1, "cpu": 2}, {"cpu": 3}, {GPU: 3, "cpu": 1})


@dataclass
class Case:
    """A gang, the cluster it meets, and the same cluster for the exhaustive search."""

    levels: tuple[str, ...]
    state: ClusterState
    gang: Gang
    places: list[Place] = field(default_factory=list)
    shape_of: dict[str, int] = field(default_factory=dict)
    kubelets: dict[str, VirtualKubelet] = field(default_factory=dict)

    @cached_property
    def scheduler(self) -> GangScheduler:
        trees = Trees(self.state)
        trees.set(TOPOLOGY, self.levels)
        return GangScheduler(self.state, trees, default_profile(), ClassAnswers(self.state))

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.places, self.levels, self.shape_of)


def plain_case(seed: int) -> Case:
    """Nodes without zones: GPUs, CPUs and pods are only sums. Some nodes are fuller than full."""
    random = Random(seed)
    levels = ("block", "rack", "shelf")[: random.randint(1, 3)]
    names = [f"n{number}" for number in range(random.randint(2, 6))]
    labels = {name: _labels(random, levels) for name in names}
    state = ClusterState()
    free = {}
    for name in names:
        amounts = {GPU: random.choice((0, 1, 2, 4, 4, 6)), "cpu": random.choice((0, 2, 4, 8, 8))}
        amounts["pods"] = random.choice((1, 3, 110, 110, 110))
        state.set_node(node(name, amounts, labels=labels[name]))
        free[name] = amounts
        if random.random() < 0.2:
            taken = {GPU: random.randint(0, 2), "cpu": random.randint(0, 2)}
            state.set_pod(simple_pod(taken, f"before-{name}", nodeName=name))
            free[name] = {key: amount - {**taken, "pods": 1}[key] for key, amount in amounts.items()}
    shapes = random.sample(PLAIN_SHAPES, random.choice((1, 1, 2, 3)))
    maker = _GangMaker(random, levels, names, [simple_pod(shape) for shape in shapes], Taste())
    gang = maker.gang(random.randint(1, 6))
    for pod in maker.running:
        state.set_pod(pod)
        taken = shapes[maker.shape_of[pod_key(pod)]]
        here = free[pod.spec.node_name or ""]
        free[pod.spec.node_name or ""] = {key: here[key] - {**taken, "pods": 1}.get(key, 0) for key in here}
    most = _most(maker.shape_of, gang, len(shapes))
    places = [
        Place(name, labels[name], fitting_together(free[name], [{**shape, "pods": 1} for shape in shapes], most))
        for name in names
    ]
    return Case(levels, state, gang, places, maker.shape_of)


def tight_case(seed: int) -> Case:
    """Pods of one GPU each, in groups or segments, on nodes that have as many GPUs in sum, or hardly more."""
    random = Random(seed)
    levels = ("block", "rack", "shelf")[: random.choice((1, 2, 2, 3))]
    names = [f"n{number}" for number in range(random.randint(3, 8))]
    labels = {name: {level: random.choice(VALUES[:2]) for level in levels} for name in names}
    taste = random.choice((Taste(0.9, 0.4, 0.1, 0, deepest=2), Taste(0.2, 0.8, 0.9, 0, deepest=0)))
    maker = _GangMaker(random, levels, [], [simple_pod({GPU: 1})], taste)
    gang = maker.gang(random.randint(4, 8))
    if taste.deepest:
        gang = replace(gang, root=replace(gang.root, required=random.choice((None, None, levels[0]))))
    free = _hardly_enough(random, gang, labels)
    state = ClusterState()
    for name in names:
        state.set_node(node(name, {GPU: free[name]}, labels=labels[name]))
    most = (len(gang.pods),)
    places = [Place(name, labels[name], fitting_together({GPU: free[name]}, [{GPU: 1}], most)) for name in names]
    return Case(levels, state, gang, places, maker.shape_of)


def returning_case(seed: int, *, wishes: bool = False) -> Case:
    """A gang with segments of which some members run where they may, and others come back, each with the index it had.

    All segments are required, unless there are to be wishes.
    """
    random = Random(seed)
    levels = ("block", "rack", "shelf")[: random.randint(1, 3)]
    names = [f"n{number}" for number in range(random.randint(3, 7))]
    labels = {name: {level: random.choice(VALUES[:3]) for level in levels} for name in names}
    shapes = random.sample(PLAIN_SHAPES[:3], random.choice((1, 1, 2)))
    maker = _GangMaker(random, levels, names, [simple_pod(shape) for shape in shapes], Taste(0.6, 0.4, 1.0, 0.4, 0))
    gang = maker.gang(random.choice((4, 6, 6, 8)))
    segments = tuple(replace(each, required=True, apart=random.random() < 0.6) for each in gang.root.segments)
    root = replace(gang.root, segments=segments, minimum=None, running=())
    run = _some_of_them_run(
        random, root, Cluster([Place(name, labels[name], frozenset()) for name in names], levels, {})
    )
    pods = [_indexed(pod, rank, run.get(rank), segments[-1].size) for rank, pod in enumerate(root.pods)]
    root = replace(
        root,
        pods=tuple(pod for pod in pods if not pod.spec.node_name),
        running=tuple(pod for pod in pods if pod.spec.node_name),
    )
    if wishes:
        root = replace(root, segments=tuple(replace(each, required=random.random() < 0.3) for each in segments))
    gang = replace(gang, root=root)
    state = ClusterState()
    places = []
    most = _most(maker.shape_of, gang, len(shapes))
    for name in names:
        here = {GPU: random.choice((0, 1, 2, 3)), "cpu": 4}
        taken = [shapes[maker.shape_of[pod_key(pod)]] for pod in root.running if pod.spec.node_name == name]
        total = {key: here[key] + sum(shape.get(key, 0) for shape in taken) for key in here}
        state.set_node(node(name, total, labels=labels[name]))
        places.append(Place(name, labels[name], fitting_together(here, shapes, most)))
    for pod in root.running:
        state.set_pod(pod)
    return Case(levels, state, gang, places, maker.shape_of)


def _some_of_them_run(random: Random, root: Group, cluster: Cluster) -> dict[int, str]:
    """Nodes by rank: one member after another goes to any node where its segments and the gang allow it, or is lost."""
    run: dict[int, str] = {}
    rules = [(len(root.pods), root.required, False)] if root.required else []
    rules += [(each.size, each.level, each.apart) for each in root.segments]
    places = {place.name: place for place in cluster.places}

    def allowed(rank: int, name: str) -> bool:
        for size, level, apart in rules:
            for other, at in run.items():
                same = cluster.domain(places[at], level or "") == cluster.domain(places[name], level or "")
                if same != (other // size == rank // size) and (not same or apart):
                    return False
        return True

    for rank in range(len(root.pods)):
        name = random.choice(list(places))
        if rank + 1 < len(root.pods) and random.random() < 0.6 and allowed(rank, name):
            run[rank] = name
    return run or {0: random.choice(list(places))}


def _indexed(pod: Pod, rank: int, node_name: str | None, segment: int) -> Pod:
    """A pod of a Job; one that runs has the numbers that it got."""
    written = None if node_name is None else {"bayplan.io/rank": str(rank), "bayplan.io/segment": str(rank // segment)}
    metadata = msgspec.structs.replace(pod.metadata, labels={INDEX: str(rank)}, annotations=written)
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def _hardly_enough(random: Random, gang: Gang, labels: dict[str, dict[str, str]]) -> dict[str, int]:
    """GPUs where each group might stand by itself, then a few of them moved elsewhere: room for all, or nearly so."""
    free = dict.fromkeys(labels, 0)
    for group in gang.root.every_group():
        near = random.choice(list(labels.values()))
        beside = [name for name in labels if labels[name] == near]
        for _ in group.pods:
            free[random.choice(beside)] += 1
    for _ in range(random.choice((0, 0, 1, 2))):
        free[random.choice([name for name in free if free[name]])] -= 1
        free[random.choice(list(free))] += 1
    for _ in range(random.choice((0, 0, 1, 2))):
        free[random.choice(list(free))] += 1
    return free


MACHINES = (
    "pack:2 numa:1 core:4 pu:1 mem:8Gi gpu:1@numa",
    "pack:2 numa:1 core:3 pu:2 mem:8Gi gpu:2@numa",
    "pack:1 numa:2 core:4 pu:1 mem:6Gi",
)
NUMA_SHAPES: tuple[dict[str, int | str], ...] = (
    {"cpu": 1, "memory": "1Gi"},
    {"cpu": 2, "memory": "2Gi"},
    {"cpu": 3, "memory": "1Gi"},
    {"cpu": 2, "memory": "3Gi", GPU: 1},
    {"cpu": 1, "memory": "5Gi"},
    {"cpu": 5, "memory": "2Gi"},
)


def numa_case(seed: int) -> Case:
    """Virtual kubelets of all policies with two zones each, which report everything about themselves."""
    random = Random(seed)
    levels = ("block", "rack")[: random.randint(1, 2)]
    names = [f"n{number}" for number in range(random.randint(2, 4))]
    kinds = [_kubelet_of(random) for _ in range(random.randint(1, 2))]
    shapes = random.sample(NUMA_SHAPES, random.choice((1, 2, 2)))
    requests = [effective_request(simple_pod(shape)) for shape in shapes]
    labels = {name: _labels(random, levels) for name in names}
    state = ClusterState()
    kubelets: dict[str, VirtualKubelet] = {}
    for name in names:
        machine, configuration = random.choice(kinds)
        kubelet = kubelets[name] = VirtualKubelet(machine, configuration)
        before = [simple_pod(random.choice(NUMA_SHAPES), f"{name}-before-{number}", nodeName=name) for number in (0, 1)]
        admitted = [
            pod
            for pod in before[: random.choice((0, 0, 1, 2))]
            if kubelet.admit(pod_key(pod), effective_request(pod)).admitted
        ]
        agent = NodeAgent(name, kubelet, labels[name])
        state.set_node(agent.node)
        state.set_topology(agent.topology(complete=True))
        for pod in admitted:
            state.set_pod(pod)
    maker = _GangMaker(
        random, levels, [], [simple_pod(shape) for shape in shapes], Taste(0.3, 0.3, 0.25, 0.7, deepest=1)
    )
    gang = maker.gang(random.randint(1, 5))
    most = _most(maker.shape_of, gang, len(shapes))
    places = [Place(name, labels[name], admitted_together(kubelets[name], requests, most)) for name in names]
    return Case(levels, state, gang, places, maker.shape_of, kubelets)


def odd_case(seed: int) -> Case:
    """Large and odd machines with all options, pods of several containers and init containers; nothing for the
    exhaustive search.
    """
    random = Random(seed)
    levels = ("block", "rack")[: random.randint(1, 2)]
    drawn = _drawn(seed % 40)
    kinds = random.sample(drawn.nodes, random.randint(1, 2))
    shapes = [workload.template for workload in drawn.workloads]
    state = ClusterState()
    kubelets: dict[str, VirtualKubelet] = {}
    for name in [f"n{number}" for number in range(random.randint(2, 3))]:
        kind = random.choice(kinds)
        kubelet = kubelets[name] = VirtualKubelet(kind.machine, kind.kubelet)
        admitted = []
        for number in range(random.choice((0, 1, 2, 4))):
            pod = _named(random.choice(shapes), f"{name}-before-{number}", name)
            request = effective_request(pod)
            if (
                all(each in kubelet.allocatable for each in request.total)
                and kubelet.admit(pod_key(pod), request).admitted
            ):
                admitted.append(pod)
        agent = NodeAgent(name, kubelet, _labels(random, levels))
        state.set_node(agent.node)
        state.set_topology(agent.topology(complete=True))
        for pod in admitted:
            state.set_pod(pod)
    maker = _GangMaker(
        random, levels, [], random.sample(shapes, random.choice((1, 2, 2))), Taste(0.3, 0.3, 0.2, 0.7, deepest=1)
    )
    return Case(levels, state, maker.gang(random.randint(2, 8)), shape_of=maker.shape_of, kubelets=kubelets)


@lru_cache
def _drawn(seed: int) -> Scenario:
    return scenario(seed, SHAPES)


def _named(pod: Pod, name: str, node_name: str | None = None) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=name)
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def _kubelet_of(random: Random) -> tuple[Machine, KubeletConfiguration]:
    memory_static = random.random() < 0.6
    settings = KubeletSettings(
        policy=random.choice((*Policy, Policy.SINGLE_NUMA_NODE)),
        scope=random.choice(list(Scope)),
        cpu_static=True,
        memory_static=memory_static,
    )
    reserved = {0: {"memory": GI}} if memory_static else {}
    return machine_of(random.choice(MACHINES)), KubeletConfiguration(settings, frozenset({0}), 0, reserved)


def _labels(random: Random, levels: Sequence[str]) -> dict[str, str]:
    """Mostly two values a level, so that domains have several nodes; now and then a label is missing."""
    values = VALUES[:2] if random.random() < 0.6 else VALUES
    return {level: random.choice(values) for level in levels if random.random() < 0.98}


def _most(shape_of: dict[str, int], gang: Gang, shapes: int) -> Mix:
    kinds = [shape_of[pod_key(pod)] for pod in gang.pods]
    return tuple(kinds.count(shape) for shape in range(shapes))


@dataclass(frozen=True)
class Taste:
    """How often groups require or prefer a level, have segments, and have pods of several shapes; and how deep they
    lie.
    """

    required: float = 0.5
    preferred: float = 0.35
    sliced: float = 0.35
    mixed: float = 0.4
    deepest: int = 2


class _GangMaker:
    """Makes one gang; `shape_of` knows its pods, `running` those that have a node already."""

    def __init__(
        self,
        random: Random,
        levels: Sequence[str],
        nodes: Sequence[str],
        shapes: Sequence[Pod],
        taste: Taste,
    ) -> None:
        self.random = random
        self.taste = taste
        self.levels = (*levels, HOSTNAME)
        self.nodes = nodes
        self.shapes = shapes
        self.shape_of: dict[str, int] = {}
        self.running: list[Pod] = []
        self.groups = 0

    def gang(self, pods: int) -> Gang:
        depth = min(self.random.choice((0, 0, 1, 1, 2)), self.taste.deepest)
        root = replace(self._group(pods, depth), name="")
        return Gang("default/gang", root, TOPOLOGY, spread=self.random.random() < 0.1)

    def _group(self, pods: int, depth: int) -> Group:
        random = self.random
        name = f"g{self.groups}"
        self.groups += 1
        own = 0 if depth and random.random() < 0.7 else random.randint(0, pods)
        if not depth:
            own = pods
        groups = tuple(self._group(share, random.randint(0, depth - 1)) for share in self._shares(pods - own))
        segments = self._slices(own) if not groups else ()
        return Group(
            name=name,
            pods=self._pods(name, own),
            groups=groups,
            required=random.choice(self.levels) if random.random() < self.taste.required else None,
            preferred=random.choice(self.levels) if random.random() < self.taste.preferred else None,
            minimum=self._minimum(own, segments),
            minimum_groups=random.randint(0, len(groups)) if groups and random.random() < 0.25 else None,
            segments=segments,
            running=self._run(name),
        )

    def _shares(self, pods: int) -> list[int]:
        """Up to three groups, among which all pods are divided."""
        shares: list[int] = []
        while pods:
            share = pods if len(shares) == 2 else self.random.randint(1, pods)
            shares.append(share)
            pods -= share
        return shares

    def _pods(self, name: str, number: int) -> tuple[Pod, ...]:
        """Equal ones, or of all shapes in any order."""
        mixed = self.random.random() < self.taste.mixed
        shape = self.random.randrange(len(self.shapes))
        return tuple(
            self._pod(f"{name}-{rank}", self.random.randrange(len(self.shapes)) if mixed else shape)
            for rank in range(number)
        )

    def _pod(self, name: str, shape: int, node_name: str | None = None) -> Pod:
        pod = _named(self.shapes[shape], name, node_name)
        self.shape_of[pod_key(pod)] = shape
        return pod

    def _run(self, name: str) -> tuple[Pod, ...]:
        if not self.nodes or self.random.random() < 0.85:
            return ()
        at = self.random.choice(self.nodes)
        pods = [self._pod(f"{name}-runs-{number}", 0, at) for number in range(self.random.choice((1, 1, 2)))]
        self.running += pods
        return tuple(pods)

    def _slices(self, pods: int) -> tuple[Segments, ...]:
        """One or two layers of segments, or none."""
        random = self.random
        sizes = [size for size in (1, 2, 3, 4) if pods and pods % size == 0]
        if not sizes or random.random() >= self.taste.sliced:
            return ()
        size = random.choice(sizes)
        levels = sorted(random.sample(range(len(self.levels)), random.choice((1, 1, 2))))
        inner = random.choice([each for each in (1, 2, 3, 4) if size % each == 0])
        return tuple(
            Segments(each, self.levels[level], apart=random.random() < 0.3, required=random.random() < 0.8)
            for each, level in zip((size, inner), levels, strict=False)
        )

    def _minimum(self, pods: int, segments: Sequence[Segments]) -> int | None:
        if self.random.random() < 0.7:
            return None
        unit = segments[0].size if segments else 1
        return self.random.randint(0, pods // unit) * unit
