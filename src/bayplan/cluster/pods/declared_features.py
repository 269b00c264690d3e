"""Features that nodes declare and pods need (`status.declaredFeatures`), as bits.

Only features that decide where a pod can run have a bit: those that kube-scheduler 1.36 infers from a pod's spec.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.kube.wire.core_v1 import PodSpec

RESTART_ALL, HOST_NETWORK_USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
FEATURES = (RESTART_ALL, HOST_NETWORK_USERS)


def as_bits(names: Iterable[str]) -> int:
    """The bits of known features; others are ignored."""
    return sum(1 << FEATURES.index(name) for name in {*names} if name in FEATURES)


def needed_features(spec: PodSpec) -> int:
    """The bits of the features that a pod needs."""
    needed = []
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules or ()):
        needed.append(RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        needed.append(HOST_NETWORK_USERS)
    return as_bits(needed)
