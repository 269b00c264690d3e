"""Jobs that are not even tried, and in which words."""

from dataclasses import replace

import pytest

from bayplan.compat.kai.scheduler.allocate import not_ready, over_quota
from bayplan.compat.kai.scheduler.model import Job, Queue
from bayplan.compat.kai.scheduler.statement import Statement
from tests.unit.compat.kai.scheduler.small_clusters import cluster, job, tasks

TEAM = Queue("team", parent="lab", deserved_gpus=2, max_gpus=6)
LAB = Queue("lab", max_gpus=8)


@pytest.mark.parametrize(
    "asked, problem",
    [
        (job("train", None, 1, 1), None),
        (job("train", None, 1, 1, minimum=3), "pod set default of job train needs 3 pods to start and has 2"),
        (
            replace(job("train", None, 1), tasks=tasks(1, pod_set="lost")),
            "pod lost-00 belongs to sub-group 'lost', which job train does not have",
        ),
    ],
)
def test_a_job_needs_its_pods(asked: Job, problem: str | None) -> None:
    assert not_ready(asked) == problem


@pytest.mark.parametrize(
    "running, waiting, priority, problem",
    [
        ((4,), (2,), 50, None),
        ((4,), (2, 1), 50, "queue team holds 4 GPUs and 3 more would exceed its limit of 6"),
        ((), (2,), 125, None),
        ((), (3,), 125, "queue team holds 0 GPUs and 3 more would exceed its quota of non-preemptible jobs of 2"),
        ((6,), (0,), 50, None),
    ],
)
def test_a_queue_lets_in_what_it_has_room_for(
    running: tuple[int, ...], waiting: tuple[int, ...], priority: int, problem: str | None
) -> None:
    old = replace(job("old", None, *running, on="n0"), queue="team")
    new = replace(job("new", None, *waiting, priority=priority), queue="team")
    now = replace(cluster("z/r: 8 8", old, new), queues=(TEAM, LAB))
    assert over_quota(new, new.tasks, now, Statement(now)) == problem


def test_the_queue_above_counts_all_queues_below_it() -> None:
    old = replace(job("old", None, 6, on="n0"), queue="other")
    new = replace(job("new", None, 3), queue="team")
    now = replace(cluster("z/r: 8 8", old, new), queues=(TEAM, LAB, Queue("other", parent="lab")))
    assert (
        over_quota(new, new.tasks, now, Statement(now))
        == "queue lab holds 6 GPUs and 3 more would exceed its limit of 8"
    )


def test_a_queue_that_does_not_exist() -> None:
    new = replace(job("new", None, 3), queue="lost")
    now = replace(cluster("z/r: 8", new), queues=(TEAM,))
    assert over_quota(new, new.tasks, now, Statement(now)) == "queue 'lost' of job new does not exist"


def test_queues_whose_parents_go_in_a_circle_are_counted_once() -> None:
    new = replace(job("new", None, 3), queue="a")
    now = replace(
        cluster("z/r: 8", new), queues=(Queue("a", parent="b", max_gpus=3), Queue("b", parent="a", max_gpus=2))
    )
    assert (
        over_quota(new, new.tasks, now, Statement(now)) == "queue b holds 0 GPUs and 3 more would exceed its limit of 2"
    )
