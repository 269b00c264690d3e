"""InterPodAffinity and PodTopologySpread pod by pod and node by node, straight from the objects as users write them.

Nothing here is shared with `bayplan`: dictionaries come in, dictionaries by node name go out. It is slow and says the
rules one after the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass
class Everything:
    """Nodes and pods as JSON; `pods` has the node of each by key, `namespaces` their labels."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, tuple[str, Json]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def running_at(self) -> Iterator[tuple[Json, Json]]:
        """Every pod that stands on a known node, with that node."""
        for where, pod in self.pods.values():
            if where in self.nodes:
                yield pod, self.nodes[where]


def labels(thing: Json) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def selected(selector: Json | None, found: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if found.get(key) != value:
            return False
    for each in selector.get("matchExpressions") or []:
        key, values = each["key"], each.get("values") or []
        holds = {
            "In": key in found and found[key] in values,
            "NotIn": key not in found or found[key] not in values,
            "Exists": key in found,
            "DoesNotExist": key not in found,
        }[each["operator"]]
        if not holds:
            return False
    return True


def means(world: Everything, owner: Json, term: Json, pod: Json) -> bool:
    """True if a term of `owner` means `pod`."""
    own, other = owner["metadata"]["namespace"], pod["metadata"]["namespace"]
    names, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not names and selector is None:
        in_namespace = other == own
    else:
        of_namespace = world.namespaces.get(other, {"kubernetes.io/metadata.name": other})
        in_namespace = other in names or selected(selector, of_namespace)
    if not in_namespace or not selected(term.get("labelSelector"), labels(pod)):
        return False
    for key in term.get("matchLabelKeys") or []:
        if key in labels(owner) and labels(pod).get(key) != labels(owner)[key]:
            return False
    for key in term.get("mismatchLabelKeys") or []:
        if key in labels(owner) and labels(pod).get(key) == labels(owner)[key]:
            return False
    return True


def terms(pod: Json, kind: str, strength: str) -> list[Json]:
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(strength) or []


def same_place(node: Json, other: Json, key: str) -> bool:
    return key in labels(node) and labels(node)[key] == labels(other).get(key)


def affinity_refusals(world: Everything, pod: Json) -> dict[str, str]:
    """By node, in which way its pods are against the newcomer; nodes that are open are missing."""
    return {
        name: why
        for name, node in world.nodes.items()
        if (why := _no_company(world, pod, node) or _unwanted(world, pod, node))
    }


def _no_company(world: Everything, pod: Json, node: Json) -> str:
    wanted = terms(pod, "podAffinity", REQUIRED)
    if not wanted:
        return ""
    if any(term["topologyKey"] not in labels(node) for term in wanted):
        return "node(s) didn't match pod affinity rules"

    def wants(other: Json) -> bool:
        return all(means(world, pod, term, other) for term in wanted)

    company = [there for other, there in world.running_at() if wants(other)]
    if all(any(same_place(node, there, term["topologyKey"]) for there in company) for term in wanted):
        return ""
    countable = [there for there in company if any(term["topologyKey"] in labels(there) for term in wanted)]
    if not countable and wants(pod):
        return ""
    return "node(s) didn't match pod affinity rules"


def _unwanted(world: Everything, pod: Json, node: Json) -> str:
    for term in terms(pod, "podAntiAffinity", REQUIRED):
        for other, there in world.running_at():
            if means(world, pod, term, other) and same_place(node, there, term["topologyKey"]):
                return "node(s) didn't match pod anti-affinity rules"
    for other, there in world.running_at():
        for term in terms(other, "podAntiAffinity", REQUIRED):
            if means(world, other, term, pod) and same_place(node, there, term["topologyKey"]):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def affinity_scores(
    world: Everything, pod: Json, nodes: list[str], *, hard_weight: int = 1, ignore_others: bool = False
) -> dict[str, int]:
    """Normalised over the nodes that are left."""
    raw = dict.fromkeys(nodes, 0)
    own = [(sign, wish) for sign, kind in _SIGNS for wish in terms(pod, kind, PREFERRED)]
    if ignore_others and not own:
        return raw
    for name in nodes:
        node = world.nodes[name]
        for other, there in world.running_at():
            for sign, wish in own:
                term = wish["podAffinityTerm"]
                if means(world, pod, term, other) and same_place(node, there, term["topologyKey"]):
                    raw[name] += sign * wish["weight"]
            for sign, kind in _SIGNS:
                for wish in terms(other, kind, PREFERRED):
                    term = wish["podAffinityTerm"]
                    if means(world, other, term, pod) and same_place(node, there, term["topologyKey"]):
                        raw[name] += sign * wish["weight"]
            for term in terms(other, "podAffinity", REQUIRED):
                if means(world, other, term, pod) and same_place(node, there, term["topologyKey"]):
                    raw[name] += hard_weight
    least, most = min(raw.values(), default=0), max(raw.values(), default=0)
    if least == most:
        return dict.fromkeys(nodes, 0)
    return {name: int(100.0 * ((score - least) / (most - least))) for name, score in raw.items()}


_SIGNS = ((1, "podAffinity"), (-1, "podAntiAffinity"))


def spread_rules(pod: Json, action: str) -> list[Json]:
    written = pod["spec"].get("topologySpreadConstraints") or []
    return [rule for rule in written if rule["whenUnsatisfiable"] == action]


def counted(pod: Json, rule: Json, other: Json) -> bool:
    """True if a pod counts for a constraint of `pod`."""
    selector = rule.get("labelSelector")
    keys = [key for key in rule.get("matchLabelKeys") or [] if key in labels(pod)]
    if selector is not None and not any(selector.values()) and not keys:
        return False
    metadata = other["metadata"]
    if metadata["namespace"] != pod["metadata"]["namespace"] or metadata.get("deletionTimestamp"):
        return False
    return means_itself(pod, rule, other)


def means_itself(pod: Json, rule: Json, other: Json) -> bool:
    keys = [key for key in rule.get("matchLabelKeys") or [] if key in labels(pod)]
    alike = all(labels(other).get(key) == labels(pod)[key] for key in keys)
    return alike and selected(rule.get("labelSelector"), labels(other))


def included(pod: Json, rule: Json, node: Json) -> bool:
    if rule.get("nodeAffinityPolicy", "Honor") == "Honor":
        for key, value in (pod["spec"].get("nodeSelector") or {}).items():
            if labels(node).get(key) != value:
                return False
    if rule.get("nodeTaintsPolicy", "Ignore") == "Honor":
        tolerated = {toleration["key"] for toleration in pod["spec"].get("tolerations") or []}
        for taint in node["spec"].get("taints") or []:
            if taint["effect"] != "PreferNoSchedule" and taint["key"] not in tolerated:
                return False
    return True


def spread_refusals(world: Everything, pod: Json) -> dict[str, str]:
    """By node, what its constraints say; nodes that are open are missing."""
    rules = spread_rules(pod, "DoNotSchedule")
    complete = [node for node in world.nodes.values() if all(rule["topologyKey"] in labels(node) for rule in rules)]
    refused: dict[str, str] = {}
    for name, node in world.nodes.items():
        for rule in rules:
            key = rule["topologyKey"]
            if key not in labels(node):
                refused[name] = "node(s) didn't match pod topology spread constraints (missing required label)"
                break
            counts = {labels(each)[key]: 0 for each in complete if included(pod, rule, each)}
            for other, there in world.running_at():
                if there in complete and included(pod, rule, there) and counted(pod, rule, other):
                    counts[labels(there)[key]] += 1
            fewest = min(counts.values()) if counts and len(counts) >= (rule.get("minDomains") or 1) else 0
            here = counts.get(labels(node)[key], 0)
            if here + means_itself(pod, rule, pod) - fewest > rule["maxSkew"]:
                refused[name] = "node(s) didn't match pod topology spread constraints"
                break
    return refused


def spread_scores(world: Everything, pod: Json, nodes: list[str]) -> dict[str, int]:
    """Normalised over the nodes that are left."""
    rules = spread_rules(pod, "ScheduleAnyway")
    if not rules:
        return dict.fromkeys(nodes, 0)

    def complete(node: Json) -> bool:
        return all(rule["topologyKey"] in labels(node) for rule in rules)

    judged = [name for name in nodes if complete(world.nodes[name])]
    raw: dict[str, int] = {}
    for name in judged:
        score = 0.0
        for rule in rules:
            key, here = rule["topologyKey"], world.nodes[name]
            places = {labels(world.nodes[each])[key] for each in judged}
            size = len(judged) if key == HOSTNAME else len(places)
            count = sum(
                counted(pod, rule, other)
                for other, there in world.running_at()
                if (there is here if key == HOSTNAME else _counts_there(pod, rule, there, here) and complete(there))
            )
            score += count * math.log(size + 2) + (rule["maxSkew"] - 1)
        raw[name] = math.floor(score) + (score - math.floor(score) >= 0.5)
    found = dict.fromkeys(nodes, 0)
    if raw:
        least, most = min(raw.values()), max(raw.values())
        for name, score_of in raw.items():
            found[name] = 100 if most == 0 else 100 * (most + least - score_of) // most
    return found


def _counts_there(pod: Json, rule: Json, there: Json, here: Json) -> bool:
    return included(pod, rule, there) and same_place(here, there, rule["topologyKey"])


def causes(refused: Mapping[str, str]) -> Counter[str]:
    return Counter(refused.values())


def soft_taint_penalties(world: Everything, pod: Json, nodes: list[str]) -> dict[str, int]:
    """What TaintToleration takes from 100 on each of these nodes."""
    tolerated = {toleration["key"] for toleration in pod["spec"].get("tolerations") or []}
    soft = {
        name: sum(
            taint["effect"] == "PreferNoSchedule" and taint["key"] not in tolerated
            for taint in world.nodes[name]["spec"].get("taints") or []
        )
        for name in nodes
    }
    most = max(soft.values(), default=0)
    return {name: 100 * count // most if most else 0 for name, count in soft.items()}
