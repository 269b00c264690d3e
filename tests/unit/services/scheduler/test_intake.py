"""News into the dispatcher: what a list means for those who are not in it, broken objects, and versions that come out
of order.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.intake import OVER_RESERVE, ReportSettings, intake_for
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.decoding import Broken, Changes, Listed
from bayplan.kube.client.watch import Absent
from bayplan.kube.resources import (
    KAI_TOPOLOGIES,
    KUEUE_TOPOLOGIES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    Resource,
)
from bayplan.kube.topology_levels import Topology
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Namespace
from bayplan.kube.wire.meta_v1 import Change
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.intake import Intake, takes_long
from tests.builders.clusters import decide
from tests.builders.numatopologies import machine, numatopology
from tests.builders.objects import simple_pod, topology, zone
from tests.builders.services import added, deleted, listed, modified, watched_node, watched_pod


def new_intake() -> tuple[Intake, Dispatcher]:
    dispatcher = Dispatcher({"bayplan": default_profile()})
    return Intake(dispatcher), dispatcher


def _reason(dispatcher: Dispatcher, now: float) -> str:
    refusal = dispatcher.decide(now)
    assert isinstance(refusal, Unschedulable), refusal
    return refusal.reason


class TestLists:
    def test_objects_missing_from_a_list_are_gone(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1"), watched_node("n2")), 1)
        intake.take(PODS, listed(watched_pod("a"), watched_pod("b", on="n1"), watched_pod("c", on="n2")), 1)
        intake.take(NODES, listed(watched_node("n2")), 2)
        intake.take(PODS, listed(watched_pod("c", on="n2")), 2)
        assert list(dispatcher.state.rows) == ["n2"]
        assert list(dispatcher.state.pods) == ["ml/c"]
        assert list(dispatcher.waiting) == []

    def test_a_second_equal_list_changes_nothing(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1", cpus="2")), 1)
        intake.take(PODS, listed(watched_pod("large", cpus="4")), 1)
        assert dispatcher.decide(1) is not None
        intake.take(PODS, listed(watched_pod("large", cpus="4")), 2)
        assert dispatcher.decide(2) is None

    def test_a_list_without_a_pod_whose_bind_is_under_way_gives_its_room_back(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(PODS, listed(watched_pod("a", cpus="8")), 1)
        dispatcher.decide(1)
        intake.take(PODS, listed(), 2)
        assert not dispatcher.pods.is_assumed(watched_pod("a"), "n1")
        assert dispatcher.state.columns.free[0, 0] == dispatcher.state.columns.allocatable[0, 0]

    def test_a_kind_that_is_not_installed_has_no_objects(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        report = topology(zone(0, {"cpu": 4}), zone(1, {"cpu": 4}))
        intake.take(NODE_RESOURCE_TOPOLOGIES, listed(report), 1)
        assert dispatcher.state.columns.zone_count[0] == 2
        intake.take(NODE_RESOURCE_TOPOLOGIES, Absent(NODE_RESOURCE_TOPOLOGIES), 2)
        assert dispatcher.state.columns.zone_count[0] == 0

    def test_what_came_with_a_page_is_not_applied_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        intake, dispatcher = new_intake()
        applied = []
        monkeypatch.setattr(dispatcher.state, "set_node", lambda node, at: applied.append((node.metadata.name, at)))
        intake.take(NODES, added(watched_node("n1"), watched_node("n2")), 1)
        assert str(NODES) in intake.not_listed_yet()
        intake.take(NODES, listed(watched_node("n1"), watched_node("n2"), watched_node("n3"), delivered=2), 2)
        assert applied == [("n1", 1), ("n2", 1), ("n3", 2)]
        assert str(NODES) not in intake.not_listed_yet()

    def test_what_came_with_a_page_of_an_abandoned_list_may_be_gone(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, added(watched_node("n1"), watched_node("n2")), 1)
        intake.take(NODES, listed(watched_node("n2"), delivered=1), 2)
        assert list(dispatcher.state.rows) == ["n2"]

    def test_a_page_with_older_versions_counts_with_the_whole_list(self) -> None:
        """An administrator brought an older state of the cluster back."""
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1", version="900", cpus="8")), 1)
        older = watched_node("n1", version="500", cpus="4")
        intake.take(NODES, added(older), 2)
        intake.take(NODES, listed(older, delivered=1), 2)
        assert dispatcher.state.columns.allocatable[0, 0] == 4000

    def test_ready_when_every_resource_is_listed_or_known_to_be_absent(self) -> None:
        intake, _ = new_intake()
        for entry in intake.entries:
            assert not intake.ready
            assert str(entry.resource) in intake.not_listed_yet()
            news: Listed[Any] | Absent = listed() if entry.required else Absent(entry.resource)
            intake.take(entry.resource, news, 1)
        assert intake.ready


class TestChanges:
    def test_they_are_taken_over_in_order(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        changes = [
            Change("ADDED", watched_pod("a")),
            Change("DELETED", watched_pod("a", version="2")),
            Change("ADDED", watched_pod("a", uid="second", version="3")),
        ]
        intake.take(PODS, Changes(changes, []), 1)
        assert dispatcher.waiting["ml/a"].metadata.uid == "second"

    def test_an_older_version_of_the_same_object_is_no_news(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(PODS, listed(watched_pod("a", on="n1", version="9")), 1)
        intake.take(PODS, modified(watched_pod("a", version="8")), 1)
        assert "ml/a" in dispatcher.state.pods
        assert "ml/a" not in dispatcher.waiting

    def test_a_list_counts_even_if_its_versions_are_older(self) -> None:
        """An administrator brought an older state of the cluster back."""
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1", version="900", cpus="8")), 1)
        intake.take(NODES, listed(watched_node("n1", version="500", cpus="4")), 2)
        assert dispatcher.state.columns.allocatable[0, 0] == 4000
        intake.take(NODES, modified(watched_node("n1", version="501", cpus="2")), 3)
        assert dispatcher.state.columns.allocatable[0, 0] == 2000

    def test_versions_of_different_objects_of_one_name_are_not_compared(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(PODS, listed(watched_pod("a", version="9")), 1)
        intake.take(PODS, added(watched_pod("a", uid="second", version="8")), 1)
        assert dispatcher.waiting["ml/a"].metadata.uid == "second"

    def test_versions_that_are_no_numbers_are_all_news(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1", version="b", cpus="2")), 1)
        intake.take(NODES, modified(watched_node("n1", version="a", cpus="4")), 1)
        assert dispatcher.state.columns.allocatable[0, 0] == 4000

    def test_pods_and_nodes_may_come_in_any_order(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(PODS, added(watched_pod("a", on="n1", cpus="3")), 1)
        intake.take(NODES, added(watched_node("n1")), 1)
        columns = dispatcher.state.columns
        assert columns.allocatable[0, 0] - columns.free[0, 0] == 3000

    def test_reports_in_volcanos_form_come_and_go(self) -> None:
        intake, dispatcher = new_intake()
        report = numatopology("n1", machine(2, 4))
        intake.take(NODES, added(watched_node("n1")), 1)
        intake.take(NUMATOPOLOGIES, added(report), 1)
        assert dispatcher.state.columns.zone_count[0] == 2
        intake.take(NUMATOPOLOGIES, deleted(report), 2)
        assert dispatcher.state.columns.zone_count[0] == 0

    def test_namespaces_and_pod_groups_come_and_go(self) -> None:
        intake, dispatcher = new_intake()
        space = msgspec.convert({"metadata": {"name": "ml", "labels": {"team": "a"}}}, Namespace)
        group = msgspec.convert({"metadata": {"name": "train", "namespace": "ml"}, "spec": {"size": 2}}, PodGroup)
        intake.take(NAMESPACES, added(space), 1)
        intake.take(POD_GROUPS, added(group), 1)
        assert list(dispatcher.roster.groups) == ["ml/train"]
        intake.take(POD_GROUPS, deleted(group), 2)
        intake.take(NAMESPACES, deleted(space), 2)
        assert list(dispatcher.roster.groups) == []


class TestBrokenObjects:
    @pytest.mark.parametrize("as_list", [True, False])
    def test_one_of_a_wrong_shape_is_named_and_the_others_are_taken_over(self, as_list: bool) -> None:
        intake, dispatcher = new_intake()
        broken = Broken("", "n2", "status.allocatable: expected an object")
        news: Listed[Any] | Changes[Any] = listed(watched_node("n1"), broken=(broken,))
        if not as_list:
            news = Changes([Change("ADDED", watched_node("n1"))], [broken])
        intake.take(NODES, news, 1)
        assert list(dispatcher.state.rows) == ["n1"]
        assert intake.problems == {"nodes n2": "Node n2: status.allocatable: expected an object"}

    def test_an_unreadable_object_loses_its_last_version(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NODES, Changes([], [Broken("", "n1", "wrong")]), 2)
        assert list(dispatcher.state.rows) == []

    def test_a_better_version_ends_the_problem(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, Changes([], [Broken("", "n1", "wrong")]), 1)
        intake.take(NODES, modified(watched_node("n1")), 2)
        assert (dict(intake.problems), list(dispatcher.state.rows)) == ({}, ["n1"])

    def test_so_does_its_deletion(self) -> None:
        intake, _ = new_intake()
        intake.take(NODES, Changes([], [Broken("", "n1", "wrong")]), 1)
        intake.take(NODES, Changes([], [Broken("", "n1", "wrong", deleted=True)]), 2)
        assert intake.problems == {}

    def test_so_does_its_absence_from_a_list(self) -> None:
        intake, _ = new_intake()
        intake.take(NODES, listed(broken=(Broken("", "n1", "wrong"),)), 1)
        intake.take(NODES, listed(), 2)
        assert intake.problems == {}

    def test_pods_of_an_unreadable_group_report_its_problem(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(PODS, listed(watched_pod("a", gang="train")), 1)
        broken = Broken("ml", "train", "spec.size: must be a whole number, not a string")
        intake.take(POD_GROUPS, listed(broken=(broken,)), 1)
        assert _reason(dispatcher, 1) == "PodGroup ml/train: spec.size: must be a whole number, not a string"
        intake.take(POD_GROUPS, listed(), 2)
        assert _reason(dispatcher, 2) == "waits for PodGroup ml/train, which does not exist"

    def test_an_invalid_budget_covers_no_pod_and_an_unreadable_one_every_pod(self) -> None:
        intake, dispatcher = new_intake()
        budgets, about = dispatcher.preempting.budgets, "poddisruptionbudgets.policy ml/odd"
        selector = {"matchExpressions": [{"key": "app", "operator": "In"}]}
        metadata = {"name": "odd", "namespace": "ml", "resourceVersion": "1"}
        written = {"metadata": metadata, "spec": {"selector": selector}}
        intake.take(POD_DISRUPTION_BUDGETS, listed(msgspec.convert(written, PodDisruptionBudget)), 1)
        assert (budgets.covering(watched_pod("a")), [*intake.problems]) == ((), [about])
        intake.take(POD_DISRUPTION_BUDGETS, listed(broken=(Broken("ml", "odd", "wrong"),)), 2)
        assert (budgets.covering(watched_pod("a")), [*intake.problems]) == (("ml/odd",), [about])

    def test_an_invalid_object_is_dropped_with_a_message(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1"), watched_node("n2")), 1)
        intake.take(NODES, modified(watched_node("n1", cpus="a lot", version="2")), 2)
        assert list(dispatcher.state.rows) == ["n2"]
        [(where, text)] = intake.problems.items()
        assert where == "nodes n1"
        assert "status.allocatable" in text
        assert "a lot" in text


class TestReportsThatMakeNoSense:
    """A node that has such a report is not one that has none: pods that its kubelet would align stay away from it."""

    @pytest.mark.parametrize(
        "report",
        [
            pytest.param(topology(zone(0, {"cpu": (8, 8, "-1")})), id="a negative amount"),
            pytest.param(topology(zone(0, {"cpu": (8, 8, "99999999999Ei")})), id="more than there is in the world"),
            pytest.param(topology(zone(0, {"cpu": 8}), zone(0, {"cpu": 8})), id="a zone twice"),
            pytest.param(topology(), id="no zones under single-numa-node"),
            pytest.param(Broken("", "n1", "zones: expected an array"), id="a wrong shape"),
        ],
    )
    def test_only_pods_without_alignment_go_to_the_node(self, report: Any) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        news = Changes([], [report]) if isinstance(report, Broken) else added(report)
        intake.take(NODE_RESOURCE_TOPOLOGIES, news, 1)
        aligned = simple_pod({"cpu": 2, "memory": "1Gi"}, "aligned")
        decision = decide(dispatcher.state, aligned)
        assert not decision.placed
        assert decision.shortfall is not None
        assert [cause.cause for cause in decision.shortfall.causes] == ["invalid node topology data"]
        assert decide(dispatcher.state, simple_pod({}, "best-effort")).placed

    def test_a_better_report_ends_that(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, added(topology(zone(0, {"cpu": (8, 8, "-1")}))), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, modified(topology(zone(0, {"cpu": 8}))), 2)
        assert decide(dispatcher.state, simple_pod({"cpu": 2, "memory": "1Gi"})).placed
        assert intake.problems == {}

    def test_so_does_its_deletion(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, added(topology(zone(0, {"cpu": (8, 8, "-1")}))), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, listed(), 2)
        assert decide(dispatcher.state, simple_pod({"cpu": 2, "memory": "1Gi"})).placed

    def test_a_report_of_the_other_kind_that_makes_sense_counts(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NUMATOPOLOGIES, added(numatopology("n1", machine(2, 4))), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, added(topology(zone(0, {"cpu": (8, 8, "-1")}))), 2)
        assert dispatcher.state.columns.zone_count[0] == 2

    def test_no_zones_are_no_harm_where_the_kubelet_ignores_zones(self) -> None:
        intake, dispatcher = new_intake()
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, added(topology(policy="best-effort")), 1)
        assert decide(dispatcher.state, simple_pod({"cpu": 2, "memory": "1Gi"})).placed

    def test_a_scheduler_that_keeps_books_like_scheduler_plugins_stays_away_too(self) -> None:
        intake, dispatcher = new_intake()
        dispatcher.reports = intake_for(dispatcher.state, ReportSettings(accounting=OVER_RESERVE))
        intake = Intake(dispatcher)
        intake.take(NODES, listed(watched_node("n1")), 1)
        intake.take(NODE_RESOURCE_TOPOLOGIES, added(topology(zone(0, {"cpu": (8, 8, "-1")}))), 1)
        dispatcher.reports.resync(2)
        assert not decide(dispatcher.state, simple_pod({"cpu": 2, "memory": "1Gi"})).placed


class TestBugsOfOurs:
    """They are logged, which fails every test on a real API server."""

    def test_one_bad_object_does_not_block_others(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        intake, dispatcher = intake_failing_for("a", "set_pod", monkeypatch)
        intake.take(PODS, listed(watched_pod("a"), watched_pod("b")), 1)
        assert list(dispatcher.waiting) == ["ml/b"]
        assert intake.problems == {"pods ml/a": "internal error: a bug"}
        assert [record.message for record in caplog.records] == ["failed to apply object"]

    def test_a_failed_drop_is_repeated_by_the_next_list(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        intake, dispatcher = intake_failing_for("ml/a", "remove_pod", monkeypatch)
        intake.take(PODS, listed(watched_pod("a"), watched_pod("b")), 1)
        intake.take(PODS, deleted(watched_pod("a"), watched_pod("b")), 2)
        assert list(dispatcher.waiting) == ["ml/a"]
        assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", "failed to drop object")]
        intake.take(PODS, listed(), 3)
        assert list(dispatcher.waiting) == []

    def test_a_failed_drop_of_an_invalid_object_does_not_block_others(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        dispatcher = Dispatcher({"bayplan": default_profile()})
        monkeypatch.setattr(dispatcher.state, "remove_node", always_fail)
        intake = Intake(dispatcher)
        intake.take(NODES, listed(watched_node("n1", cpus="a lot"), watched_node("n2")), 1)
        assert list(intake.problems) == ["nodes n1"]
        assert "n2" in dispatcher.state.rows
        assert [record.message for record in caplog.records] == ["failed to drop object"]


def always_fail(*_: object) -> None:
    raise RuntimeError("a bug")


def intake_failing_for(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Intake, Dispatcher]:
    """An intake whose dispatcher has a bug that one object triggers once, by its name or its key."""
    dispatcher = Dispatcher({"bayplan": default_profile()})
    real, pending = getattr(dispatcher, method), {name}

    def fails(about: Any, now: float) -> None:
        if name in pending and name in (about, getattr(getattr(about, "metadata", None), "name", None)):
            pending.remove(name)
            always_fail()
        real(about, now)

    monkeypatch.setattr(dispatcher, method, fails)
    return Intake(dispatcher), dispatcher


class TestVersions:
    def test_a_resource_in_unreadable_versions_is_known_as_such_until_it_is_listed(self) -> None:
        intake, _ = new_intake()
        intake.take(NODE_RESOURCE_TOPOLOGIES, Absent(NODE_RESOURCE_TOPOLOGIES, ("v1beta9",)), 1)
        assert intake.unreadable == {NODE_RESOURCE_TOPOLOGIES: ("v1beta9",)}
        intake.take(NODE_RESOURCE_TOPOLOGIES, listed(), 2)
        assert intake.unreadable == {}


class TestTopologies:
    def test_the_same_one_of_two_systems_is_there_until_the_last_is_gone(self) -> None:
        intake, dispatcher = new_intake()
        written = network("example.com/block", "example.com/rack")
        intake.take(KUEUE_TOPOLOGIES, listed(written), 1)
        intake.take(KAI_TOPOLOGIES, listed(written), 1)
        intake.take(KUEUE_TOPOLOGIES, Absent(KUEUE_TOPOLOGIES), 2)
        assert dispatcher.trees.names == ["network"]
        intake.take(KAI_TOPOLOGIES, listed(), 3)
        assert dispatcher.trees.names == []

    @pytest.mark.parametrize("resource", [KUEUE_TOPOLOGIES, KAI_TOPOLOGIES], ids=str)
    def test_every_kind_of_it_is_read(self, resource: Resource[Any]) -> None:
        intake, dispatcher = new_intake()
        intake.take(resource, added(network("example.com/rack")), 1)
        assert dispatcher.trees.names == ["network"]


def network(*levels: str) -> Topology:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return msgspec.convert({"metadata": {"name": "network"}, "spec": spec}, Topology)


@pytest.mark.parametrize(
    "coming, long",
    [
        pytest.param(watched_node("n1"), False, id="node"),
        pytest.param(watched_pod("a"), False, id="pod"),
        pytest.param(topology(zone(0, {"cpu": 8}), name="n1"), False, id="report"),
        pytest.param(
            topology(zone(0, {"cpu": 8}), name="n1", attributes={"x": "y" * 70_000}), True, id="long attribute"
        ),
        pytest.param(topology(*(zone(each, {"cpu": 8}) for each in range(2000)), name="n1"), True, id="many zones"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_large_objects_are_told_from_others(coming: object, long: bool) -> None:
    assert takes_long(coming) is long
