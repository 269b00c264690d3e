"""What of a pod says where it may go: tolerations, affinity, spread constraints, gates, and the selectors in them."""

from __future__ import annotations

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    choice,
    chosen,
    entries,
    labels,
    missing,
    named,
    part,
    text,
    texts,
    twice,
    within,
)

TOLERATION_OPERATORS = ("Equal", "Exists")
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
NODE_FIELD_OPERATORS = ("In", "NotIn")
POD_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION_POLICIES = ("Honor", "Ignore")
LARGEST_COUNT = 2**31 - 1
LARGEST_WEIGHT = 100
NODE_NAME_FIELD = "metadata.name"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def faults(spec: Json, pod_labels: Json, at: ObjectPath) -> Faults:
    """Everything about where a pod may go; `at` is the place of the spec."""
    yield from labels(spec, "nodeSelector", at)
    affinity = part(spec, "affinity") or {}
    place = at.child("affinity")
    if part(affinity, "nodeAffinity") is not None:
        yield from _node_affinity(affinity["nodeAffinity"], place.child("nodeAffinity"))
    for field in ("podAffinity", "podAntiAffinity"):
        if part(affinity, field) is not None:
            yield from _pod_affinity(affinity[field], pod_labels, place.child(field))
    for toleration, where in entries(spec, "tolerations", at):
        yield from _toleration(toleration, where)
    yield from _spread(spec, pod_labels, at)
    yield from _gates(spec, at)


def _gates(spec: Json, at: ObjectPath) -> Faults:
    seen: set[str] = set()
    for gate, place in entries(spec, "schedulingGates", at):
        name = text(gate, "name")
        yield from named(name, names.qualified_name, place)
        if name in seen:
            yield twice(name, place)
        seen.add(name)
    if seen and text(spec, "nodeName"):
        yield InvalidObject(at.child("nodeName"), "is not allowed while there are schedulingGates")


def _toleration(toleration: Json, at: ObjectPath) -> Faults:
    key, operator, value = text(toleration, "key"), text(toleration, "operator"), text(toleration, "value")
    if key:
        yield from named(key, names.qualified_name, at.child("key"))
    elif operator != "Exists":
        yield InvalidObject(at.child("operator"), "must be Exists where key is empty, which tolerates every taint")
    effect = text(toleration, "effect")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield InvalidObject(at.child("effect"), "must be NoExecute where tolerationSeconds is set")
    match operator:
        case "Equal" | "":
            yield from named(value, names.label_value, at.child("value"))
        case "Exists":
            if value:
                yield InvalidObject(at.child("value"), f'"{value}" is not allowed: Exists takes no value')
        case _:
            yield from choice(operator, TOLERATION_OPERATORS, at.child("operator"))
    if effect:
        yield from choice(effect, TAINT_EFFECTS, at.child("effect"))


def _node_affinity(affinity: Json, at: ObjectPath) -> Faults:
    required = part(affinity, _REQUIRED)
    if required is not None:
        yield from node_selector_faults(required, at.child(_REQUIRED))
    for preferred, place in entries(affinity, _PREFERRED, at):
        yield from within(preferred.get("weight") or 0, 1, LARGEST_WEIGHT, place.child("weight"))
        yield from _node_term(part(preferred, "preference") or {}, place.child("preference"), check_values=False)


def node_selector_faults(selector: Json, at: ObjectPath) -> Faults:
    """The terms of which a node has to match one."""
    if not selector.get("nodeSelectorTerms"):
        yield missing(at.child("nodeSelectorTerms"), "there has to be at least one term")
    for term, where in entries(selector, "nodeSelectorTerms", at):
        yield from _node_term(term, where, check_values=True)


def _node_term(term: Json, at: ObjectPath, *, check_values: bool) -> Faults:
    for requirement, place in entries(term, "matchExpressions", at):
        operator, count = text(requirement, "operator"), len(requirement.get("values") or ())
        yield from choice(operator, NODE_OPERATORS, place.child("operator"))
        yield from _value_count(operator, count, place)
        if operator in ("Gt", "Lt") and count != 1:
            yield InvalidObject(place.child("values"), f"must have one value: {operator} compares with one number")
        yield from named(text(requirement, "key"), names.qualified_name, place.child("key"))
        if check_values:
            yield from _label_values(requirement, place)
    for requirement, place in entries(term, "matchFields", at):
        operator, count = text(requirement, "operator"), len(requirement.get("values") or ())
        yield from choice(operator, NODE_FIELD_OPERATORS, place.child("operator"))
        if operator in NODE_FIELD_OPERATORS and count != 1:
            yield InvalidObject(place.child("values"), f"must have one value: {operator} compares with one name here")
        if text(requirement, "key") != NODE_NAME_FIELD:
            yield from choice(text(requirement, "key"), (NODE_NAME_FIELD,), place.child("key"))
        else:
            for value, where in texts(requirement, "values", place):
                yield from named(value, names.dns_subdomain, where)


