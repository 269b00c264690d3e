"""Workloads of a scenario that are written as Kubernetes has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bayplan.simulate.run import Run
from bayplan.simulate.scenario.lines import ScenarioError
from bayplan.simulate.scenario.model import Kind, Scenario
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.simulation import Simulation

EXAMPLES = Path(__file__).parents[4] / "examples" / "workloads"
SHOWN = [file for file in sorted(EXAMPLES.glob("*.yaml")) if file.name not in ("grouping-rules.yaml", "topology.yaml")]
# Two racks of eight nodes with eight GPUs each.
NODES = f"""
levels: [example.com/block, example.com/rack]
groupingRules: {EXAMPLES / "grouping-rules.yaml"}
nodes:
- name: n
  count: 16
  machine: "pack:1 numa:1 core:48 pu:2 mem:960Gi nvidia.com/gpu:8@numa"
  labels: {{example.com/block: b1, example.com/rack: [r1, r2]}}
"""
WEB = """
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec:
    replicas: 3
    template: {spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 4Gi}}}]}}
"""


def scenario(folder: Path, workloads: str) -> Scenario:
    file = folder / "scenario.yaml"
    file.write_text(f"{NODES}workloads:\n{workloads}")
    return read_scenario(file)


def ran(read: Scenario) -> Run:
    simulation = Simulation(read, "bayplan")
    while simulation.step():
        pass
    return simulation.result()


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: file.stem)
def test_every_example_runs(tmp_path: Path, file: Path) -> None:
    read = scenario(tmp_path, f"- {{manifest: {file}}}\n")
    run = ran(read)
    assert read.remarks == ()
    assert (run.running, run.refused, run.waiting) == (read.pods_wanted, {}, 0)
    assert all(gang.whole_at is not None for gang in run.gang_runs)


def test_pods_have_the_names_of_their_controller(tmp_path: Path) -> None:
    (workload,) = scenario(tmp_path, f"- {{manifest: {EXAMPLES / 'leaderworkerset.yaml'}}}\n").workloads
    assert workload.pod_names() == [
        "serve-0",
        "serve-0-1",
        "serve-0-2",
        "serve-0-3",
        "serve-1",
        "serve-1-1",
        "serve-1-2",
        "serve-1-3",
    ]
    assert workload.together is not None
    assert workload.together.size == 4


def test_an_object_may_stand_in_the_scenario_itself(tmp_path: Path) -> None:
    (workload,) = scenario(tmp_path, WEB).workloads
    assert (workload.kind, len(workload.members), workload.namespace, workload.together) == (
        Kind.REPLICA_SET,
        3,
        "shop",
        None,
    )


def test_jobs_end_after_their_time_and_come_when_they_are_told(tmp_path: Path) -> None:
    (workload,) = scenario(tmp_path, f"- {{manifest: {EXAMPLES / 'job.yaml'}, arrive: 10s, runs: 1m}}\n").workloads
    assert workload.kind is Kind.JOB
    assert {(member.arrives, member.runs_for) for member in workload.members} == {(10.0, 60.0)}


def test_a_daemon_set_has_a_pod_on_each_node(tmp_path: Path) -> None:
    (workload,) = scenario(tmp_path, WEB.replace("Deployment", "DaemonSet")).workloads
    assert len(workload.members) == 16


def test_objects_of_the_file_that_are_not_simulated_are_remarked(tmp_path: Path) -> None:
    manifest = tmp_path / "web.yaml"
    (thing,) = yaml.safe_load(WEB)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    manifest.write_text("---\n".join(map(yaml.safe_dump, (thing, service, pod))))
    (remark,) = scenario(tmp_path, "- {manifest: web.yaml}\n").remarks
    assert remark.endswith(f"workloads[0].manifest: not simulated: Pod (1), Service (1) of {manifest}")


@pytest.mark.parametrize(
    "workloads, problem",
    [
        ("- {manifest: nowhere.yaml}\n", "workloads[0].manifest: file "),
        (WEB.replace("cpu: 2", "cpu: two"), "spec.template.spec.containers[0].resources.limits.cpu: "),
        (WEB.replace("kind: Deployment", "kind: Deploymint"), '"Deploymint" has no rule'),
        (WEB + "  runs: 1m\n", "runs: is for jobs only: pods of a Deployment run until the end"),
        (WEB + "  replicas: 4\n", "workloads[0].replicas: is unknown"),
        (f"- {{manifest: {EXAMPLES / 'topology.yaml'}}}\n", "holds no workload with pods"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, workloads: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as told:
        scenario(tmp_path, workloads)
    assert problem in str(told.value)
    assert "scenario.yaml:" in str(told.value)


@pytest.mark.parametrize(
    "name, priority, told",
    [
        ("high", 100, ""),
        ("system-node-critical", 2_000_001_000, ""),
        ("hihg", None, 'Deployment shop/web: there is no PriorityClass "hihg"; did you mean high?; its pods count as'),
    ],
)
def test_pods_have_the_priority_of_a_class_of_the_file(
    tmp_path: Path, name: str, priority: int | None, told: str
) -> None:
    (web,) = yaml.safe_load(WEB)
    web["spec"]["template"]["spec"]["priorityClassName"] = name
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    (tmp_path / "web.yaml").write_text(yaml.safe_dump_all([web, high]))
    read = scenario(tmp_path, "- {manifest: web.yaml}\n")
    assert [each.template.spec.priority for each in read.workloads] == [priority]
    assert told in "".join(read.remarks)
    assert bool(told) == bool(read.remarks)
