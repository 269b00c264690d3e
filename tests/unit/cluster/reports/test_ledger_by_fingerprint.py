"""The ledger where a node's report lists no pods, but publishes a fingerprint over them, as the agents of
scheduler-plugins do.

The stories have one node of two zones with 8 CPUs each. A report is written as what is left in the zones and the names
of the pods that it shows. At the end, news and reports come late, twice and in any order, and no more than the truth is
believed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.reports.fingerprint import ATTRIBUTE, METHOD_ATTRIBUTE, METHOD_EXCLUSIVE, fingerprint_of
from bayplan.cluster.reports.promises import BELIEVED_AFTER
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.cycle import assume
from tests.builders.clusters import decide, place
from tests.builders.objects import bound, container, cpu_pod, cpu_zones, node, pod, topology, zone
from tests.unit.cluster.one_node_world import EVENTS, NOON, World, left, one_node


def sharing(name: str) -> Pod:
    return pod(container(requests={"cpu": 1}, limits={"cpu": 2}), name=name)


def report(free: tuple[int, int], *shown: str, method: str = "all") -> NodeResourceTopology:
    published = {ATTRIBUTE: fingerprint_of(("default", name) for name in shown), METHOD_ATTRIBUTE: method}
    return topology(*cpu_zones(*free), attributes=published)


def run(state: ClusterState, *waiting: Pod) -> None:
    """Decide about pods here and see them bound."""
    for each in waiting:
        place(state, each)
        state.set_pod(bound(each), at=NOON)


class TestAPromise:
    def test_is_kept_until_the_fingerprint_says_that_the_pod_is_shown(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4))
        state.set_topology(report((8, 8)), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), True)
        state.set_topology(report((4, 8), "web"), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_is_settled_by_a_report_of_some_pods_ago(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4, "first"), cpu_pod(2, "second"), cpu_pod(1, "third"))
        assert left(state) == (1, 8)
        state.set_topology(report((2, 8), "first", "second"), at=NOON)
        assert left(state) == (1, 8)
        state.set_topology(report((1, 8), "first", "second", "third"), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((1, 8), False)

    def test_follows_the_pod_to_where_the_report_shows_it(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4))
        state.set_topology(report((8, 4), "web"), at=NOON)
        assert left(state) == (8, 4)

    def test_is_not_dropped_because_something_else_is_in_use(self) -> None:
        """Four CPUs of zone 0 are gone, as promised, but it is another pod that has them."""
        state = one_node(report((8, 8)))
        state.set_pod(bound(cpu_pod(4, "other")), at=NOON)
        run(state, cpu_pod(3))
        state.set_topology(report((4, 8), "other"), at=NOON)
        assert left(state) == (1, 8)

    def test_is_dropped_before_the_binding_was_confirmed(self) -> None:
        state = one_node(report((8, 8)))
        place(state, cpu_pod(4))
        state.set_topology(report((4, 8), "web"), at=NOON)
        assert left(state) == (4, 8)
        state.set_pod(bound(cpu_pod(4)), at=NOON)
        assert left(state) == (4, 8)

    def test_that_was_forgotten_is_given_back_once(self) -> None:
        state = one_node(report((8, 8)))
        place(state, cpu_pod(4))
        state.forget("default/web")
        assert left(state) == (8, 8)
        state.set_topology(report((8, 8)), at=NOON)
        assert left(state) == (8, 8)

    def test_is_settled_where_only_pods_with_exclusive_resources_count(self) -> None:
        state = one_node(report((8, 8), method=METHOD_EXCLUSIVE))
        run(state, sharing("shares"), cpu_pod(4))
        state.set_topology(report((4, 8), "web", method=METHOD_EXCLUSIVE), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_of_a_pod_whose_name_was_there_before_waits_for_the_older_set(self) -> None:
        """One report may mean either pod; only the next set of names tells."""
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4))
        state.remove_pod("default/web")
        run(state, cpu_pod(6))
        state.set_topology(report((4, 8), "web"), at=NOON)
        assert left(state) == (0, 8), "it may be the old one"
        state.set_topology(report((8, 8)), at=NOON)
        state.set_topology(report((2, 8), "web"), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((2, 8), False)


class TestAPodBoundByAnotherScheduler:
    def test_counts_in_every_zone_until_a_report_shows_it(self) -> None:
        state = one_node(report((8, 8)))
        state.set_pod(bound(cpu_pod(6)), at=NOON)
        assert left(state) == (2, 2)
        state.set_topology(report((8, 2), "web"), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((8, 2), False)

    def test_is_in_the_report_already_when_all_pods_are_told_after_it(self) -> None:
        """A scheduler starts, and hears of reports first."""
        state = one_node(report((4, 2), "a", "b"))
        state.set_pod(bound(cpu_pod(4, "a")))
        state.set_pod(bound(cpu_pod(6, "b")))
        assert left(state) == (4, 2)

    def test_that_was_told_after_its_report_lets_the_report_make_sense(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4, "ours"))
        state.set_topology(report((4, 2), "ours", "theirs"), at=NOON)
        assert left(state) == (4, 8), "whose pods these are is not known yet"
        state.set_pod(bound(cpu_pod(6, "theirs")), at=NOON)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 2), False)

    def test_takes_the_rest_when_another_one_gives_back(self) -> None:
        state = one_node(report((8, 8)))
        state.set_pod(bound(cpu_pod(6, "a")), at=NOON)
        state.set_pod(bound(cpu_pod(6, "b")), at=NOON)
        assert left(state) == (0, 0)
        state.remove_pod("default/a")
        assert left(state) == (2, 2)


class TestAReportThatMakesNoSense:
    def test_knew_of_an_end_before_it_was_told(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4, "stays"), cpu_pod(2, "ends"))
        state.set_topology(report((2, 8), "stays", "ends"), at=NOON)
        state.set_topology(report((4, 8), "stays"), at=NOON)
        assert left(state) == (2, 8)
        state.remove_pod("default/ends")
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_is_believed_after_a_while(self) -> None:
        state = one_node(report((8, 8)))
        run(state, cpu_pod(4))
        state.set_topology(report((4, 8), "web"), at=NOON)
        state.set_topology(report((4, 5), "web", "unheard-of"), at=NOON + 1)
        state.promises.settle_in_time(NOON + 1 + BELIEVED_AFTER / 2)
        assert left(state) == (4, 8)
        state.promises.settle_in_time(NOON + 1 + BELIEVED_AFTER)
        assert left(state) == (4, 5)

    def test_is_believed_at_once_where_none_ever_made_sense(self) -> None:
        """An agent may count pods that are not counted here."""
        state = one_node(report((8, 8), "never-heard-of"))
        state.set_topology(report((4, 8), "never-heard-of"), at=NOON)
        assert left(state) == (4, 8)

    def test_keeps_promises_until_they_are_old_enough(self) -> None:
        state = one_node(report((8, 8), "never-heard-of"))
        run(state, cpu_pod(4))
        state.set_topology(report((4, 8), "never-heard-of", "web"), at=NOON + 1)
        assert left(state) == (0, 8)
        state.set_topology(report((4, 8), "never-heard-of", "web"), at=NOON + 40)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    @pytest.mark.parametrize("published", ["pfp0", "pfp0v999ef46db3751d8e999", "xxxxv001ef46db3751d8e999"])
    def test_is_one_without_a_fingerprint_if_it_is_none(self, published: str) -> None:
        state = one_node(report((8, 8)))
        state.set_topology(topology(zone(0, {"cpu": 8}), attributes={ATTRIBUTE: published}))
        (problem,) = state.remarks
        where = f"NodeResourceTopology n1: attributes.{ATTRIBUTE}"
        assert str(problem) == f'{where}: "{published}" is ignored: expected pfp0v001 and 16 hexadecimal digits'


# -- any sequence -----------------------------------------------------------------------------------------------------

HAPPENINGS = st.lists(st.one_of(*EVENTS), max_size=40)


@given(HAPPENINGS, st.sampled_from(["all", METHOD_EXCLUSIVE]))
def test_no_more_is_believed_free_than_is_free_and_the_last_report_settles_it(
    happenings: list[tuple[str, int]], method: str
) -> None:
    world = World(lambda zones, shown: report(zones, *shown, method=method))
    for what, value in happenings:
        world.happens(what, value)
        assert all(ours <= theirs for ours, theirs in zip(left(world.state), world.free(), strict=True))
    while world.decided:
        world.admit()
    while world.news:
        world.tell()
    world.state.set_topology(world.report(), at=NOON)
    assert (left(world.state), world.state.is_ahead_of_report(0)) == (world.true(), False)


ANYTHING = st.lists(
    st.one_of(
        st.tuples(st.just("decided"), st.sampled_from("ab"), st.integers(1, 8)),
        st.tuples(st.just("seen bound"), st.sampled_from("abc"), st.integers(1, 8)),
        st.tuples(st.just("ended"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("forgotten"), st.sampled_from("ab"), st.just(0)),
        st.tuples(st.just("reported"), st.sets(st.sampled_from("abcd")), st.tuples(*[st.integers(0, 8)] * 2)),
        st.tuples(st.just("time passes"), st.just(""), st.integers(1, 60)),
        st.tuples(st.just("the report is gone"), st.just(""), st.just(0)),
        st.tuples(st.just("the node returns"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@given(ANYTHING)
def test_no_sequence_of_news_drives_a_zone_below_zero_or_above_its_total(news: list[tuple[str, Any, Any]]) -> None:
    """Even if names come back, fingerprints lie, and reports contradict each other and everything that was told."""
    state, now = one_node(report((8, 8))), NOON
    for what, name, value in news:
        match what:
            case "decided":
                waiting = cpu_pod(value, name)
                decision = decide(state, waiting)
                if decision.placed and decision.pod not in state.pods:
                    assume(state, decision, waiting)
            case "seen bound":
                state.set_pod(bound(cpu_pod(value, name)), at=now)
            case "ended":
                state.remove_pod(f"default/{name}", at=now)
            case "forgotten":
                state.forget(f"default/{name}")
            case "reported":
                state.set_topology(report(value, *name), at=now)
            case "time passes":
                now += value
                state.promises.settle_in_time(now)
            case "the report is gone":
                state.remove_topology("n1")
            case _:
                state.remove_node("n1")
                state.set_node(node("n1", {"cpu": 16, "memory": "64Gi"}))
        assert all(0 <= amount <= 8 for amount in left(state)), left(state)
        columns = state.copy().columns
        assert np.array_equal(columns.zone_available_sum, columns.zone_available.sum(axis=1))
