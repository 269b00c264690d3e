"""Gangs of several groups: what is said of a group names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.bodies import Json
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.gang_files import CLUSTER
from tests.unit.cli.test_owners import SMALL, dump


def gang(launcher: Json, worker: Json, **spec: object) -> Json:
    groups = [
        {"name": "launcher", "size": 1, "pod": {"spec": launcher}},
        {"name": "worker", "size": 3, "pod": {"spec": worker}},
    ]
    metadata = {"name": "nccl", "namespace": "ml"}
    spec = {"topology": "network", "groups": groups, **spec}
    return {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(amounts: Json, block: str = "") -> Json:
    selector = {"nodeSelector": {"example.com/block": block}} if block else {}
    return {"containers": [{"name": "c", "image": "i", "resources": {"limits": amounts}}], **selector}


LARGE: Json = {**SMALL, "nvidia.com/gpu": 4}


@pytest.mark.parametrize(
    "launcher, worker, answer",
    [
        (
            pod(dict(SMALL), "b1"),
            pod(LARGE, "b2"),
            "ml/nccl does not fit: no block holds launcher (fits b1) and worker (fits b2) together.",
        ),
        (
            pod(dict(SMALL)),
            pod({**SMALL, "nvidia.com/gpu": 9}),
            "ml/nccl does not fit: worker: no node has nvidia.com/gpu 9: the largest has 8.",
        ),
    ],
    ids=["not together", "one of them alone"],
)
def test_a_refusal_names_the_groups(
    bayplan: Bayplan, tmp_path: Path, launcher: Json, worker: Json, answer: str
) -> None:
    result = bayplan("place", "-f", dump(tmp_path, gang(launcher, worker, required="block")), cluster=CLUSTER)
    assert (result.code, result.answer) == (1, answer)
    assert "\n  launcher: 1 pod, cpu 4  memory 4Gi  (Guaranteed)\n" in result.out
    assert "\n  worker: 3 pods, each cpu 4  memory 4Gi  nvidia.com/gpu " in result.out