def _value_count(operator: str, count: int, at: ObjectPath) -> Faults:
    if operator in ("In", "NotIn") and not count:
        yield missing(at.child("values"), f"{operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and count:
        yield InvalidObject(at.child("values"), f"is not allowed: {operator} takes no values")


def _label_values(requirement: Json, at: ObjectPath) -> Faults:
    for value, place in texts(requirement, "values", at):
        yield from named(value, names.label_value, place)


def _pod_affinity(affinity: Json, pod_labels: Json, at: ObjectPath) -> Faults:
    for term, place in entries(affinity, _REQUIRED, at):
        yield from _pod_term(term, pod_labels, place)
    for preferred, place in entries(affinity, _PREFERRED, at):
        yield from within(preferred.get("weight") or 0, 1, LARGEST_WEIGHT, place.child("weight"))
        yield from _pod_term(part(preferred, "podAffinityTerm") or {}, pod_labels, place.child("podAffinityTerm"))


def _pod_term(term: Json, pod_labels: Json, at: ObjectPath) -> Faults:
    yield from selector_faults(term, "labelSelector", at)
    yield from selector_faults(term, "namespaceSelector", at)
    for name, place in texts(term, "namespaces", at):
        yield from named(name, names.dns_label, place)
    yield from _label_keys(term, pod_labels, at)
    if not text(term, "topologyKey"):
        yield missing(at.child("topologyKey"), "must be the key of a node label")
    else:
        yield from named(text(term, "topologyKey"), names.qualified_name, at.child("topologyKey"))


def selector_faults(thing: Json, field: str, at: ObjectPath) -> Faults:
    """A label selector in a field; `at` is the place of the thing that has it."""
    selector = part(thing, field)
    if selector is None:
        return
    at = at.child(field)
    yield from labels(selector, "matchLabels", at)
    for requirement, place in entries(selector, "matchExpressions", at):
        operator = text(requirement, "operator")
        yield from choice(operator, POD_OPERATORS, place.child("operator"))
        yield from _value_count(operator, len(requirement.get("values") or ()), place)
        yield from named(text(requirement, "key"), names.qualified_name, place.child("key"))
        yield from _label_values(requirement, place)


def _label_keys(thing: Json, pod_labels: Json, at: ObjectPath) -> Faults:
    """`matchLabelKeys` and `mismatchLabelKeys`, which the API server turns into expressions of the selector."""
    selector = part(thing, "labelSelector")
    lists = {field: [key for key, _ in texts(thing, field, at)] for field in ("matchLabelKeys", "mismatchLabelKeys")}
    for field, keys in lists.items():
        if keys and selector is None:
            yield InvalidObject(at.child(field), "is only allowed together with labelSelector")
        elif keys:
            for key, place in texts(thing, field, at):
                yield from named(key, names.qualified_name, place)
    for key, place in texts(thing, "matchLabelKeys", at):
        if key in lists["mismatchLabelKeys"]:
            yield InvalidObject(place, f'"{key}" stands in mismatchLabelKeys as well')
    if selector is not None:
        yield from _keys_once(selector, lists, pod_labels, at)


def _keys_once(selector: Json, lists: dict[str, list[str]], pod_labels: Json, at: ObjectPath) -> Faults:
    used = set(selector.get("matchLabels") or {})
    expressions = [text(each or {}, "key") for each in selector.get("matchExpressions") or ()]
    added = [key for keys in lists.values() for key in keys if key in pod_labels]
    for key in [*expressions, *added]:
        if key in used and key in lists["matchLabelKeys"]:
            yield InvalidObject(at.child("matchLabelKeys"), f'"{key}" stands in labelSelector as well')
        used.add(key)


def _spread(spec: Json, pod_labels: Json, at: ObjectPath) -> Faults:
    seen: set[tuple[str, str]] = set()
    for constraint, place in entries(spec, "topologySpreadConstraints", at):
        yield from within(constraint.get("maxSkew") or 0, 1, LARGEST_COUNT, place.child("maxSkew"))
        key, action = text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable")
        if not key:
            yield missing(place.child("topologyKey"), "must be the key of a node label")
        yield from choice(action, SPREAD_ACTIONS, place.child("whenUnsatisfiable"))
        if (key, action) in seen:
            yield InvalidObject(place, f'topologyKey "{key}" with whenUnsatisfiable "{action}" stands here twice')
        seen.add((key, action))
        domains = constraint.get("minDomains")
        if domains is not None:
            yield from within(domains, 1, LARGEST_COUNT, place.child("minDomains"))
            if action != "DoNotSchedule":
                problem = "is only allowed with whenUnsatisfiable DoNotSchedule"
                yield InvalidObject(place.child("minDomains"), problem)
        yield from chosen(constraint, "nodeAffinityPolicy", INCLUSION_POLICIES, place)
        yield from chosen(constraint, "nodeTaintsPolicy", INCLUSION_POLICIES, place)
        yield from _label_keys(constraint, pod_labels, place)
        yield from selector_faults(constraint, "labelSelector", place)
