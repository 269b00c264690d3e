"""Which of Volcano's PodGroups are to be let in: those of Jobs for this scheduler, once, in
whatever order news come.
"""

from __future__ import annotations

import pytest

from bayplan.dialects.volcano.queue import VolcanoQueue
from bayplan.kube.wire.volcano_batch_v1alpha1 import API_VERSION, Job
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup
from tests.builders.gangs import group_object


def job(scheduler: str = "bayplan") -> Job:
    return group_object(Job, {"schedulerName": scheduler}, "vj")


def group(phase: str = "Pending", owner: str = API_VERSION) -> PodGroup:
    owners = [{"apiVersion": owner, "kind": "Job", "name": "vj"}]
    return group_object(PodGroup, {}, "vj-1234", phase=phase, ownerReferences=owners)


def due(*news: Job | PodGroup) -> list[str]:
    queue = VolcanoQueue({"bayplan"})
    for each in news:
        if isinstance(each, Job):
            queue.set_job(each)
        else:
            queue.set_group(each)
    return [written.metadata.name for written in queue.due()]


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_the_group_of_a_job_is_due_whatever_comes_first(phase: str) -> None:
    assert due(job(), group(phase)) == due(group(phase), job()) == ["vj-1234"]


@pytest.mark.parametrize(
    "news",
    [
        (job("volcano"), group()),
        (job(), job("volcano"), group()),
        (group(),),
        (job(), group("Inqueue")),
        (job(), group(), group("Running")),
        (job(), group(owner="batch/v1")),
    ],
)
def test_others_are_not(news: tuple[Job | PodGroup, ...]) -> None:
    assert due(*news) == []


def test_a_group_is_due_once_and_again_if_it_changes_and_still_is_outside() -> None:
    queue = VolcanoQueue({"bayplan"})
    queue.set_job(job())
    queue.set_group(group())
    assert len(queue.due()) == 1
    assert queue.due() == []
    queue.set_group(group())
    assert len(queue.due()) == 1


def test_what_is_gone_is_not_due() -> None:
    queue = VolcanoQueue({"bayplan"})
    queue.set_job(job())
    queue.set_group(group())
    queue.remove_group("ml/vj-1234")
    assert queue.due() == []
    queue.set_group(group())
    queue.remove_job("ml/vj")
    assert queue.due() == []
