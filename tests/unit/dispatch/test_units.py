"""Units as keys of dictionaries, and as messages show them."""

from __future__ import annotations

from bayplan.dispatch.queue import SchedulingQueue
from bayplan.dispatch.units import GangUnit, PodUnit


def test_a_pod_and_a_gang_of_the_same_name_are_two_units() -> None:
    assert {PodUnit("ml/train"): 1, GangUnit("ml/train"): 2}[PodUnit("ml/train")] == 1


def test_messages_show_a_pod_by_its_key_and_a_gang_with_the_word() -> None:
    assert [str(PodUnit("ml/db")), str(GangUnit("ml/train"))] == ["ml/db", "gang ml/train"]


def test_pods_and_gangs_of_the_same_age_in_several_namespaces_have_an_order() -> None:
    queue = SchedulingQueue()
    for unit, tenant in ((PodUnit("b/db"), "b"), (GangUnit("a/train"), "a"), (PodUnit("c/web"), "c")):
        queue.tenants.bill(tenant, 9.0, now=0.0)
        queue.put(unit, priority=0, created=0.0, now=0.0, tenant=tenant)
    assert [queue.pop(0.0) for _ in range(3)] == [PodUnit("b/db"), PodUnit("c/web"), GangUnit("a/train")]
