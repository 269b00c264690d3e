"""What the API server would have refused in a pod, and a file may hold nevertheless.

In comes a wire pod, out comes nothing, or an `InvalidObject` that names the field, its value and what is allowed. Amounts that
cannot be read are refused by `pod_request.py`; `pod_class.py` asks here for the rest before it makes a class.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.cluster.pod_request import amounts_of
from bayplan.kube.core_v1 import (
    Container,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    ResourceRequirements,
    SelectorRequirement,
)
from bayplan.kube.errors import InvalidObject, ObjectPath

LARGEST_PORT = 65_535
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")


def check_containers(pod: Pod) -> None:
    """Requests within limits and host ports that exist."""
    spec = ObjectPath.of(pod).child("spec")
    _check_resources(pod.spec.resources, spec.child("resources"))
    for field, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers or []):
            at = spec.child(field).item(index)
            _check_resources(container.resources, at.child("resources"))
            _check_ports(container, at.child("ports"))


def check_affinity(pod: Pod) -> None:
    """Weights of 1 to 100, and operators that exist."""
    affinity = (pod.spec.affinity.node_affinity if pod.spec.affinity else None) or NodeAffinity()
    at = ObjectPath.of(pod).child("spec.affinity.nodeAffinity")
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or []):
        where = at.child("preferredDuringSchedulingIgnoredDuringExecution").item(index)
        if not 1 <= wish.weight <= 100:
            raise InvalidObject(where.child("weight"), f"{wish.weight} is not allowed: must be 1 to 100")
        _check_term(wish.preference, where.child("preference"))
    required = affinity.required_during_scheduling_ignored_during_execution
    for index, term in enumerate((required.node_selector_terms if required else None) or []):
        where = at.child("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms").item(index)
        _check_term(term, where)


def _check_resources(resources: ResourceRequirements | None, at: ObjectPath) -> None:
    if resources is None or not resources.requests or not resources.limits:
        return
    limits = amounts_of(resources.limits, at.child("limits"))
    for name, amount in amounts_of(resources.requests, at.child("requests")).items():
        if amount > limits.get(name, amount):
            request, limit = resources.requests[name], resources.limits[name]
            raise InvalidObject(at.child("requests").key(name), f'"{request}" is above the limit of "{limit}"')


def _check_ports(container: Container, at: ObjectPath) -> None:
    for index, port in enumerate(container.ports or []):
        if not 0 <= port.host_port <= LARGEST_PORT:
            where = at.item(index).child("hostPort")
            raise InvalidObject(where, f"{port.host_port} is not allowed: must be 0 to {LARGEST_PORT}")


def _check_term(term: NodeSelectorTerm, at: ObjectPath) -> None:
    _check_operators(term.match_expressions or (), LABEL_OPERATORS, at.child("matchExpressions"))
    _check_operators(term.match_fields or (), FIELD_OPERATORS, at.child("matchFields"))


def _check_operators(requirements: Iterable[SelectorRequirement], allowed: tuple[str, ...], at: ObjectPath) -> None:
    for index, requirement in enumerate(requirements):
        if requirement.operator not in allowed:
            where = at.item(index).child("operator")
            raise InvalidObject(where, f'"{requirement.operator}" is not allowed: must be {", ".join(allowed)}')
