"""Objects that a kubelet and a node agent write: Node, Lease, pod status, NodeResourceTopology.

In come nodes and pods of `simulate/kubelet/` and a time; out go mappings to encode, without nulls, which custom
resources reject.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec

from bayplan.cluster.pods.request import CPU, MEMORY, PODS
from bayplan.cluster.reports import fingerprint, inventory
from bayplan.cluster.reports.kubelet_settings import Policy, Scope
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod, PodCondition
from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    NodeResourceTopology,
    Zone,
    attributes_of,
    costs_of,
    resources_of,
    zones_of,
)
from bayplan.services.kubelets.model import OURS_LABEL
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from bayplan.simulate.scenario.model import Seconds, SimulatedNode

LEASE_NAMESPACE = "kube-node-lease"
# The exit code of a process that SIGKILL ended.
KILLED = 137
# Every node has a disk; nothing is ever written to it.
DISK = {"ephemeral-storage": 100 << 30}

_TOPOLOGY_POLICIES = {
    Policy.NONE: "None",
    Policy.BEST_EFFORT: "BestEffort",
    Policy.RESTRICTED: "Restricted",
    Policy.SINGLE_NUMA_NODE: "SingleNUMANode",
}
_NODE_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_RUNNING_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
_ENDED_CONDITIONS = (("Initialized", "True"), ("ContainersReady", "False"), ("Ready", "False"))


def time_text(moment: Seconds) -> str:
    """A Time of the API: whole seconds."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time_text(moment: Seconds) -> str:
    """A MicroTime of the API."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# -- nodes -----------------------------------------------------------------------------------------------------------


def node_body(agent: NodeAgent, node: SimulatedNode, now: Seconds) -> dict[str, Any]:
    """The Node that a kubelet registers."""
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node_labels(node)},
        "spec": {"unschedulable": node.unschedulable, "taints": taints},
        "status": node_status(agent, now),
    }


def node_labels(node: SimulatedNode) -> dict[str, str]:
    """The node's own labels, every kubelet's, and ours."""
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        HOSTNAME: node.name,
        **node.labels,
        OURS_LABEL: "true",
    }


def node_status(agent: NodeAgent, now: Seconds) -> dict[str, Any]:
    """The status of a ready node."""
    at = time_text(now)
    return {
        "capacity": _amount_texts(_capacity(agent.kubelet) | DISK),
        "allocatable": _amount_texts(agent.kubelet.allocatable | DISK),
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": at,
                "lastTransitionTime": at,
            }
            for kind, status, reason, message in _NODE_CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": address_of(agent.name)},
            {"type": "Hostname", "address": agent.name},
        ],
        "nodeInfo": {
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
            "kernelVersion": "",
            "osImage": "none, a virtual kubelet",
            "containerRuntimeVersion": "",
            "kubeletVersion": agent.kubelet.configuration.settings.version.release,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def address_of(node: str) -> str:
    """An address of a node that nothing listens on, the same at each start."""
    return ".".join(["10", *map(str, blake2b(node.encode(), digest_size=3).digest())])


def others_resources(agent: NodeAgent, shown: Mapping[str, str]) -> dict[str, str]:
    """Extended resources that another client wrote into a node's capacity."""
    ours = _capacity(agent.kubelet)
    return {name: amount for name, amount in shown.items() if "/" in name and name not in ours}


def is_as_written(conditions: Iterable[PodCondition]) -> bool:
    """Whether a node's conditions are those of `node_status`; the node controller changes them when heartbeats stop."""
    shown = {each.type: each.status for each in conditions}
    return all(shown.get(kind) == status for kind, status, _, _ in _NODE_CONDITIONS)


def lease_body(node: str, uid: str, duration: Seconds, now: Seconds) -> dict[str, Any]:
    """A node's Lease."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner(node, uid)]},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": max(int(duration), 1), **lease_renewal(now)["spec"]},
    }


def lease_renewal(now: Seconds) -> dict[str, Any]:
    """The patch that renews a Lease; the same for every node."""
    return {"spec": {"renewTime": micro_time_text(now)}}


def owner(node: str, uid: str) -> dict[str, Any]:
    """A reference to the owning node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}


def _capacity(kubelet: VirtualKubelet) -> dict[str, int]:
    machine = kubelet.machine
    capacity = {
        CPU: len(machine.cpus) * 1000,
        MEMORY: sum(zone.memory for zone in machine.zones),
        PODS: kubelet.configuration.most_pods,
    }
    for zone in machine.zones:
        for name, amount in zone.huge_pages.items():
            capacity[name] = capacity.get(name, 0) + amount
    for resource, devices in machine.devices.items():
        capacity[resource] = len(devices)
    return capacity


def _amount_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items()}


