"""What the agent learns about its pods from a real API server: with the right to read them, without it, and when it is
taken away.

An old kubelet lists pods that have ended. Only the API server knows, so `ended` stands in the kubelet's cache in these
tests, and the API server says `Succeeded`: an agent that may read pods reports what it holds as free, another
reports what the kubelet lists.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings
from bayplan.services.agent.agent import Agent
from bayplan.services.agent.metrics import AgentMetrics
from bayplan.services.agent.publisher import Publisher
from bayplan.services.agent.scanner import Scanner
from bayplan.services.agent.sources.own_pods import OwnPods
from bayplan.services.agent.sources.wakers import POD, Wakers
from bayplan.services.agent.troubles import Troubles
from tests.closed_loop import columns_of, free_of, settings_for
from tests.kubernetes.agents import agent_program, allowed, columns_at, install_reports, register, report_of, shows
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode

AGENT = "system:serviceaccount:somewhere:agent"
# Watches end by themselves after two seconds: nothing else makes an API server look at rights again.
QUICK = WatchSettings(silence=3.0, absent_retry=0.2)


@pytest.fixture
def plane(control_plane: ControlPlane, namespace: str) -> Iterator[ControlPlane]:
    """An API server that knows node n1, and a pod on it that has ended."""
    install_reports(control_plane)
    register(control_plane, "n1")
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ended"}, "spec": spec}
    control_plane.apply(pod, namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/pods/ended"
    control_plane.api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
    with allowed(control_plane, AGENT, "bayplan-agent"):
        yield control_plane
    control_plane.delete(path)


@pytest.fixture
def virtual(tmp_path: Path, namespace: str) -> Iterator[VirtualNode]:
    with VirtualNode(tmp_path / "n1", kubelet(machine())) as found:
        assert found.admit(f"{namespace}/ended", guaranteed({"cpu": 2, "memory": "1Gi"})).admitted
        yield found


EVERYTHING = free_of(kubelet(machine()))
NOT_KNOWN = "pods of this node are unknown, reporting without them"


# -- one look --------------------------------------------------------------------------------------------------------


def test_one_look_leaves_out_pods_that_have_ended(plane: ControlPlane, virtual: VirtualNode) -> None:
    with (
        allowed(plane, AGENT, "bayplan-agent-watch-pods"),
        agent_program(virtual, plane.kubeconfig_for(AGENT, []), "--oneshot", "--kubelet-state-dir=") as agent,
    ):
        assert agent.process.wait(60) == 0, agent.log
    assert columns_at(plane) == EVERYTHING


def test_one_look_without_the_right_reports_what_the_kubelet_lists_and_says_so(
    plane: ControlPlane, virtual: VirtualNode
) -> None:
    powerless = plane.kubeconfig_for(AGENT, [])
    with agent_program(virtual, powerless, "--oneshot", "--kubelet-state-dir=") as agent:
        assert agent.process.wait(60) == 0, agent.log
        assert agent.log.count("reading pods is forbidden") == 1
    assert shows(plane, virtual)


def test_one_look_that_is_only_printed_leaves_out_pods_that_have_ended_too(
    plane: ControlPlane, virtual: VirtualNode
) -> None:
    with agent_program(virtual, plane.kubeconfig, "--oneshot", "--no-publish", "--kubelet-state-dir=") as agent:
        assert agent.process.wait(60) == 0, agent.log
        assert columns_of(yaml.safe_load(agent.log)) == EVERYTHING
    assert report_of(plane) is None


def test_the_first_report_of_many_is_as_good_as_that_of_one_look(plane: ControlPlane, virtual: VirtualNode) -> None:
    with agent_program(virtual, plane.kubeconfig, "--kubelet-state-dir=") as agent:
        agent.wait_until_ready()
        assert columns_at(plane) == EVERYTHING
        assert agent.metric("bayplan_agent_writes_total") == 1


# -- a right that is taken away --------------------------------------------------------------------------------------


@asynccontextmanager
async def at_work(plane: ControlPlane, virtual: VirtualNode, troubles: Troubles) -> AsyncIterator[None]:
    """An agent that is forbidden to read pods throughout, and finds out soon."""
    settings = replace(settings_for(virtual), state_folder=None)
    async with (
        KubeClient(find_access(str(plane.kubeconfig_for(AGENT, [])))) as client,
        Wakers(None, interval=0.5, signals=()) as wakers,
    ):
        own_pods = OwnPods(client, "n1", troubles, lambda: wakers.wake(POD), required=False, settings=QUICK)
        publisher = Publisher(client, "n1", troubles)
        agent = Agent(Scanner(settings, known_pods=own_pods.known), publisher, troubles, AgentMetrics(troubles))
        tasks = [asyncio.create_task(each) for each in (agent.run(wakers), publisher.run(), own_pods.run())]
        yield
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()


def test_a_right_that_is_taken_away_is_said_once_and_what_was_known_is_not_believed(
    plane: ControlPlane, virtual: VirtualNode, caplog: pytest.LogCaptureFixture
) -> None:
    troubles = Troubles()

    async def until(so: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_until, so, what)

    async def story() -> None:
        with ExitStack() as right:
            right.enter_context(allowed(plane, AGENT, "bayplan-agent-watch-pods"))
            async with at_work(plane, virtual, troubles):
                await until(lambda: columns_at(plane) == EVERYTHING, "the pod is known to have ended")
                await asyncio.to_thread(right.close)
                await until(lambda: troubles.numbers().get("pods") == 1, "it notices")
                await until(lambda: shows(plane, virtual), "whether the pod has ended is unknown")
                right.enter_context(allowed(plane, AGENT, "bayplan-agent-watch-pods"))
                await until(lambda: columns_at(plane) == EVERYTHING, "the pod is known to have ended again")
                assert not troubles.current

    asyncio.run(story())
    assert caplog.text.count(NOT_KNOWN) == 1
    assert 'cannot watch resource "pods"' in caplog.text or 'cannot list resource "pods"' in caplog.text
