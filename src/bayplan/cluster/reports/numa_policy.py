"""Problems with the policy that a pod requests in Volcano's annotation.

Volcano accepts any text and looks only at Guaranteed pods with whole CPUs. For all other pods it silently ignores the
policy. Here that becomes a problem of the pod, which `cluster/state.py` records as soon as the pod waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from bayplan.cluster.pods.pod_class import MOST_ZONES
from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.remarks import ObjectRemark
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.volcano_annotations import POLICIES, POLICY, policy_in
from bayplan.kube.wire.core_v1 import Pod

# The plugins that honour annotations of pods, in every profile that does not disable them.
PLUGINS = {POLICY: "numa-aware", MOST_ZONES: "NUMAZoneLimit"}


def policy_remarks(pod: Pod, request_of: Callable[[Pod], PodRequest]) -> list[ObjectRemark]:
    """Why a pod will not get what its annotation asks for; nothing if all is well, or it asks for nothing."""
    policy = policy_in(pod.metadata.annotations)
    if policy in ("", "none"):
        return []
    try:
        text = _problem(policy, request_of(pod))
    except InvalidObject:
        return []  # placing the pod will report what is wrong with it
    at = ObjectPath.of(pod).child("metadata").child("annotations").key(POLICY)
    return [ObjectRemark(at, text)] if text else []


def ignored_annotations(pod: Pod, profile: str, enabled: Collection[str]) -> list[ObjectRemark]:
    """What is said to a pod whose profile has the plugin for one of its annotations switched off."""
    found = []
    for key, plugin in PLUGINS.items():
        value = (pod.metadata.annotations or {}).get(key, "")
        if value not in ("", "none") and plugin not in enabled:
            at = ObjectPath.of(pod).child("metadata").child("annotations").key(key)
            found.append(ObjectRemark(at, f'"{value}" has no effect: profile {profile} disables the plugin {plugin}'))
    return found


def _problem(policy: str, request: PodRequest) -> str:
    unknown = "" if policy in POLICIES else f" is no policy (expected {', '.join(POLICIES)}), and"
    if not request.guaranteed:
        why = f"the pod is {request.qos.value}, and kubelets align CPUs of Guaranteed pods only"
        return f'"{policy}"{unknown} has no effect: {why} (limits equal to requests for cpu and memory)'
    if unknown:
        return f'"{policy}"{unknown} no node has it'
    shared = [each.name for each in request.containers if not request.exclusive_cpus(each)]
    if shared:
        why = f"container {shared[0]} asks for no whole number of CPUs, and only those are aligned"
        return f'"{policy}" has no effect on the CPUs of all containers: {why}'
    return ""
