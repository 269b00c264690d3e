"""Rounds: what one leaves to the next, and input that cannot be meant."""

from dataclasses import replace

from bayplan.compat.kai.scheduler.model import Status
from bayplan.compat.kai.scheduler.rounds import run_round
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job, within


def test_moved_pods_are_bound_in_the_next_round_and_then_nothing_changes_any_more() -> None:
    now = cluster(
        "z1/r1: 4, z1/r2: 4",
        job("old", None, 4, on="n0"),
        job("young", None, 4, on="n1"),
        job("gang", within("rack"), 4, 4),
    )
    first = run_round(now)
    assert (first.statuses["young-00"], first.refused) == (Status.PIPELINED, {})
    second = run_round(first.next_cluster)
    assert second.nodes == {"old-00": "n0", "young-00": "n0", "gang-00": "n1", "gang-01": "n1"}
    assert run_round(second.next_cluster).nodes == second.nodes


def test_a_round_without_jobs_or_nodes() -> None:
    assert run_round(cluster("z1/r1: 8")).nodes == {}
    assert run_round(cluster((), job("train", within("rack"), 1))).refused.keys() == {"train"}


def test_jobs_that_cannot_be_told_apart_are_refused_and_others_are_not() -> None:
    jobs = (
        job("a", None, 1),
        job("a", None, 2),
        replace(job("b", None, 1), name="c"),
        job("b", None, 1),
        job("d", None, 1),
    )
    outcome = run_round(cluster("z1/r1: 8", *jobs))
    assert outcome.refused == {
        "a": ("there are 2 jobs called a",),
        "b": ("there are 2 pods called b-00",),
        "c": ("there are 2 pods called b-00",),
    }
    assert outcome.nodes == {"d-00": "n0"}
