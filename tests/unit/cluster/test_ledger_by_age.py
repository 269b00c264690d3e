"""The ledger where reports neither list pods nor publish a fingerprint, but everybody knows what time it is.

The stories have one node of two zones with 8 CPUs each; a report is written as what is left in them, and moments as seconds after
noon. At the end, reports come late (but not too late), twice and in any order, and no more than the truth is believed.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.ledger import REPORTS_WITHIN, SHOWN_AFTER
from bayplan.cluster.state import ClusterState
from bayplan.kube.core_v1 import Pod
from bayplan.kube.topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.cycle import assume
from tests.helpers import cluster, decide, free_in_zones, node, place, simple_pod, topology, zone

NOON = 1_000_000.0


def cpus(number: int, name: str = "web") -> Pod:
    return simple_pod({"cpu": number, "memory": "1Gi"}, name)


def bound(waiting: Pod, *, started: bool = False) -> Pod:
    spec = msgspec.structs.replace(waiting.spec, node_name="n1")
    assert waiting.status is not None
    status = msgspec.structs.replace(waiting.status, start_time="2026-01-01T11:59:00Z" if started else None)
    return msgspec.structs.replace(waiting, spec=spec, status=status)


def report(*left: int) -> NodeResourceTopology:
    return topology(*(zone(number, {"cpu": (8, 8, left[number])}) for number in (0, 1)))


def one_node() -> ClusterState:
    state = cluster(nodes=[node("n1", {"cpu": 16, "memory": "64Gi"})])
    state.set_topology(report(8, 8), at=NOON)
    return state


def left(state: ClusterState) -> tuple[int, ...]:
    return tuple(amount // 1000 for amount in free_in_zones(state, "n1", "cpu"))


class TestAPromise:
    def test_is_kept_while_a_report_may_be_older_than_the_pod(self) -> None:
        state = one_node()
        place(state, cpus(4))
        state.set_pod(bound(cpus(4)), at=NOON + 1)
        state.set_topology(report(8, 6), at=NOON + 2)
        assert left(state) == (4, 6), "other use than before proves nothing"

    def test_is_dropped_by_a_report_that_comes_late_enough(self) -> None:
        state = one_node()
        place(state, cpus(4))
        state.set_pod(bound(cpus(4)), at=NOON + 1)
        state.set_topology(report(4, 8), at=NOON + 1 + SHOWN_AFTER)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_counts_twice_until_silence_tells_that_the_last_report_had_it(self) -> None:
        state = one_node()
        place(state, cpus(4))
        state.set_pod(bound(cpus(4)), at=NOON + 1)
        state.set_topology(report(4, 8), at=NOON + 2)
        state.promises.settle_in_time(NOON + REPORTS_WITHIN)
        assert left(state) == (0, 8)
        state.promises.settle_in_time(NOON + 1 + REPORTS_WITHIN)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_is_kept_however_long_if_no_report_came_since(self) -> None:
        """The agent may be dead; the pod is not."""
        state = one_node()
        place(state, cpus(4))
        state.set_pod(bound(cpus(4)), at=NOON + 60)
        state.promises.settle_in_time(NOON + 10_000)
        assert left(state) == (4, 8)

    def test_is_kept_until_the_pod_is_confirmed(self) -> None:
        state = one_node()
        place(state, cpus(4))
        state.set_topology(report(8, 8), at=NOON + 100)
        state.promises.settle_in_time(NOON + 10_000)
        assert left(state) == (4, 8)

    def test_of_a_pod_that_was_confirmed_at_an_unknown_moment_ages_from_the_next_report_on(self) -> None:
        state = one_node()
        place(state, cpus(4))
        state.set_pod(bound(cpus(4)))
        state.set_topology(report(8, 8), at=NOON + 1)
        assert left(state) == (4, 8)
        state.set_topology(report(4, 8), at=NOON + 1 + SHOWN_AFTER)
        assert left(state) == (4, 8)


class TestAPodBoundBySomebodyElse:
    def test_counts_in_every_zone_while_it_is_young(self) -> None:
        state = one_node()
        state.set_pod(bound(cpus(6)), at=NOON + 1)
        assert left(state) == (2, 2)
        state.set_topology(report(8, 2), at=NOON + 1 + SHOWN_AFTER)
        assert left(state) == (8, 2)

    def test_that_its_kubelet_has_started_is_in_the_report(self) -> None:
        """A scheduler starts and hears of all pods at once: most of them are old."""
        state = one_node()
        state.set_topology(report(8, 2), at=NOON)
        state.set_pod(bound(cpus(6), started=True), at=NOON + 1)
        assert left(state) == (8, 2)


# -- any sequence -----------------------------------------------------------------------------------------------------

HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("a pod is decided about"), st.integers(1, 8)),
        st.tuples(st.just("the kubelet admits the next pod"), st.just(0)),
        st.tuples(st.just("a pod ends"), st.integers(0, 9)),
        st.tuples(st.just("news of a pod arrives"), st.just(0)),
        st.tuples(st.just("a report arrives"), st.integers(0, 9)),
        st.tuples(st.just("a report arrives, not for the last time"), st.integers(0, 9)),
        st.tuples(st.just("time passes"), st.integers(1, 20)),
    ),
    max_size=40,
)


class World:
    """A node that puts every pod where it was promised. Reports arrive in any order, each before `SHOWN_AFTER` is over."""

    def __init__(self) -> None:
        self.now = NOON
        self.state = one_node()
        self.held: dict[str, tuple[int, int]] = {}
        self.decided: list[tuple[str, int, int]] = []
        self.news: list[tuple[str, int]] = []
        self.reports: list[tuple[float, NodeResourceTopology]] = []
        self.came = 0

    def true(self) -> tuple[int, int]:
        used = [sum(number for zone, number in self.held.values() if zone == each) for each in (0, 1)]
        return 8 - used[0], 8 - used[1]

    def decide(self, number: int) -> None:
        waiting = cpus(number, f"pod-{self.came}")
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
            self.reports.append((self.now, report(*self.true())))

    def end(self, which: int) -> None:
        if self.held:
            name = sorted(self.held)[which % len(self.held)]
            del self.held[name]
            self.news.append((name, 0))
            self.reports.append((self.now, report(*self.true())))

    def tell(self) -> None:
        if self.news:
            name, number = self.news.pop(0)
            if number:
                self.state.set_pod(bound(cpus(number, name)), at=self.now)
            else:
                self.state.remove_pod(f"default/{name}", at=self.now)

    def deliver(self, which: int, *, again: bool) -> None:
        if self.reports:
            index = which % len(self.reports)
            self.state.set_topology(self.reports[index][1], at=self.now)
            if not again:
                del self.reports[index]

    def pass_time(self, seconds: int) -> None:
        """What would be too late comes just in time."""
        self.now += seconds
        for _, late in [each for each in self.reports if each[0] + SHOWN_AFTER <= self.now]:
            self.state.set_topology(late, at=self.now - seconds)
        self.reports = [each for each in self.reports if each[0] + SHOWN_AFTER > self.now]
        self.state.promises.settle_in_time(self.now)

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
            case "time passes":
                self.pass_time(value)
            case _:
                self.deliver(value, again="not for the last time" in what)


@given(HAPPENINGS, st.booleans())
def test_no_more_is_believed_free_than_is_free_and_time_settles_everything(
    happenings: list[tuple[str, int]], in_silence: bool
) -> None:
    world = World()
    for what, value in happenings:
        world.happens(what, value)
        on_the_way = [sum(number for _, zone, number in world.decided if zone == each) for each in (0, 1)]
        free = [true - coming for true, coming in zip(world.true(), on_the_way, strict=True)]
        assert all(ours <= theirs for ours, theirs in zip(left(world.state), free, strict=True))
    while world.decided:
        world.admit()
    while world.news:
        world.tell()
    if not in_silence:
        world.pass_time(int(SHOWN_AFTER))
    world.state.set_topology(report(*world.true()), at=world.now)
    if in_silence:
        world.state.promises.settle_in_time(world.now + REPORTS_WITHIN)
    assert (left(world.state), world.state.is_ahead_of_report(0)) == (world.true(), False)
