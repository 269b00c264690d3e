"""The drawback that Volcano's "NUMA Aware Plugin" ends with: kubelets take pods by creation time, the scheduler by its
own order.

"This results in different resource NUMA allocations between kubelet and scheduler, even if the same algorithm is used
with kubelet." Here a dispatcher decides about three pods, and virtual kubelets get them in either order. bayplan binds
in the order of its decisions, node by node (`services/scheduler/binding/binder.py`), and a kubelet that follows its
pods admits them as they come.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.state import pod_key
from bayplan.dispatch.actions import Assignment, Bind
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.numatopologies import numa_aware_profile, policy_pod
from tests.unit.simulate.kubelet.nodes import kubelet, machine

CREATED = ("notebook", "worker-0", "worker-1")
DECIDED = ("worker-0", "worker-1", "notebook")


def two_zones() -> VirtualKubelet:
    """Zone 0 has 3 CPUs for pods, zone 1 has 4; policy single-numa-node."""
    return kubelet(machine(zones=2, cores=4, threads=1), policy=Policy.SINGLE_NUMA_NODE, reserved_cpus={0})


def waiting_pods() -> dict[str, Pod]:
    """In the order of creation. The workers are more important."""
    sizes = {"notebook": (1, 0), "worker-0": (3, 100), "worker-1": (3, 100)}
    return {
        name: policy_pod("single-numa-node", cpus, name=name, schedulerName="volcano", priority=priority)
        for name, (cpus, priority) in sizes.items()
    }


def decisions(pods: dict[str, Pod]) -> list[Assignment]:
    agent = NodeAgent("n1", two_zones())
    dispatcher = Dispatcher({"volcano": numa_aware_profile(alone=False)})
    dispatcher.state.set_node(agent.node)
    dispatcher.reports.topology(agent.topology(complete=True), 0.0)
    for pod in pods.values():
        dispatcher.set_pod(pod, 0.0)
    found: list[Assignment] = []
    while (todo := dispatcher.decide(1.0)) is not None:
        assert isinstance(todo, Bind)
        found += todo.assignments
    return found


def zones_given(order: tuple[str, ...], pods: dict[str, Pod]) -> dict[str, tuple[int, ...] | str | None]:
    """The zones of each pod, or why the kubelet refuses it, if pods reach it in this order."""
    node = two_zones()
    found: dict[str, tuple[int, ...] | str | None] = {}
    for name in order:
        admission = node.admit(name, effective_request(pods[name]))
        found[name] = admission.containers[0].zones if admission.admitted else admission.reason
    return found


@pytest.mark.parametrize(
    "order, given",
    [
        pytest.param(CREATED, {"notebook": (0,), "worker-0": (1,), "worker-1": "TopologyAffinityError"}, id="created"),
        pytest.param(DECIDED, {"worker-0": (0,), "worker-1": (1,), "notebook": (1,)}, id="decided"),
    ],
)
def test_what_the_kubelet_gives(order: tuple[str, ...], given: dict[str, tuple[int, ...] | str | None]) -> None:
    assert zones_given(order, waiting_pods()) == given


def test_what_was_decided_is_what_the_kubelet_gives_in_the_order_of_decisions() -> None:
    pods = waiting_pods()
    decided = {pod_key(each.pod).partition("/")[2]: each.decision.containers[0].zones for each in decisions(pods)}
    assert tuple(decided) == DECIDED
    assert decided == zones_given(DECIDED, pods)
    assert decided != zones_given(CREATED, pods)
