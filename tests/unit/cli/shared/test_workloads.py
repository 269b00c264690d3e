"""Workloads given to the commands: what `place`, `slots`, `snapshot` and `why` make of a Deployment, a Job or a kind of
one's own.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.test_snapshot import written_to

Json = dict[str, Any]
GANGS = EXAMPLES / "gangs" / "cluster.yaml"
WORKLOADS = EXAMPLES / "workloads"
DEPLOY_EXAMPLES = EXAMPLES.parent / "deploy" / "examples"
RULES = WORKLOADS / "grouping-rules.yaml"
SHOWN = [file for file in sorted(WORKLOADS.glob("*.yaml")) if file.name not in ("grouping-rules.yaml", "topology.yaml")]


def container(cpu: int) -> Json:
    return {"name": "main", "image": "i", "resources": {"limits": {"cpu": str(cpu), "memory": "4Gi"}}}


def deployment(replicas: int = 5, cpu: int = 4, name: str = "web", **metadata: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(cpu)]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, **metadata}, "spec": spec}


def written(folder: Path, *things: Json, name: str = "work.yaml") -> Path:
    file = folder / name
    file.write_text("---\n".join(yaml.safe_dump(thing) for thing in things))
    return file


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_every_example_places(bayplan: Bayplan, file: Path) -> None:
    result = bayplan("place", "-f", file, "--grouping-rules", RULES, cluster=GANGS)
    assert (result.code, result.err) == (0, "")
    assert "fits" in result.answer or result.answer == "2 of 2 gangs fit"


def test_all_replicas_that_fit_are_one_answer(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment()), "-n", "shop")
    assert (result.code, result.answer) == (0, "shop/web: all 5 replicas fit: telco-[1-2]")


def test_some_replicas_that_do_not_fit_are_counted_with_the_reason_and_exit_code_1(
    bayplan: Bayplan, tmp_path: Path
) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(9, 20)))
    assert result.code == 1
    assert result.answer.startswith("default/web: 7 of 9 replicas fit; 2 do not: ")
    assert "The same is true of 1 more pod." in result.out


def test_workloads_of_a_command_are_each_limited_by_themselves(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayplan.kube.manifest_limits.MOST_PODS_OF_OBJECT", 8)
    work = written(tmp_path, deployment(5, 1, "a"), deployment(5, 1, "b"))
    assert bayplan("place", "-f", work).answer == "2 of 2 workloads fit"
    refused = bayplan("place", "-f", written(tmp_path, deployment(9)))
    assert (refused.code, refused.err.strip().rpartition(": ")[2]) == (2, "stands for more than 8 pods, the limit")


def test_json_has_every_replica_and_the_whole_workload(bayplan: Bayplan, tmp_path: Path) -> None:
    document = json.loads(bayplan("place", "-f", written(tmp_path, deployment()), "-o", "json").out)
    (told,) = document["workloads"]
    assert (told["kind"], told["workload"], told["wanted"], told["fit"], told["fits"]) == (
        "Deployment",
        "default/web",
        5,
        5,
        True,
    )
    assert [pod["pod"] for pod in told["pods"]] == [item["pod"] for item in document["items"]]


def test_workloads_gangs_and_pods_of_one_file_are_counted_in_the_first_line(bayplan: Bayplan, tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container(1)]}}
    file = written(tmp_path, deployment(2), pod)
    result = bayplan("place", "-f", file, "-f", WORKLOADS / "job.yaml", cluster=GANGS)
    assert result.answer == "1 of 1 workload, 1 of 1 gang and 1 of 1 other pod fit"


def test_a_job_in_a_gang_of_its_users_is_not_counted_beside_the_gang(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", DEPLOY_EXAMPLES / "gang.yaml", cluster=GANGS)
    assert result.answer == "default/train fits: block b1, rack r2, 2 nodes (optimal)"


def test_a_folder_that_holds_the_cluster_too_submits_only_the_rest(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", GANGS.parent, cluster=GANGS)
    assert (result.code, result.answer) == (1, "3 of 4 gangs fit")


def test_no_replicas_are_nothing_to_place(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(0)))
    assert (result.code, result.answer) == (0, "default/web: 0 replicas: there is nothing to place")


def test_a_daemon_set_has_one_pod_for_each_node(bayplan: Bayplan, tmp_path: Path) -> None:
    thing = deployment(cpu=1) | {"kind": "DaemonSet"}
    del thing["spec"]["replicas"]
    result = bayplan("place", "-f", written(tmp_path, thing))
    assert result.answer == "default/web: all 5 pods fit: amd-[1-2], telco-[1-3]"


def test_a_field_that_the_kind_does_not_have_is_refused(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", file := written(tmp_path, deployment() | {"kind": "DaemonSet"}))
    assert result.code == 2
    assert f"DaemonSet web ({file}:6:3): spec.replicas: unknown field" in result.err


def test_a_folder_may_hold_rules_and_a_topology_beside_its_workloads(bayplan: Bayplan, tmp_path: Path) -> None:
    nodes = [each for each in yaml.safe_load(GANGS.read_text())["items"] if each["kind"] == "Node"]
    cluster = written(tmp_path, *nodes, name="nodes.yaml")
    no_reports = "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node\n"
    for name in ("own-kind.yaml", "grouping-rules.yaml", "topology.yaml"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).write_text((WORKLOADS / name).read_text())
    result = bayplan("place", "-f", tmp_path / "work", cluster=cluster)
    assert (result.code, result.err) == (0, no_reports)
    assert result.answer.startswith("ml/night fits: ")


def test_two_gangs_that_would_have_one_name_have_two(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", WORKLOADS / "jobset.yaml", "-f", WORKLOADS / "raycluster.yaml", cluster=GANGS)
    assert "ml/tune fits: " in result.out
    assert "RayCluster ml/tune fits: " in result.out


# -- objects that are not used
# -------------------------------------------------------------------------------------------


def test_a_kind_without_a_rule_says_which_kinds_are_known_and_how_to_write_one(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", WORKLOADS / "own-kind.yaml", cluster=GANGS)
    assert (result.code, result.out) == (2, "")
    assert "TrainingRun holds a pod template at spec.workers.template" in result.err
    assert "pods are made of Pod, PodGroup, Deployment, " in result.err
    assert "--grouping-rules FILE" in result.err


def test_a_kind_without_a_rule_beside_others_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    file = written(tmp_path, deployment(1), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})
    result = bayplan("place", "-f", file, "-f", WORKLOADS / "own-kind.yaml")
    assert result.code == 0
    assert "warning: not used: TrainingRun (1)\n" in result.err
    assert (
        "TrainingRun holds a pod template at spec.workers.template, and no rule says how many pods there are"
        in result.err
    )


def test_parts_of_a_cluster_in_the_wrong_option_are_named(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(1)), "-f", EXAMPLES / "cluster" / "nodes.yaml")
    assert result.err == "warning: not used: Node (6): part of the cluster; pass it with --cluster\n"


def test_a_workload_that_stands_twice_in_the_files_is_an_error(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(), deployment()))
    assert result.code == 2
    assert "Deployment default/web (" in result.err
    assert "metadata.name: is the name of two Deployments of -f" in result.err


# -- workloads that exist
# ------------------------------------------------------------------------------------------------


def owned_pod(name: str, namespace: str, owner: Json, spec: Json, node: str = "", **labels: str) -> Json:
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {**owner["metadata"], "controller": True}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]}
    bound = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, **bound},
        "status": {"phase": "Running" if node else "Pending"},
    }


def template_of(thing: Json) -> Json:
    spec: Json = thing["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def busy(tmp_path: Path) -> Path:
    """A cluster where 2 of 4 replicas of shop/web run and a third waits, and 2 of 4 pods of the Job ml/train run."""
    web = deployment(4, namespace="shop", uid="u-web")
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-6d4cf56db6", "uid": "u-rs"}}
    train = yaml.safe_load((WORKLOADS / "job.yaml").read_text())
    train["metadata"]["uid"] = "1b4e28ba-2fa1"
    job = {**train, "metadata": {"name": "train", "uid": "1b4e28ba-2fa1"}}
    pods = [
        owned_pod(f"web-6d4cf56db6-{ending}", "shop", replica_set, template_of(web), node,
                  **{"pod-template-hash": "6d4cf56db6"})
        for ending, node in (("aaaaa", "b1-r1-n1"), ("bbbbb", "b1-r1-n1"), ("ccccc", ""))
    ]  # fmt: skip
    index = "batch.kubernetes.io/job-completion-index"
    pods += [owned_pod(f"train-{each}-zzzzz", "ml", job, template_of(train), f"b2-r1-n{each + 1}",
                       **{index: str(each)}) for each in (0, 1)]  # fmt: skip
    lone = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "uid": "u-db"}}
    pods.append(owned_pod("db-0", "shop", lone, template_of(web), "b1-r1-n2"))
    return written(tmp_path, *yaml.safe_load(GANGS.read_text())["items"], web, train, *pods, name="busy.yaml")


def test_pods_that_exist_are_not_made_twice(bayplan: Bayplan, busy: Path, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(5)), "-n", "shop", "-o", "json", cluster=busy)
    (told,) = json.loads(result.out)["workloads"]
    assert told["answer"].startswith("shop/web: 2 of 5 replicas run, the other 3 fit: ")
    names = [pod["pod"] for pod in told["pods"]]
    assert [name.startswith("shop/web-6d4cf56db6-") for name in names] == [True, True, True, False, False]


def test_a_gang_of_which_some_pods_run_is_completed_beside_them(bayplan: Bayplan, busy: Path) -> None:
    result = bayplan("place", "-f", WORKLOADS / "job.yaml", cluster=busy)
    assert (result.code, result.err) == (0, "")
    assert result.answer == "Job ml/train: 2 of 4 pods run, the other 2 fit: block b2, rack r1, 2 nodes (optimal)"


@pytest.mark.parametrize(
    "asked, answer",
    [
        ("deploy/web", "shop/web: 2 of 4 replicas run, the other 2 fit: "),
        ("deployment.apps/web", "shop/web: 2 of 4 replicas run, the other 2 fit: "),
        ("Deployment/shop/web", "shop/web: 2 of 4 replicas run, the other 2 fit: "),
        ("job/train", "Job ml/train: 2 of 4 pods run, the other 2 fit: block b2, rack r1, 2 nodes (optimal)"),
    ],
)
def test_why_takes_a_workload_by_kind_and_name(bayplan: Bayplan, busy: Path, asked: str, answer: str) -> None:
    result = bayplan("why", asked, cluster=busy)
    assert (result.code, result.err) == (0, "")
    assert result.answer.startswith(answer)


def test_why_knows_a_workload_by_its_pods_where_the_dump_has_no_more(bayplan: Bayplan, busy: Path) -> None:
    result = bayplan("why", "sts/db", "-n", "shop", cluster=busy)
    assert result.answer == "shop/db: 1 of 1 replica runs: b1-r1-n2"
    assert result.err == "warning: there is no StatefulSet shop/db in the dump; answered from its 1 pod\n"


def test_why_as_json_has_the_workload_and_its_pods(bayplan: Bayplan, busy: Path) -> None:
    document = json.loads(bayplan("why", "deploy/web", "-o", "json", cluster=busy).out)
    assert (document["kind"], document["workloadKind"], document["running"], document["fit"]) == (
        "WorkloadExplanation",
        "Deployment",
        2,
        2,
    )
    assert len(document["items"]) == 2


def test_why_on_one_node_asks_about_a_pod_of_the_workload(bayplan: Bayplan, busy: Path) -> None:
    told = "shop/web-6d4cf56db6-ccccc fits on b1-r1-n1; NUMA zones of b1-r1-n1 are unknown (no NodeResourceTopology)"
    assert bayplan("why", "deploy/web", "--node", "b1-r1-n1", cluster=busy).answer == told


@pytest.mark.parametrize(
    "asked, message",
    [
        ("deploy/wbe", "there is no Deployment 'wbe' in the dump, nor a pod that it owns; did you mean shop/web?"),
        ("job/xyz", "there is no Job 'xyz' in the dump, nor a pod that it owns"),
    ],
)
def test_a_workload_that_is_not_there(bayplan: Bayplan, busy: Path, asked: str, message: str) -> None:
    result = bayplan("why", asked, cluster=busy)
    assert (result.code, result.err) == (2, f"error: {message}\n")


def test_why_of_a_kind_without_a_rule_says_how_to_write_one(bayplan: Bayplan, tmp_path: Path) -> None:
    cluster = written(
        tmp_path, *yaml.safe_load(GANGS.read_text())["items"], yaml.safe_load((WORKLOADS / "own-kind.yaml").read_text())
    )
    result = bayplan("why", "trainingrun/night", "-n", "ml", cluster=cluster)
    assert result.code == 2
    assert "error: TrainingRun ml/night: pods are made of Pod, " in result.err
    with_rule = bayplan("why", "trainingrun/night", "--grouping-rules", RULES, cluster=cluster)
    assert with_rule.answer.startswith("ml/night fits: ")


def test_pods_of_an_older_template_are_not_replaced_and_that_is_said(
    bayplan: Bayplan, busy: Path, tmp_path: Path
) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(4, cpu=8)), "-n", "shop", cluster=busy)
    assert result.err == (
        "warning: Deployment shop/web: 3 pods exist with other requests than its template; a rollout would replace "
        "them, and is not planned\n"
    )


def test_a_kind_without_a_rule_is_answered_from_the_pods_that_it_has(bayplan: Bayplan, tmp_path: Path) -> None:
    run = {
        "apiVersion": "example.com/v1",
        "kind": "TrainingRun",
        "metadata": {"name": "night", "namespace": "ml", "uid": "u-run"},
        "spec": {},
    }
    pod = owned_pod("night-0", "ml", run, {"containers": [container(2)]}, "b1-r1-n1")
    pod["metadata"]["ownerReferences"][0].pop("namespace")
    cluster = written(tmp_path, *yaml.safe_load(GANGS.read_text())["items"], run, pod)
    result = bayplan("why", "trainingrun/night", cluster=cluster)
    assert result.answer == "ml/night: 1 of 1 pod runs: b1-r1-n1"
    assert "TrainingRun ml/night: its kind has no rule; answered from its 1 pod" in result.err


def test_why_takes_a_volcano_job(bayplan: Bayplan, tmp_path: Path) -> None:
    job = yaml.safe_load((EXAMPLES / "dialects" / "volcano-job.yaml").read_text())
    cluster = written(tmp_path, *yaml.safe_load(GANGS.read_text())["items"], job)
    for asked in ("vcjob", "job.batch.volcano.sh"):
        result = bayplan("why", f"{asked}/{job['metadata']['name']}", cluster=cluster)
        assert f"{job['metadata']['namespace']}/{job['metadata']['name']} fits: " in result.answer


def test_pods_of_a_volcano_job_that_exist_are_not_made_twice(bayplan: Bayplan, tmp_path: Path) -> None:
    """Volcano's controllers name the PodGroup by the Job's uid; pods that are still to come join it."""
    file = EXAMPLES / "dialects" / "volcano-job.yaml"
    job = yaml.safe_load(file.read_text())
    job["metadata"]["uid"] = "u-job"
    task = job["spec"]["tasks"][0]
    owner = {"apiVersion": job["apiVersion"], "kind": "Job", "metadata": {"name": "train", "uid": "u-job"}}
    pod = owned_pod(
        f"train-{task['name']}-0",
        "ml",
        owner,
        task["template"]["spec"],
        "b2-r1-n1",
        **{"volcano.sh/task-spec": task["name"]},
    )
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "train-u-job"}
    cluster = written(tmp_path, *yaml.safe_load(GANGS.read_text())["items"], job, pod)
    placed = bayplan("place", "-f", file, "-o", "json", cluster=cluster)
    (gang,) = json.loads(placed.out)["gangs"]
    assert (gang["gang"], len(gang["seats"])) == ("ml/train-u-job", 8)
    assert bayplan("why", "vcjob/train", cluster=cluster).answer.startswith(
        "ml/train-u-job: 1 of 9 pods runs, the other 8 fit: "
    )


# -- slots and snapshots
# -------------------------------------------------------------------------------------------------


def test_slots_counts_the_pods_of_a_workload_as_many_as_it_has(bayplan: Bayplan) -> None:
    assert (
        bayplan("slots", "-f", WORKLOADS / "job.yaml", cluster=GANGS).answer
        == "2 gangs of 4 pods fit, each in one rack"
    )
    assert bayplan("slots", "-f", WORKLOADS / "job.yaml", "--pods", 2, cluster=GANGS).answer.startswith(
        "7 gangs of 2 pods fit"
    )


def test_slots_of_a_workload_with_several_shapes_names_them(bayplan: Bayplan) -> None:
    result = bayplan("slots", "-f", WORKLOADS / "mpijob.yaml", cluster=GANGS)
    assert result.code == 2
    assert "it holds 2: launcher (1 pod), worker (4 pods); choose one with --group" in result.err
    chosen = bayplan("slots", "-f", WORKLOADS / "mpijob.yaml", "--group", "worker", cluster=GANGS)
    assert chosen.answer == "2 gangs of 4 pods fit, each in one rack"


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_every_example_is_decided_alike_again_from_its_snapshot(bayplan: Bayplan, tmp_path: Path, file: Path) -> None:
    snapshot = written_to(tmp_path, "snapshot", "-f", file, "--grouping-rules", RULES, "--cluster", GANGS)
    recorded = json.loads(gzip.decompress(snapshot.read_bytes()))["bayplan"]["decisions"]
    assert any(decision["fits"] and decision.get("seats") for decision in recorded)
    assert "all equal" in bayplan("replay", snapshot, cluster=None).answer


# -- nothing is dropped in silence
# ---------------------------------------------------------------------------------------


def test_a_topology_of_the_files_that_the_cluster_has_otherwise_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    other = yaml.safe_load((WORKLOADS / "topology.yaml").read_text())
    other["spec"]["levels"].pop(0)
    result = bayplan("place", "-f", WORKLOADS / "job.yaml", "-f", written(tmp_path, other), cluster=GANGS)
    assert (
        result.err == "warning: Topology network of -f is not used: the dump has one of that name with other levels\n"
    )


def test_a_snapshot_keeps_namespaces_which_affinity_may_select(tmp_path: Path) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "blue"}}}
    cluster = written(tmp_path, namespace, *yaml.safe_load(GANGS.read_text())["items"])
    items = json.loads(gzip.decompress(written_to(tmp_path, "snapshot", "--cluster", cluster).read_bytes()))["items"]
    assert [item["metadata"]["labels"] for item in items if item["kind"] == "Namespace"] == [{"team": "blue"}]


def test_numa_places_a_gang_of_the_files_as_a_gang(bayplan: Bayplan, tmp_path: Path) -> None:
    """A PodGroup that says what its pods look like has no pods of its own; all the same they are placed and drawn."""
    pod = {
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "16", "nvidia.com/gpu": "4", "memory": "1Gi"}}}]
    }
    spec = {
        "topology": "network",
        "required": "example.com/rack",
        "size": 8,
        "pod": {"spec": {**pod, "nodeSelector": {"example.com/rack": "r3"}}},
    }
    gang = {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": spec,
    }
    assert "ml/g-" in bayplan("numa", "b2-r3-n1", "-f", written(tmp_path, gang), cluster=GANGS).out


def test_pods_of_the_files_that_ran_in_another_cluster_are_placed_anew(
    bayplan: Bayplan, busy: Path, tmp_path: Path
) -> None:
    """What `kubectl get deployments,pods -o yaml` prints in one cluster, asked about another."""
    things = [each for each in yaml.safe_load_all(busy.read_text()) if each["metadata"].get("namespace") == "shop"]
    web = [each for each in things if each["metadata"]["name"].startswith("web")]
    result = bayplan("place", "-f", written(tmp_path, *web), cluster=GANGS)
    assert result.answer.startswith("shop/web: all 4 replicas fit: ")
    assert "of -f name a node, but the dump does not have them: those of workloads are placed anew" in result.err


def test_a_level_that_does_not_exist_is_told_by_the_workload_that_asks_for_it(bayplan: Bayplan, tmp_path: Path) -> None:
    text = (WORKLOADS / "job.yaml").read_text().replace("example.com/rack   #", "zone   #")
    (tmp_path / "job.yaml").write_text(text)
    result = bayplan("place", "-f", tmp_path / "job.yaml", cluster=GANGS)
    where = f"({tmp_path / 'job.yaml'}:9:5)"
    asked = f'Job ml/train {where}: metadata.annotations["kai.scheduler/topology-required-placement"]'
    assert (result.code, result.err.startswith(f'error: {asked}: "zone" is not a level')) == (2, True), result.err


def test_a_label_of_exclusive_placement_that_no_node_has_is_told_by_the_annotation(
    bayplan: Bayplan, tmp_path: Path
) -> None:
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    text = (WORKLOADS / "jobset.yaml").read_text()
    lines = [line for line in text.splitlines() if "kai.scheduler/" not in line]
    (tmp_path / "jobset.yaml").write_text(
        "\n".join(lines).replace("  annotations:", f"  annotations:\n    {key}: example.com/rak", 1)
    )
    result = bayplan("place", "-f", tmp_path / "jobset.yaml", cluster=GANGS)
    said = f'metadata.annotations["{key}"]: no node carries the label example.com/rak; known levels: '
    assert (result.code, said in result.err, "PodGroup" in result.err) == (2, True, False), result.err


def test_pods_of_kueue_are_told_by_their_group_and_annotation(bayplan: Bayplan, tmp_path: Path) -> None:
    text = (EXAMPLES / "dialects" / "kueue-pods.yaml").read_text()
    (tmp_path / "pods.yaml").write_text(text.replace('slice-size: "2"', 'slice-size: "3"'))
    result = bayplan("place", "-f", tmp_path / "pods.yaml", cluster=GANGS)
    said = 'metadata.annotations["kueue.x-k8s.io/podset-slice-size"]: size 3 does not divide 4'
    assert result.err == f"error: Pods of group ml/train: {said}\n"


@pytest.mark.parametrize(
    "api_version, kind, told",
    [
        ("serving.kserve.io/v1beta1", "InferenceService", "are made by KServe: give its Deployments instead"),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            "are made by Spark: give its driver and executor pods instead",
        ),
        ("argoproj.io/v1alpha1", "Workflow", "are made by Argo Workflows: give the pods of its steps instead"),
        ("grove.io/v1alpha1", "PodCliqueSet", "are made by Grove: give its pods and their PodGangs instead"),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            "are made by the trainer by its runtime: give its JobSet instead",
        ),
        ("serving.knative.dev/v1", "Service", "are made by Knative: give its Revisions instead"),
    ],
)
def test_of_a_kind_whose_pods_another_controller_makes_it_is_said_what_to_give(
    bayplan: Bayplan, tmp_path: Path, api_version: str, kind: str, told: str
) -> None:
    thing = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}
    result = bayplan("place", "-f", written(tmp_path, thing), cluster=GANGS)
    assert (result.code, result.err) == (2, f"error: -f holds no pod: the pods of {kind} x {told}\n")
