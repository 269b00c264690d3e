"""`examples/volcano`: Volcano's objects, annotation and configuration file, taken by the commands as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan

FOLDER = EXAMPLES / "volcano"
CLUSTER = FOLDER / "cluster.yaml"
CONFIG = FOLDER / "volcano-scheduler.yaml"
ISSUES = FOLDER / "issues"


def test_place_prints_volcanos_three_nodes_with_their_scores(bayplan: Bayplan) -> None:
    config = FOLDER / "volcano-scheduler.yaml"
    result = bayplan("place", "-f", FOLDER / "worker.yaml", "--config", config, cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (0, "default/worker-0 fits: node-a, NUMA zone 0", "")
    assert [line.split() for line in result.out.splitlines()[2:]] == [
        ["node", "score", "NUMA", "zones"],
        ["node-a", "750", "0"],
        ["node-b", "500", "0-1"],
        ["node-c", "0", "0-3"],
    ]


def test_the_pods_of_the_training_job_are_what_its_controllers_would_make(bayplan: Bayplan) -> None:
    """For an API server without Volcano's controllers.

    What they ask for, and how many of them, is in the answer: here a "no".
    """
    as_job, as_pods = (
        bayplan("place", "-f", FOLDER / f"training-{form}.yaml", "--config", CONFIG, cluster=CLUSTER)
        for form in ("job", "pods")
    )
    assert "worker: 6 pods, each cpu 12  memory 36Gi" in as_job.out
    # The PodGroup of the pods has no minima of tasks: it has no groups, and fewer pods would help it and not the Job.
    words = as_pods.out.partition("Would schedule")[0].replace("training-worker-0: ", "worker: ")
    words = words.replace("asks for  2 pods: ", "ps: 2 pods, each ").replace(
        "asks for  6 pods: ", "worker: 6 pods, each "
    )
    assert (as_pods.code, words) == (as_job.code, as_job.out)


def test_numa_draws_a_node_from_its_numatopology(bayplan: Bayplan) -> None:
    result = bayplan("numa", "node-c", cluster=CLUSTER)
    assert result.answer == "node-c: 4 NUMA zones, policy best-effort, scope container"


def test_a_policy_without_effect_is_warned_about(bayplan: Bayplan, tmp_path: Path) -> None:
    text = (FOLDER / "worker.yaml").read_text().replace("limits: {cpu: 8, memory: 4Gi}", "limits: {memory: 4Gi}")
    burstable = tmp_path / "burstable.yaml"
    burstable.write_text(text)
    result = bayplan("place", "-f", burstable, "--config", FOLDER / "volcano-scheduler.yaml", cluster=CLUSTER)
    assert result.code == 0
    assert 'volcano.sh/numa-topology-policy"]: "best-effort" has no effect: the pod is Burstable' in result.err


@pytest.mark.parametrize(
    "compatibility, cpus, answer",
    [
        ("kubelet", 16, "it fits now on node-1, NUMA zone 1."),
        ("kubelet", 19, "it fits now on node-1, NUMA zone 1."),
        ("volcano", 19, "no node passes numa-aware: container cannot be assigned by numa."),
    ],
)
def test_issue_2892_reserved_cpus_are_counted_once(
    bayplan: Bayplan, tmp_path: Path, compatibility: str, cpus: int, answer: str
) -> None:
    config = tmp_path / "volcano-scheduler.yaml"
    config.write_text(CONFIG.read_text().replace("weight: 10", f"{{weight: 10, compatibility: {compatibility}}}"))
    result = bayplan("why", f"worker-{cpus}", "--config", config, cluster=ISSUES / "2892.yaml")
    assert result.answer == f"default/worker-{cpus} is Pending: {answer}"


def test_issue_2861_a_policy_that_no_node_has_is_told_with_one_that_would_do(bayplan: Bayplan) -> None:
    result = bayplan("why", "web-5d4f-x7k2p", "--config", CONFIG, cluster=ISSUES / "2861.yaml")
    lines = result.out.splitlines()
    cause = "node's topology policy is restricted, the pod asks for single-numa-node"
    assert lines[0] == f"default/web-5d4f-x7k2p is Pending: no node passes numa-aware: {cause}."
    change = "it asked for topology policy restricted instead of single-numa-node (1 node)"
    assert lines[-1] == f"Would schedule now if:  {change}"


GUIDE = (EXAMPLES.parent / "docs" / "volcano.md").read_text()


@pytest.mark.parametrize(
    "arguments, cluster",
    [
        (("place", "-f", FOLDER / "worker.yaml", "--config", CONFIG), CLUSTER),
        (("simulate", FOLDER / "order.yaml", "--compare", "volcano,unordered,numa-aware"), None),
    ],
)
def test_the_guide_shows_what_the_commands_say(
    bayplan: Bayplan, arguments: tuple[str | Path, ...], cluster: Path | None
) -> None:
    """Lines may be left out in the guide."""
    result = bayplan(*arguments, cluster=cluster)
    blocks = [rest.partition("```")[0].splitlines() for rest in GUIDE.split("```text\n")[1:]]
    (block,) = (lines for lines in blocks if lines[0] == result.answer)
    assert [line for line in block if line not in result.out.splitlines()] == []


@pytest.mark.parametrize(
    "scenario, scheduler, row, words",
    [
        ("issues/5500.yaml", "numa-aware", "all pods started after", "all 80 pods have started after {}, as with"),
        ("issues/5500.yaml", "upstream", "all pods started after", "`upstream` {} |"),
        ("issues/5500.yaml", "volcano", "all pods started after", "`volcano` {}, `upstream`"),
        ("training.yaml", "blind", "refused by a kubelet", "{} refusals by kubelets under `blind`"),
        ("training.yaml", "volcano", "refused by a kubelet", "{} under `volcano`"),
    ],
)
def test_the_guides_figures_are_those_of_the_simulator(
    bayplan: Bayplan, scenario: str, scheduler: str, row: str, words: str
) -> None:
    said = bayplan("simulate", FOLDER / scenario, "--compare", scheduler, cluster=None).out
    (figure,) = (line.removeprefix(f"  {row}").strip() for line in said.splitlines() if line.startswith(f"  {row}"))
    assert words.format(figure) in GUIDE


@pytest.mark.parametrize(
    "least, told",
    [
        ("", ""),
        (
            "minAvailable: 4, ",
            (
                "warning: Job ml/cfd: spec.tasks[].minAvailable: has no effect, as in Volcano: "
                "its sum 4 is more than minAvailable 3\n"
            ),
        ),
    ],
    ids=["defaults", "written"],
)
def test_remarks_about_a_job_name_its_own_fields(bayplan: Bayplan, tmp_path: Path, least: str, told: str) -> None:
    file = tmp_path / "job.yaml"
    pod = "{spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: cfd, namespace: ml}\n"
        f"spec: {{minAvailable: 3, tasks: [{{name: worker, replicas: 4, {least}template: {pod}}}]}}\n"
    )
    result = bayplan("place", "-f", file, "--config", CONFIG, cluster=CLUSTER)
    assert (result.code, result.err) == (0, told)
