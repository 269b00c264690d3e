"""Pods whose owners are in the dump: judged in the gangs that their owners mean, whichever way they are asked about."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.explain.snapshot import Recorded, snapshot_document
from bayplan.grouping.kinds import KNOWN
from bayplan.kube.files import read_objects
from tests.builders.bodies import Json, list_body, pod_body
from tests.builders.objects import Amounts
from tests.unit.cli.conftest import Bayplan, Result
from tests.unit.cli.gang_files import CLUSTER
from tests.unit.cli.test_snapshot import SECRET, run

REQUIRED = "kai.scheduler/topology-required-placement"
PREFERRED = "kai.scheduler/topology-preferred-placement"
INDEX = "batch.kubernetes.io/job-completion-index"
SMALL: Amounts = {"cpu": 4, "memory": "4Gi"}
LARGE: Amounts = {"cpu": 16, "memory": "160Gi", "nvidia.com/gpu": 4}
NINE_IN_A_RACK = "the gang needs 9 slots in one rack, but can get at most 8"


def job(name: str, pods: int, annotations: Json, asks_for: Amounts, **metadata: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [container(asks_for)]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ml", "uid": f"{name}-uid", "annotations": annotations, **metadata},
        "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template},
    }


def container(asks_for: Amounts) -> Json:
    return {"name": "c", "image": "i", "resources": {"limits": asks_for}}


def member(name: str, index: int, asks_for: Amounts, node: str = "", kind: str = "Job") -> Json:
    """A pod of the Job, or of another owner, of that name."""
    body = pod_body(
        f"{name}-{index}",
        "ml",
        labels={INDEX: str(index)},
        phase="Running" if node else "Pending",
        nodeName=node or None,
        containers=[container(asks_for)],
    )
    api = "batch/v1" if kind == "Job" else "apps/v1"
    owner = {"apiVersion": api, "kind": kind, "name": name, "uid": f"{name}-uid", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    return body


def dump(folder: Path, *objects: Json) -> Path:
    file = folder / "dump.json"
    file.write_text(json.dumps(list_body(objects)))
    return file


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """Nine pods wait for one rack, which has room for eight."""
    pods = (member("big", index, LARGE) for index in range(9))
    return dump(tmp_path, job("big", 9, {REQUIRED: "rack"}, LARGE), *pods)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """One member runs in rack r1, two wait; alone they would go to r2."""
    pods = (member("run", index, SMALL, "" if index else "b1-r1-n1") for index in range(3))
    return dump(tmp_path, job("run", 3, {REQUIRED: "rack"}, SMALL), *pods)


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """Three members run, each in a rack of its own."""
    nodes = ("b1-r1-n1", "b2-r1-n1", "b2-r2-n1")
    pods = (member("run", index, SMALL, node) for index, node in enumerate(nodes))
    return dump(tmp_path, job("run", 3, {PREFERRED: "rack"}, SMALL), *pods)


def asked(bayplan: Bayplan, *arguments: object, more: Path) -> Result:
    return bayplan(*arguments, "--cluster", more, cluster=CLUSTER)


def snapshot_of(folder: Path, *arguments: object) -> Path:
    written = run("snapshot", "--cluster", CLUSTER, *arguments)
    assert (written.returncode, written.stderr) == (0, b"")
    file = folder / "s.json.gz"
    file.write_bytes(written.stdout)
    return file


class TestAWaitingPodOfAJob:
    @pytest.mark.parametrize("who", [("job/big", "-n", "ml"), ("ml/big-1",), ("big-8", "-n", "ml")])
    def test_is_refused_as_its_job_is(self, bayplan: Bayplan, big: Path, who: tuple[str, ...]) -> None:
        result = asked(bayplan, "why", *who, more=big)
        assert (result.code, result.err) == (1, "")
        assert f"Job ml/big does not fit: {NINE_IN_A_RACK}." in result.answer

    def test_waits_with_its_gang_in_the_overview(self, bayplan: Bayplan, big: Path) -> None:
        result = asked(bayplan, "why", "-n", "ml", "-o", "json", more=big)
        (cause,) = json.loads(result.out)["causes"]
        assert (result.code, cause["cause"], cause["count"]) == (1, NINE_IN_A_RACK, 18)
        assert "Job ml/big, ml/finetune" in asked(bayplan, "why", "-A", more=big).out

    def test_follows_the_member_that_runs(self, bayplan: Bayplan, half: Path) -> None:
        for who in (("job/run", "-n", "ml"), ("ml/run-1",)):
            result = asked(bayplan, "why", *who, more=half)
            assert result.code == 0
            fits = "Job ml/run: 1 of 3 pods runs, the other 2 fit: block b1, rack r1, node b1-r1-n1 (optimal)"
            assert fits in result.answer
            assert "running   rank 0 on b1-r1-n1" in result.out

    def test_follows_it_in_the_decisions_of_a_snapshot(self, bayplan: Bayplan, half: Path, tmp_path: Path) -> None:
        file = snapshot_of(tmp_path, "--cluster", half)
        replayed = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        (decision,) = (each for each in replayed["items"] if each["gang"] == "ml/run-run-uid")
        assert replayed["differences"] == []
        assert [seat["node"] for seat in decision["seats"]] == ["b1-r1-n1", "b1-r1-n1"]
        assert [seat["node"] for seat in decision["running"]] == ["b1-r1-n1"]

    def test_given_with_f_is_in_the_gang_of_the_clusters_job(self, bayplan: Bayplan, tmp_path: Path) -> None:
        cluster = dump(tmp_path, job("run", 2, {REQUIRED: "rack"}, SMALL), member("run", 0, SMALL, "b1-r1-n1"))
        submitted = tmp_path / "pod.json"
        pod = member("run", 1, SMALL)
        del pod["status"]
        submitted.write_text(json.dumps(pod))
        result = asked(bayplan, "place", "-f", submitted, more=cluster)
        assert result.answer == (
            "Job ml/run: 1 of 2 pods runs, the other 1 fits: block b1, rack r1, node b1-r1-n1 (optimal)"
        )

    def test_is_held_back_by_what_its_job_says_wrong(self, bayplan: Bayplan, tmp_path: Path) -> None:
        wrong = job("run", 2, {REQUIRED: "rack", "kai.scheduler/segment-size": "many"}, SMALL)
        file = dump(tmp_path, wrong, member("run", 0, SMALL), member("run", 1, SMALL))
        told = 'Job ml/run: metadata.annotations["kai.scheduler/segment-size"]: "many"'
        result = asked(bayplan, "why", "ml/run-0", more=file)
        assert (result.code, told in result.answer) == (1, True)
        overview = json.loads(asked(bayplan, "why", "-A", "-o", "json", more=file).out)
        assert [each["pods"] for each in overview["causes"] if told in each["cause"]] == [["ml/run-0", "ml/run-1"]]

    def test_stands_alone_without_a_request_for_more(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = dump(tmp_path, job("run", 2, {}, SMALL), member("run", 0, SMALL))
        result = asked(bayplan, "why", "ml/run-0", more=file)
        assert (result.code, result.err) == (0, "")
        assert "fits now on b1-r2-n1" in result.answer

    def test_is_in_the_gang_of_the_owner_above_its_owner(self, bayplan: Bayplan, tmp_path: Path) -> None:
        """A worker's owners are a StatefulSet, the leader's pod, another StatefulSet and the LeaderWorkerSet."""
        file = dump(tmp_path, *leader_and_workers())
        result = asked(bayplan, "why", "ml/serve-0-1", more=file)
        assert "LeaderWorkerSet ml/serve, gang 0" in result.answer
        assert "1 of 3 pods runs, the other 2 fit: block b1, rack r1" in result.answer


def leader_and_workers() -> list[Json]:
    name = "leaderworkerset.sigs.k8s.io"
    template = {"spec": {"containers": [container(SMALL)]}}
    workload = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "namespace": "ml", "uid": "serve-uid", "annotations": {REQUIRED: "rack"}},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template}},
    }

    def owned(thing: Json, owner: Json) -> Json:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        thing["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"], "controller": True}]
        return thing

    def stateful_set(of: str, owner: Json) -> Json:
        metadata = {"name": of, "namespace": "ml", "uid": f"{of}-set"}
        return owned({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {}}, owner)

    def pod(of: str, index: int, owner: Json, node: str = "") -> Json:
        labels = {f"{name}/group-index": "0", f"{name}/worker-index": str(index), f"{name}/name": "serve"}
        metadata = {"name": of, "namespace": "ml", "uid": f"{of}-pod", "labels": labels}
        spec = {"containers": [container(SMALL)]} | ({"nodeName": node} if node else {})
        return owned({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, owner)

    leaders = stateful_set("serve", workload)
    leader = pod("serve-0", 0, leaders, "b1-r1-n1")
    workers = stateful_set("serve-0", leader)
    return [workload, leaders, leader, workers, *(pod(f"serve-0-{each}", each, workers) for each in (1, 2))]


class TestAnOwnerThatIsNotThere:
    def test_is_named(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = dump(tmp_path, member("big", 0, SMALL), member("big", 1, SMALL))
        told = "warning: Job ml/big is not in the dump: its topology annotations are unknown\n"
        for question in (("why", "ml/big-0"), ("why", "-A")):
            assert asked(bayplan, *question, more=file).err == told
        assert run("snapshot", "--cluster", CLUSTER, "--cluster", file).stderr.decode() == told

    def test_is_counted_where_there_are_many(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = dump(tmp_path, *(member(f"job-{number}", 0, SMALL) for number in range(5)))
        assert asked(bayplan, "why", "-A", more=file).err == (
            "warning: 5 owners are not in the dump (Job ml/job-0, Job ml/job-1, Job ml/job-2 and 2 more): "
            "their topology annotations are unknown\n"
        )
        assert "Job ml/job-3 is not" in asked(bayplan, "why", "ml/job-3-0", more=file).err

    def test_may_be_the_owner_of_an_owner(self, bayplan: Bayplan, tmp_path: Path) -> None:
        above = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "tune", "uid": "u"}
        owned = job("tune-0", 1, {}, SMALL, ownerReferences=[{**above, "controller": True}])
        file = dump(tmp_path, owned, member("tune-0", 0, SMALL))
        assert "JobSet ml/tune is not in the dump" in asked(bayplan, "why", "-A", more=file).err

    @pytest.mark.parametrize("kind", ["ReplicaSet", "DaemonSet"])
    def test_of_a_kind_that_rarely_asks_is_not(self, bayplan: Bayplan, tmp_path: Path, kind: str) -> None:
        file = dump(tmp_path, member("web", 0, SMALL, kind=kind))
        assert asked(bayplan, "why", "-A", more=file).err == ""

    def test_of_such_a_kind_is_if_the_pod_itself_asks(self, bayplan: Bayplan, tmp_path: Path) -> None:
        pod = member("web", 0, SMALL, kind="ReplicaSet")
        pod["metadata"]["annotations"] = {REQUIRED: "rack"}
        assert "ReplicaSet ml/web is not in the dump" in asked(bayplan, "why", "-A", more=dump(tmp_path, pod)).err

    def test_of_a_pod_that_runs_is_not(self, bayplan: Bayplan, tmp_path: Path) -> None:
        file = dump(tmp_path, member("big", 0, SMALL, "b1-r1-n1"))
        assert asked(bayplan, "why", "ml/big-0", more=file).err == ""


class TestARunningMember:
    def test_shows_its_rank_and_its_gang(self, bayplan: Bayplan, running: Path) -> None:
        result = asked(bayplan, "why", "ml/run-1", more=running)
        lines = [" ".join(line.split()) for line in result.out.splitlines()]
        assert result.code == 0
        assert lines[2:] == [
            "path b2/r1/b2-r1-n1",
            "in gang rank 1",
            "",
            "Job ml/run runs: 2 blocks, 3 racks, 3 nodes",
            "",
            "rack pods ranks nodes",
            "b1/r1 1 0 b1-r1-n1",
            "b2/r1 1 1 b2-r1-n1",
            "b2/r2 1 2 b2-r2-n1",
            "",
            "distance at most 6 between two pods, 5.33 on average",
            "closer? yes: 1 rack instead of 3 if started anew (block b1, rack r2, node b1-r2-n1)",
        ]

    def test_ranks_are_those_of_its_job(self, bayplan: Bayplan, running: Path) -> None:
        document = json.loads(asked(bayplan, "why", "job/run", "-n", "ml", "-o", "json", more=running).out)
        (gang,) = document["gangs"]
        assert (document["fits"], gang["fits"], gang["owner"]) == (True, True, "Job ml/run")
        assert [seat["rank"] for seat in gang["running"]] == [0, 1, 2]

    def test_of_a_job_that_is_no_gang_has_its_index_as_rank(self, bayplan: Bayplan, tmp_path: Path) -> None:
        nodes = ("b1-r1-n1", "b2-r1-n1")
        pods = (member("run", index, SMALL, node) for index, node in enumerate(nodes))
        file = dump(tmp_path, job("run", 2, {}, SMALL), *pods)
        document = json.loads(asked(bayplan, "why", "job/run", "-n", "ml", "-o", "json", more=file).out)
        assert [seat["rank"] for seat in document["standing"]["running"]] == [0, 1]


def test_a_half_running_gang_without_a_place_says_how_many_run(bayplan: Bayplan, tmp_path: Path) -> None:
    pods = (member("big", index, LARGE, "" if index else "b1-r3-n2") for index in range(9))
    file = dump(tmp_path, job("big", 9, {REQUIRED: "rack"}, LARGE), *pods)
    result = asked(bayplan, "why", "job/big", "-n", "ml", more=file)
    assert result.code == 1
    assert result.answer.startswith("Job ml/big: 1 of 9 pods runs, the other 8 do not fit: ")
    assert json.loads(asked(bayplan, "why", "job/big", "-n", "ml", "-o", "json", more=file).out)["fits"] is False


class TestASnapshot:
    def test_serves_questions_about_workloads(self, bayplan: Bayplan, running: Path, tmp_path: Path) -> None:
        file = snapshot_of(tmp_path, "--cluster", running)
        for question in (("why", "job/run", "-n", "ml"), ("why", "ml/run-1"), ("why", "-A")):
            assert bayplan(*question, cluster=file) == asked(bayplan, *question, more=running)

    def test_of_a_snapshot_is_the_same(self, half: Path, tmp_path: Path) -> None:
        file = snapshot_of(tmp_path, "--cluster", half)
        assert run("snapshot", "--cluster", file).stdout == file.read_bytes()

    def test_keeps_owners_and_workloads(self, half: Path, tmp_path: Path) -> None:
        document = json.loads(gzip.decompress(snapshot_of(tmp_path, "--cluster", half).read_bytes()))
        (kept,) = (item for item in document["items"] if item["kind"] == "Job")
        assert kept["metadata"] == {
            "name": "run",
            "namespace": "ml",
            "uid": "run-uid",
            "annotations": {REQUIRED: "rack"},
        }
        assert kept["spec"]["completions"] == 3
        owners = [item["metadata"].get("ownerReferences") for item in document["items"] if item["kind"] == "Pod"]
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "run", "uid": "run-uid", "controller": True}
        assert owners.count([reference]) == 3

    def test_keeps_workloads_of_files(self, bayplan: Bayplan, tmp_path: Path) -> None:
        submitted = job("night", 2, {REQUIRED: "rack"}, SMALL)
        del submitted["metadata"]["uid"], submitted["metadata"]["namespace"]
        given = tmp_path / "job.json"
        given.write_text(json.dumps(submitted))
        file = snapshot_of(tmp_path, "-f", given, "-n", "ml")
        assert bayplan("why", "job/night", "-n", "ml", cluster=file).answer.startswith("ml/night fits: block b1")
        assert bayplan("replay", file, cluster=None).answer.startswith("2 decisions, all equal")

    def test_replays_gangs_of_kinds_with_a_rule_of_the_users_own(self, bayplan: Bayplan, tmp_path: Path) -> None:
        rule = {"kind": "Run", "group": "example.com", "replicas": "spec.count", "rank": [{"label": INDEX}]}
        rules = tmp_path / "rules.json"
        rules.write_text(json.dumps({"kinds": [rule]}))
        workload = job("run", 2, {REQUIRED: "rack"}, SMALL) | {"apiVersion": "example.com/v1", "kind": "Run"}
        workload["spec"] = {"count": 2, "password": SECRET}
        pods = [member("run", index, SMALL, kind="Run") for index in range(2)]
        for pod in pods:
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1"
        file = snapshot_of(tmp_path, "--cluster", dump(tmp_path, workload, *pods), "--grouping-rules", rules)
        document = json.loads(bayplan("replay", file, "-o", "json", cluster=None).out)
        assert document["differences"] == []
        assert [len(each["seats"]) for each in document["items"] if each["owner"] == "Run ml/run"] == [2]

    def test_has_nothing_of_a_workload_but_what_is_read(self, tmp_path: Path) -> None:
        """Whatever a workload says in a field that bayplan does not read, in or beside its pod templates, stays out."""
        texts = [str(json.loads(json.dumps(each))) for each in reduced_secrets(tmp_path)]
        assert texts
        assert not any(SECRET in text for text in texts)


def reduced_secrets(folder: Path) -> list[Json]:
    """The workloads of a snapshot whose objects have a secret in every field that may hold one."""
    secret_container = {
        **container(SMALL),
        "env": [{"name": "TOKEN", "value": SECRET}],
        "command": [SECRET],
        "args": [SECRET],
        "image": SECRET,
    }
    template = {
        "metadata": {"annotations": {"example.com/token": SECRET}},
        "spec": {"containers": [secret_container], "volumes": [{"name": "v", "hostPath": {"path": SECRET}}]},
    }
    noted = {"name": "w", "namespace": "ml", "annotations": {"kubectl.kubernetes.io/last-applied": SECRET}}
    status = {"conditions": [{"type": "Failed", "status": "True", "message": SECRET}]}
    of_ray = {
        "headGroupSpec": {"rayStartParams": {"redis-password": SECRET}, "template": template},
        "workerGroupSpecs": [
            {"groupName": "g", "replicas": 1, "rayStartParams": {"x": SECRET}, "template": template},
        ],
    }
    specs: dict[tuple[str, str], Json] = {
        ("apps/v1", "Deployment"): {"replicas": 1, "template": template},
        ("batch/v1", "Job"): {"completions": 1, "template": template, "selector": {"matchLabels": {"a": SECRET}}},
        ("ray.io/v1", "RayCluster"): of_ray,
        ("ray.io/v1", "RayJob"): {
            "rayClusterSpec": of_ray,
            "entrypoint": SECRET,
            "runtimeEnvYAML": SECRET,
            "metadata": {"token": SECRET},
        },
        ("kubeflow.org/v1", "PyTorchJob"): {
            "pytorchReplicaSpecs": {"Master": {"template": template}},
            "runPolicy": {"x": [SECRET]},
        },
    }
    things = [
        {"apiVersion": version, "kind": kind, "metadata": noted, "spec": spec, "status": status}
        for (version, kind), spec in specs.items()
    ]
    objects = read_objects(dump(folder, *things))
    assert len(objects.others) == len(specs)
    items: list[Json] = snapshot_document(objects, Recorded("0.1.0", []), objects.others, KNOWN)["items"]
    return items
