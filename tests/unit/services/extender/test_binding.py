"""bind: zones are taken at once, refusals go back to kube-scheduler, and the next pod waits for the last one's bind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bayplan.kube.resources import PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.extender.in_flight import PodsInFlight
from bayplan.services.extender.service import ExtenderSettings
from tests.builders.clusters import free_in_zones
from tests.builders.extenders import BindingClient, Extender, asking, binding, running_extender, wire_pod
from tests.builders.objects import container, cpu_zones, pod, simple_pod, topology
from tests.builders.services import added, api_error, in_virtual_time, now


def report(name: str = "n1") -> Any:
    return topology(*cpu_zones(8, 8, memory="32Gi"), name=name)


def six(name: str) -> Pod:
    return simple_pod({"cpu": 6, "memory": "1Gi"}, name)


def known(pod: Pod, on: str | None = None) -> Pod:
    written = wire_pod(pod)
    written["spec"]["nodeName"] = on
    return msgspec.convert(written, Pod)


def during(story: Callable[[Extender], Awaitable[Any]], *, patience: float = 0.0, **options: Any) -> Any:
    async def run() -> Any:
        settings = ExtenderSettings(timeout=2.0, wait_for_bind=patience)
        async with running_extender(report(), settings=settings, **options) as extender:
            return await story(extender)

    return asyncio.run(run())


def test_bind_takes_the_zones_and_writes_them_on_the_pod() -> None:
    async def story(extender: Extender) -> list[int]:
        await extender.ask("filter", asking(six("a"), "n1"))
        assert await extender.ask("bind", binding(six("a"), "n1")) == {"Error": ""}
        ((pod, node, annotations),) = extender.client.binds
        assert (pod, node) == ("default/a", "n1")
        assert json.loads(annotations["bayplan.io/numa-zones"]) == {"main": [0]}
        return free_in_zones(extender.service.cluster.state, "n1", "cpu")

    assert during(story) == [2000, 8000]


def test_a_node_that_would_refuse_the_pod_by_now_is_an_error() -> None:
    async def story(extender: Extender) -> Any:
        for name in ("a", "b", "c"):
            await extender.ask("filter", asking(six(name), "n1"))
        assert await extender.ask("bind", binding(six("a"), "n1")) == {"Error": ""}
        assert await extender.ask("bind", binding(six("b"), "n1")) == {"Error": ""}
        refused = await extender.ask("bind", binding(six("c"), "n1"))
        assert len(extender.client.binds) == 2
        return refused["Error"]

    assert during(story).startswith("n1 no longer has room: ")


@pytest.mark.parametrize("status, said", [(403, "no"), (404, "the pod is gone")])
def test_a_refused_bind_gives_the_zones_back(status: int, said: str) -> None:
    async def story(extender: Extender) -> tuple[Any, list[int]]:
        await extender.ask("filter", asking(six("a"), "n1"))
        answer = await extender.ask("bind", binding(six("a"), "n1"))
        return answer["Error"], free_in_zones(extender.service.cluster.state, "n1", "cpu")

    client = BindingClient({"a": api_error(status)}, [known(six("a"))])
    error, free = during(story, client=client)
    assert said in error
    assert free == [8000, 8000]


def test_a_replica_that_was_not_asked_about_the_pod_reads_it() -> None:
    async def story(extender: Extender) -> Any:
        return await extender.ask("bind", binding(six("a"), "n1"))

    assert during(story, client=BindingClient(pods=[known(six("a"))])) == {"Error": ""}


@pytest.mark.parametrize(
    "pod, said",
    [
        (known(six("a"), on="n1"), ""),
        (known(six("a"), on="n7"), "it already occupies n7"),
        (msgspec.structs.replace(six("a")), "pod default/a has another uid by now"),
    ],
)
def test_a_pod_that_is_bound_or_replaced_is_not_bound_again(pod: Pod, said: str) -> None:
    async def story(extender: Extender) -> Any:
        answer = await extender.ask("bind", binding(six("a"), "n1"))
        assert not extender.client.binds
        return answer["Error"]

    assert during(story, client=BindingClient(pods=[pod])) == said


def test_a_pod_bound_by_the_scheduler_holds_the_zones_that_its_kubelet_picks() -> None:
    async def story(extender: Extender) -> list[int]:
        await extender.ask("filter", asking(six("a"), "n1"))
        extender.service.watcher.intake.take(PODS, added(known(six("a"), on="n1")), 1000.0)
        return free_in_zones(extender.service.cluster.state, "n1", "cpu")

    assert during(story) == [2000, 8000]


# -- pods in flight -------------------------------------------------------------------------------------------------


def test_the_next_filter_waits_for_the_bind_of_the_last_pod() -> None:
    async def story(extender: Extender) -> Any:
        for name in ("x", "y"):
            await extender.ask("filter", asking(six(name), "n1"))
            if name == "x":
                await extender.ask("bind", binding(six("x"), "n1"))
        third = asyncio.create_task(extender.ask("filter", asking(six("z"), "n1")))
        await asyncio.sleep(0.05)
        assert not third.done()
        await extender.ask("bind", binding(six("y"), "n1"))
        return (await third)["NodeNames"]

    assert during(story, patience=60.0) == []


def test_a_pod_that_no_other_pod_can_displace_does_not_wait() -> None:
    async def story(extender: Extender) -> Any:
        await extender.ask("filter", asking(six("x"), "n1"))
        async with asyncio.timeout(5):
            return (await extender.ask("filter", asking(pod(container(requests={"cpu": 1})), "n1")))["NodeNames"]

    assert during(story, patience=60.0) == ["n1"]


def test_patience_ends_and_pods_that_come_again_are_not_waited_for() -> None:
    async def story() -> list[float]:
        in_flight = PodsInFlight(0.1)
        in_flight.passed("a")
        times = []
        await in_flight.wait_for_others("a")
        times.append(now())
        in_flight.passed("a")
        await in_flight.wait_for_others("b")
        times.append(now())
        in_flight.passed("b")
        asyncio.get_running_loop().call_later(0.05, in_flight.settled, "b")
        await in_flight.wait_for_others("c")
        times.append(now())
        return times

    assert in_virtual_time(story()) == pytest.approx([0.0, 0.1, 0.15])
