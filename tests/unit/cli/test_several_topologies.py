"""A cluster with Topologies of Kueue and of KAI: whose is meant, and what a workload does that must choose."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.builders.bodies import Json
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER
from tests.unit.cli.test_owners import SMALL, dump, job, member

BLOCK, RACK = "example.com/block", "example.com/rack"
NAMED = "bayplan.io/topology"
IN_KUEUES_WORDS = "kueue.x-k8s.io/podset-required-topology"


def topology(system: str, name: str, *labels: str) -> Json:
    api_version = {"kueue": "kueue.x-k8s.io/v1beta2", "kai": "kai.scheduler/v1alpha1"}[system]
    levels = [{"nodeLabel": label} for label in labels]
    return {"apiVersion": api_version, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}


def waiting(folder: Path, annotations: Json, *topologies: Json) -> Path:
    """A Job of two pods in a cluster whose only Topology otherwise is Kueue's `network`."""
    return dump(
        folder, job("train", 2, annotations, SMALL), *(member("train", n, SMALL) for n in range(2)), *topologies
    )


@pytest.mark.parametrize(
    "annotations, others, tree",
    [
        ({IN_KUEUES_WORDS: RACK}, [topology("kai", "kai-dc", BLOCK, RACK)], "network"),
        ({IN_KUEUES_WORDS: RACK}, [topology("kai", "network", RACK)], "kueue/network"),
        ({IN_KUEUES_WORDS: RACK, NAMED: "network"}, [topology("kai", "network", RACK)], "kueue/network"),
        ({IN_KUEUES_WORDS: RACK, NAMED: "kai/network"}, [topology("kai", "network", RACK)], "kai/network"),
        (
            {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": RACK},
            [topology("kai", "network", RACK)],
            "kai/network",
        ),
        ({"bayplan.io/gang": "true"}, [topology("kai", "kai-dc", BLOCK, RACK)], None),
    ],
    ids=[
        "equal trees are one",
        "Kueue's words mean Kueue's kind",
        "and so does a name beside them",
        "which may say whose it is",
        "KAI's words mean KAI's kind",
        "no level is asked for",
    ],
)
def test_the_topology_that_is_meant(
    bayplan: Bayplan, tmp_path: Path, annotations: Json, others: list[Json], tree: str | None
) -> None:
    file = waiting(tmp_path, annotations, *others)
    asked = bayplan("why", "job/train", "-n", "ml", "-o", "json", "--cluster", file, cluster=CLUSTER)
    (gang,) = json.loads(asked.out)["gangs"]
    assert (gang["fits"], gang["topology"]) == (True, tree)


@pytest.mark.parametrize(
    "asked, answer",
    [
        (["ml/train-0"], "ml/train-0 is Pending: its gang Job ml/train is not placed: "),
        (["job/train", "-n", "ml"], "Job ml/train is not placed: "),
    ],
)
def test_a_workload_that_must_choose_waits_and_is_told_how(
    bayplan: Bayplan, tmp_path: Path, asked: list[str], answer: str
) -> None:
    file = waiting(tmp_path, {IN_KUEUES_WORDS: RACK}, topology("kueue", "power", "example.com/row", RACK))
    result = bayplan("why", *asked, "--cluster", file, cluster=CLUSTER)
    assert (result.code, result.answer) == (1, f"{answer}add the annotation bayplan.io/topology: power or network.")
    everything = bayplan("why", "-A", "--cluster", file, cluster=CLUSTER)
    assert re.search(r"add the annotation bayplan.io/topology: \w+ or \w+ +Job ml/train\n", everything.out)
