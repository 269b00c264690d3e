"""Objects that list pods by uid alone: a promise ends when its pod is listed, whichever news comes first."""

from __future__ import annotations

import msgspec

from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from tests.builders.clusters import free_in_zones, place
from tests.builders.numatopologies import machine, numa_aware_profile, numatopology, policy_pod, volcano_cluster

EIGHT = machine(2, 4)


def with_uid(pod: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


def by_uid(free: str, uid: str, cpus: str) -> Numatopology:
    made = numatopology("n1", EIGHT, free=free, pods={})
    allocation = {"uid": uid, "containerAllocations": [{"name": "main", "allocations": {"cpu": cpus}}]}
    spec = {**msgspec.to_builtins(made.spec), "podAllocations": [allocation]}
    return msgspec.convert({"metadata": {"name": "n1"}, "spec": spec}, Numatopology)


def test_the_pod_first() -> None:
    state = volcano_cluster(numatopology("n1", EIGHT))
    place(state, with_uid(policy_pod("single-numa-node", 4), "u1"), numa_aware_profile())
    state.set_pod(with_uid(policy_pod("single-numa-node", 4, nodeName="n1"), "u1"))
    state.set_numatopology(by_uid("4-7", "u1", "0-3"))
    assert free_in_zones(state, "n1", "cpu") == [0, 4000]


def test_the_object_first() -> None:
    state = volcano_cluster(numatopology("n1", EIGHT))
    place(state, with_uid(policy_pod("single-numa-node", 2), "u1"), numa_aware_profile())
    state.set_numatopology(by_uid("2-7", "u1", "0-1"))
    assert free_in_zones(state, "n1", "cpu") == [0, 4000], "whose CPUs these are is not known yet"
    state.set_pod(with_uid(policy_pod("single-numa-node", 2, nodeName="n1"), "u1"))
    assert free_in_zones(state, "n1", "cpu") == [2000, 4000]


def test_another_pod_is_no_reason_to_read_it_again() -> None:
    state = volcano_cluster(by_uid("2-7", "u1", "0-1"))
    state.set_pod(with_uid(policy_pod(None, "500m", name="other", nodeName="n1"), "u2"))
    assert free_in_zones(state, "n1", "cpu") == [2000, 4000]
