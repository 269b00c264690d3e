"""The pod grouper when things go wrong: stopped halfway, meddled with, two at once, owners that are wrong, unreadable
or gone.

Whatever happens, there is one PodGroup for each gang, every pod names it, and what is not needed goes away. Controllers
are played as in `test_pod_grouper.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.bodies import RACK, Json, node_body
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.played_controllers import create_workload, owned_by, play_controller, pod_from
from tests.kubernetes.running_scheduler import running_pod_grouper, running_scheduler
from tests.kubernetes.workloads import CRDS, GPU, ROOT, create_all, groups_in, pods_in, wait_until_told, why_it_waits

JOB = ROOT / "examples" / "workloads" / "job.yaml"
PYTORCH_JOB = ROOT / "examples" / "workloads" / "pytorchjob.yaml"
PYTORCH_JOBS = Path(__file__).parent / "foreign_kinds" / "pytorchjobs.kubeflow.org.yaml"
PODS = "/api/v1/namespaces/{}/pods"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
GROUPS = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
REQUIRED = "kai.scheduler/topology-required-placement"
SEGMENT_LEVEL = "kai.scheduler/segment-topology-required-placement"
SCHEDULED_BY_BAYPLAN = {"schedulerName": "bayplan", "containers": [{"name": "main", "image": "example.com/none"}]}


def events_about(plane: ControlPlane, namespace: str, kind: str, reason: str) -> list[str]:
    events = plane.get(EVENTS.format(namespace))["items"]
    return [each["note"] for each in events if each["regarding"]["kind"] == kind and each["reason"] == reason]


def wait_until_grouped(plane: ControlPlane, namespace: str, count: int = 4) -> Json:
    """Until so many pods name the only group; that group."""

    def grouped() -> bool:
        names = {each["metadata"]["name"] for each in groups_in(plane, namespace)}
        labels = [pod["metadata"]["labels"].get("bayplan.io/pod-group") for pod in pods_in(plane, namespace)]
        return len(names) == 1 and sum(label in names for label in labels) == count

    wait_until(grouped, f"{count} pods name one group")
    (group,) = groups_in(plane, namespace)
    return group


def a_rack(plane: ControlPlane, nodes: int = 4, rack: str = "r0") -> None:
    amounts: dict[str, str | int] = {"cpu": 96, "memory": "960Gi", GPU: 8}
    labels = {"example.com/block": "b0", RACK: rack}
    create_all(plane.kubeconfig, [node_body(f"{rack}-n{number}", amounts, **labels) for number in range(nodes)])


def placed(plane: ControlPlane, namespace: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods_in(plane, namespace))


def all_placed(plane: ControlPlane, namespace: str) -> bool:
    return placed(plane, namespace) == len(pods_in(plane, namespace))


def allow(plane: ControlPlane, user: str, *rules: Json) -> None:
    """Give a user rights of its own."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}}
    plane.apply({**role, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}
    plane.apply({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})


READ_ALL: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
WRITE_GROUPS: Json = {
    "apiGroups": ["bayplan.io"],
    "resources": ["podgroups", "podgroups/status"],
    "verbs": ["create", "patch", "delete"],
}
WRITE_EVENTS: Json = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}


def test_a_grouper_killed_between_the_group_and_the_labels_leaves_nothing_behind(
    plane: ControlPlane, namespace: str
) -> None:
    """The first one may write groups but not label pods, so it is always in between."""
    allow(plane, "halfway", READ_ALL, WRITE_GROUPS, WRITE_EVENTS)
    with running_pod_grouper(plane, "--no-leader-elect", kubeconfig=plane.kubeconfig_for("halfway")) as halfway:
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until(lambda: len(groups_in(plane, namespace)) == 1, "the group is there")
        (made,) = groups_in(plane, namespace)
        halfway.kill()
    assert not any("bayplan.io/pod-group" in pod["metadata"]["labels"] for pod in pods_in(plane, namespace))
    with running_pod_grouper(plane, "--no-leader-elect"):
        assert wait_until_grouped(plane, namespace)["metadata"]["uid"] == made["metadata"]["uid"]


