"""Terms of selectors that no node meets are named, with the label or value that may be meant."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.plugins.node_affinity import NodeAffinity
from tests.builders.clusters import cluster
from tests.builders.objects import node, simple_pod

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"
PRODUCT = "nvidia.com/gpu.product"


def affinity(key: str, operator: str, *values: str) -> Any:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    "spec, told",
    [
        (
            {"nodeSelector": {PRODUCT: "NVIDIA-H100-80GB"}},
            f"{PRODUCT}=NVIDIA-H100-80GB: no node has it; did you mean {H100}?",
        ),
        (
            {"nodeSelector": {"nvidia.com/gpu.prodct": H100}},
            f"nvidia.com/gpu.prodct={H100}: no node has this label; did you mean {PRODUCT}?",
        ),
        ({"nodeSelector": {PRODUCT: "MI300X", "zone": "a"}}, f"{PRODUCT}=MI300X: no node has it"),
        (
            {"affinity": affinity(PRODUCT, "In", "NVIDIA-A100-SXM4-80GB", "L40S")},
            f"{PRODUCT} in (NVIDIA-A100-SXM4-80GB,L40S): no node has it; did you mean {A100}?",
        ),
        ({"affinity": affinity("rack", "Exists")}, "rack: no node has this label"),
        ({"affinity": affinity("gpus", "Gt", "8")}, "gpus>8: no node has it"),
        # Each holds somewhere, only not together.
        ({"nodeSelector": {PRODUCT: H100, "zone": "b"}}, None),
    ],
)
def test_a_term_that_no_node_meets_is_named(spec: dict[str, Any], told: str | None) -> None:
    state = cluster(
        nodes=[
            node("n1", labels={PRODUCT: H100, "zone": "a", "gpus": "8"}),
            node("n2", labels={PRODUCT: A100, "zone": "b", "gpus": "4"}),
        ]
    )
    assert NodeAffinity().details(state, state.classes.of(simple_pod({"cpu": 1}, **spec))) == (
        () if told is None else (told,)
    )
