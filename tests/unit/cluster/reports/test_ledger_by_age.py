"""The ledger where reports neither list pods nor publish a fingerprint, but everybody knows what time it is.

The stories have one node of two zones with 8 CPUs each; a report is written as what is left in them, and moments as
seconds after noon. At the end, reports come late (but not too late), twice and in any order, and no more than the truth
is believed.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.reports.ledger import REPORTS_WITHIN, SHOWN_AFTER
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.clusters import place
from tests.builders.objects import bound, cpu_pod, cpu_zones, topology
from tests.unit.cluster.one_node_world import EVENTS, NOON, World, left, one_node


def started_before_noon(waiting: Pod) -> Pod:
    """Bound, and its kubelet has begun with it."""
    assert waiting.status is not None
    status = msgspec.structs.replace(waiting.status, start_time="2026-01-01T11:59:00Z")
    return msgspec.structs.replace(bound(waiting), status=status)


def report(*free: int) -> NodeResourceTopology:
    return topology(*cpu_zones(*free))


class TestAPromise:
    def test_is_kept_while_a_report_may_be_older_than_the_pod(self) -> None:
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_pod(bound(cpu_pod(4)), at=NOON + 1)
        state.set_topology(report(8, 6), at=NOON + 2)
        assert left(state) == (4, 6), "other use than before proves nothing"

    def test_is_dropped_by_a_report_that_comes_late_enough(self) -> None:
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_pod(bound(cpu_pod(4)), at=NOON + 1)
        state.set_topology(report(4, 8), at=NOON + 1 + SHOWN_AFTER)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_counts_twice_until_silence_tells_that_the_last_report_had_it(self) -> None:
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_pod(bound(cpu_pod(4)), at=NOON + 1)
        state.set_topology(report(4, 8), at=NOON + 2)
        state.promises.settle_in_time(NOON + REPORTS_WITHIN)
        assert left(state) == (0, 8)
        state.promises.settle_in_time(NOON + 1 + REPORTS_WITHIN)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_is_kept_however_long_if_no_report_came_since(self) -> None:
        """The agent may be dead; the pod is not."""
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_pod(bound(cpu_pod(4)), at=NOON + 60)
        state.promises.settle_in_time(NOON + 10_000)
        assert left(state) == (4, 8)

    def test_is_kept_until_the_pod_is_confirmed(self) -> None:
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_topology(report(8, 8), at=NOON + 100)
        state.promises.settle_in_time(NOON + 10_000)
        assert left(state) == (4, 8)

    def test_of_a_pod_confirmed_at_an_unknown_moment_ages_from_the_next_report(self) -> None:
        state = one_node(report(8, 8))
        place(state, cpu_pod(4))
        state.set_pod(bound(cpu_pod(4)))
        state.set_topology(report(8, 8), at=NOON + 1)
        assert left(state) == (4, 8)
        state.set_topology(report(4, 8), at=NOON + 1 + SHOWN_AFTER)
        assert left(state) == (4, 8)


class TestAPodBoundByAnotherScheduler:
    def test_counts_in_every_zone_while_it_is_young(self) -> None:
        state = one_node(report(8, 8))
        state.set_pod(bound(cpu_pod(6)), at=NOON + 1)
        assert left(state) == (2, 2)
        state.set_topology(report(8, 2), at=NOON + 1 + SHOWN_AFTER)
        assert left(state) == (8, 2)

    def test_that_its_kubelet_has_started_is_in_the_report(self) -> None:
        """A scheduler starts and hears of all pods at once: most of them are old."""
        state = one_node(report(8, 8))
        state.set_topology(report(8, 2), at=NOON)
        state.set_pod(started_before_noon(cpu_pod(6)), at=NOON + 1)
        assert left(state) == (8, 2)


# -- any sequence -----------------------------------------------------------------------------------------------------

HAPPENINGS = st.lists(st.one_of(*EVENTS, st.tuples(st.just("time passes"), st.integers(1, 20))), max_size=40)


class AgeingWorld(World):
    """Reports arrive in any order, each before `SHOWN_AFTER` is over."""

    def pass_time(self, seconds: int) -> None:
        """What would be too late comes just in time."""
        self.now += seconds
        for _, late in [each for each in self.reports if each[0] + SHOWN_AFTER <= self.now]:
            self.state.set_topology(late, at=self.now - seconds)
        self.reports = [each for each in self.reports if each[0] + SHOWN_AFTER > self.now]
        self.state.promises.settle_in_time(self.now)

    def happens(self, what: str, value: int) -> None:
        if what == "time passes":
            self.pass_time(value)
        else:
            super().happens(what, value)


@given(HAPPENINGS, st.booleans())
def test_no_more_is_believed_free_than_is_free_and_time_settles_everything(
    happenings: list[tuple[str, int]], in_silence: bool
) -> None:
    world = AgeingWorld(lambda zones, _: report(*zones))
    for what, value in happenings:
        world.happens(what, value)
        assert all(ours <= theirs for ours, theirs in zip(left(world.state), world.free(), strict=True))
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
