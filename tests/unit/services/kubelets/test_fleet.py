"""The kubelets of a fleet: who is let in, who is refused, and what is written about each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from bayplan.services.kubelets.model import DeletePod, SetPodStatus
from tests.unit.services.kubelets.small_fleets import DELETED_BY, bound, fleet, on_node, phases


def test_a_pod_that_fits_one_zone_runs() -> None:
    kubelets = fleet()
    (write,) = kubelets.pod_changed(bound("a", cpus=4), now=0.0)
    assert isinstance(write, SetPodStatus)
    assert write.uid == "uid-a"
    assert write.status["phase"] == "Running"
    assert write.status["startTime"] == "1970-01-01T00:00:00Z"
    assert {each["type"]: each["status"] for each in write.status["conditions"]}["Ready"] == "True"
    assert [each["name"] for each in write.status["containerStatuses"]] == ["main"]
    assert on_node(kubelets) == ["default/a"]


def test_a_pod_that_fits_the_node_but_no_zone_fails_as_kubelets_fail_it() -> None:
    kubelets = fleet()
    (write,) = kubelets.pod_changed(bound("a", cpus=5), now=0.0)
    assert isinstance(write, SetPodStatus)
    assert write.status["phase"] == "Failed"
    assert write.status["reason"] == "TopologyAffinityError"
    assert write.status["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert write.refusal is not None
    assert (write.refusal.pod, write.refusal.node) == ("default/a", "virtual-0")
    assert on_node(kubelets) == []


def test_pods_are_admitted_in_order_of_arrival() -> None:
    kubelets = fleet()
    writes = [write for name in "abc" for write in kubelets.pod_changed(bound(name, cpus=3), now=0.0)]
    assert phases(writes) == [("a", "Running"), ("b", "Running"), ("c", "TopologyAffinityError")]
    assert kubelets.tally.refused == {"TopologyAffinityError": 1}


def test_pods_on_other_nodes_are_ignored() -> None:
    kubelets = fleet()
    assert kubelets.pod_changed(bound("a", node="worker-1"), now=0.0) == []
    assert kubelets.pod_changed(bound("a", node="worker-1", deleted=True), now=0.0) == []


def test_its_own_echo_changes_nothing() -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    kubelets.pod_changed(bound("b", cpus=5), now=0.0)
    assert kubelets.pod_changed(bound("a", phase="Running"), now=1.0) == []
    assert kubelets.pod_changed(bound("b", cpus=5), now=1.0) == []  # another client set a label before it saw Failed
    assert kubelets.pod_changed(bound("b", cpus=5, phase="Failed"), now=1.0) == []
    assert kubelets.tally.admitted == 1


def test_a_pod_that_is_asked_to_go_frees_its_place_and_is_deleted_once() -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a", cpus=4), now=0.0)
    (write,) = kubelets.pod_changed(bound("a", cpus=4, deleted=True), now=1.0)
    assert isinstance(write, DeletePod)
    assert (write.name, write.uid) == ("a", "uid-a")
    assert kubelets.pod_changed(bound("a", cpus=4, deleted=True), now=2.0) == []  # a finalizer holds it
    assert phases(kubelets.pod_changed(bound("b", cpus=4), now=3.0)) == [("b", "Running")]


@pytest.mark.parametrize("sleeps, stops_in", [(79, 79.0), (600, 100.0)])
def test_a_pre_stop_hook_holds_a_deleted_pod_within_its_grace_period(sleeps: int, stops_in: float) -> None:
    deleted_at = datetime.fromisoformat(DELETED_BY).timestamp() - 100.0
    kubelets = fleet()
    kubelets.pod_changed(bound("a", pre_stop=sleeps), now=0.0)
    going = bound("a", pre_stop=sleeps, phase="Running", deleted=True)
    assert kubelets.pod_changed(going, now=deleted_at) == []
    assert kubelets.pod_changed(going, now=deleted_at + 1) == []
    assert on_node(kubelets) == ["default/a"]
    assert kubelets.next_moment == deleted_at + stops_in
    writes = [each for each in kubelets.due(deleted_at + stops_in) if isinstance(each, DeletePod)]
    assert [(each.name, (each.status or {})["phase"]) for each in writes] == [("a", "Failed")]
    assert on_node(kubelets) == []


@pytest.mark.parametrize("phase, last", [("Pending", "Failed"), ("Running", "Failed"), ("Succeeded", None)])
def test_a_deleted_pod_ends_in_a_terminal_phase(phase: str, last: str | None) -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    (write,) = kubelets.pod_changed(bound("a", phase=phase, deleted=True), now=1.0)
    assert isinstance(write, DeletePod)
    assert (write.status["phase"] if write.status else None) == last
    if write.status is not None:
        (container,) = write.status["containerStatuses"]
        assert container["state"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize("finalizers, last", [([], None), (["batch.kubernetes.io/job-tracking"], "Failed")])
def test_only_a_finalizer_gives_a_force_deleted_pod_a_last_status(finalizers: list[str], last: str | None) -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    (write,) = kubelets.pod_changed(bound("a", phase="Running", deleted=True, grace=0, finalizers=finalizers), now=1.0)
    assert isinstance(write, DeletePod)
    assert (write.status["phase"] if write.status else None) == last


def test_a_pod_that_the_node_controller_marked_unready_is_ready_again() -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    assert kubelets.pod_changed(bound("a", phase="Running", ready=True), now=1.0) == []
    (write,) = kubelets.pod_changed(bound("a", phase="Running", ready=False), now=60.0)
    assert isinstance(write, SetPodStatus)
    ready = next(each for each in write.status["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("True", "1970-01-01T00:01:00Z")
    assert write.status["startTime"] == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_another_client_ends_frees_its_resources(phase: str) -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    assert kubelets.pod_changed(bound("a", phase=phase), now=1.0) == []
    assert on_node(kubelets) == []


def test_a_pod_that_is_gone_frees_its_place() -> None:
    kubelets = fleet()
    kubelets.pod_changed(bound("a"), now=0.0)
    kubelets.pod_gone("default/a", now=1.0)
    kubelets.pod_gone("default/never-seen", now=1.0)
    assert on_node(kubelets) == []
    assert kubelets.holding == 0


def test_a_successor_of_the_same_name_takes_over_its_place() -> None:
    kubelets = fleet(nodes=2)
    kubelets.pod_changed(bound("a", cpus=4), now=0.0)
    writes = kubelets.pod_changed(bound("a", cpus=4, uid="second", node="virtual-1"), now=1.0)
    assert phases(writes) == [("a", "Running")]
    assert (on_node(kubelets), on_node(kubelets, "virtual-1")) == ([], ["default/a"])


def test_init_containers_run_before_the_pod_does() -> None:
    kubelets = fleet()
    assert kubelets.pod_changed(bound("a", init_cpus=2), now=10.0) == []
    assert kubelets.next_moment == 11.0
    assert kubelets.due(10.9) == []
    (write,) = kubelets.due(11.0)
    assert isinstance(write, SetPodStatus)
    assert write.status["phase"] == "Running"
    assert "terminated" in write.status["initContainerStatuses"][0]["state"]


@pytest.mark.parametrize(
    "settings, annotations, ends_at",
    [
        ({}, {}, None),
        ({"runs_for": 60.0}, {}, 160.0),
        ({}, {"bayplan.io/runs-for": "30s"}, 130.0),
        ({"runs_for": 60.0}, {"bayplan.io/runs-for": "1m30s"}, 190.0),
    ],
)
def test_pods_end_in_their_time(settings: dict[str, Any], annotations: dict[str, str], ends_at: float | None) -> None:
    kubelets = fleet(**settings)
    kubelets.pod_changed(bound("a", annotations=annotations), now=100.0)
    assert kubelets.next_moment == ends_at
    if ends_at is not None:
        assert kubelets.due(ends_at - 0.1) == []
        assert phases(kubelets.due(ends_at)) == [("a", "Succeeded")]
        assert on_node(kubelets) == []


def test_an_invalid_run_time_is_reported_and_the_pod_keeps_running() -> None:
    kubelets = fleet(runs_for=60.0)
    kubelets.pod_changed(bound("a", annotations={"bayplan.io/runs-for": "soon"}), now=0.0)
    assert kubelets.next_moment is None
    (remark,) = kubelets.remarks
    assert remark.startswith('Pod default/a: annotation bayplan.io/runs-for: "soon" is no duration: must be like 90s')
    assert remark.endswith("the pod runs until it is deleted")


def test_a_timer_of_a_deleted_pod_has_no_effect() -> None:
    kubelets = fleet(runs_for=60.0)
    kubelets.pod_changed(bound("a"), now=0.0)
    kubelets.pod_gone("default/a", now=1.0)
    kubelets.pod_changed(bound("a", uid="second"), now=50.0)
    assert kubelets.due(60.0) == []
    assert phases(kubelets.due(110.0)) == [("a", "Succeeded")]


def test_an_invalid_pod_is_refused_with_the_reason() -> None:
    kubelets = fleet()
    (write,) = kubelets.pod_changed(bound("a", cpus=10**30), now=0.0)
    assert isinstance(write, SetPodStatus)
    assert write.refusal is not None
    assert write.refusal.reason == "UnexpectedAdmissionError"
    assert "Pod default/a: spec.containers[0].resources.limits.cpu" in write.refusal.message


# -- lists -----------------------------------------------------------------------------------------------------------


def test_after_a_restart_running_pods_come_first_by_start_then_new_ones_by_creation() -> None:
    kubelets = fleet()
    writes = kubelets.pods_listed(
        [
            bound("new-late", cpus=1, created="2026-01-01T00:03:00Z"),
            bound("new-early", cpus=1, created="2026-01-01T00:02:00Z"),
            bound("second", cpus=3, phase="Running", started="2026-01-01T00:01:00Z"),
            bound("first", cpus=3, phase="Running", started="2026-01-01T00:00:30Z"),
        ],
        now=1.0,
    )
    assert phases(writes) == [("new-early", "Running"), ("new-late", "TopologyAffinityError")]
    zones = kubelets.agents["virtual-0"].zones_by_container("default/first")
    assert zones == {"main": [0]}  # as when it came first


def test_a_pod_that_runs_already_ends_by_when_it_started() -> None:
    kubelets = fleet(runs_for=60.0)
    kubelets.pods_listed([bound("a", phase="Running", started="1970-01-01T00:01:40Z")], now=130.0)
    assert kubelets.next_moment == 160.0


def test_pods_missing_from_a_list_are_gone() -> None:
    kubelets = fleet()
    kubelets.pods_listed([bound("a"), bound("b")], now=0.0)
    assert kubelets.pods_listed([bound("b", phase="Running", started="1970-01-01T00:00:00Z")], now=1.0) == []
    assert on_node(kubelets) == ["default/b"]


def test_a_pod_whose_deletion_was_missed_is_deleted() -> None:
    kubelets = fleet()
    (write,) = kubelets.pods_listed([bound("a", deleted=True)], now=0.0)
    assert isinstance(write, DeletePod)
    assert write.uid == "uid-a"
    assert on_node(kubelets) == []


def test_a_pod_that_could_not_be_read_keeps_its_place() -> None:
    kubelets = fleet()
    kubelets.pods_listed([bound("a")], now=0.0)
    kubelets.pods_listed([], now=1.0, unreadable={"default/a"})
    assert on_node(kubelets) == ["default/a"]
