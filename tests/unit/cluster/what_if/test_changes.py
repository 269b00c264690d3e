"""A cluster's objects with nodes drained, uncordoned or freed of taints."""

from typing import Any

import msgspec
import pytest

from bayplan.cluster.what_if.changes import WhatIf, changed
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.wire.core_v1 import OwnerReference, Pod, Taint, Toleration
from tests.builders.bodies import Json
from tests.builders.numatopologies import machine, numatopology
from tests.builders.objects import bound, cpu_pod, cpu_zones, node, topology
from tests.builders.storage import attachment, csi_node, struct

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
OURS = {"key": "example.com/ours", "value": "gpu", "effect": "NoSchedule"}


def owned(pod: Pod, kind: str) -> Pod:
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="owner", controller=True)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=[owner]))


def with_metadata(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


@pytest.mark.parametrize(
    "pod, waits",
    [
        (bound(cpu_pod(1), phase="Running"), True),
        (owned(bound(cpu_pod(1), phase="Running"), "ReplicaSet"), True),
        (owned(bound(cpu_pod(1), phase="Running"), "DaemonSet"), False),
        (owned(bound(cpu_pod(1), phase="Running"), "Node"), False),
        (bound(cpu_pod(1), phase="Succeeded"), False),
        (bound(cpu_pod(1), phase="Failed"), False),
        (with_metadata(bound(cpu_pod(1), phase="Running"), deletion_timestamp="2026-05-06T00:00:00Z"), False),
    ],
    ids=["bare", "of a ReplicaSet", "of a DaemonSet", "static", "ended", "failed", "being deleted"],
)
def test_a_drained_node_s_pods_wait_if_they_would_be_created_again(pod: Pod, waits: bool) -> None:
    other = bound(cpu_pod(1, "other"), "n2", phase="Running")
    found = changed(ObjectSet(nodes=[node("n1"), node("n2")], pods=[pod, other]), WhatIf(drained=frozenset({"n1"})))
    assert [each.metadata.name for each in found.objects.nodes] == ["n2"]
    assert found.objects.pods == [other, *found.waiting_again]
    assert len(found.waiting_again) == waits


def test_a_pod_that_waits_again_keeps_nothing_of_its_node() -> None:
    annotations = {"bayplan.io/numa-zones": '{"main":[0]}', "bayplan.io/max-numa-zones": "1"}
    pod = with_metadata(bound(cpu_pod(1), phase="Running", annotations=annotations), creation_timestamp="2026-05-06")
    (again,) = changed(ObjectSet(nodes=[node("n1")], pods=[pod]), WhatIf(drained=frozenset({"n1"}))).waiting_again
    assert (again.spec.node_name, again.metadata.creation_timestamp) == (None, None)
    assert again.metadata.annotations == {"bayplan.io/max-numa-zones": "1"}
    assert again.status is not None
    assert again.status.phase == "Pending"


def test_nothing_is_left_of_a_drained_node() -> None:
    objects = ObjectSet(
        nodes=[node("n1"), node("n2")],
        topologies=[topology(*cpu_zones(4), name=name) for name in ("n1", "n2")],
        numatopologies=[numatopology(name, machine(1, 4)) for name in ("n1", "n2")],
        unreadable_topologies=["n1"],
        storage=[
            struct(each)
            for each in (csi_node("n1", "d", 4), csi_node("n2", "d", 4), attachment("pv", "n1"), attachment("pv", "n2"))
        ],
    )
    found = changed(objects, WhatIf(drained=frozenset({"n1"}))).objects
    assert [each.metadata.name for each in found.topologies] == ["n2"]
    assert [each.metadata.name for each in found.numatopologies] == ["n2"]
    assert found.unreadable_topologies == []
    assert len(found.storage) == 2
    assert len(objects.nodes) == 2  # what came in is as it was


@pytest.mark.parametrize(
    "pattern, left",
    [
        (Toleration("example.com/ours", "Exists"), []),
        (Toleration("example.com/ours", "Equal", "gpu", "NoSchedule"), []),
        (Toleration("example.com/ours", "Exists", effect="NoSchedule"), []),
        (Toleration("example.com/ours", "Equal", "cpu"), [OURS]),
        (Toleration("example.com/ours", "Equal", ""), [OURS]),
        (Toleration("example.com/ours", "Exists", effect="NoExecute"), [OURS]),
        (Toleration("example.com/other", "Exists"), [OURS]),
    ],
)
def test_a_taint_is_removed_wherever_key_value_and_effect_match(pattern: Toleration, left: list[Json]) -> None:
    (found,) = changed(ObjectSet(nodes=[node("n1", taints=[OURS])]), WhatIf(taints=(pattern,))).objects.nodes
    assert (found.spec.taints or []) == msgspec.convert(left, list[Taint])


def test_an_uncordoned_node_has_its_other_taints() -> None:
    cordoned = node("n1", taints=[CORDON, OURS], unschedulable=True)
    (found,) = changed(ObjectSet(nodes=[cordoned]), WhatIf(uncordoned=frozenset({"n1"}))).objects.nodes
    assert not found.spec.unschedulable
    assert found.spec.taints == msgspec.convert([OURS], list[Taint])
