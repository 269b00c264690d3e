"""The list of gangs has every gang, whatever object it comes from, under its workload's name."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayplan.cli.web_answers.answers import ClusterAnswers
from bayplan.cli.web_answers.scene import Scene
from bayplan.kube.files import read_objects
from bayplan.services.web.answers import Question
from tests.builders.bodies import Json
from tests.unit.cli.gang_files import CLUSTER
from tests.unit.cli.test_owners import SMALL, dump, job, member
from tests.unit.cli.web_answers.test_live_scene import opened

KUEUE = "kueue.x-k8s.io/"
IN_A_RACK = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}


def gang_list(folder: Path, *objects: Json) -> list[Json]:
    """Of these objects, in a cluster that has one gang already: `ml/finetune`, which runs."""
    with click.Context(click.Command("web")) as context:
        read = read_objects(CLUSTER)
        read.add(read_objects(dump(folder, *objects)))
        answers = ClusterAnswers(context, Scene(read, opened))
        items: list[Json] = answers.answer(Question("gangs"))["items"]
        assert answers.answer(Question("cluster"))["gangs"] == len(items)
    return [each for each in items if each["gang"] != "ml/finetune"]


def own(**spec: object) -> Json:
    metadata = {"name": "red", "namespace": "ml", "uid": "red-uid"}
    return {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def labelled(name: str, labels: Json, **annotations: str) -> Json:
    pod = member(name, 0, SMALL)
    del pod["metadata"]["ownerReferences"]
    pod["metadata"] |= {"labels": labels, "annotations": annotations}
    return pod


@pytest.mark.parametrize(
    "objects, gang, workload, status, required",
    [
        (
            [job("train", 2, IN_A_RACK, SMALL), member("train", 0, SMALL), member("train", 1, SMALL)],
            "ml/train-train-ui",
            "Job ml/train",
            "Waiting",
            "example.com/rack",
        ),
        (
            [job("train", 2, IN_A_RACK, SMALL), member("train", 0, SMALL, "b1-r1-n1"), member("train", 1, SMALL)],
            "ml/train-train-ui",
            "Job ml/train",
            "Degraded",
            "example.com/rack",
        ),
        (
            [own(size=2, required="rack"), labelled("red", {"bayplan.io/pod-group": "red"})],
            "ml/red",
            None,
            "Incomplete",
            None,
        ),
        ([own(size=0)], "ml/red", None, "Empty", None),
        (
            [labelled("blue", {KUEUE + "pod-group-name": "blue"}, **{KUEUE + "pod-group-total-count": "x"})],
            "ml/blue",
            None,
            "Invalid",
            None,
        ),
        ([labelled("far", {"scheduling.x-k8s.io/pod-group": "far"})], "ml/far", None, "Incomplete", None),
    ],
    ids=["a Job", "half of it runs", "members are missing", "no pods", "an invalid pod", "no PodGroup"],
)
def test_a_gang_is_listed(
    tmp_path: Path, objects: list[Json], gang: str, workload: str | None, status: str, required: str | None
) -> None:
    (item,) = gang_list(tmp_path, *objects)
    assert (item["gang"], item["workload"], item["status"], item["required"]) == (gang, workload, status, required)
