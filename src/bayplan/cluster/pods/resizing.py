"""Pods that are resized in place: which amounts count while the kubelet follows the spec.

In comes a pod that runs, out go amounts as kube-scheduler counts them: the largest of what the spec asks for, what the
kubelet has allocated and what is in effect. A resize that the kubelet calls infeasible does not count.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.kube.wire.core_v1 import Pod, Quantities, ResourceRequirements

# What is in effect and what is allocated, as written.
Running = tuple[Quantities, ...]
OF_POD = ""


def running_amounts(pod: Pod) -> Mapping[str, Running]:
    """By container, and for the pod as a whole under an empty name: the amounts that its status states, if any."""
    status = pod.status
    if status is None or not pod.spec.node_name:
        return {}
    listed = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    found = {each.name: _written(each.resources, each.allocated_resources) for each in listed if each.resources}
    if status.resources is not None:
        found[OF_POD] = _written(status.resources, status.allocated_resources)
    return found


def resize_is_infeasible(pod: Pod) -> bool:
    """True if the kubelet says that the node cannot have what the spec asks for now."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    pending = next((each for each in conditions if each.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _written(in_effect: ResourceRequirements | None, allocated: Quantities | None) -> Running:
    return tuple(each for each in (in_effect.requests if in_effect else None, allocated) if each)
