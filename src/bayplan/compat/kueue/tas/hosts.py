"""Which hosts a pod set may use at all, and which it likes: taints, node selector, required and preferred affinity.

In comes a snapshot whose leaves are hosts, out goes a `Screen`: a mask, how many hosts fell to which cause, and the
score of preferred affinity. Where leaves are racks or larger, Kueue looks at none of this.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayplan.cluster.pods import tolerations
from bayplan.cluster.pods.tolerations import KEEPS_PODS_OFF, taint_text
from bayplan.compat.kueue.tas.model import Host, PodSet
from bayplan.compat.kueue.tas.snapshot import Counts, Snapshot
from bayplan.engine.numa.rows import Mask
from bayplan.kube.wire.core_v1 import (
    NodeAffinity,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    Taint,
    Toleration,
)

NAME_FIELD = "metadata.name"
COMPARING = ("Gt", "Lt")


@dataclass(frozen=True, slots=True)
class Screen:
    """None stands for all leaves, and for no score anywhere. `causes` has the words that a reason uses."""

    allowed: Mask | None = None
    causes: Counter[str] = field(default_factory=Counter)
    affinity: Counts | None = None


def screen(snapshot: Snapshot, pod_set: PodSet, *, with_preferred: bool) -> Screen:
    """What the pod set's own conditions say about every host. A host is counted under the first cause that applies."""
    hosts = snapshot.hosts
    if hosts is None:
        return Screen()
    allowed = np.ones(len(hosts), dtype=np.bool_)
    causes: Counter[str] = Counter()
    tolerations = (*pod_set.tolerations, *snapshot.tolerations)
    for leaf in snapshot.tainted:
        taint = untolerated(hosts[leaf].taints, tolerations)
        if taint is not None:
            allowed[leaf] = False
            causes[f"taint {json.dumps(taint_text(taint))}"] += 1
    affinity = pod_set.node_affinity or NodeAffinity()
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = (required.node_selector_terms or []) if required is not None else []
    selector = pod_set.node_selector.items()
    if selector:
        _refuse(
            allowed,
            causes,
            "nodeSelector",
            [all(host.labels.get(key) == value for key, value in selector) for host in hosts],
        )
    if required is not None:
        _refuse(allowed, causes, "affinity", [any(term_matches(term, host) for term in terms) for host in hosts])
    wishes = affinity.preferred_during_scheduling_ignored_during_execution if with_preferred else None
    scores = _scores(hosts, wishes, allowed) if wishes else None
    return Screen(allowed if causes else None, causes, scores)


def _refuse(allowed: Mask, causes: Counter[str], cause: str, matches: list[bool]) -> None:
    refused = allowed & ~np.array(matches, dtype=np.bool_)
    if refused.any():
        causes[cause] += int(refused.sum())
        allowed &= ~refused


def _scores(hosts: Sequence[Host], wishes: Sequence[PreferredSchedulingTerm], allowed: Mask) -> Counts:
    scores = [sum(wish.weight for wish in wishes if term_matches(wish.preference, host)) for host in hosts]
    return np.where(allowed, np.array(scores, dtype=np.int64), 0)


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint that keeps the pod off."""
    return next(
        (
            taint
            for taint in taints
            if taint.effect in KEEPS_PODS_OFF and not any(tolerates(toleration, taint) for toleration in tolerations)
        ),
        None,
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' rule, and beside it the operators that compare numbers."""
    if toleration.operator not in COMPARING:
        return tolerations.tolerates(toleration, taint)
    comparable = bool(toleration.key) and tolerations.speaks_of(toleration, taint)
    return comparable and _compares(taint.value, toleration.operator, toleration.value)


def term_matches(term: NodeSelectorTerm, host: Host) -> bool:
    """Every requirement of a term must hold, and a term without any matches nothing."""
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    name = {NAME_FIELD: host.name}
    return all(_holds(each, host.labels.get(each.key)) for each in expressions) and all(
        _holds(each, name.get(each.key)) for each in fields
    )


def _holds(requirement: SelectorRequirement, value: str | None) -> bool:
    values = requirement.values or []
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and len(values) == 1 and _compares(value, requirement.operator, values[0])
    # The API server admits no other operator; from a file it may come, and then nothing matches.
    return False


def _compares(value: str, operator: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False
