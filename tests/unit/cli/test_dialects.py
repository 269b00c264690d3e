"""`bayplan place` and `bayplan why` for gangs as other systems write them, on the cluster of examples/gangs."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.gang_files import CLUSTER

DIALECTS = EXAMPLES / "dialects"


ANSWERS = {
    "coscheduling-podgroup": "ml/train fits: 2 nodes (optimal)",
    "kai-podgroup": "ml/train fits: block b1, rack r2, 2 nodes (optimal)",
    "kubernetes-podgroup": "ml/train fits: block b1, rack r2, 2 nodes (optimal)",
    "kueue-pods": "ml/train fits: block b1, rack r2, 2 nodes (optimal)",
    "volcano-job": "ml/train fits: block b2, rack r4, 4 nodes (optimal)",
    "volcano-podgroup": "ml/train fits: block b1, rack r2, 2 nodes (optimal)",
}


@pytest.mark.parametrize("file, answer", ANSWERS.items())
def test_every_example_is_one_gang(bayplan: Bayplan, file: str, answer: str) -> None:
    result = bayplan("place", "-f", DIALECTS / f"{file}.yaml", cluster=CLUSTER)
    assert (result.code, result.answer, result.err) == (0, answer, "")
    assert "pods fit" not in result.out


@pytest.mark.parametrize("file", ["kai-podgroup", "kubernetes-podgroup", "kueue-pods"])
@pytest.mark.parametrize("prefix", ["example.com/", "cloud.provider.com/topology-"])
def test_levels_may_be_written_by_their_short_names(bayplan: Bayplan, tmp_path: Path, file: str, prefix: str) -> None:
    written = (DIALECTS / f"{file}.yaml").read_text()
    assert "example.com/" in written
    gang, cluster = tmp_path / "gang.yaml", tmp_path / "cluster.yaml"
    gang.write_text(written.replace("example.com/", ""))
    cluster.write_text(CLUSTER.read_text().replace("example.com/", prefix))
    result = bayplan("place", "-f", gang, cluster=cluster)
    answer = (
        ANSWERS[file]
        .replace("block", f"{prefix.partition('/')[2]}block")
        .replace("rack", f"{prefix.partition('/')[2]}rack")
    )
    assert (result.code, result.answer, result.err) == (0, answer, "")


def test_an_ambiguous_short_name_lists_the_candidates(bayplan: Bayplan, tmp_path: Path) -> None:
    gang, cluster = tmp_path / "gang.yaml", tmp_path / "cluster.yaml"
    gang.write_text((DIALECTS / "kai-podgroup.yaml").read_text().replace("example.com/rack", "row"))
    levels = "- nodeLabel: example.com/block\n  - nodeLabel: a.example/row\n  - nodeLabel: b.example/row"
    cluster.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: network}\nspec:\n  levels:\n  "
        f"{levels}\n"
    )
    result = bayplan("place", "-f", gang, cluster=cluster)
    assert result.code == 2
    assert '"row" is ambiguous: it may be a.example/row or b.example/row; write the whole label' in result.err


def test_a_misspelt_field_is_a_warning_with_what_was_meant(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "gang.yaml"
    written = (DIALECTS / "kai-podgroup.yaml").read_text()
    file.write_text(
        written.replace("requiredTopologyLevel: example.com/rack", "requiredTopologyLevl: example.com/rack")
    )
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    where = f"PodGroup ml/train ({file}:12:75): spec.subGroups[1].topologyConstraint.requiredTopologyLevl"
    assert result.code == 0
    assert f"warning: {where}: unknown field; did you mean requiredTopologyLevel?" in result.err


@pytest.mark.parametrize(
    "fields, told",
    [
        (
            "labels: {bayplan.io/pod-group: g, bayplan.io/rank: '1'}}\nspec: {schedulerName: bayplan, ",
            'Pod ml/p1: metadata.labels["bayplan.io/rank"]: "1" is the rank of pod ml/p0, too: their names decide',
        ),
        (
            "labels: {bayplan.io/pod-group: g}}\nspec: {schedulerName: NAME, ",
            (
                'Pod ml/p0: spec.schedulerName: "default-scheduler" is not the "bayplan" of pod ml/p1:'
                " members of a gang need the same (1 of 2)"
            ),
        ),
    ],
)
def test_members_that_contradict_each_other_are_a_warning(
    bayplan: Bayplan, tmp_path: Path, fields: str, told: str
) -> None:
    group = "apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g, namespace: ml}\nspec: {size: 2}\n"
    pods = [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, namespace: ml, {fields.replace('NAME', scheduler)}"
        "containers: [{name: c, image: i}]}\n"
        for number, scheduler in enumerate(("default-scheduler", "bayplan"))
    ]
    file = tmp_path / "gang.yaml"
    file.write_text("---\n".join([group, *pods]))
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert (result.code, result.err) == (0, f"warning: {told}\n")


def test_a_misspelt_annotation_of_a_group_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "gang.yaml"
    head = "metadata: {name: train, namespace: ml"
    written = (DIALECTS / "volcano-podgroup.yaml").read_text()
    assert head in written
    file.write_text(written.replace(head, head + ", annotations: {bayplan.io/topolgy: network}", 1))
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    assert 'metadata.annotations["bayplan.io/topolgy"]: is not known; did you mean bayplan.io/topology?' in result.err


def test_what_a_group_asks_for_in_vain_is_a_warning(bayplan: Bayplan, tmp_path: Path) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text(
        (DIALECTS / "volcano-podgroup.yaml").read_text().replace("spec:\n", "spec:\n  queue: research\n", 1)
    )
    result = bayplan("place", "-f", file, cluster=CLUSTER)
    told = 'spec.queue: "research" is kept, but bayplan has no queues or quotas'
    assert f"warning: PodGroup ml/train ({file}:8:3): {told}" in result.err


def test_every_file_is_an_example() -> None:
    assert {file.stem for file in DIALECTS.iterdir()} == set(ANSWERS)


def test_ranks_follow_tasks_and_partitions(bayplan: Bayplan) -> None:
    result = bayplan("place", "-f", DIALECTS / "volcano-job.yaml", "-o", "json", cluster=CLUSTER)
    (gang,) = json.loads(result.out)["gangs"]
    assert sorted((seat["rank"], seat["group"]) for seat in gang["seats"])[:6] == [
        (0, "ps"),
        (1, "worker-0"),
        (2, "worker-0"),
        (3, "worker-0"),
        (4, "worker-0"),
        (5, "worker-1"),
    ]


def test_why_answers_for_a_gang_of_the_dump(bayplan: Bayplan) -> None:
    gang = DIALECTS / "kubernetes-podgroup.yaml"
    result = bayplan("why", "podgroup/train", "-n", "ml", "--cluster", gang, cluster=CLUSTER)
    told = "ml/train is Pending: it fits now: block b1, rack r2, 2 nodes (optimal)"
    assert (result.code, result.answer) == (0, told)


@pytest.mark.parametrize("name", ["podgroup/train", "pg/ml/train"])
def test_why_answers_for_a_gang_that_its_pods_alone_make(bayplan: Bayplan, tmp_path: Path, name: str) -> None:
    result = bayplan("why", name, "--cluster", with_less(tmp_path, "kueue-pods.yaml"), cluster=CLUSTER)
    assert (result.code, result.answer.rpartition(": ")[2]) == (1, "3 of 4 have arrived.")


def with_less(tmp_path: Path, file: str) -> Path:
    """An example without its last pod."""
    documents = (DIALECTS / file).read_text().split("---\n")
    cut = tmp_path / file
    cut.write_text("---\n".join(documents[:-1]))
    return cut


@pytest.mark.parametrize("file", ["kubernetes-podgroup.yaml", "kueue-pods.yaml", "volcano-podgroup.yaml"])
def test_a_gang_whose_pods_are_missing_is_not_placed(bayplan: Bayplan, tmp_path: Path, file: str) -> None:
    result = bayplan("place", "-f", with_less(tmp_path, file), cluster=CLUSTER)
    told = "ml/train is not placed: waits for pods: 3 of 4 have arrived."
    assert (result.code, result.answer, result.err) == (1, told, "")


def test_what_is_wrong_is_named_with_its_file(bayplan: Bayplan, tmp_path: Path) -> None:
    wrong = tmp_path / "job.yaml"
    wrong.write_text((DIALECTS / "volcano-job.yaml").read_text().replace("totalPartitions: 2", "totalPartitions: 3"))
    result = bayplan("place", "-f", wrong, cluster=CLUSTER)
    told = "'Replicas' are not equal to TotalPartitions*PartitionSize in task: worker, job: train"
    assert result.code == 2
    assert f"Job ml/train ({wrong}:7:1): {told}" in result.err
