"""Workloads given to the commands: what `place`, `slots`, `snapshot` and `why` make of a Deployment, a Job or a kind of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, Bayplan

Json = dict[str, Any]
GANGS = EXAMPLES / "gangs" / "cluster.yaml"
WORKLOADS = EXAMPLES / "workloads"
RULES = WORKLOADS / "grouping-rules.yaml"
SHOWN = [file for file in sorted(WORKLOADS.glob("*.yaml")) if file.name not in ("grouping-rules.yaml", "topology.yaml")]


def container(cpu: int) -> Json:
    return {"name": "main", "resources": {"limits": {"cpu": str(cpu), "memory": "4Gi"}}}


def deployment(replicas: int = 5, cpu: int = 4, name: str = "web", **metadata: Any) -> Json:
    spec = {"replicas": replicas, "template": {"spec": {"containers": [container(cpu)]}}}
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
    assert result.answer == "fit: 1 of 1 workload, 1 of 1 gang, 1 of 1 other pod"


def test_no_replicas_are_nothing_to_place(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("place", "-f", written(tmp_path, deployment(0)))
    assert (result.code, result.answer) == (0, "default/web: 0 replicas: there is nothing to place")


def test_a_daemon_set_has_one_pod_for_each_node(bayplan: Bayplan, tmp_path: Path) -> None:
    thing = deployment(cpu=1) | {"kind": "DaemonSet"}
    result = bayplan("place", "-f", written(tmp_path, thing))
    assert result.answer == "default/web: all 5 pods fit: amd-[1-2], telco-[1-3]"


def test_a_folder_may_hold_rules_and_a_topology_beside_its_workloads(bayplan: Bayplan, tmp_path: Path) -> None:
    nodes = [each for each in yaml.safe_load(GANGS.read_text())["items"] if each["kind"] == "Node"]
    cluster = written(tmp_path, *nodes, name="nodes.yaml")
    for name in ("own-kind.yaml", "grouping-rules.yaml", "topology.yaml"):
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / name).write_text((WORKLOADS / name).read_text())
    result = bayplan("place", "-f", tmp_path / "work", cluster=cluster)
    assert (result.code, result.err) == (0, "")
    assert result.answer.startswith("ml/night fits: ")


def test_two_gangs_that_would_have_one_name_have_two(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", WORKLOADS / "jobset.yaml", "-f", WORKLOADS / "raycluster.yaml", cluster=GANGS)
    assert "ml/tune fits: " in result.out
    assert "ml/tune-rayclust " in result.out


# -- objects that are not used -------------------------------------------------------------------------------------------


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
    assert "warning: not used: Service (1), TrainingRun (1)\n" in result.err
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