def test_of_two_groupers_one_works_and_the_other_goes_on_where_it_was_stopped(
    plane: ControlPlane, namespace: str
) -> None:
    with running_pod_grouper(plane) as first:
        first.wait_until_leading()
        with running_pod_grouper(plane) as second:
            job = create_workload(plane, JOB, namespace)
            pods = play_controller(plane, job)
            wait_until_grouped(plane, namespace)
            assert second.metric("bayplan_pod_grouper_looks_total") == 0
            first.kill()
            more = [{**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-more"}} for pod in pods]
            create_all(plane.kubeconfig, more)
            wait_until_grouped(plane, namespace, count=8)


def test_a_grouper_beside_the_schedulers_own_one_does_no_harm(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane)
    with running_pod_grouper(plane), running_scheduler(plane):
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
        wait_until_grouped(plane, namespace)


def test_foreign_changes_in_a_group_are_put_back_and_additions_stay(plane: ControlPlane, namespace: str) -> None:
    with running_pod_grouper(plane, "--no-leader-elect"):
        play_controller(plane, create_workload(plane, JOB, namespace))
        made = wait_until_grouped(plane, namespace)
        path = f"{GROUPS.format(namespace)}/{made['metadata']['name']}"
        plane.api.patch(path, {"spec": {"size": 1, "required": "example.com/block", "objective": ["closest"]}})
        wait_until(lambda: plane.get(path)["spec"]["size"] == 4, "the size is put back")
        assert plane.get(path)["spec"] == {**made["spec"], "objective": ["closest"]}
        plane.api.delete(path)
        wait_until(lambda: plane.api.exists(path), "the group is back")
        assert wait_until_grouped(plane, namespace)["spec"] == made["spec"]


def test_no_pod_is_placed_by_foreign_changes_in_a_group(plane: ControlPlane, namespace: str) -> None:
    """No rack holds all four pods; the block would, and so would a rack if two were enough."""
    for rack in ("r0", "r1"):
        a_rack(plane, nodes=3, rack=rack)
    with running_scheduler(plane):
        play_controller(plane, create_workload(plane, JOB, namespace))
        made = wait_until_grouped(plane, namespace)
        wait_until_told(plane, namespace, "train-0", RACK)
        path = f"{GROUPS.format(namespace)}/{made['metadata']['name']}"
        for change in ({"required": "example.com/block"}, {"minimum": 2}, {"size": 2, "required": None}):
            plane.api.patch(path, {"spec": change})
            wait_until(lambda: plane.get(path)["spec"] == made["spec"], "the group is put back")
            time.sleep(1.5)  # So long a gang may rest before it is tried again.
            assert placed(plane, namespace) == 0


def test_pods_leave_a_gang_that_is_no_longer_asked_for(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane, nodes=3)
    with running_scheduler(plane):
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until_grouped(plane, namespace)
        plane.api.patch(f"{JOBS.format(namespace)}/train", {"metadata": {"annotations": {"bayplan.io/gang": "false"}}})
        wait_until(lambda: placed(plane, namespace) == 3, "pods are placed one by one")
    assert not any("bayplan.io/pod-group" in pod["metadata"]["labels"] for pod in pods_in(plane, namespace))


def test_a_group_goes_when_its_owner_and_pods_are_gone(plane: ControlPlane, namespace: str) -> None:
    """No controller collects garbage here, so the Job stays on its way out, and it is the grouper who notices."""
    with running_pod_grouper(plane, "--no-leader-elect"):
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until_grouped(plane, namespace)
        plane.api.delete(f"{JOBS.format(namespace)}/train")
        plane.api.delete(PODS.format(namespace))
        wait_until(lambda: groups_in(plane, namespace) == [], "the group is gone")


def test_a_group_of_a_users_own_is_left_alone(plane: ControlPlane, namespace: str) -> None:
    own: Json = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "own"}}
    plane.apply({**own, "spec": {"size": 2}}, namespace=namespace)
    with running_pod_grouper(plane, "--no-leader-elect"):
        job = create_workload(plane, JOB, namespace)
        template = {"metadata": {"labels": {"bayplan.io/pod-group": "own"}}, "spec": SCHEDULED_BY_BAYPLAN}
        create_all(plane.kubeconfig, [pod_from(template, f"own-{index}", job, {}) for index in range(2)])
        play_controller(plane, job)
        wait_until(lambda: len(groups_in(plane, namespace)) == 2, "the Job's group is there")
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods_in(plane, namespace)}
    assert labels["own-0"] == labels["own-1"] == {"bayplan.io/pod-group": "own"}


