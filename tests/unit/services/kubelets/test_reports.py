"""When nodes report: some time after a change, only what is new, and only where the API server knows reports."""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.cluster.reports.two_reports import STALE_AFTER
from bayplan.services.kubelets.fleet import Fleet
from bayplan.services.kubelets.model import PublishTopology
from tests.unit.services.kubelets.small_fleets import bound, fleet


def reporting(nodes: int = 1, *, report_delay: float = 0.0) -> Fleet:
    """A fleet that has made its first reports at second 0."""
    kubelets = fleet(nodes, report_delay=report_delay)
    kubelets.reports.listed([], now=0.0)
    assert len(published(kubelets, 0.0)) == nodes
    for name in kubelets.agents:
        kubelets.reports.appeared(name)
    return kubelets


def published(kubelets: Fleet, now: float) -> list[PublishTopology]:
    return [write for write in kubelets.due(now) if isinstance(write, PublishTopology)]


def free_cpus(report: PublishTopology) -> dict[str, str]:
    """Available CPUs by zone."""
    return {
        zone["name"]: resource["available"]
        for zone in report.report["zones"]
        for resource in zone["resources"]
        if resource["name"] == "cpu"
    }


def attributes(report: PublishTopology) -> dict[str, str]:
    return {each["name"]: each["value"] for each in report.report["attributes"]}


def test_the_first_report_comes_at_once_however_long_the_delay() -> None:
    kubelets = fleet(report_delay=10.0)
    kubelets.reports.listed([], now=5.0)
    (report,) = published(kubelets, 5.0)
    assert not report.exists
    assert free_cpus(report) == {"node-0": "3", "node-1": "4"}


def test_a_change_is_reported_after_the_delay() -> None:
    kubelets = reporting(report_delay=10.0)
    kubelets.pod_changed(bound("a", cpus=3), now=20.0)
    assert kubelets.next_moment == 30.0
    assert published(kubelets, 29.9) == []
    (report,) = published(kubelets, 30.0)
    assert report.exists
    assert free_cpus(report) == {"node-0": "0", "node-1": "4"}


def test_changes_close_together_share_a_report_that_shows_both() -> None:
    kubelets = reporting(report_delay=10.0)
    kubelets.pod_changed(bound("a", cpus=3), now=20.0)
    kubelets.pod_changed(bound("b", cpus=3), now=25.0)
    (report,) = published(kubelets, 30.0)
    assert free_cpus(report) == {"node-0": "0", "node-1": "1"}
    assert published(kubelets, 35.0) == []


def test_a_change_that_was_reverted_needs_no_report() -> None:
    kubelets = reporting(report_delay=10.0)
    kubelets.pod_changed(bound("a"), now=20.0)
    kubelets.pod_gone("default/a", now=25.0)
    assert published(kubelets, 30.0) == []


def test_only_nodes_that_changed_report() -> None:
    kubelets = reporting(nodes=3)
    kubelets.pod_changed(bound("a", node="virtual-1"), now=1.0)
    assert [report.node for report in published(kubelets, 1.0)] == ["virtual-1"]


def test_a_complete_report_has_holdings_and_a_timestamp() -> None:
    kubelets = reporting()
    kubelets.pod_changed(bound("a", cpus=3), now=20.0)
    (report,) = published(kubelets, 20.0)
    assert attributes(report)["bayplan.io/pods"] == '{"default/a":{"cpu":{"0":3000},"memory":{"0":1073741824}}}'
    assert attributes(report)["bayplan.io/made-at"] == "20.000000"
    assert attributes(report)["topologyManagerPolicy"] == "single-numa-node"


def test_a_plain_report_has_what_agents_write_today() -> None:
    kubelets = fleet(complete=False, kubelet="scope=pod")
    kubelets.reports.listed([], now=0.0)
    (empty,) = published(kubelets, 0.0)
    assert empty.report["topologyPolicies"] == ["SingleNUMANodePodLevel"]
    assert attributes(empty) == {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}
    kubelets.pod_changed(bound("a"), now=1.0)
    (report,) = published(kubelets, 1.0)
    assert attributes(report)["nodeTopologyPodsFingerprint"] == fingerprint_of([("default", "a")])


def test_without_the_kind_nothing_is_reported_until_it_is_installed() -> None:
    kubelets = fleet(nodes=2)
    kubelets.reports.absent()
    kubelets.pod_changed(bound("a"), now=1.0)
    assert kubelets.next_moment is None
    assert published(kubelets, 5.0) == []
    kubelets.reports.listed([], now=6.0)
    assert {report.node for report in published(kubelets, 6.0)} == {"virtual-0", "virtual-1"}


def test_a_kind_that_was_removed_and_is_back_gets_all_reports_again() -> None:
    kubelets = reporting(nodes=2)
    kubelets.reports.absent()
    kubelets.reports.listed([], now=5.0)
    assert {report.node for report in published(kubelets, 5.0)} == {"virtual-0", "virtual-1"}


def test_a_deleted_report_is_written_again() -> None:
    kubelets = reporting(report_delay=2.0)
    kubelets.reports.gone("virtual-0", now=5.0)
    kubelets.reports.gone("worker-1", now=5.0)  # not ours
    (report,) = published(kubelets, 7.0)
    assert not report.exists


def test_a_report_left_by_an_earlier_run_is_brought_up_to_date() -> None:
    kubelets = fleet()
    kubelets.reports.listed(["virtual-0", "worker-1"], now=0.0)
    (report,) = published(kubelets, 0.0)
    assert report.exists


def test_a_second_list_repeats_nothing_and_keeps_pending_delays() -> None:
    kubelets = reporting(nodes=2, report_delay=10.0)
    kubelets.pod_changed(bound("a"), now=20.0)
    kubelets.reports.listed(["virtual-0", "virtual-1"], now=22.0)
    assert published(kubelets, 22.0) == []
    assert [report.node for report in published(kubelets, 30.0)] == ["virtual-0"]


def test_unchanged_reports_are_renewed_before_they_are_stale_and_not_all_at_once() -> None:
    kubelets = reporting(nodes=20)
    moments: list[float] = []
    while len(moments) < 40:
        now = kubelets.next_moment
        assert now is not None
        renewed = published(kubelets, now)
        assert all(float(attributes(report)["bayplan.io/made-at"]) == pytest.approx(now) for report in renewed)
        moments += [now] * len(renewed)
    assert moments[0] > STALE_AFTER / 4
    assert moments[19] < STALE_AFTER * 0.7
    assert len(set(moments)) > 20
