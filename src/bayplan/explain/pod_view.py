"""The state of one pod: waiting, running, failed or done; and the outcome if it were placed now.

`bayplan why` fills a `PodView` and prints it as text or as a document. A waiting gang member has its gang's answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.pod_zones import ZonesByContainer
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.documents import (
    API_VERSION,
    Document,
    asks_for_document,
    containers_document,
    miss_document,
    outcome_document,
)
from bayplan.explain.folding import prose
from bayplan.explain.gangs.document import gang_document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.gangs.text import gang_text
from bayplan.explain.numa.labels import zone_phrase
from bayplan.explain.placement import PodOutcome, ranking_lines
from bayplan.explain.refusal import Miss, holder_of
from bayplan.explain.why import asks_for_lines, fitting_text, held_back_text, miss_phrase, refusal_text
from bayplan.kube.visible import visible_lines
from bayplan.scheduling.shortfall import NodeAnswer

PENDING, RUNNING, FAILED, SUCCEEDED = "Pending", "Running", "Failed", "Succeeded"


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod. `outcome` exists for waiting and failed pods, `gang` for waiting and running gang members.

    `path` is that of its node in the tree, `not_ready` tells of that node. `scheduler` is whose pod it is while it
    waits, `condition` what that scheduler wrote last.
    """

    pod: str
    phase: str
    request: PodRequest
    described: str
    reason: str = ""
    node: str = ""
    zones: ZonesByContainer = field(default_factory=dict)
    aligned: bool = False
    waiting_seconds: int | None = None
    outcome: PodOutcome | None = None
    gang: GangOutcome | None = None
    path: str = ""
    not_ready: bool = False
    scheduler: str = ""
    condition: str = ""

    @property
    def good(self) -> bool:
        """True if the pod runs, is done, or would fit now, with its gang if it has one."""
        if self.gang is not None and self.phase == PENDING:
            return self.gang.good
        return self.outcome is None or self.outcome.decision.placed


def pod_text(view: PodView) -> str:
    """The answer first, then the pod's request and remarks."""
    outcome = view.outcome
    if view.gang is not None and view.phase == PENDING:
        answer, *rest = gang_text(view.gang).split("\n")
        told = _own_scheduler(view)
        return visible_lines([f"{view.pod} {_status(view)}: its gang {answer}", *told, *rest, *_own_seat(view)])
    if outcome is None:
        return visible_lines([_settled(view), *_asks_for(view), *_in_its_gang(view)])
    status = _status(view)
    if outcome.refusal is not None:
        return refusal_text(outcome.refusal, status)
    if not outcome.decision.placed:
        return visible_lines([held_back_text(outcome.decision), *_asks_for(view)])
    lines = [fitting_text(outcome.decision, status), *_own_scheduler(view), *_asks_for(view)]
    if outcome.ranking is not None:
        lines += ranking_lines(outcome.ranking)
    return visible_lines(lines)


def pod_document(view: PodView) -> Document:
    """What `bayplan why -o json` prints. `now` is the gang's for a waiting member."""
    gang, outcome = view.gang, view.outcome
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": view.pod,
        "phase": view.phase,
        "reason": view.reason or None,
        "node": view.node or None,
        "path": view.path or None,
        "zones": {container: list(zones) for container, zones in view.zones.items()} or None,
        "waitingSeconds": view.waiting_seconds,
        "scheduler": view.scheduler or None,
        "schedulerSays": view.condition or None,
        "asksFor": asks_for_document(view.request),
        "gang": gang.name if gang else None,
        "now": gang_document(gang) if gang else outcome_document(outcome) if outcome else None,
    }


def duration(seconds: int) -> str:
    """`45s`, `4m`, `3h`, `2d`: as kubectl shows ages, in one unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _asks_for(view: PodView) -> list[str]:
    return asks_for_lines(view.request.total, view.described, view.request.containers)


def _own_scheduler(view: PodView) -> list[str]:
    """Of a pod that fits and waits all the same, whose it is and what that scheduler says."""
    if not view.good or not view.scheduler:
        return []
    return prose(f"{view.scheduler}" + (f", which says: {view.condition}" if view.condition else ""), "  belongs to  ")


def _own_seat(view: PodView) -> list[str]:
    """Where a member would go with its gang."""
    seats = view.gang.seats if view.gang is not None else ()
    own = next((seat for seat in seats if seat.pod == view.pod), None)
    if own is not None:
        return ["", f"  this pod  on {own.node}, rank {own.rank}"]
    return ["", "  this pod  left out: the gang may start without it"] if seats else []


def _in_its_gang(view: PodView) -> list[str]:
    """Where a running member is among the others, and their state."""
    if view.gang is None:
        return [f"  path      {view.path}"] if view.path else []
    own = next((seat for seat in view.gang.running if seat.pod == view.pod), None)
    words = [] if own is None or own.rank < 0 else [f"rank {own.rank}"]
    words += [] if own is None or own.segment is None else [f"segment {own.segment}"]
    words += [] if own is None or not own.group else [f"group {own.group}"]
    numbers = f"  in gang   {', '.join(words)}" if words else ""
    path = f"  path      {view.path}" if view.path else ""
    return [*filter(None, (path, numbers)), "", *gang_text(view.gang).split("\n")]


def _settled(view: PodView) -> str:
    if view.phase == SUCCEEDED:
        return f"{view.pod} is done" + (f"; it ran on {view.node}." if view.node else ".")
    phrase = zone_phrase([ContainerZones(name, zones) for name, zones in view.zones.items()])
    if not phrase:
        phrase = "NUMA zone not reported" if view.aligned else "not pinned to a NUMA zone"
    return f"{view.pod} is on {view.node}, {'which is NotReady; ' if view.not_ready else ''}{phrase}."


def _status(view: PodView) -> str:
    if view.phase == FAILED:
        where = f" on {view.node}" if view.node else ""
        return f"failed{where}" + (f" ({view.reason})" if view.reason else "")
    return pending_for(view.waiting_seconds)


def pending_for(seconds: int | None) -> str:
    """`is Pending for 4m`."""
    return "is Pending" if seconds is None else f"is Pending for {duration(seconds)}"


# -- one pod on one node ---------------------------------------------------------------------------------------------


def node_answer_text(state: ClusterState, pod: str, verdict: NodeAnswer) -> str:
    """`telco/upf-0 fits on telco-1, NUMA zone 0`, or why not and what is missing there."""
    if verdict.fits:
        zones = zone_phrase(verdict.containers)
        remark = f"; {verdict.remark}" if verdict.remark else ""
        return f"{pod} fits on {verdict.node}" + (f", {zones}" if zones else "") + remark
    lines = [f"{pod} does not fit on {verdict.node}: {verdict.cause}", f"  refused by {verdict.plugin}"]
    lines += [f"  {detail}" for detail in verdict.details]
    if verdict.miss is not None:
        lines.append(f"  {miss_phrase(Miss(verdict.miss, holder_of(state, verdict.miss)))}")
    return visible_lines(lines)


def node_answer_document(state: ClusterState, pod: str, verdict: NodeAnswer) -> dict[str, Any]:
    """The same for programs."""
    miss = verdict.miss and miss_document(Miss(verdict.miss, holder_of(state, verdict.miss)))
    return {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "NodeVerdict",
        "pod": pod,
        "node": verdict.node,
        "fits": verdict.fits,
        "containers": containers_document(verdict.containers),
        "plugin": verdict.plugin or None,
        "cause": verdict.cause or None,
        "details": list(verdict.details),
        "missing": miss,
        "remark": verdict.remark or None,
    }