def test_a_wrong_annotation_is_one_event_and_its_pods_wait_until_it_is_fixed(
    plane: ControlPlane, namespace: str
) -> None:
    a_rack(plane)
    with running_scheduler(plane):
        job = create_workload(plane, JOB, namespace)
        path = f"{JOBS.format(namespace)}/train"
        plane.api.patch(path, {"metadata": {"annotations": {REQUIRED: "one rack"}}})
        play_controller(plane, job)
        sentence = f'Job {namespace}/train: metadata.annotations["{REQUIRED}"]: "one rack" must be a node label'
        wait_until_told(plane, namespace, "train-0", sentence)
        notes = events_about(plane, namespace, "Job", "InvalidGroup")
        assert [note.startswith(sentence) for note in notes] == [True]
        assert placed(plane, namespace) == 0
        plane.api.patch(path, {"metadata": {"annotations": {REQUIRED: RACK}}})
        wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
        assert len(events_about(plane, namespace, "Job", "InvalidGroup")) == 1


def test_a_level_that_does_not_exist_is_an_event_on_the_owner(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane)
    with running_scheduler(plane):
        job = create_workload(plane, JOB, namespace)
        plane.api.patch(f"{JOBS.format(namespace)}/train", {"metadata": {"annotations": {REQUIRED: "example.com/rak"}}})
        play_controller(plane, job)
        wait_until(lambda: bool(events_about(plane, namespace, "Job", "InvalidGroup")), "it is said")
    (note,) = events_about(plane, namespace, "Job", "InvalidGroup")
    sentence = (
        f'Job {namespace}/train: metadata.annotations["{REQUIRED}"]: "example.com/rak" is not a level; the topology has'
    )
    assert note.startswith(sentence)


@pytest.mark.parametrize(
    "role, changes, field, complaint",
    [
        (
            "Worker",
            {"metadata": {"annotations": {SEGMENT_LEVEL: "example.com/rak"}}},
            f'metadata.annotations["{SEGMENT_LEVEL}"]',
            '"example.com/rak" is not a level; the topology has',
        ),
        (
            "Master",
            {"spec": {"schedulerName": "default-scheduler"}},
            "spec.schedulerName",
            '"default-scheduler" must be "bayplan"',
        ),
    ],
    ids=["a level that does not exist", "another scheduler"],
)
def test_what_a_pod_template_says_wrongly_is_one_event_on_the_owner(
    plane: ControlPlane, namespace: str, role: str, changes: Json, field: str, complaint: str
) -> None:
    plane.apply(PYTORCH_JOBS)
    a_rack(plane)
    with running_scheduler(plane):
        create_workload(plane, PYTORCH_JOB, namespace)
        templates = {"pytorchReplicaSpecs": {role: {"template": changes}}}
        path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs/pretrain"
        play_controller(plane, plane.api.patch(path, {"spec": templates}))
        wait_until(lambda: bool(events_about(plane, namespace, "PyTorchJob", "InvalidGroup")), "it is said")
    (note,) = events_about(plane, namespace, "PyTorchJob", "InvalidGroup")
    assert note.startswith(
        f"PyTorchJob {namespace}/pretrain: spec.pytorchReplicaSpecs.{role}.template.{field}: {complaint}"
    )
    assert placed(plane, namespace) == 0


