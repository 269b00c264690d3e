"""Volcano's objects in one line each: Numatopologies of machines that look alike in every zone,
and pods with a policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.config.configuration import configuration_of
from bayplan.kube.volcano_annotations import POLICY
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from bayplan.scheduling.profile import Profile
from tests.builders.objects import Amounts, container, node
from tests.builders.objects import pod as pod_of


def machine(zones: int, cpus: int, *, threads: int = 1) -> dict[str, dict[str, int]]:
    """`cpuDetail` of a machine with a socket per zone; CPUs are numbered zone by zone, cores in every socket anew."""
    return {
        str(zone * cpus + cpu): {"numa": zone, "socket": zone, "core": cpu // threads}
        for zone in range(zones)
        for cpu in range(cpus)
    }


def numatopology(
    name: str,
    detail: Mapping[str, Mapping[str, int]],
    *,
    free: str | None = None,
    policy: str = "single-numa-node",
    cpu_manager: str = "static",
    reserved: str | None = None,
    pods: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Numatopology:
    """A node's object. All CPUs are free unless `free` lists some; `pods` has the CPUs of each `namespace/name`."""
    listed = ",".join(detail) if free is None else free
    spec: dict[str, Any] = {
        "policies": {"CPUManagerPolicy": cpu_manager, "TopologyManagerPolicy": policy},
        "numares": {"cpu": {"allocatable": listed, "capacity": len(detail)}},
        # As Volcano's agent writes it: zeros are left out.
        "cpuDetail": {cpu: {key: value for key, value in place.items() if value} for cpu, place in detail.items()},
    }
    if reserved is not None:
        spec["resReserved"] = {"cpu": reserved}
    if pods is not None:
        spec["podAllocations"] = [
            {
                "namespace": key.partition("/")[0],
                "name": key.partition("/")[2],
                "containerAllocations": [{"name": "main", "allocations": {"cpu": cpus}}],
            }
            for key, cpus in pods.items()
        ]
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Numatopology)


def volcano_cluster(*objects: Numatopology) -> ClusterState:
    """A state with a large node for every object."""
    state = ClusterState()
    for each in objects:
        state.set_node(node(each.metadata.name, {"cpu": 256, "memory": "1Ti"}))
        state.set_numatopology(each)
    return state


def policy_pod(policy: str | None, *cpus: str | int, name: str = "pod", **others: Any) -> Pod:
    """A Guaranteed pod that asks for a policy (None: for none), with a container for each amount of CPUs."""
    amounts: Sequence[Amounts] = [{"cpu": each, "memory": "1Gi"} for each in cpus]
    made = pod_of(*(container(each, f"c{index}") for index, each in enumerate(amounts)), name=name, **others)
    annotations = {POLICY: policy} if policy is not None else {}
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


def numa_aware_profile(*, alone: bool = True, **arguments: Any) -> Profile:
    """A profile from a configuration file that switches `numa-aware` on: alone with the node's fit, or beside all that
    is usual.
    """
    usual = {"multiPoint": {"enabled": [{"name": "numa-aware"}]}}
    only = {
        "multiPoint": {"disabled": [{"name": "*"}]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "numa-aware"}]},
        "score": {"enabled": [{"name": "numa-aware"}]},
    }
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "volcano",
                "plugins": only if alone else usual,
                "pluginConfig": [{"name": "numa-aware", "args": arguments}],
            }
        ],
    }
    return configuration_of(written).profiles["volcano"]
