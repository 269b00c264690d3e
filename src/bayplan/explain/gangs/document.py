"""A gang as a document for programs: what `bayplan place` and `bayplan why` print with -o json or yaml.

Levels are full labels, paths are lists, and nothing is shortened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bayplan.cluster.topology.tree import Path
from bayplan.engine.gangs.parallel import spread_of
from bayplan.explain.documents import (
    API_VERSION,
    Document,
    asks_for_document,
    causes_document,
    containers_document,
    stages_document,
)
from bayplan.explain.gangs.changes import gang_changes_document
from bayplan.explain.gangs.outcome import GangOutcome, ShapeView
from bayplan.explain.gangs.text import closer_text, gang_text
from bayplan.gangs.closeness import Closeness
from bayplan.gangs.model import LevelRoom, Seat
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.kueue_v1beta2 import Assignment, Domain, TopologyAssignment, encoded


def gang_explanation(outcome: GangOutcome) -> Document:
    """What `bayplan why GANG -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GangExplanation",
        "gang": outcome.name,
        "runs": outcome.runs,
        "waitingSeconds": outcome.waiting_seconds,
        "now": gang_document(outcome),
    }


def gang_document(outcome: GangOutcome) -> Document:
    """One gang. Without a place, `seats` is empty, and `shapes` say why nodes were rejected."""
    decision, distances = outcome.decision, outcome.distances
    seats = sorted(outcome.seats, key=lambda seat: seat.rank)
    return {
        "gang": decision.gang,
        "owner": outcome.owner or None,
        "fits": outcome.good,
        "answer": gang_text(outcome).partition("\n")[0],
        "topology": outcome.topology or None,
        "levels": list(outcome.levels),
        "status": decision.status.value,
        "restsOn": decision.bound,
        "gap": decision.gap,
        "waits": decision.waits or None,
        "patienceLeftSeconds": decision.patience_left if decision.waits else None,
        "gaveUp": list(decision.relaxed),
        "leftOut": list(decision.left_out),
        "zonesUnknown": list(outcome.zones_unknown),
        "preferredDomains": decision.preferred_domains,
        "objective": [goal.value for goal in decision.objective],
        "parallelism": _parallelism_document(outcome, [seat.path for seat in seats]),
        "distance": None if distances is None else {"largest": distances.largest, "mean": round(distances.mean, 3)},
        "seats": [
            {**seat_document(seat), "containers": containers_document(outcome.zones.get(seat.pod, ()))}
            for seat in seats
        ],
        "running": [seat_document(seat) for seat in outcome.running],
        "couldBeCloser": None if outcome.closeness is None else _closeness_document(outcome.closeness, outcome.levels),
        "topologyAssignments": assignments_document(seats),
        "shapes": [_shape_document(shape) for shape in outcome.shapes],
        "wouldScheduleIf": gang_changes_document(outcome),
    }


def _parallelism_document(outcome: GangOutcome, paths: Sequence[Path]) -> list[Document]:
    """For each kind of parallel groups, how many of them lie inside one domain of each level."""
    levels = (*outcome.levels, HOSTNAME)
    found: list[Document] = []
    for kind in outcome.decision.parallelism:
        spread = spread_of(paths, kind.pods)
        inside = dict(zip(levels, spread.inside_one, strict=True)) if paths else {}
        found.append({"name": kind.name, "pods": kind.pods, "groups": spread.groups, "insideOne": inside})
    return found


def seat_document(seat: Seat) -> Document:
    """One pod's place; a running pod without a number has no rank."""
    return {
        "rank": None if seat.rank < 0 else seat.rank,
        "pod": seat.pod,
        "node": seat.node,
        "domain": list(seat.path[:-1]),
        "group": seat.group or None,
        "segment": seat.segment,
    }


def _closeness_document(closeness: Closeness, levels: Sequence[str]) -> Document:
    return {
        "answer": closeness.could_be_closer,
        "text": closer_text(closeness, levels),
        "proven": closeness.proven,
        "level": closeness.level,
        "domainsNow": closeness.now,
        "domainsAnew": closeness.anew,
    }


def _shape_document(shape: ShapeView) -> Document:
    return {
        "pods": shape.pods,
        "groups": list(shape.groups),
        "asksFor": asks_for_document(shape.request),
        "room": rooms_document(shape.before),
        "roomAfter": rooms_document(shape.after) if shape.after else None,
        "stages": stages_document(shape.stages),
        "causes": causes_document(shape.causes),
    }


def rooms_document(rooms: Sequence[LevelRoom]) -> list[Document]:
    """Per level: the number of domains, how many hold all pods, and which holds the most."""
    return [
        {
            "level": room.level,
            "domains": room.domains,
            "holdAll": room.holding_all,
            "most": room.most,
            "in": list(room.best),
        }
        for room in rooms
    ]


# -- Kueue's TopologyAssignment ---------------------------------------------------------------------------------------


# Kueue's name for the only pod set of a job.
ONLY_POD_SET = "main"


def assignments_document(seats: Iterable[Seat]) -> list[dict[str, Any]]:
    """Each group's pod set and its assignment; empty if no pod has a seat."""
    by_group: dict[str, Counter[str]] = {}
    for seat in seats:
        by_group.setdefault(seat.group or ONLY_POD_SET, Counter())[seat.node] += 1
    return [
        {"podSet": group, "topologyAssignment": _document(encoded(_assignment(hosts)))}
        for group, hosts in by_group.items()
    ]


def _document(assignment: TopologyAssignment) -> dict[str, Any]:
    """The document as read from JSON, with lists, so that a reread snapshot is equal."""
    return msgspec.json.decode(msgspec.json.encode(assignment), type=dict[str, Any])


def _assignment(hosts: Counter[str]) -> Assignment:
    return Assignment((HOSTNAME,), tuple(Domain((host,), hosts[host]) for host in sorted(hosts)))
