"""Members that had nodes before they were in a gang: one that does not stand as it asks for is told what is broken, and
is never called complete.
"""

from __future__ import annotations

import msgspec
import pytest

from bayplan.dispatch.actions import Complete, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire import volcano_scheduling_v1beta1
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup
from tests.builders.units import RACK, dispatcher, on_node, pod, pod_group

RACKS = {"n1": "r1", "n2": "r1", "n3": "r2"}


def running(group: PodGroup, *nodes: str, by_us: bool = False) -> Dispatcher:
    """A scheduler that learns of a gang whose pods stand on these nodes already."""
    scheduler = dispatcher(*RACKS, racks=RACKS)
    scheduler.set_group(group, 0)
    for number, node in enumerate(nodes):
        scheduler.set_pod(on_node(pod(f"p{number}", 3, gang="train"), node, by_us=by_us), 0)
    return scheduler


def told(scheduler: Dispatcher) -> str:
    """What is said about the gang: its refusal, or that it is complete."""
    todo = scheduler.decide(0)
    return todo.reason if isinstance(todo, Unschedulable) else "complete" if isinstance(todo, Complete) else ""


@pytest.mark.parametrize(
    "nodes, required, expected",
    [
        (["n1", "n2"], RACK, "complete"),
        (["n1", "n3"], None, "complete"),
        (["n1", "n3"], RACK, f"members run in r1 and in r2, but must share one {RACK}"),
        (["n1"], RACK, "waits for pods: 1 of 2 have arrived"),
    ],
    ids=["one rack", "two racks, which is allowed", "two racks", "too few"],
)
def test_pods_that_had_nodes_before_their_gang(nodes: list[str], required: str | None, expected: str) -> None:
    scheduler = running(pod_group(2, required=required), *nodes)
    assert told(scheduler) == expected
    assert scheduler.gangs.why_incomplete("ml/train") == ("" if expected == "complete" else expected)


def test_a_group_inside_is_named() -> None:
    group = pod_group(0)
    spec = msgspec.structs.replace(group.spec, groups=[GroupSpec(name="workers", size=2, required=RACK)])
    assert told(running(msgspec.structs.replace(group, spec=spec), "n1", "n3")).startswith(
        'group "workers": members run in r1 and in r2'
    )


def test_no_pod_joins_a_split_gang_or_is_released_for_it() -> None:
    scheduler = running(pod_group(3, required=RACK, minimum=2), "n1", "n3", by_us=True)
    scheduler.set_pod(pod("late", 3, gang="train"), 0)
    assert told(scheduler).startswith("members run in r1 and in r2")
    later = [scheduler.decide(moment) for moment in (61.0, 122.0, 400.0)]
    assert all(isinstance(todo, Unschedulable | None) for todo in later)


def test_one_that_comes_together_is_complete() -> None:
    scheduler = running(pod_group(2, required=RACK), "n1", "n3")
    assert told(scheduler).startswith("members run in")
    scheduler.remove_pod("ml/p1", 1)
    scheduler.set_pod(on_node(pod("p2", 3, gang="train"), "n2"), 1)
    assert scheduler.decide(500) == Complete("ml/train")


@pytest.mark.parametrize(
    "scheduler_name, expected", [("bayplan", "waits for pods: 1 of 2 have arrived"), ("volcano", "")]
)
def test_nothing_is_said_about_a_gang_that_another_systems_scheduler_places(scheduler_name: str, expected: str) -> None:
    scheduler = dispatcher("n1")
    group = {"metadata": {"name": "train", "namespace": "ml", "uid": "g"}, "spec": {"minMember": 2}}
    scheduler.set_group(msgspec.convert(group, volcano_scheduling_v1beta1.PodGroup), 0)
    member = on_node(pod("a"), "n1", by_us=False)
    named = msgspec.structs.replace(member.metadata, annotations={"scheduling.k8s.io/group-name": "train"})
    spec = msgspec.structs.replace(member.spec, scheduler_name=scheduler_name)
    scheduler.set_pod(msgspec.structs.replace(member, metadata=named, spec=spec), 0)
    assert told(scheduler) == expected
    assert list(scheduler.gangs.to_count()) == []
