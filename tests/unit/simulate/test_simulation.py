"""Small scenarios, made by hand, and what comes of them second by second.

Unless a story says otherwise, a node has two zones of 7 CPUs that pods can own (one more each is reserved) under policy
single-numa-node, and 32Gi less 1Gi. A pod of 6 CPUs then fits once into a zone; one of 10 fits into no zone although
the node has 14. A decision takes 0.01 s, and a pod that ends after its run time needs another second to start.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy
from bayplan.cluster.reports.pod_zones import NUMA_ZONES
from bayplan.kube.wire.core_v1 import Pod, Taint
from bayplan.simulate.kubelet.configuration import KubeletConfiguration
from bayplan.simulate.run import Run
from bayplan.simulate.scenario.machine_text import machine_of
from bayplan.simulate.scenario.model import Kind, Scenario, ScenarioPod, SimulatedNode, Workload
from bayplan.simulate.schedulers import BAYPLAN, BLIND, SCHEDULERS, UNCACHED, UPSTREAM
from bayplan.simulate.simulation import Simulation
from tests.builders.clusters import free_in_zones
from tests.builders.objects import GI, GPU, Amounts, container, pod, simple_pod
from tests.random_clusters import scenario as random_scenario

HALF_A_NODE: Amounts = {"cpu": 6, "memory": "8Gi"}
ONE_ZONE: Amounts = {"cpu": 7, "memory": "31Gi"}
TOO_WIDE: Amounts = {"cpu": 10, "memory": "8Gi"}
OVER_ZONES: Amounts = {"cpu": 10, "memory": "40Gi"}
LOCALITY = "TopologyAffinityError"


def a_node(
    name: str = "n1", policy: Policy = Policy.SINGLE_NUMA_NODE, *, taints: tuple[Taint, ...] = ()
) -> SimulatedNode:
    settings = KubeletSettings(policy, cpu_static=True, memory_static=True)
    kubelet = KubeletConfiguration(settings, frozenset({0, 8}), reserved_memory={0: {"memory": GI}, 1: {"memory": GI}})
    return SimulatedNode(name, "all", machine_of("pack:2 core:8 mem:32Gi"), kubelet, taints=taints)


def pods(
    template: Pod | Amounts,
    number: int = 1,
    kind: Kind = Kind.REPLICA_SET,
    *,
    name: str = "web",
    at: float = 0.0,
    runs_for: float | None = None,
    backoff_limit: int = 6,
) -> Workload:
    """So many pods of one shape that come at one moment."""
    shape = template if isinstance(template, Pod) else simple_pod(template)
    return Workload(name, kind, shape, (ScenarioPod(at, runs_for),) * number, backoff_limit)


def a_scenario(*workloads: Workload, nodes: int | tuple[SimulatedNode, ...] = 1, lasts: float = 100.0) -> Scenario:
    hosts = tuple(a_node(f"n{number + 1}") for number in range(nodes)) if isinstance(nodes, int) else nodes
    return Scenario("story", hosts, workloads, lasts=lasts)


def happened(scenario: Scenario, scheduler: str = BAYPLAN, report_delay: float | None = None) -> Run:
    simulation = Simulation(scenario, scheduler, report_delay)
    while simulation.step():
        pass
    return simulation.result()


def at_second(moment: float, scenario: Scenario, scheduler: str = BAYPLAN) -> Simulation:
    """Everything up to that moment has happened, and nothing after it."""
    simulation = Simulation(scenario, scheduler)
    while (planned := simulation.next_moment) is not None and planned <= moment:
        simulation.step()
    return simulation


def all_but_state(run: Run) -> dict[str, object]:
    return {each.name: getattr(run, each.name) for each in fields(run) if each.name != "state"}


class TestAPodThatIsRefused:
    """The blind scheduler sees 14 CPUs. The kubelet finds 10 of them in no zone."""

    def test_stays_failed_without_a_controller(self) -> None:
        run = happened(a_scenario(pods(TOO_WIDE, kind=Kind.POD)), BLIND)
        assert (run.refused, run.given_up, run.running, run.waiting, run.attempts) == ({LOCALITY: 1}, 1, 0, 0, 1)
        (refusal,) = run.refusals
        assert (refusal.at, refusal.pod, refusal.workload, refusal.node) == (0.01, "default/web-0", "web", "n1")
        assert refusal.message == "Resources cannot be allocated with Topology locality"

    def test_is_replaced_by_its_replica_set_endlessly(self) -> None:
        """Every 1.01 s another one, until the end."""
        run = happened(a_scenario(pods(TOO_WIDE), lasts=100.5), BLIND)
        assert (run.attempts, run.refusals_in_all, run.waiting, run.given_up) == (100, 100, 1, 0)
        assert [refusal.pod for refusal in run.refusals[:3]] == [
            "default/web-0",
            "default/web-0-r1",
            "default/web-0-r2",
        ]
        assert run.refused_by_node == {"n1": 100}

    def test_is_replaced_by_its_job_later_and_later(self) -> None:
        run = happened(a_scenario(pods(TOO_WIDE, kind=Kind.JOB), lasts=2000.0), BLIND)
        moments = [refusal.at for refusal in run.refusals]
        waited = [round(after - before) for before, after in pairwise(moments)]
        assert waited == [10, 20, 40, 80, 160, 320]
        assert (run.attempts, run.given_up) == (7, 1)

    def test_is_replaced_by_its_job_at_least_every_six_minutes(self) -> None:
        run = happened(a_scenario(pods(TOO_WIDE, kind=Kind.JOB, backoff_limit=9), lasts=3000.0), BLIND)
        assert round(run.refusals[9].at - run.refusals[8].at) == 360

    @pytest.mark.parametrize("limit, attempts", [(0, 1), (2, 3)])
    def test_is_given_up_by_its_job_at_its_limit(self, limit: int, attempts: int) -> None:
        run = happened(a_scenario(pods(TOO_WIDE, kind=Kind.JOB, backoff_limit=limit)), BLIND)
        assert (run.attempts, run.given_up, run.waiting) == (attempts, 1, 0)

    def test_is_not_sent_there_by_who_judges_as_the_kubelet_does(self) -> None:
        run = happened(a_scenario(pods(TOO_WIDE)))
        assert (run.refusals, run.waiting, run.attempts) == ((), 1, 1)
        (waiting,) = run.waiting_pods
        assert (waiting.workload, waiting.pods) == ("web", 1)
        assert waiting.reason.startswith("no NUMA zone has cpu ")

    def test_leaves_room_for_others(self) -> None:
        run = happened(a_scenario(pods(TOO_WIDE, kind=Kind.POD, name="wide"), pods(HALF_A_NODE, 2)), BLIND)
        assert [(each.name, each.running, each.given_up, each.refused) for each in run.workloads] == [
            ("wide", 0, 1, 1),
            ("web", 2, 0, 0),
        ]


class TestPodsThatWait:
    def test_get_their_place_when_others_end(self) -> None:
        """Two at a time for 10 s: the third and fourth start when the first two have ended."""
        run = happened(a_scenario(pods(HALF_A_NODE, 5, Kind.JOB, runs_for=10.0)))
        assert (run.finished, run.attempts, run.refusals) == (5, 5, ())
        assert run.all_running_at == pytest.approx(2 * 11.0, abs=0.1)
        assert run.ended_at == pytest.approx(3 * 11.0, abs=0.1)

    def test_are_served_in_the_order_of_their_coming(self) -> None:
        early, late = (
            pods(HALF_A_NODE, 2, name=name, at=at, runs_for=10.0) for name, at in (("early", 0.0), ("late", 1.0))
        )
        outcomes = at_second(5.0, a_scenario(early, late)).result(interrupted=True).workloads
        assert [(each.running, each.waiting) for each in outcomes] == [(2, 0), (0, 2)]

    def test_that_have_not_arrived_do_not_wait(self) -> None:
        simulation = Simulation(a_scenario(pods(HALF_A_NODE, at=50.0)), BAYPLAN)
        run = simulation.result(interrupted=True)
        assert (run.wanted, run.arrived, run.waiting) == (1, 0, 0)

    def test_never_arrive_after_the_end(self) -> None:
        run = happened(a_scenario(pods(HALF_A_NODE, at=100.5)))
        assert (run.arrived, run.ended_at) == (0, 0.0)

    def test_all_running_is_never_reached_while_one_waits(self) -> None:
        assert happened(a_scenario(pods(HALF_A_NODE, 2))).all_running_at == 0.02
        assert happened(a_scenario(pods(HALF_A_NODE, 3))).all_running_at is None


class TestUse:
    def test_is_a_mean_over_the_whole_time(self) -> None:
        """7 of 14 CPUs and half the memory, from second 50 to the end."""
        run = happened(a_scenario(pods(ONE_ZONE, at=49.99)))
        assert (run.cpu_share, run.memory_share, run.peak_cpu_share) == (0.25, 0.25, 0.5)

    def test_is_over_when_pods_end(self) -> None:
        run = happened(a_scenario(pods(ONE_ZONE, kind=Kind.JOB, runs_for=9.0)))
        assert (run.cpu_share, run.peak_cpu_share) == (0.05, 0.5)

    def test_over_time_is_in_the_time_line(self) -> None:
        run = happened(a_scenario(pods(ONE_ZONE, kind=Kind.JOB, runs_for=49.0), lasts=240.0))
        shares = [moment.cpu_share for moment in run.timeline]
        assert shares == [0.0] + [0.5] * 50 + [0.0] * 190
        assert (run.timeline[-1].at, run.timeline[-1].finished) == (240.0, 1)

    @pytest.mark.parametrize(
        "policy, amounts, zones, distance",
        [
            (Policy.SINGLE_NUMA_NODE, HALF_A_NODE, 1.0, 10.0),
            (Policy.RESTRICTED, OVER_ZONES, 2.0, 15.5),
            (Policy.BEST_EFFORT, TOO_WIDE, 2.0, 15.5),
        ],
    )
    def test_of_zones(self, policy: Policy, amounts: Amounts, zones: float, distance: float) -> None:
        run = happened(a_scenario(pods(amounts), nodes=(a_node(policy=policy),)))
        assert (run.zones_per_pod, run.distance) == (zones, distance)

    def test_of_zones_is_unknown_without_exclusive_owners(self) -> None:
        sharing = pod(container(requests={"cpu": 1}, limits={"cpu": 2}))
        run = happened(a_scenario(pods(sharing)))
        assert (run.running, run.zones_per_pod, run.distance) == (1, None, None)


class TestLateReports:
    """Twelve pods of 4 CPUs come at once.

    Three nodes have room for nine in sum, and for six in their zones of 7 CPUs.
    """

    BURST = a_scenario(pods({"cpu": 4, "memory": "8Gi"}, 12, Kind.JOB, runs_for=20.0), nodes=3, lasts=300.0)

    @pytest.mark.parametrize("delay, refused", [(0.0, 0), (5.0, 6)])
    def test_cost_pods_where_only_reports_are_looked_at(self, delay: float, refused: int) -> None:
        run = happened(self.BURST, UNCACHED, report_delay=delay)
        assert (run.refusals_in_all, run.finished) == (refused, 12)

    def test_cost_time_instead_of_pods_where_upstreams_cache_reserves_in_every_zone(self) -> None:
        """OverReserve subtracts a pod from both zones of its node, until a pass of every 5 seconds finds a report that
        shows it.
        """
        uncached, cached, bayplan = (
            happened(self.BURST, name, report_delay=5.0) for name in (UNCACHED, UPSTREAM, BAYPLAN)
        )
        assert (uncached.refusals_in_all, cached.refusals_in_all, bayplan.refusals_in_all) == (6, 0, 0)
        assert (cached.finished, bayplan.finished) == (12, 12)
        assert cached.all_running_at is not None
        assert bayplan.all_running_at is not None
        assert cached.all_running_at >= bayplan.all_running_at + 5.0

    def test_of_upstreams_cache_end_with_the_pods(self) -> None:
        """Passes in which nothing can change are left out: a pod that never fits does not keep the simulation busy."""
        too_large = pods({"cpu": 12, "memory": "1Gi"}, name="too-large")
        run = happened(
            a_scenario(pods({"cpu": 4, "memory": "8Gi"}), too_large, lasts=3600.0), UPSTREAM, report_delay=5.0
        )
        assert run.waiting == 1
        assert run.ended_at < 60

    def test_cost_no_pod_where_promises_are_remembered(self) -> None:
        run = happened(self.BURST, BAYPLAN, report_delay=5.0)
        assert (run.refusals, run.finished) == ((), 12)

    def test_cost_no_time_where_amounts_tell_all(self) -> None:
        at_once, late = (happened(self.BURST, BAYPLAN, report_delay=delay) for delay in (0.0, 5.0))
        assert at_once.all_running_at == late.all_running_at

    @pytest.mark.parametrize("delay, started", [(0.0, 11.02), (5.0, 16.02)])
    def test_cost_time_where_amounts_do_not_tell_all(self, delay: float, started: float) -> None:
        """A pod over two zones ended. In which shares its memory came back, the next report will say."""
        wide = pods(OVER_ZONES, 2, Kind.JOB, runs_for=10.0)
        run = happened(a_scenario(wide, nodes=(a_node(policy=Policy.RESTRICTED),)), BAYPLAN, report_delay=delay)
        assert run.refusals == ()
        assert run.all_running_at == pytest.approx(started)

    def test_of_a_pod_that_is_gone_when_they_come_do_not_mislead(self) -> None:
        """The first pod lives for two seconds in zone 0, and its report comes in the fifth.

        Who believed it would expect the second pod in zone 1, and promise zone 0, where it really is, to the third one.
        """
        node = replace(a_node(), machine=machine_of("pack:2 core:8 mem:32Gi gpu:1@0"))
        story = (
            pods({"cpu": 2, "memory": "1Gi"}, kind=Kind.JOB, name="brief", runs_for=1.0),
            pods(HALF_A_NODE, name="second", at=5.5),
            pods({"cpu": 2, "memory": "1Gi", GPU: 1}, name="third", at=8.0),
        )
        run = happened(a_scenario(*story, nodes=(node,)), BAYPLAN, report_delay=5.0)
        assert (run.refusals, run.waiting) == ((), 1)

    def test_come_from_the_scenario_unless_overridden(self) -> None:
        late = replace(self.BURST, report_delay=5.0)
        assert Simulation(late, BAYPLAN).report_delay == 5.0
        assert Simulation(late, BAYPLAN, 0.0).report_delay == 0.0

    @pytest.mark.parametrize("delay, started", [(0.0, 1.02), (5.0, 6.02)])
    def test_are_awaited_while_init_containers_hold_memory(self, delay: float, started: float) -> None:
        """A second after its admission the first pod gives 20Gi back, and the report says so."""
        prepare = container({"cpu": 1, "memory": "24Gi"}, "prepare")
        prepared = pod(container({"cpu": 1, "memory": "4Gi"}), init=[prepare])
        run = happened(a_scenario(pods(prepared, 2)), BAYPLAN, report_delay=delay)
        assert (run.refusals, run.running) == ((), 2)
        assert run.all_running_at == pytest.approx(started)


class TestPodsThatRunFromTheBeginning:
    def running(self, *cpus: int) -> tuple[Pod, ...]:
        return tuple(
            simple_pod({"cpu": number, "memory": "8Gi"}, f"old-{index}", nodeName="n1")
            for index, number in enumerate(cpus)
        )

    def test_hold_their_zones(self) -> None:
        scenario = replace(a_scenario(pods(HALF_A_NODE, 2)), running=self.running(6))
        run = happened(scenario)
        assert (run.wanted, run.running, run.waiting, run.refusals) == (2, 1, 1, ())
        assert sorted(run.state.pods) == ["default/old-0", "default/web-0"]
        assert run.cpu_share == pytest.approx(12 / 14, abs=0.001)

    def test_use_their_node_and_are_none_of_those_that_are_wanted(self) -> None:
        run = happened(replace(a_scenario(), running=self.running(6)))
        assert (run.running, run.timeline[0].running, run.timeline[0].waiting) == (0, 0, 0)
        assert run.timeline[0].cpu_share > 0

    def test_are_left_out_with_a_remark_where_the_kubelet_would_not_admit_them_again(self) -> None:
        run = happened(replace(a_scenario(), running=self.running(10, 6)))
        assert run.remarks == ("pod default/old-0 on node n1 is left out: TopologyAffinityError",)
        assert list(run.state.pods) == ["default/old-1"]

    @pytest.mark.parametrize("scheduler", SCHEDULERS)
    def test_are_known_to_every_scheduler(self, scheduler: str) -> None:
        scenario = replace(a_scenario(pods(HALF_A_NODE), nodes=2), running=self.running(6, 6))
        run = happened(scenario, scheduler)
        assert run.state.pods["default/web-0"].row == run.state.rows["n2"]


class TestTheClusterAtTheEnd:
    def test_is_the_true_one_however_late_reports_are(self) -> None:
        run = happened(a_scenario(pods(HALF_A_NODE)), BAYPLAN, report_delay=1000.0)
        assert free_in_zones(run.state, "n1", "cpu") == [1000, 7000]

    @pytest.mark.parametrize("scheduler", SCHEDULERS)
    def test_names_the_zones_of_every_pod(self, scheduler: str) -> None:
        run = happened(a_scenario(pods(HALF_A_NODE, 2)), scheduler)
        zones = [(each.metadata.annotations or {})[NUMA_ZONES] for each in run.state.bound.values()]
        assert [msgspec.json.decode(each) for each in zones] == [{"main": [0]}, {"main": [1]}]

    def test_has_its_taints(self) -> None:
        closed = a_node(taints=(Taint(key="gpu", effect="NoSchedule"),))
        run = happened(a_scenario(pods(HALF_A_NODE), nodes=(closed,)))
        assert (run.running, run.waiting) == (0, 1)


class TestAskingForTheResult:
    SCENARIO = a_scenario(pods(HALF_A_NODE, 5, Kind.JOB, runs_for=10.0), pods(TOO_WIDE, name="wide"))

    def test_twice_gives_the_same(self) -> None:
        simulation = Simulation(self.SCENARIO, BLIND)
        while simulation.step():
            pass
        assert all_but_state(simulation.result()) == all_but_state(simulation.result())

    @pytest.mark.parametrize("interrupted", [True, False])
    def test_in_the_middle_changes_nothing(self, interrupted: bool) -> None:
        simulation = Simulation(self.SCENARIO, BLIND)
        while simulation.step():
            if int(simulation.now) % 7 == 3:
                simulation.result(interrupted=interrupted)
        assert all_but_state(simulation.result()) == all_but_state(happened(self.SCENARIO, BLIND))

    def test_in_the_middle_tells_how_it_stands(self) -> None:
        """Two pods for 22 seconds, one for 11, and then a runaway."""
        simulation = at_second(40.0, self.SCENARIO, BLIND)
        run = simulation.result(interrupted=True)
        assert (run.interrupted, run.finished, run.waiting) == (True, 5, 1)
        assert run.ended_at == simulation.now == pytest.approx(40.0, abs=1.0)
        assert run.timeline[-1].at == round(simulation.now, 3)
        assert run.cpu_share == pytest.approx((22 * 12 + 11 * 6) / 14 / simulation.now, abs=0.01)
        assert simulation.progress == simulation.now / 100

    def test_counts_every_pod_once(self) -> None:
        simulation = Simulation(self.SCENARIO, BLIND)
        while simulation.step():
            run = simulation.result(interrupted=True)
            assert run.arrived == run.running + run.finished + run.waiting + run.given_up

    def test_of_a_scenario_without_pods(self) -> None:
        run = happened(a_scenario())
        assert (run.wanted, run.all_running_at, run.cpu_share, run.ended_at) == (0, None, 0.0, 0.0)

    def test_of_a_scenario_without_nodes(self) -> None:
        run = happened(a_scenario(pods(HALF_A_NODE), nodes=0))
        assert (run.nodes, run.waiting) == (0, 1)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("report_delay", [0.0, 5.0])
def test_the_same_scenario_happens_the_same_way(scheduler: str, report_delay: float) -> None:
    one, other = (happened(random_scenario(7, 60), scheduler, report_delay) for _ in range(2))
    assert one.attempts >= 60
    assert all_but_state(one) == all_but_state(other)
