"""The tokens of the scheduler and of the pod grouper on a real API server: each write that bayplan makes works, each
other one that RBAC alone would let through is denied.

Cluster-wide `patch pods` would let a stolen token change the image of a bound pod in kube-system. The admission
policies of deploy/base hold both accounts to the fields that they write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders.storage import claim, volume
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json, RawApi
from tests.kubernetes.deployed import LEASES, Deployed, deployed

PODS = "/api/v1/namespaces/{}/pods"
GROUPS = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
MANAGED = {"app.kubernetes.io/managed-by": "bayplan-pod-grouper"}
WAITS = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "GangReleased", "message": "no room"}


@pytest.fixture(scope="module")
def accounts(control_plane: ControlPlane) -> Iterator[Deployed]:
    with deployed(control_plane) as found:
        yield found


class Scene:
    """A namespace with pods that wait and run, alone and in a gang, two PodGroups and an event; and one account that
    acts there.
    """

    def __init__(self, plane: ControlPlane, namespace: str, api: RawApi) -> None:
        self.plane, self.namespace, self.api = plane, namespace, api
        self.pods, self.groups, self.events = (each.format(namespace) for each in (PODS, GROUPS, EVENTS))
        # The API server copies these labels onto a bind, before the policies see it.
        zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
        plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": zone}})
        container = {"name": "main", "image": "pause"}
        self.uids: dict[str, str] = {}
        for name, node, labels in (
            ("waits", "", {"app": "web"}),
            ("runs", "n1", {"app": "web"}),
            ("gang-waits", "", {"bayplan.io/pod-group": "g"}),
            ("gang-runs", "n1", {"bayplan.io/pod-group": "g"}),
        ):
            spec: Json = {"schedulerName": "bayplan", "containers": [container], **({"nodeName": node} if node else {})}
            metadata = {"name": name, "labels": labels, "annotations": {"example.com/team": "blue"}}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            self.uids[name] = plane.apply(pod, namespace=namespace)[0]["metadata"]["uid"]
        plane.apply(claim("data", namespace=namespace) | {"spec": CLAIM})
        for name, kept in (("free", ""), ("taken", "uid-other")):
            body = volume(f"{name}-{namespace}", on="n1")
            if kept:
                body["spec"]["claimRef"] = {"namespace": namespace, "name": "other", "uid": kept}
            plane.apply(body)
        for name, group_labels in (("made", MANAGED), ("users", {})):
            group = {
                "apiVersion": "bayplan.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "labels": group_labels},
            }
            plane.apply({**group, "spec": {"size": 2}}, namespace=namespace)
        plane.post(self.events, self.event("of-another", "kube-scheduler"))
        for controller in ("bayplan", "bayplan-pod-grouper"):
            plane.post(self.events, self.event(f"of-{controller}", controller))

    def event(self, name: str, controller: str) -> Json:
        regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": "waits"}
        return {
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": self.namespace},
            "eventTime": "2026-01-02T03:04:05.000000Z", "type": "Warning", "reason": "FailedScheduling",
            "action": "Scheduling", "note": "no room", "reportingController": controller, "reportingInstance": "x",
            "regarding": regarding,
        }  # fmt: skip

    def bind(self, pod: str, **metadata: Any) -> Json:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod, **metadata},
            "target": {"kind": "Node", "name": "n1"},
        }
        return self.api.post(f"{self.pods}/{pod}/binding", body)

    def status(self, pod: str, status: Json, **metadata: Any) -> Json:
        return self.api.patch(
            f"{self.pods}/{pod}/status", {"metadata": metadata, "status": status}, kind="strategic-merge-patch"
        )

    def claim(self, body: Json) -> Json:
        return self.api.patch(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/data", body)

    def volume(self, name: str, body: Json) -> Json:
        return self.api.patch(f"/api/v1/persistentvolumes/{name}-{self.namespace}", body)

    def patch(self, pod: str, body: Json) -> Json:
        return self.api.patch(f"{self.pods}/{pod}", body, kind="strategic-merge-patch")

    def delete(self, pod: str, *, uid: str = "") -> Json:
        return self.api.delete(f"{self.pods}/{pod}", uid=uid)

    def lease(self, name: str) -> Json:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": "x"},
        }
        return self.api.post(f"{LEASES}?dryRun=All", body)

    def group(self, name: str, labels: Json) -> Json:
        body = {
            "apiVersion": "bayplan.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "labels": labels},
            "spec": {"size": 2},
        }
        return self.api.post(self.groups, body)


Write = Callable[[Scene], Any]
IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "local"}
SELECTED = "volume.kubernetes.io/selected-node"
TAKEN = {
    "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "x", "name": "data", "uid": "u"}
}
BY_CONTROLLER = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}

SCHEDULER_NEEDS: dict[str, Write] = {
    "select a node for a claim": lambda it: it.claim({"metadata": {"annotations": {SELECTED: "n1"}}}),
    "take the selected node back": lambda it: [
        it.claim({"metadata": {"annotations": {SELECTED: each}}}) for each in ("n1", None)
    ],
    "bind a free volume": lambda it: it.volume("free", {"metadata": BY_CONTROLLER, "spec": TAKEN}),
    "bind a pod with the decision's annotations": lambda it: it.bind(
        "waits", annotations={"bayplan.io/numa-zones": "{}", "bayplan.io/rank": "0",
                              "volcano.sh/topology-decision": "{}"}
    ),
    "say why a pod waits": lambda it: it.status("waits", {"conditions": [WAITS]}),
    "say so again in other words": lambda it: [it.status("waits",
                                                         {"conditions": [{**WAITS, "message": each}]}) for each in ("a",
                                                                                                                    "b")],
    "mark a bound member of a gang before it is deleted": lambda it: it.status("gang-runs",
                                                                               {"conditions": [DISRUPTED]}),
    "delete a bound member of a gang by its uid": lambda it: it.delete("gang-runs", uid=it.uids["gang-runs"]),
    "write an event": lambda it: it.api.post(it.events, it.event("new", "bayplan")),
    "count an event": lambda it: it.api.patch(
        f"{it.events}/of-bayplan", {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}}
    ),
    "create its lease": lambda it: it.lease("bayplan"),
    "write a gang's status": lambda it: it.api.patch(f"{it.groups}/users/status", {"status": {"phase": "Waiting"}}),
}  # fmt: skip
SCHEDULER_MUST_NOT: dict[str, Write] = {
    "label a claim": lambda it: it.claim({"metadata": {"labels": {"a": "b"}}}),
    "bind a claim itself": lambda it: it.claim({"spec": {"volumeName": "other"}}),
    "annotate a claim otherwise": lambda it: it.claim({"metadata": {"annotations": {"example.com/a": "b"}}}),
    "take a volume from its claim": lambda it: it.volume("taken", {"metadata": BY_CONTROLLER, "spec": TAKEN}),
    "release a volume": lambda it: it.volume("taken", {"spec": {"claimRef": None}}),
    "have a volume deleted with its claim": lambda it: it.volume(
        "free", {"spec": {**TAKEN, "persistentVolumeReclaimPolicy": "Delete"}}
    ),
    "label a volume": lambda it: it.volume("free", {"metadata": {"labels": {"a": "b"}}, "spec": TAKEN}),
    "change the image of a pod": lambda it: it.patch("runs", IMAGE),
    "label a pod": lambda it: it.patch("waits", {"metadata": {"labels": {"app": "other"}}}),
    "bind with a label": lambda it: it.bind("waits", labels={"app": "db"}),
    "bind with an annotation of others": lambda it: it.bind("waits", annotations={"example.com/team": "red"}),
    "label a pod through its status": lambda it: it.status("waits", {}, labels={"app": "db"}),
    "annotate a pod through its status": lambda it: it.status("waits", {}, annotations={"example.com/team": "red"}),
    "add a finalizer through the status": lambda it: it.status("waits", {}, finalizers=["example.com/stay"]),
    "fail a pod": lambda it: it.status("waits", {"phase": "Failed"}),
    "give a pod an address": lambda it: it.status("waits", {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}),
    "make a pod ready": lambda it: it.status("waits", {"conditions": [{"type": "Ready", "status": "True"}]}),
    "claim that a pod is scheduled": lambda it: it.status("waits", {"conditions": [{**WAITS, "status": "True"}]}),
    "write a container's status": lambda it: it.status(
        "waits", {"containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": True,
                                         "restartCount": 0}]}
    ),
    "write the status of a pod that has a node": lambda it: it.status("runs", {"conditions": [WAITS]}),
    "mark a pod that stands alone as disrupted": lambda it: it.status("runs", {"conditions": [DISRUPTED]}),
    "mark a member that waits as disrupted": lambda it: it.status("gang-waits", {"conditions": [DISRUPTED]}),
    "withdraw a disruption": lambda it: it.status("gang-runs", {"conditions": [{**DISRUPTED, "status": "False"}]}),
    "unschedule a bound member": lambda it: it.status("gang-runs", {"conditions": [WAITS]}),
    "delete a pod that stands alone": lambda it: it.delete("runs", uid=it.uids["runs"]),
    "delete a member that waits": lambda it: it.delete("gang-waits", uid=it.uids["gang-waits"]),
    "delete a member without its uid": lambda it: it.delete("gang-runs"),
    "write an event in another's name": lambda it: it.api.post(it.events, it.event("forged", "kubelet")),
    "count an event of another": lambda it: it.api.patch(
        f"{it.events}/of-another", {"series": {"count": 9, "lastObservedTime": "2026-01-02T03:05:05.000000Z"}}
    ),
    "create another lease": lambda it: it.lease("kube-scheduler"),
    "write a PodGroup": lambda it: it.api.patch(f"{it.groups}/users", {"spec": {"size": 9}}),
    "create a pod": lambda it: it.api.post(it.pods,
                                           {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
                                            "spec": {"containers": []}}),
    "patch a node": lambda it: it.api.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}}),
    "read secrets": lambda it: it.api.get(f"/api/v1/namespaces/{it.namespace}/secrets"),
}  # fmt: skip
GROUPER_NEEDS: dict[str, Write] = {
    "label a pod with its place in a gang": lambda it: it.patch(
        "waits",
        {"metadata": {"labels": {"bayplan.io/pod-group": "g", "bayplan.io/group": "a", "bayplan.io/rank": "0"},
                      "annotations": {"bayplan.io/grouped": "alone"}}},
    ),
    "take a label of a gang away": lambda it: it.patch("gang-waits",
                                                       {"metadata": {"labels": {"bayplan.io/pod-group": None}}}),
    "label as KAI does": lambda it: it.patch(
        "waits", {"metadata": {"labels": {"kai.scheduler/subgroup-name": "a"}, "annotations": {"pod-group-name": "g"}}}
    ),
    "create a PodGroup": lambda it: it.group("new", MANAGED),
    "change its PodGroup": lambda it: it.api.patch(f"{it.groups}/made", {"spec": {"size": 3}}),
    "delete its PodGroup": lambda it: it.api.delete(f"{it.groups}/made"),
    "write the condition Grouped": lambda it: it.api.patch(f"{it.groups}/made/status",
                                                           {"status": {"phase": "Waiting"}}),
    "write an event": lambda it: it.api.post(it.events, it.event("new", "bayplan-pod-grouper")),
    "create its lease": lambda it: it.lease("bayplan-pod-grouper"),
    "follow pods": lambda it: it.api.get("/api/v1/pods"),
}  # fmt: skip
GROUPER_MUST_NOT: dict[str, Write] = {
    "change the image of a pod": lambda it: it.patch("runs", IMAGE),
    "let a pod tolerate more": lambda it: it.api.patch(
        f"{it.pods}/waits", [{"op": "add", "path": "/spec/tolerations/-",
                              "value": {"key": "x", "operator": "Exists"}}], kind="json-patch"
    ),
    "set a deadline": lambda it: it.patch("runs", {"spec": {"activeDeadlineSeconds": 1}}),
    "label a pod as another app": lambda it: it.patch("runs", {"metadata": {"labels": {"app": "db"}}}),
    "take a label of others away": lambda it: it.patch("runs", {"metadata": {"labels": {"app": None}}}),
    "change an annotation of others": lambda it: it.patch("runs",
                                                          {"metadata": {"annotations": {"example.com/team": "red"}}}),
    "take an annotation of others away": lambda it: it.patch("runs",
                                                             {"metadata": {"annotations": {"example.com/team": None}}}),
    "add a finalizer": lambda it: it.patch("runs", {"metadata": {"finalizers": ["example.com/stay"]}}),
    "give a pod an owner": lambda it: it.patch(
        "runs", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}]}}
    ),
    "change a PodGroup of a user": lambda it: it.api.patch(f"{it.groups}/users", {"spec": {"size": 9}}),
    "take over a PodGroup of a user": lambda it: it.api.patch(f"{it.groups}/users", {"metadata": {"labels": MANAGED}}),
    "let go of its PodGroup's label": lambda it: it.api.patch(f"{it.groups}/made", {"metadata": {"labels": None}}),
    "delete a PodGroup of a user": lambda it: it.api.delete(f"{it.groups}/users"),
    "create a PodGroup without its label": lambda it: it.group("new", {}),
    "bind a pod": lambda it: it.bind("waits"),
    "write a pod's status": lambda it: it.status("waits", {"conditions": [WAITS]}),
    "delete a pod": lambda it: it.delete("gang-runs", uid=it.uids["gang-runs"]),
    "write an event in the scheduler's name": lambda it: it.api.post(it.events, it.event("forged", "bayplan")),
    "create the scheduler's lease": lambda it: it.lease("bayplan"),
    "read secrets": lambda it: it.api.get(f"/api/v1/namespaces/{it.namespace}/secrets"),
    "read nodes": lambda it: it.api.get("/api/v1/nodes"),
}  # fmt: skip


@pytest.mark.parametrize("write", SCHEDULER_NEEDS)
def test_the_scheduler_does_its_work(
    control_plane: ControlPlane, namespace: str, accounts: Deployed, write: str
) -> None:
    SCHEDULER_NEEDS[write](Scene(control_plane, namespace, accounts.api))


@pytest.mark.parametrize("write", SCHEDULER_MUST_NOT)
def test_the_schedulers_token_does_nothing_else(
    control_plane: ControlPlane, namespace: str, accounts: Deployed, write: str
) -> None:
    refused(SCHEDULER_MUST_NOT[write], Scene(control_plane, namespace, accounts.api))


@pytest.mark.parametrize("write", GROUPER_NEEDS)
def test_the_pod_grouper_does_its_work(
    control_plane: ControlPlane, namespace: str, accounts: Deployed, write: str
) -> None:
    GROUPER_NEEDS[write](Scene(control_plane, namespace, accounts.pod_grouper.api))


@pytest.mark.parametrize("write", GROUPER_MUST_NOT)
def test_the_pod_groupers_token_does_nothing_else(
    control_plane: ControlPlane, namespace: str, accounts: Deployed, write: str
) -> None:
    refused(GROUPER_MUST_NOT[write], Scene(control_plane, namespace, accounts.pod_grouper.api))


def refused(write: Write, scene: Scene) -> None:
    """By RBAC, or by a policy; anything else would be a slip of the test."""
    with pytest.raises(ApiRefused) as found:
        write(scene)
    told = str(found.value)
    assert "is forbidden: User" in told or "ValidatingAdmissionPolicy 'bayplan-" in told, told
