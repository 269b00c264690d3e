"""A node of two zones with 8 CPUs each that puts every pod where it was promised, and a state that hears of it.

News of pods come in order, reports in any order and also twice. What a report holds is for the test to say: `publishes`
gets what is left in the zones and the names of the pods there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import strategies as st

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.cycle import assume
from tests.builders.clusters import cluster, decide, free_in_zones
from tests.builders.objects import bound, cpu_pod, node

NOON = 1_000_000.0
Zones = tuple[int, int]
Publishes = Callable[[Zones, Iterable[str]], NodeResourceTopology]

EVENTS = [
    st.tuples(st.just("a pod is decided about"), st.integers(1, 8)),
    st.tuples(st.just("the kubelet admits the next pod"), st.just(0)),
    st.tuples(st.just("a pod ends"), st.integers(0, 9)),
    st.tuples(st.just("news of a pod arrives"), st.just(0)),
    st.tuples(st.just("a report arrives"), st.integers(0, 9)),
    st.tuples(st.just("a report arrives, not for the last time"), st.integers(0, 9)),
]


def one_node(first: NodeResourceTopology) -> ClusterState:
    state = cluster(nodes=[node("n1", {"cpu": 16, "memory": "64Gi"})])
    state.set_topology(first, at=NOON)
    return state


def left(state: ClusterState) -> tuple[int, ...]:
    """CPUs left in the two zones."""
    return tuple(amount // 1000 for amount in free_in_zones(state, "n1", "cpu"))


class World:
    """The node as it is, and what is on the way to the state."""

    def __init__(self, publishes: Publishes) -> None:
        self.publishes = publishes
        self.now = NOON
        self.held: dict[str, tuple[int, int]] = {}
        self.state = one_node(self.report())
        self.decided: list[tuple[str, int, int]] = []
        self.news: list[tuple[str, int]] = []
        self.reports: list[tuple[float, NodeResourceTopology]] = []
        self.came = 0

    def report(self) -> NodeResourceTopology:
        return self.publishes(self.true(), self.held)

    def true(self) -> Zones:
        used = [sum(number for zone, number in self.held.values() if zone == each) for each in (0, 1)]
        return 8 - used[0], 8 - used[1]

    def free(self) -> list[int]:
        """What is left when those who are decided about have come, too."""
        on_the_way = [sum(number for _, zone, number in self.decided if zone == each) for each in (0, 1)]
        return [true - coming for true, coming in zip(self.true(), on_the_way, strict=True)]

    def decide(self, number: int) -> None:
        waiting = cpu_pod(number, f"pod-{self.came}")
        self.came += 1
        decision = decide(self.state, waiting)
        if decision.placed:
            assume(self.state, decision, waiting)
            (promised,) = self.state.pods[decision.pod].promised
            self.decided.append((waiting.metadata.name, promised.zone, number))

    def admit(self) -> None:
        if self.decided:
            name, zone, number = self.decided.pop(0)
            self.held[name] = zone, number
            self.news.append((name, number))
            self.reports.append((self.now, self.report()))

    def end(self, which: int) -> None:
        if self.held:
            name = sorted(self.held)[which % len(self.held)]
            del self.held[name]
            self.news.append((name, 0))
            self.reports.append((self.now, self.report()))

    def tell(self) -> None:
        if self.news:
            name, number = self.news.pop(0)
            if number:
                self.state.set_pod(bound(cpu_pod(number, name)), at=self.now)
            else:
                self.state.remove_pod(f"default/{name}", at=self.now)

    def deliver(self, which: int, *, again: bool) -> None:
        if self.reports:
            index = which % len(self.reports)
            self.state.set_topology(self.reports[index][1], at=self.now)
            if not again:
                del self.reports[index]

    def happens(self, what: str, value: int) -> None:
        match what:
            case "a pod is decided about":
                self.decide(value)
            case "the kubelet admits the next pod":
                self.admit()
            case "a pod ends":
                self.end(value)
            case "news of a pod arrives":
                self.tell()
            case _:
                self.deliver(value, again="not for the last time" in what)
