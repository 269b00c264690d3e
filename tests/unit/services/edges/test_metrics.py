"""Metrics: names and labels that dashboards rely on, and counts of other components."""

from __future__ import annotations

from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bayplan.services.edges.metrics import SchedulerMetrics
from bayplan.services.edges.outbox import Outbox


def samples(metrics: SchedulerMetrics) -> dict[str, float]:
    """Every sample as `name{label=value,...}`, labels in order of their names."""
    return {
        f"{sample.name}{{{','.join(f'{key}={value}' for key, value in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_a_bound_pod_is_counted_as_kube_scheduler_counts_it() -> None:
    metrics = SchedulerMetrics()
    metrics.attempts.pod("scheduled", "bayplan", 0.003)
    metrics.attempts.decision_seconds.observe(0.0005)
    metrics.attempts.pod_bound(attempts=2, seconds_since_queued=1.5)
    metrics.binds.bind("bound", 0.002)
    found = samples(metrics)
    expected = {
        "scheduler_schedule_attempts_total{profile=bayplan,result=scheduled}": 1,
        "scheduler_scheduling_attempt_duration_seconds_bucket{le=0.004,profile=bayplan,result=scheduled}": 1,
        "scheduler_scheduling_attempt_duration_seconds_bucket{le=0.002,profile=bayplan,result=scheduled}": 0,
        "scheduler_scheduling_algorithm_duration_seconds_count{}": 1,
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=2}": 1.5,
        "scheduler_pod_scheduling_attempts_bucket{le=2.0}": 1,
        "bayplan_binds_total{result=bound}": 1,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("attempts, label", [(1, "1"), (14, "14"), (15, "15+"), (400, "15+")])
def test_many_attempts_share_a_label(attempts: int, label: str) -> None:
    metrics = SchedulerMetrics()
    metrics.attempts.pod_bound(attempts, 1.0)
    assert f"scheduler_pod_scheduling_sli_duration_seconds_count{{attempts={label}}}" in samples(metrics)


def test_expensive_values_are_computed_on_each_scrape() -> None:
    metrics = SchedulerMetrics()
    metrics.before_scrape.append(lambda: metrics.pending.labels("active").set(3))
    metrics.before_scrape.append(lambda: metrics.cluster.report_ages(range(101)))
    found = samples(metrics)
    assert found["scheduler_pending_pods{queue=active}"] == 3
    ages = [found[f"bayplan_topology_report_age_seconds{{quantile={quantile}}}"] for quantile in ("0.5", "0.99", "1.0")]
    assert ages == [50, 99, 100]


def test_report_states_without_nodes_disappear() -> None:
    metrics = SchedulerMetrics()
    metrics.cluster.nodes({"usable": 2, "stale": 1})
    metrics.cluster.nodes({"usable": 3})
    assert {name: value for name, value in samples(metrics).items() if name.startswith("bayplan_nodes")} == {
        "bayplan_nodes{report=usable}": 3
    }


def test_counts_of_client_and_outbox_are_read_on_each_scrape() -> None:
    metrics = SchedulerMetrics()
    requests = Counter({("list", 200): 1})

    async def send(message: str) -> None:
        """Never called."""

    outbox = Outbox(send)
    metrics.expose_requests(requests)
    metrics.expose_outbox("events", outbox)
    requests["list", 200] += 1
    outbox.dropped = 7
    found = samples(metrics)
    assert found["bayplan_api_requests_total{status=200,verb=list}"] == 2
    assert found["bayplan_events_total{result=dropped}"] == 7


def test_two_schedulers_in_one_process_have_separate_metrics() -> None:
    one, other = SchedulerMetrics(), SchedulerMetrics()
    one.leading.labels("bayplan").set(1)
    other.leading.labels("bayplan").set(0)
    name = "leader_election_master_status{name=bayplan}"
    assert (samples(one)[name], samples(other)[name]) == (1, 0)
