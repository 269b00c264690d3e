"""Nodes without a report: `assume.missingReport` decides what they are worth to pods that a kubelet would align."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_EXPECTED, TOPOLOGY_USABLE
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.slots.slots import slots
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import ArgumentError, read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.clusters import cluster, decide
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import GPU, Amounts, ZoneAmounts, container, node, pod, simple_pod, topology, zone

ROOM: Amounts = {"cpu": 16, "memory": "64Gi", GPU: 4}
ALIGNED = simple_pod({"cpu": 4, "memory": "1Gi"})
UNKNOWN = "NUMA zones of {} are unknown (no NodeResourceTopology)"
NEW = 1_000_000.0


def profile(missing: str = "PreferReported", mode: str = "Kubelet") -> Profile:
    """Only free amounts give scores, which say nothing about zones."""
    arguments = {"filterMode": mode, "assume": {"missingReport": missing}}
    usual = default_profile(topology_match(read_arguments(arguments)))
    return replace(usual, scores=tuple(each for each in usual.scores if each[0].name == "NodeResourcesFit"))


def report(name: str, free: int = 8) -> NodeResourceTopology:
    amounts: ZoneAmounts = {"cpu": (8, 8, free), "memory": "32Gi", GPU: 2}
    return topology(zone(0, amounts), zone(1, amounts), name=name)


def mixed(free: int = 8) -> ClusterState:
    """A roomy node without a report and a fuller one that has one: every score is for the first."""
    filler = pod(container(requests={"cpu": 2}), name="filler", nodeName="reported")
    return cluster(report("reported", free), nodes=[node("silent", ROOM), node("reported", ROOM)], pods=[filler])


class TestPreference:
    @pytest.mark.parametrize(
        "waiting, missing, expected, remark",
        [
            pytest.param(ALIGNED, "PreferReported", "reported", "", id="pinned CPUs: the node with a report"),
            pytest.param(ALIGNED, "Prefer-Reported", "reported", "", id="in another spelling"),
            pytest.param(
                pod(container(limits={GPU: 1})), "PreferReported", "reported", "", id="a device: the node with a report"
            ),
            pytest.param(
                pod(container(requests={"cpu": 4})),
                "PreferReported",
                "silent",
                "",
                id="nothing to align: the scores decide",
            ),
            pytest.param(ALIGNED, "Allow", "silent", UNKNOWN.format("silent"), id="Allow: the scores decide"),
            pytest.param(ALIGNED, "Refuse", "reported", "", id="Refuse"),
        ],
    )
    def test_where_a_pod_goes(self, waiting: Pod, missing: str, expected: str, remark: str) -> None:
        decision = decide(mixed(), waiting, profile(missing))
        assert (decision.node, decision.remark) == (expected, remark)

    def test_the_last_choice_is_taken_and_told(self) -> None:
        decision = decide(mixed(free=3), ALIGNED, profile())
        assert (decision.node, decision.remark) == ("silent", UNKNOWN.format("silent"))

    def test_the_score_shown_is_that_of_the_plugins(self) -> None:
        assert 0 < decide(mixed(), ALIGNED, profile()).score < 100_000

    def test_refuse_closes_nodes_without_a_report_to_aligned_pods_alone(self) -> None:
        state = cluster(nodes=[node("silent", ROOM)])
        decision = decide(state, ALIGNED, profile("Refuse"))
        assert decision.shortfall is not None
        assert [each.cause for each in decision.shortfall.causes] == ["NUMA zones unknown (no NodeResourceTopology)"]
        assert decide(state, pod(container(requests={"cpu": 4})), profile("Refuse")).placed

    def test_scheduler_plugins_knows_no_such_preference(self) -> None:
        asked = mixed().classes.of(ALIGNED)
        assert not topology_match(read_arguments({"filterMode": "Upstream"})).prefers_reported(asked)

    @pytest.mark.parametrize(
        "written, problem",
        [
            (
                {"missingReport": "Ignore"},
                'assume.missingReport: Invalid value: "Ignore": must be Allow, PreferReported or Refuse',
            ),
            ({"firstReportSeconds": -1}, "assume.firstReportSeconds: Invalid value: -1: must be 0 or more"),
        ],
    )
    def test_other_values_are_refused(self, written: dict[str, object], problem: str) -> None:
        with pytest.raises(ArgumentError) as caught:
            read_arguments({"assume": written})
        assert str(caught.value) == problem


class TestNewNodes:
    """A node that is younger than its first report is waited for, where others report."""

    @staticmethod
    def state(*reports: NodeResourceTopology, created: float = NEW, at: float | None = NEW + 5) -> ClusterState:
        state = cluster(*reports)
        state.set_node(born(created), at=at)
        return state

    def test_aligned_pods_wait_for_its_first_report(self) -> None:
        state = self.state(report("full", 0))
        decision = decide(state, ALIGNED, profile())
        assert decision.shortfall is not None
        causes = {each.cause: each.nodes for each in decision.shortfall.causes}
        assert causes["NUMA zones unknown yet (new node, no NodeResourceTopology so far)"] == ("new",)
        state.set_topology(report("new"))
        assert decide(state, ALIGNED, profile()).node == "new"

    def test_others_do_not(self) -> None:
        state = self.state(report("full", 0))
        plugin, row = NodeResourceTopologyMatch(), state.rows["new"]
        assert plugin.refusal(state, state.classes.of(pod(container(requests={"cpu": 15}))), row) == 0
        assert decide(state, ALIGNED, profile("Allow")).node == "new"

    def test_it_is_a_node_without_a_report_when_its_time_is_over(self) -> None:
        state = self.state(report("full", 0))
        before = state.usage_log.end
        state.time_passed(NEW + 119)
        assert standing(state) == TOPOLOGY_EXPECTED
        state.time_passed(NEW + 120)
        assert (standing(state), state.usage_log.end > before) == (NO_TOPOLOGY, True)
        assert decide(state, ALIGNED, profile()).node == "new"

    @pytest.mark.parametrize("created, at", [(NEW - 200, NEW), (NEW, None)], ids=["old enough", "the time is unknown"])
    def test_an_older_node_is_not_waited_for(self, created: float, at: float | None) -> None:
        assert standing(self.state(report("full", 0), created=created, at=at)) == NO_TOPOLOGY

    def test_where_no_node_reports_no_report_is_waited_for(self) -> None:
        state = self.state()
        assert standing(state) == NO_TOPOLOGY
        state.set_node(node("old", ROOM))
        state.set_topology(report("old"))
        assert standing(state) == TOPOLOGY_EXPECTED

    def test_a_report_ends_the_wait(self) -> None:
        state = self.state(report("full", 0))
        state.set_topology(report("new"))
        state.time_passed(NEW + 500)
        assert standing(state) == TOPOLOGY_USABLE

    def test_the_time_can_be_configured(self) -> None:
        state = ClusterState(Assumptions(first_report_within=0))
        state.set_node(born(NEW), at=NEW + 1)
        assert not state.freshness.expected


class TestGangs:
    """Members together prefer nodes with reports as pods do."""

    def place(self, state: ClusterState, size: int, missing: str = "PreferReported") -> tuple[GangDecision, set[str]]:
        scheduler = gang_scheduler(state, profile=profile(missing))
        members = [simple_pod({"cpu": 4, "memory": "1Gi"}, f"p{number}") for number in range(size)]
        gang = Gang("default/gang", Group("", tuple(members)))
        decision = schedule_gang(scheduler, gang)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else []
        return decision, {each.remark for each in taken or []}

    def test_a_gang_that_fits_on_nodes_with_reports_stays_there(self) -> None:
        decision, remarks = self.place(mixed(), 3)
        assert ({seat.node for seat in decision.seats}, remarks) == ({"reported"}, {""})

    def test_a_larger_one_takes_others_too_and_says_so(self) -> None:
        decision, remarks = self.place(mixed(), 6)
        assert {seat.node for seat in decision.seats} == {"reported", "silent"}
        assert remarks == {"", UNKNOWN.format("silent")}

    def test_refuse_counts_no_slots_there(self) -> None:
        decision, _ = self.place(mixed(), 6, "Refuse")
        assert not decision.placed

    @pytest.mark.parametrize("missing, counts", [("Allow", [4, 4]), ("PreferReported", [4, 4]), ("Refuse", [0, 4])])
    def test_slots(self, missing: str, counts: list[int]) -> None:
        state = cluster(report("reported"), nodes=[node("silent", ROOM), node("reported", ROOM)])
        assumptions = read_arguments({"assume": {"missingReport": missing}}).assumptions
        asked = state.classes.of(ALIGNED)
        found = slots(state, asked, assumptions, slice(0, 2), 16).tolist()
        one_by_one = [int(slots(state, asked, assumptions, slice(row, row + 1), 16)[0]) for row in range(2)]
        assert (found, one_by_one) == (counts, counts)


def born(created: float) -> Node:
    written = node("new", ROOM)
    moment = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    return msgspec.structs.replace(
        written, metadata=msgspec.structs.replace(written.metadata, creation_timestamp=moment)
    )


def standing(state: ClusterState) -> int:
    return int(state.columns.topology[state.rows["new"]])
