"""`bayplan place` on the cluster of examples/."""

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import EXAMPLES, Bayplan

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    "pod, answer",
    [
        ("upf", "telco/upf-0 fits: telco-2, NUMA zone 1"),
        ("gateway", "telco/gateway-0 fits: telco-2, NUMA zones 0 (sessions 1)"),
        ("trainer", "ml/trainer-0 fits: gpu-1, NUMA zone 1"),
        ("web", "default/web-0 fits: amd-2"),
    ],
)
def test_the_first_line_is_the_answer(bayplan: Bayplan, pods: Path, pod: str, answer: str) -> None:
    result = bayplan("place", "-f", pods / f"{pod}.yaml")
    assert (result.code, result.answer, result.err) == (0, answer, "")


def test_a_pod_that_does_not_fit_gets_the_reasons_and_exit_code_1(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("place", "-f", pods / "upf-large.yaml")
    assert result.code == 1
    assert result.answer == "telco/upf-large does not fit: no schedulable node has the request inside one NUMA zone."
    assert "Would schedule now if:  cpu 22 instead of 24 (2 nodes)" in result.out


def test_each_pod_sees_what_the_earlier_ones_took(bayplan: Bayplan, pods: Path) -> None:
    alone = bayplan("place", "-f", pods / "upf.yaml")
    after = bayplan("place", "-f", pods / "gateway.yaml", "-f", pods / "upf.yaml")
    assert "telco-2" in alone.answer
    assert after.answer == "2 of 2 pods fit"
    assert [line.split()[:3] for line in after.out.splitlines()[3:]] == [
        ["telco/gateway-0", "telco-2", "0"],
        ["telco/upf-0", "telco-1", "0"],
    ]


def test_a_folder_of_pods_is_a_table(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("place", "-f", pods)
    assert (result.code, result.answer) == (1, "4 of 5 pods fit")


def test_wide_shows_what_every_plugin_says(bayplan: Bayplan, pods: Path) -> None:
    header = bayplan("place", "-f", pods / "upf.yaml", "-o", "wide").out.splitlines()[2]
    assert header.split("  ")[-4:] == [
        *("TaintToleration x3", "NodeResourcesFit x1", "LeastNUMANodes x10", "NodeResourceTopologyMatch x2")
    ]


def test_json_does_not_change_its_shape(bayplan: Bayplan, pods: Path) -> None:
    """After an intended change: `bayplan place -f examples/pods --cluster examples/cluster -o json` into the file."""
    result = bayplan("place", "-f", pods, "-o", "json")
    assert result.code == 1
    assert json.loads(result.out) == json.loads((GOLDEN / "place.json").read_text())


def test_yaml_says_the_same_as_json(bayplan: Bayplan, pods: Path) -> None:
    as_yaml = bayplan("place", "-f", pods, "-o", "yaml").out
    as_json = bayplan("place", "-f", pods, "-o", "json").out
    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_a_pod_without_a_namespace_gets_the_one_given(bayplan: Bayplan, tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n")
    assert bayplan("place", "-f", pod).answer.startswith("default/p fits: ")
    assert bayplan("place", "-f", pod, "-n", "lab").answer.startswith("lab/p fits: ")


def test_a_pod_with_gates_waits_whatever_the_nodes_say(bayplan: Bayplan, tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}], "
        "schedulingGates: [{name: example.com/quota}]}\n"
    )
    result = bayplan("place", "-f", pod)
    assert (result.code, result.answer) == (
        1,
        "default/p is not placed: it waits for scheduling gate example.com/quota.",
    )


@pytest.mark.parametrize(
    "version, kind, said",
    [("v1", "Service", ""), ("autoscaling/v2", "HorizontalPodAutoscaler", ""), ("example.com/v1", "Run", "Run (1)")],
)
def test_other_kinds_beside_pods_are_ignored_and_named_unless_kubernetes_own(
    bayplan: Bayplan, pods: Path, tmp_path: Path, version: str, kind: str, said: str
) -> None:
    other = tmp_path / "web.yaml"
    other.write_text(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\n")
    result = bayplan("place", "-f", pods / "web.yaml", "-f", other)
    assert (result.code, result.err) == (0, f"warning: not used: {said}\n" if said else "")


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: ml}
spec: {hard: {requests.cpu: "8"}}
status: {hard: {requests.cpu: "8"}, used: {requests.cpu: "6"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: usual, namespace: ml}
spec: {limits: [{type: Container, default: {cpu: "1"}}]}
"""
WORK = """
apiVersion: batch/v1
kind: Job
metadata: {name: many, namespace: NAMESPACE, annotations: {bayplan.io/gang: "GANG"}}
spec:
  parallelism: 3
  completions: 3
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
"""
EXCEEDED = "exceeded quota: team, requested: requests.cpu=1, used: requests.cpu=8, limited: requests.cpu=8"


@pytest.mark.parametrize(
    "namespace, gang, code, said",
    [
        ("ml", "false", 1, f"ml/many: 2 of 3 pods fit; 1 does not: would be refused by the API server: {EXCEEDED}"),
        ("ml", "true", 1, f"is not placed: 1 of its 3 pods would be refused by the API server: {EXCEEDED}"),
        ("other", "false", 0, "other/many: all 3 pods fit"),
    ],
    ids=["pods", "a gang", "another namespace"],
)
def test_new_pods_get_the_defaults_and_quotas_of_their_namespace(
    bayplan: Bayplan, tmp_path: Path, namespace: str, gang: str, code: int, said: str
) -> None:
    (tmp_path / "quota.yaml").write_text(QUOTA)
    (tmp_path / "work.yaml").write_text(WORK.replace("NAMESPACE", namespace).replace("GANG", gang))
    result = bayplan("place", "-f", tmp_path / "work.yaml", "--cluster", tmp_path / "quota.yaml")
    assert (result.code, result.err) == (code, "")
    assert said in result.out


@pytest.mark.parametrize(
    "gang, said",
    [
        ("false", f"ml/many: 2 of 3 pods fit; 1 does not: would be refused by the API server: {EXCEEDED}"),
        ("true", f"1 of its 3 pods would be refused by the API server: {EXCEEDED}"),
    ],
)
def test_why_judges_the_pods_that_a_workload_lacks(bayplan: Bayplan, tmp_path: Path, gang: str, said: str) -> None:
    (tmp_path / "quota.yaml").write_text(f"{QUOTA}---{WORK.replace('NAMESPACE', 'ml').replace('GANG', gang)}")
    result = bayplan("why", "job/many", "-n", "ml", "--cluster", tmp_path / "quota.yaml")
    assert (result.code, said in result.answer) == (1, True), result


def test_quotas_do_not_judge_pods_that_exist(bayplan: Bayplan, tmp_path: Path) -> None:
    full = QUOTA.replace('used: {requests.cpu: "6"}', 'used: {requests.cpu: "8"}')
    pod = """---
apiVersion: v1
kind: Pod
metadata: {name: there, namespace: ml}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
"""
    (tmp_path / "quota.yaml").write_text(full + pod)
    (tmp_path / "work.yaml").write_text(pod)
    result = bayplan("place", "-f", tmp_path / "work.yaml", "--cluster", tmp_path / "quota.yaml")
    assert result.code == 0


def test_a_configuration_chooses_the_profile(bayplan: Bayplan, pods: Path) -> None:
    config = EXAMPLES / "scheduler-config.yaml"
    header = bayplan("place", "-f", pods / "upf.yaml", "-o", "wide", "--config", config).out.splitlines()[2]
    assert "NodeResourceTopologyMatch x5" in header
    upstream = bayplan("place", "-f", pods / "upf-large.yaml", "--config", config, "--scheduler-name", "upstream")
    assert "cannot align pod" in upstream.out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--scheduler-name", "bayplan"], "--scheduler-name chooses a profile of --config, which is not given"),
        (["--config", EXAMPLES / "scheduler-config.yaml", "--scheduler-name", "x"], "it has bayplan, upstream"),
        (["--config", "no-such-file"], "no-such-file: does not exist"),
    ],
)
def test_a_profile_that_does_not_exist_is_named(
    bayplan: Bayplan, pods: Path, options: list[object], message: str
) -> None:
    result = bayplan("place", "-f", pods / "upf.yaml", *options)
    assert result.code == 2
    assert message in result.err


def test_names_are_those_of_pods_and_their_nodes(bayplan: Bayplan, pods: Path) -> None:
    result = bayplan("place", "-f", pods / "upf.yaml", "-f", pods / "upf-large.yaml", "-o", "name")
    assert (result.code, result.out) == (1, "pod/telco/upf-0 node/telco-2\npod/telco/upf-large <none>\n")


@pytest.mark.parametrize("size, node", [(2, "node/"), (900, "<none>")])
def test_names_of_gangs_are_those_of_their_pods(bayplan: Bayplan, tmp_path: Path, size: int, node: str) -> None:
    file = tmp_path / "gang.yaml"
    shape = "pod: {spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}}"
    file.write_text(
        "apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g, namespace: ml}\n"
        f"spec: {{size: {size}, {shape}}}\n"
    )
    lines = bayplan("place", "-f", file, "-o", "name").out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [f"pod/ml/g-{rank}" for rank in range(size)]
    assert all(line.partition(" ")[2].startswith(node) for line in lines)
