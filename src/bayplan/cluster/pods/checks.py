"""What the API server would have refused in a pod, and a file may hold nevertheless.

In comes a wire pod, out comes nothing, or an `InvalidObject` that names the field, its value and what is allowed.
Amounts that cannot be read are refused by `cluster/pods/request.py`; `cluster/pods/pod_class.py` asks here for the rest
before it makes a class, `cluster/pods/terms.py` before it reads what a pod says about others.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.cluster.pods.request import amounts_of
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.core_v1 import (
    Container,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceRequirements,
    SelectorRequirement,
    TopologySpreadConstraint,
    Volume,
)

LARGEST_PORT = 65_535
# Terms about other pods that one pod may have, and constraints of its spread.
MOST_TERMS = 1000
# Containers and init containers of a pod that is to be placed.
MOST_CONTAINERS = 256
# Claims and disks of such a pod; no driver attaches as many to a node.
MOST_VOLUMES = 256
# The API has 32 bits for it.
LARGEST_COUNT = 2**31 - 1
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
POD_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION_POLICIES = ("Honor", "Ignore")


def check_containers(pod: Pod) -> None:
    """Requests within limits and host ports that exist."""
    spec = ObjectPath.of(pod).child("spec")
    _check_resources(pod.spec.resources, spec.child("resources"))
    for field, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for index, container in enumerate(containers or []):
            at = spec.child(field).item(index)
            _check_resources(container.resources, at.child("resources"))
            _check_ports(container, at.child("ports"))


def check_number_of_containers(pod: Pod) -> None:
    """The kubelet aligns containers one after another, and so does who decides for a thousand nodes.

    Asked only of pods that wait.
    """
    number = len(pod.spec.containers or ()) + len(pod.spec.init_containers or ())
    if number > MOST_CONTAINERS:
        at = ObjectPath.of(pod).child("spec").child("containers")
        raise InvalidObject(at, f"{number} containers are too many: pods of at most {MOST_CONTAINERS} are placed")


def check_number_of_volumes(pod: Pod) -> None:
    """Claims and disks decide on which nodes a pod can be; volumes that every node has do not count."""
    volumes = pod.spec.volumes or ()
    if len(volumes) <= MOST_VOLUMES:
        return
    number = sum(volume != Volume(name=volume.name) for volume in volumes)
    if number > MOST_VOLUMES:
        at = ObjectPath.of(pod).child("spec").child("volumes")
        raise InvalidObject(at, f"{number} claims and disks are too many: pods of at most {MOST_VOLUMES} are placed")


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


def check_neighbours(pod: Pod) -> None:
    """Affinity terms and spread constraints with a topology key, selectors that can be read,
    and numbers within bounds.
    """
    spec = ObjectPath.of(pod).child("spec")
    affinity = pod.spec.affinity
    _check_number(pod, spec)
    if affinity is not None:
        _check_pod_affinity(affinity.pod_affinity, spec.child("affinity.podAffinity"))
        _check_pod_affinity(affinity.pod_anti_affinity, spec.child("affinity.podAntiAffinity"))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(pod.spec.topology_spread_constraints or []):
        at = spec.child("topologySpreadConstraints").item(index)
        _check_spread(constraint, at)
        same = (constraint.topology_key, constraint.when_unsatisfiable)
        if same in seen:
            raise InvalidObject(at, f'topologyKey "{same[0]}" with whenUnsatisfiable "{same[1]}" stands here twice')
        seen.add(same)


def _check_number(pod: Pod, spec: ObjectPath) -> None:
    """The API server knows no limit, but every term has to be compared with every pod."""
    affinity = pod.spec.affinity
    of_pods = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    terms = sum(
        len(each.required_during_scheduling_ignored_during_execution or ())
        + len(each.preferred_during_scheduling_ignored_during_execution or ())
        for each in of_pods
        if each is not None
    )
    rules = len(pod.spec.topology_spread_constraints or ())
    for number, at in ((terms, spec.child("affinity")), (rules, spec.child("topologySpreadConstraints"))):
        if number > MOST_TERMS:
            raise InvalidObject(at, f"{number} terms about other pods are too many: at most {MOST_TERMS} are read")


def _check_pod_affinity(affinity: PodAffinity | None, at: ObjectPath) -> None:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or []):
        _check_pod_term(term, at.child("requiredDuringSchedulingIgnoredDuringExecution").item(index))
    for index, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or []):
        where = at.child("preferredDuringSchedulingIgnoredDuringExecution").item(index)
        if not 1 <= wish.weight <= 100:
            raise InvalidObject(where.child("weight"), f"{wish.weight} is not allowed: must be 1 to 100")
        _check_pod_term(wish.pod_affinity_term, where.child("podAffinityTerm"))


def _check_pod_term(term: PodAffinityTerm, at: ObjectPath) -> None:
    _check_topology_key(term.topology_key, at)
    check_selector(term.label_selector, at.child("labelSelector"))
    check_selector(term.namespace_selector, at.child("namespaceSelector"))
    for field, keys in (("matchLabelKeys", term.match_label_keys), ("mismatchLabelKeys", term.mismatch_label_keys)):
        _check_label_keys(keys, term.label_selector, at.child(field))
    both = set(term.match_label_keys or ()) & set(term.mismatch_label_keys or ())
    if both:
        raise InvalidObject(at.child("mismatchLabelKeys"), f'"{min(both)}" stands in matchLabelKeys as well')


def _check_spread(constraint: TopologySpreadConstraint, at: ObjectPath) -> None:
    _check_count(constraint.max_skew, at.child("maxSkew"))
    _check_topology_key(constraint.topology_key, at)
    _check_choice(constraint.when_unsatisfiable, SPREAD_ACTIONS, at.child("whenUnsatisfiable"))
    if constraint.min_domains is not None:
        _check_count(constraint.min_domains, at.child("minDomains"))
        if constraint.when_unsatisfiable != "DoNotSchedule":
            raise InvalidObject(at.child("minDomains"), "is only allowed with whenUnsatisfiable DoNotSchedule")
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None:
            _check_choice(policy, INCLUSION_POLICIES, at.child(field))
    check_selector(constraint.label_selector, at.child("labelSelector"))
    _check_label_keys(constraint.match_label_keys, constraint.label_selector, at.child("matchLabelKeys"))


def _check_count(count: int, at: ObjectPath) -> None:
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidObject(at, f"{count} is not allowed: must be 1 to {LARGEST_COUNT}")


def _check_topology_key(key: str, at: ObjectPath) -> None:
    if not key:
        raise InvalidObject(at.child("topologyKey"), "is missing: must be the key of a node label")


def check_selector(selector: LabelSelector | None, at: ObjectPath) -> None:
    """Operators that exist, with values where they need some."""
    for index, requirement in enumerate((selector.match_expressions if selector else None) or []):
        where = at.child("matchExpressions").item(index)
        _check_choice(requirement.operator, POD_LABEL_OPERATORS, where.child("operator"))
        takes_values = requirement.operator in ("In", "NotIn")
        if takes_values and not requirement.values:
            raise InvalidObject(where.child("values"), f"is empty: {requirement.operator} needs at least one value")
        if not takes_values and requirement.values:
            raise InvalidObject(where.child("values"), f"is not allowed: {requirement.operator} takes no values")


def _check_label_keys(keys: list[str] | None, selector: LabelSelector | None, at: ObjectPath) -> None:
    if keys and selector is None:
        raise InvalidObject(at, "is only allowed together with labelSelector")


def _check_choice(value: str, allowed: tuple[str, ...], at: ObjectPath) -> None:
    if value not in allowed:
        raise InvalidObject(at, f'"{value}" is not allowed: must be {", ".join(allowed)}')


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
        _check_choice(requirement.operator, allowed, at.item(index).child("operator"))
