"""bayplan's own PodGroups as a dialect: the tree of those that the pod grouper made from a Kubernetes Workload."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.own.pod_group import DIALECT, KUBERNETES_WORKLOAD
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata
from tests.builders.gangs import member
from tests.unit.dialects.readings import BLOCK, RACK, gang, wrong

ROW = "example.com/row"


def group(required: str, *, of_workload: bool = True, topology: str = "", preferred: str | None = None) -> PodGroup:
    notes = {KUBERNETES_WORKLOAD: "plan"} if of_workload else None
    spec = PodGroupSpec(size=1, required=required, preferred=preferred, topology=topology)
    return PodGroup(metadata=Metadata(name="pg", namespace="ml", annotations=notes), spec=spec)


@pytest.mark.parametrize(
    "written, topology",
    [
        (group(RACK), "network"),
        (group(BLOCK, preferred=RACK), "network"),
        (group(ROW), f"nodes by {ROW}"),
        (group(RACK, topology="power"), "power"),
        (group(ROW, of_workload=False), ""),
    ],
    ids=["a level", "two levels", "a label of no Topology", "it names its tree", "it is of no Workload"],
)
def test_a_level_of_a_workload_is_any_node_label(written: PodGroup, topology: str) -> None:
    assert gang(DIALECT, written, [member("a")]).topology == topology


def test_labels_that_no_topology_has_together_are_wrong() -> None:
    told = f"no Topology has all the levels {ROW}, {RACK}; known: network"
    assert wrong(DIALECT, group(ROW, preferred=RACK), [member("a")]) == f"PodGroup ml/pg: spec.required: {told}"


@pytest.mark.parametrize(
    "spec, problem",
    [
        ({"size": 2, "minimum": 5}, "PodGroup ml/train: spec.minimum: 5 is more than the size 2"),
        (
            {"groups": [{"name": "workers", "size": 1, "minimum": 2}]},
            "PodGroup ml/train: spec.groups[0].minimum: 2 is more than the size 1",
        ),
    ],
)
def test_a_minimum_above_the_size_is_wrong(spec: dict[str, Any], problem: str) -> None:
    written = msgspec.convert({"metadata": {"name": "train", "namespace": "ml"}, "spec": spec}, PodGroup)
    with pytest.raises(InvalidObject) as caught:
        DIALECT.gang_of(written, [], Topologies())
    assert str(caught.value) == problem


@pytest.mark.parametrize("spec, remarked", [({}, True), ({"size": 0}, True), ({"size": 1}, False)])
def test_a_group_that_holds_nothing_together_gets_a_remark(spec: dict[str, Any], remarked: bool) -> None:
    written = msgspec.convert({"metadata": {"name": "train", "namespace": "ml"}, "spec": spec}, PodGroup)
    assert bool(DIALECT.remarks(written)) is remarked
