"""Pods that run are moved so that a gang fits; each moved pod has a place, or none is moved."""

from dataclasses import replace

import pytest

from bayplan.compat.kai.scheduler.model import Cluster, Job, Status
from bayplan.compat.kai.scheduler.rounds import Action, run_round
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job, within


def after_consolidation(now: Cluster) -> dict[str, str]:
    """Who is promised which node."""
    outcome = run_round(now, [Action.CONSOLIDATE])
    return {name: node for name, node in outcome.nodes.items() if outcome.statuses[name] is Status.PIPELINED}


def test_one_moves_so_that_two_fit() -> None:
    now = cluster(
        "z1/r1: 4, z1/r2: 4",
        job("old", None, 4, on="n0"),
        job("young", None, 4, on="n1"),
        job("gang", within("rack"), 4, 4),
    )
    assert after_consolidation(now) == {"young-00": "n0", "gang-00": "n1", "gang-01": "n1"}


def test_those_moved_for_the_first_pod_stay_moved_for_the_second() -> None:
    now = cluster(
        "z1/r1: 6 6, z1/r2: 6 6",
        *(job(f"single{number}", None, 2, on=f"n{number}") for number in range(4)),
        job("gang", within("rack"), 8, 8),
    )
    assert after_consolidation(now) == {"single2-00": "n0", "single3-00": "n0", "gang-00": "n2", "gang-01": "n3"}


@pytest.mark.parametrize(
    "running, why",
    [
        (job("young", None, 5, on="n1"), "who is moved must fit elsewhere"),
        (job("young", None, 4, on="n1", priority=100), "from priority 100 on no pod is moved"),
    ],
)
def test_no_pod_is_moved(running: Job, why: str) -> None:
    layout = f"z1/r1: 4, z1/r2: {8 - int(sum(task.requests['nvidia.com/gpu'] for task in running.tasks))}"
    now = cluster(layout, job("old", None, 4, on="n0", priority=100), running, job("gang", within("rack"), 4, 4))
    assert after_consolidation(now) == {}, why


def test_a_job_that_must_not_be_moved_moves_no_other() -> None:
    old, young = job("old", None, 4, on="n0"), job("young", None, 4, on="n1")
    assert after_consolidation(cluster("z1/r1: 4, z1/r2: 4", old, young, job("gang", None, 8, priority=125))) == {}


def test_nothing_is_tried_when_too_little_is_free_in_all() -> None:
    old = job("old", None, 4, on="n0")
    assert after_consolidation(cluster("z1/r1: 4", old, job("gang", None, 5))) == {}


def test_a_gang_is_moved_as_a_whole() -> None:
    pair = job("pair", None, 2, 2)
    pair = replace(
        pair,
        tasks=tuple(replace(task, status=Status.RUNNING, node=f"n{place}") for place, task in enumerate(pair.tasks)),
    )
    now = cluster("z1/r1: 6, z1/r2: 6, z1/r3: 4", pair, job("big", within("rack"), 8))
    assert after_consolidation(now) == {"pair-00": "n2", "pair-01": "n2", "big-00": "n0"}


def test_of_a_job_with_pods_to_spare_one_is_moved() -> None:
    now = cluster("z1/r1: 2, z1/r2: 4", job("spare", None, 2, 2, minimum=1, on="n1"), job("big", None, 6))
    assert after_consolidation(now) == {"spare-01": "n0", "big-00": "n1"}


def test_a_job_with_pods_to_spare_is_never_moved_as_a_whole() -> None:
    now = cluster("z1/r1: 4, z1/r2: 4", job("spare", None, 2, 2, minimum=1, on="n1"), job("big", None, 8))
    assert after_consolidation(now) == {}


def test_a_pod_on_an_unknown_node_is_left_alone() -> None:
    assert after_consolidation(cluster("z1/r1: 4, z1/r2: 4", job("odd", None, 4, on="gone"), job("big", None, 8))) == {}


def test_a_pod_of_a_sub_group_that_its_job_does_not_have_is_left_alone() -> None:
    odd = job("odd", None, 4, on="n1")
    odd = replace(odd, tasks=tuple(replace(task, pod_set="lost") for task in odd.tasks))
    assert after_consolidation(cluster("z1/r1: 4, z1/r2: 4", odd, job("big", None, 8))) == {}


def test_a_job_that_needs_no_pod_at_all_is_moved_pod_by_pod() -> None:
    idler = job("idler", None, 4, minimum=0, on="n1")
    assert after_consolidation(cluster("z1/r1: 4, z1/r2: 4", idler, job("big", None, 8))) == {
        "idler-00": "n0",
        "big-00": "n1",
    }
