"""Members of a gang end, or its PodGroup is created anew, at moments in which that is easily taken for a gang that
never was whole.

Pods that run are deleted only if it is certain that their gang never was. Nodes have no kubelets here; the test says
for them that pods have ended.
"""

from __future__ import annotations

from pathlib import Path

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_cluster
from tests.kubernetes.faults.meddler import Fate, Kind, Meddler, at, refused
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, bound, phase_of, pod
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.workloads import pods_in

AT_ONCE = ("--no-leader-elect", "--gangs-complete-in", "1")
SIZE = 3
POD_GROUP = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups/gang"


def end(plane: ControlPlane, namespace: str, name: str) -> None:
    """What its kubelet says about a pod that has done its work."""
    plane.api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": {"phase": "Succeeded"}})


def is_noted_as_whole(plane: ControlPlane, namespace: str) -> None:
    wait_until(lambda: phase_of(plane, namespace, "gang") == "Scheduled", "it is noted that the gang is whole")


def told(plane: ControlPlane, namespace: str, reason: str) -> list[str]:
    """The pods that have an event of this reason."""
    events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return sorted(each["regarding"]["name"] for each in events if each["reason"] == reason)


def test_a_member_that_ends_before_the_last_bind_costs_the_others_nothing(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", rack="a")

    def the_first_ends() -> None:
        for name in bound(plane, namespace):
            end(plane, namespace, name)

    with running_scheduler(plane, *AT_ONCE, kubeconfig=kubeconfig):
        meddler.decide(Kind.BIND, at(1, Fate(before=the_first_ends)))
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        is_noted_as_whole(plane, namespace)
    assert len(bound(plane, namespace)) == SIZE
    assert meddler.counts[Kind.RELEASE] == 0
    check_cluster(plane, namespace, witness)


def test_a_new_leader_does_not_take_an_ended_member_for_a_partially_bound_gang(
    plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", "a2", rack="a")
    with running_scheduler(plane, *AT_ONCE, kubeconfig=kubeconfig) as first:

        def dies() -> None:
            first.kill()
            meddler.cut_off()

        meddler.decide(Kind.WHOLE, at(0, Fate(before=dies)))
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        wait_until(lambda: first.process.poll() is not None, "the scheduler dies before it can note that it is whole")
    end(plane, namespace, "gang-0")
    with running_scheduler(plane, *AT_ONCE) as second:
        is_noted_as_whole(plane, namespace)
        assert second.metric("bayplan_gang_pods_released_total") == 0
    assert len(bound(plane, namespace)) == SIZE
    check_cluster(plane, namespace, witness)


def test_a_pod_group_that_is_created_anew_says_that_its_gang_was_whole(plane: ControlPlane, namespace: str) -> None:
    add_nodes(plane, "a1", "a2", rack="a")
    with running_scheduler(plane, *AT_ONCE):
        add_gang(plane, namespace, "gang", SIZE, cpus=2)
        is_noted_as_whole(plane, namespace)
        end(plane, namespace, "gang-0")
        add_pods(plane, namespace, [pod("too-large", cpus=9, gang="gang")])
        wait_until(lambda: phase_of(plane, namespace, "gang") == "Degraded", "it is noted that one waits")
        spec = plane.get(POD_GROUP.format(namespace))["spec"]
        plane.delete(POD_GROUP.format(namespace))
        metadata = {"name": "gang", "namespace": namespace}
        plane.apply({"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec})
        wait_until(lambda: phase_of(plane, namespace, "gang") == "Degraded", "the new PodGroup says that, too")
    conditions = plane.get(POD_GROUP.format(namespace))["status"]["conditions"]
    assert ("Started", "True") in {(each["type"], each["status"]) for each in conditions}
    assert len(bound(plane, namespace)) == SIZE


def test_without_the_right_to_delete_pods_a_partially_bound_gang_keeps_its_nodes(
    plane: ControlPlane, namespace: str, meddled: tuple[Meddler, Path]
) -> None:
    meddler, kubeconfig = meddled
    add_nodes(plane, "a1", rack="a", cpus=4)
    # As a scheduler that died would have left it: two have a node, and there is none for the third.
    add_gang(plane, namespace, "gang", SIZE, cpus=2)
    for number in range(2):
        metadata = {"name": f"gang-{number}", "annotations": {"bayplan.io/rank": str(number)}}
        target = {"apiVersion": "v1", "kind": "Node", "name": "a1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        plane.post(f"/api/v1/namespaces/{namespace}/pods/gang-{number}/binding", binding)
    meddler.decide(Kind.RELEASE, lambda count: refused(403))
    with running_scheduler(plane, *AT_ONCE, kubeconfig=kubeconfig) as scheduler:
        wait_until(lambda: len(told(plane, namespace, "GangNotReleased")) == 2, "its pods are told that they stay")
        add_nodes(plane, "a2", rack="a", cpus=4)
        is_noted_as_whole(plane, namespace)
        assert scheduler.metric("bayplan_gang_pods_released_total") == 0
    assert meddler.counts[Kind.RELEASE] == 1
    assert told(plane, namespace, "GangReleased") == []
    assert len(bound(plane, namespace)) == len(pods_in(plane, namespace)) == SIZE