def test_pods_of_a_kind_that_is_not_installed_stand_alone_and_it_is_said(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane, nodes=1)
    with running_scheduler(plane):
        owner = {
            "apiVersion": "example.org/v1",
            "kind": "Nothing",
            "metadata": {"name": "x", "uid": "u", "namespace": namespace},
        }
        create_all(plane.kubeconfig, [pod_from({"spec": SCHEDULED_BY_BAYPLAN}, "stray", owner, {})])
        wait_until(lambda: all_placed(plane, namespace), "the pod has a node")
        wait_until(lambda: bool(events_about(plane, namespace, "Pod", "OwnerUnreadable")), "it is said")
    (note,) = events_about(plane, namespace, "Pod", "OwnerUnreadable")
    assert note.endswith("Nothing (example.org/v1) is not installed")


def test_pods_whose_owner_does_not_exist_wait_and_are_told(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane, nodes=1)
    with running_scheduler(plane):
        job = create_workload(plane, JOB, namespace)
        gone = {**job, "metadata": {**job["metadata"], "uid": "of-another-life"}}
        assert owned_by(gone)["uid"] != job["metadata"]["uid"]
        create_all(plane.kubeconfig, [pod_from({"spec": SCHEDULED_BY_BAYPLAN}, "early", gone, {})])
        wait_until_told(plane, namespace, "early", f"its owner Job {namespace}/train does not exist")
        assert not all_placed(plane, namespace)