# -- pods ------------------------------------------------------------------------------------------------------------


def refused_status(reason: str, message: str, now: Seconds) -> dict[str, Any]:
    """The status of a rejected pod."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": time_text(now),
    }


def running_status(pod: Pod, started: Seconds, now: Seconds) -> dict[str, Any]:
    """The status of a running pod, with finished init containers. It is ready since `now`."""
    at, ready_since = time_text(started), time_text(now)
    running = {"running": {"startedAt": at}}
    done = _completed(at, at)
    early = [
        (container.name, running if container.restart_policy == "Always" else done)
        for container in pod.spec.init_containers or ()
    ]
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": at,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": ready_since} for kind in _RUNNING_CONDITIONS
        ],
        "containerStatuses": _container_statuses([(each.name, running) for each in pod.spec.containers or ()]),
    }
    if early:
        status["initContainerStatuses"] = _container_statuses(early)
    return status


def succeeded_status(pod: Pod, started: Seconds, now: Seconds) -> dict[str, Any]:
    """The status of a succeeded pod."""
    at = time_text(now)
    done = _completed(time_text(started), at)
    return {
        "phase": "Succeeded",
        "conditions": [
            {"type": kind, "status": status, "reason": "PodCompleted", "lastTransitionTime": at}
            for kind, status in _ENDED_CONDITIONS
        ],
        "containerStatuses": _container_statuses(
            [(container.name, done) for container in pod.spec.containers or ()], ready=False
        ),
    }


def stopped_status(pod: Pod, started: Seconds, now: Seconds) -> dict[str, Any]:
    """The status of a pod that was deleted: its containers were killed, so it failed.

    Controllers wait for this phase: a Job with `podReplacementPolicy: Failed` creates no replacement before it.
    """
    at = time_text(now)
    killed = _terminated(time_text(started), at, exit_code=KILLED, reason="Error")
    return {
        "phase": "Failed",
        "conditions": [
            {"type": kind, "status": status, "reason": "PodFailed", "lastTransitionTime": at}
            for kind, status in _ENDED_CONDITIONS
        ],
        "containerStatuses": _container_statuses(
            [(container.name, killed) for container in pod.spec.containers or ()], ready=False
        ),
    }


def _completed(started: str, finished: str) -> dict[str, Any]:
    return _terminated(started, finished, exit_code=0, reason="Completed")


def _terminated(started: str, finished: str, *, exit_code: int, reason: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished}}


def _container_statuses(states: Sequence[tuple[str, Mapping[str, Any]]], *, ready: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "state": state,
            "ready": ready,
            "started": "running" in state,
            "restartCount": 0,
            "image": "",
            "imageID": "",
        }
        for name, state in states
    ]


# -- reports ---------------------------------------------------------------------------------------------------------


def topology_body(report: NodeResourceTopology, kubelet: VirtualKubelet) -> dict[str, Any]:
    """A report without its owner, with the pods' fingerprint and the deprecated policy as node agents write them."""
    attributes = [{"name": each.name, "value": each.value} for each in report.attributes or ()]
    if kubelet.pods:
        pods = [(namespace, name) for namespace, _, name in (key.partition("/") for key in kubelet.pods)]
        attributes.append({"name": fingerprint.ATTRIBUTE, "value": fingerprint.fingerprint_of(pods)})
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": report.metadata.name, "labels": {OURS_LABEL: "true"}},
        "topologyPolicies": [_topology_policy(kubelet)],
        "attributes": attributes,
        "zones": [_zone(zone) for zone in zones_of(report)],
    }


def substance(body: Mapping[str, Any]) -> bytes:
    """A digest of a report's content, without its timestamp."""
    lasting = [each for each in body["attributes"] if each["name"] != inventory.MADE_AT]
    return blake2b(msgspec.json.encode((lasting, body["zones"])), digest_size=16).digest()


def _zone(zone: Zone) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": zone.name,
        "type": zone.type,
        "costs": [{"name": name, "value": value} for name, value in costs_of(zone).items()],
        "resources": [
            {
                "name": name,
                "capacity": str(resource.capacity),
                "allocatable": str(resource.allocatable),
                "available": str(resource.available),
            }
            for name, resource in resources_of(zone)
        ],
    }
    if attributes := attributes_of(zone):
        body["attributes"] = [{"name": name, "value": value} for name, value in attributes.items()]
    return body


def _topology_policy(kubelet: VirtualKubelet) -> str:
    """The deprecated word for policy and scope."""
    settings = kubelet.configuration.settings
    word = _TOPOLOGY_POLICIES[settings.policy]
    if settings.policy is Policy.NONE:
        return word
    return f"{word}PodLevel" if settings.scope is Scope.POD else f"{word}ContainerLevel"
