"""Decisions as documents for programs: the same facts as the text, in a stable shape.

Plain dictionaries, ready for JSON or YAML. Amounts are Kubernetes quantities as text. docs/place.md has the schema;
within one `apiVersion`, fields are added and never renamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.cluster.pods.request import PodRequest
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.amounts import canonical
from bayplan.explain.placement import PodOutcome
from bayplan.explain.ranking import Ranking
from bayplan.explain.refusal import Miss, Refusal, event_text
from bayplan.explain.stages import FilterStage
from bayplan.explain.why import fitting_text, held_back_text
from bayplan.scheduling.decision import CauseCount
from bayplan.scheduling.remedies import OpenNodes, OtherPolicy, OtherRequest, Remedy, WithoutFilter
from bayplan.scheduling.when_empty import Oversized

API_VERSION = "bayplan.io/v1alpha1"

Document = dict[str, Any]


def placement_list(answer: str, outcomes: Sequence[PodOutcome]) -> Document:
    """What `bayplan place -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementList",
        "answer": answer,
        "fit": sum(outcome.decision.placed for outcome in outcomes),
        "items": [outcome_document(outcome) for outcome in outcomes],
    }


def outcome_document(outcome: PodOutcome) -> Document:
    """One pod's outcome; `node` is null for an unschedulable pod."""
    decision = outcome.decision
    return {
        "pod": decision.pod,
        "fits": decision.placed,
        "answer": pod_answer(outcome),
        "node": decision.node,
        "score": decision.score if decision.placed else None,
        "containers": containers_document(decision.containers),
        "remark": decision.remark or None,
        "heldBack": decision.held_back or None,
        "usableNodes": outcome.ranking.usable if outcome.ranking else 0,
        "ranking": _ranking_document(outcome.ranking) if outcome.ranking else [],
        "refusal": refusal_document(outcome.refusal) if outcome.refusal else None,
    }


def asks_for_document(request: PodRequest) -> Document:
    """A pod's amounts: in sum and per container."""
    return {
        "qosClass": request.qos.value,
        "total": amounts_document(request.total),
        "containers": [
            {"name": container.name, "role": container.role.value, "requests": amounts_document(container.requests)}
            for container in request.containers
        ],
    }


def amounts_document(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts by resource as exact quantities."""
    return {resource: canonical(resource, amount) for resource, amount in amounts.items()}


def containers_document(containers: Sequence[ContainerZones]) -> list[Document]:
    """Zones per container; null if unknown. `estimated` is present only if true."""
    return [
        {
            "name": entry.container,
            "zones": None if entry.zones is None else list(entry.zones),
            **({"estimated": True} if entry.estimated else {}),
        }
        for entry in containers
    ]


def refusal_document(refusal: Refusal) -> Document:
    """The data behind a "no"."""
    return {
        "sentence": refusal.sentence,
        "event": event_text(refusal.shortfall, refusal.changes),
        "nodes": refusal.shortfall.nodes,
        "stages": stages_document(refusal.stages),
        "causes": causes_document(refusal.shortfall.causes),
        "matter": sorted(refusal.shortfall.matter),
        "tooLarge": None if refusal.shortfall.too_large is None else _too_large_document(refusal.shortfall.too_large),
        "nearest": [miss_document(miss) for miss in refusal.misses],
        "wouldScheduleIf": [
            {"change": phrase, "nodes": remedy.nodes, "atLeast": remedy.at_least, **_remedy_document(remedy)}
            for phrase, remedy in zip(refusal.changes, refusal.remedies, strict=True)
        ],
    }


def _too_large_document(reason: Oversized) -> Document:
    return {
        "where": reason.where.value,
        "policy": reason.policy or None,
        "container": reason.container or None,
        "resource": reason.resource or None,
        "have": canonical(reason.resource, reason.have) if reason.resource else None,
        "want": canonical(reason.resource, reason.want) if reason.resource else None,
        "zonesNeeded": {name: zones for (name, _), zones in zip(reason.asked, reason.zones_needed, strict=False)},
    }


def stages_document(stages: Sequence[FilterStage]) -> list[Document]:
    """How the nodes became fewer."""
    return [
        {"passed": stage.kind.passed, "left": stage.left, "lost": stage.lost, "detail": stage.detail()}
        for stage in stages
    ]


def causes_document(causes: Sequence[CauseCount]) -> list[Document]:
    """Which plugin rejected which nodes."""
    return [
        {
            "plugin": cause.plugin,
            "cause": cause.cause,
            "reason": cause.reason or None,
            "details": list(cause.details),
            "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in cause.taints],
            "count": len(cause.nodes),
            "nodes": list(cause.nodes),
        }
        for cause in causes
    ]


def pod_answer(outcome: PodOutcome) -> str:
    """Whether a pod fits, and where or why not."""
    if outcome.refusal is not None:
        return f"{outcome.decision.pod} {outcome.refusal.status}: {outcome.refusal.sentence}"
    return fitting_text(outcome.decision) if outcome.decision.placed else held_back_text(outcome.decision)


def _ranking_document(ranking: Ranking) -> list[Document]:
    return [
        {
            "node": candidate.node,
            "score": candidate.score,
            "containers": containers_document(candidate.containers),
            "zonesUnknown": candidate.zones_unknown,
            "scores": [
                {"plugin": given.plugin, "score": given.score, "weight": given.weight} for given in candidate.scores
            ],
        }
        for candidate in ranking.candidates
    ]


def miss_document(miss: Miss) -> Document:
    """A node that almost fits, and what it lacks."""
    nearest, holder = miss.nearest, miss.holder
    return {
        "node": nearest.node,
        "zone": nearest.zone,
        "resource": nearest.resource or None,
        "have": canonical(nearest.resource, nearest.have) if nearest.resource else None,
        "want": canonical(nearest.resource, nearest.want) if nearest.resource else None,
        "reason": nearest.reason or None,
        "heldBy": holder and {"pod": holder.pod, "amount": canonical(nearest.resource, holder.amount)},
    }


def _remedy_document(remedy: Remedy) -> Document:
    match remedy:
        case OtherRequest():
            return {
                "type": "SmallerRequest" if remedy.amount < remedy.instead_of else "LargerRequest",
                "container": remedy.container,
                "resource": remedy.resource,
                "amount": canonical(remedy.resource, remedy.amount),
                "insteadOf": canonical(remedy.resource, remedy.instead_of),
            }
        case OpenNodes():
            return {
                "type": "OpenNodes",
                "uncordon": list(remedy.uncordon),
                "ready": list(remedy.ready),
                "tolerate": list(remedy.tolerate),
                "names": list(remedy.names),
            }
        case WithoutFilter():
            return {"type": "WithoutFilter", "plugin": remedy.plugin, "cause": remedy.cause}
        case OtherPolicy():
            return {"type": "OtherPolicy", "policy": remedy.policy, "insteadOf": remedy.instead_of}
    return {"type": "ZonesCombined"}