def test_pods_that_come_before_their_owner_are_one_gang_as_soon_as_it_is_there(
    plane: ControlPlane, namespace: str
) -> None:
    """The Job vanishes and returns, so that its pods can name it while it does not exist."""
    for rack in ("r0", "r1"):
        a_rack(plane, rack=rack)
    stored = f"/registry/jobs/{namespace}/train"
    with running_scheduler(plane):
        job = create_workload(plane, JOB, namespace)
        kept = plane.etcd.take(stored)
        assert not plane.api.exists(f"{JOBS.format(namespace)}/train")
        play_controller(plane, job)
        wait_until_told(plane, namespace, "train-0", f"its owner Job {namespace}/train does not exist")
        assert (placed(plane, namespace), groups_in(plane, namespace)) == (0, [])
        plane.etcd.put(stored, kept)
        wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
        made = wait_until_grouped(plane, namespace)
    assert made["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert len({pod["spec"]["nodeName"].partition("-")[0] for pod in pods_in(plane, namespace)}) == 1


def test_a_scheduler_that_cannot_read_owners_places_their_pods_alone_and_says_so(
    plane: ControlPlane, namespace: str
) -> None:
    a_rack(plane)
    groups = ["", "apps", *(crd.stem.partition(".")[2] for crd in CRDS)]
    others = [
        "scheduling.run.ai",
        "scheduling.volcano.sh",
        "scheduling.x-k8s.io",
        "scheduling.k8s.io",
        "nodeinfo.volcano.sh",
        "storage.k8s.io",
    ]
    but_jobs: Json = {"apiGroups": [*groups, *others], "resources": ["*"], "verbs": ["*"]}
    allow(plane, "without-jobs", but_jobs, WRITE_EVENTS)
    with running_scheduler(plane, "--no-leader-elect", kubeconfig=plane.kubeconfig_for("without-jobs")):
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
        wait_until(lambda: len(events_about(plane, namespace, "Pod", "OwnerUnreadable")) == 4, "it is said")
    assert "reading jobs (batch/v1) is forbidden" in events_about(plane, namespace, "Pod", "OwnerUnreadable")[0]
    assert groups_in(plane, namespace) == []


def test_a_scheduler_places_no_pod_of_a_workload_before_the_grouper_examined_it(
    plane: ControlPlane, namespace: str
) -> None:
    """Three nodes of one rack are the first that come to mind; only the other rack has room for all four."""
    a_rack(plane, nodes=3, rack="r0")
    a_rack(plane, nodes=4, rack="r1")
    with running_scheduler(plane, "--no-pod-grouper"):
        play_controller(plane, create_workload(plane, JOB, namespace))
        wait_until_told(plane, namespace, "train-0", "waits for a pod grouper to look at its owner")
        assert placed(plane, namespace) == 0
        with running_pod_grouper(plane):
            wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
            assert {pod["spec"]["nodeName"].partition("-")[0] for pod in pods_in(plane, namespace)} == {"r1"}
            plain = create_workload(plane, JOB, namespace, name="plain")
            plane.api.patch(
                f"{JOBS.format(namespace)}/plain", {"metadata": {"annotations": {"bayplan.io/gang": "false"}}}
            )
            create_all(plane.kubeconfig, [pod_from({"spec": SCHEDULED_BY_BAYPLAN}, "plain-0", plain, {})])
            wait_until(lambda: all_placed(plane, namespace), "the pod of no gang has a node too")
    said = {pod["metadata"]["name"]: pod["metadata"].get("annotations", {}) for pod in pods_in(plane, namespace)}
    assert [name for name, each in said.items() if each.get("bayplan.io/grouped") == "alone"] == ["plain-0"]


def test_without_a_grouper_only_pods_that_ask_for_a_gang_themselves_wait(plane: ControlPlane, namespace: str) -> None:
    a_rack(plane)
    with running_scheduler(plane, "--no-pod-grouper", "--place-ungrouped"):
        job = create_workload(plane, JOB, namespace)
        template = {"metadata": {"annotations": {REQUIRED: RACK}}, "spec": SCHEDULED_BY_BAYPLAN}
        index = "batch.kubernetes.io/job-completion-index"
        create_all(
            plane.kubeconfig, [pod_from(template, f"train-{number}", job, {index: str(number)}) for number in range(4)]
        )
        create_all(plane.kubeconfig, [pod_from({"spec": SCHEDULED_BY_BAYPLAN}, "plain-0", job, {})])
        wait_until_told(plane, namespace, "train-0", "no pod grouper has put it into one yet")
        wait_until(lambda: placed(plane, namespace) == 1, "the pod that asks for nothing has a node")
        with running_pod_grouper(plane):
            wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")


@pytest.mark.parametrize("asked", ["true", "false"])
def test_an_annotation_says_whether_pods_are_a_gang(plane: ControlPlane, namespace: str, asked: str) -> None:
    """Three of four nodes: a gang waits, pods that stand alone do not."""
    a_rack(plane, nodes=3)
    with running_scheduler(plane):
        job = create_workload(plane, JOB, namespace)
        plane.api.patch(f"{JOBS.format(namespace)}/train", {"metadata": {"annotations": {"bayplan.io/gang": asked}}})
        play_controller(plane, job)
        if asked == "true":
            wait_until_told(plane, namespace, "train-0", "gang")
            assert placed(plane, namespace) == 0
        else:
            wait_until(lambda: placed(plane, namespace) == 3, "three pods have nodes")
            assert "gang" not in "".join(why_it_waits(plane, namespace, f"train-{number}") for number in range(4))


def test_a_scheduler_killed_again_and_again_groups_and_places_every_job_once(
    plane: ControlPlane, namespace: str
) -> None:
    jobs = 6
    a_rack(plane, nodes=4 * jobs)
    for number in range(jobs):
        with running_scheduler(plane, "--no-leader-elect") as scheduler:
            play_controller(plane, create_workload(plane, JOB, namespace, name=f"train-{number}"))
            # Somewhere between reading the owner and binding the last pod.
            time.sleep(0.05 * number)
            scheduler.kill()
    with running_scheduler(plane, "--no-leader-elect"):
        wait_until(lambda: all_placed(plane, namespace), "all pods have nodes")
    owners = [group["metadata"]["ownerReferences"][0]["name"] for group in groups_in(plane, namespace)]
    assert sorted(owners) == [f"train-{number}" for number in range(jobs)]
    names = Counter(pod["metadata"]["labels"]["bayplan.io/pod-group"] for pod in pods_in(plane, namespace))
    assert names == {group["metadata"]["name"]: 4 for group in groups_in(plane, namespace)}
