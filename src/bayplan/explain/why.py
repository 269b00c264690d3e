"""`bayplan why` as text: the first line is the answer, then the numbers shrink downwards, one cause per line.

    telco/upf-large is Pending for 4m: no node has the request inside one NUMA zone.
      asks for  cpu 24  memory 32Gi  (Guaranteed, pod scope)
      512 nodes
      480 tolerated             32 cordoned 30, untolerated taint 2
      301 enough in total      179 short of hugepages-1Gi 162, cpu 17
        0 in one zone          301 fragmented: b1-r[01-08]-n01 and 293 more
    Nearest:  b1-r02-n03 zone 1 has cpu 22 of 24  (telco/amf-0 holds 4 there)
    Would schedule now if:  cpu 22 instead of 24 (3 nodes)
                       or:  a container could span NUMA zones (118 nodes)

Comes from `refusal.py` (the data) and goes to a terminal; nothing here looks at the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.pods.request import ContainerRequest, Role
from bayplan.explain.amounts import have_of_want, human, listing
from bayplan.explain.folding import prose
from bayplan.explain.numa.labels import zone_phrase
from bayplan.explain.refusal import Miss, Refusal
from bayplan.explain.stages import SELECTOR, FilterStage
from bayplan.explain.topology.hostlist import common_domain, domain_lines
from bayplan.kube.visible import visible_lines
from bayplan.scheduling.decision import CauseCount, Decision

WOULD_FIT = "Would schedule now if:  "
MOST_DETAILS = 5
NO_CHANGE = "No change of a single amount or rule would let it in."


def refusal_text(refusal: Refusal, status: str = "") -> str:
    """The whole answer for a pod that fits nowhere; `status` is its state: `is Pending for 4m`."""
    lines = [f"{refusal.pod} {status or refusal.status}: {refusal.sentence}."]
    lines += asks_for_lines(refusal.asks_for, refusal.described, refusal.containers)
    lines += stage_lines(refusal.shortfall.nodes, refusal.stages)
    lines += detail_lines(refusal.shortfall.causes, refusal.sentence)
    lines += volume_lines(refusal.volumes)
    lines += _nearest_lines(refusal.misses) if refusal.shortfall.too_large is None else []
    if refusal.shortfall.nodes:
        lines += change_lines(refusal.changes)
    return visible_lines(lines)


def asks_for_lines(asks_for: dict[str, int], described: str, containers: Sequence[ContainerRequest]) -> list[str]:
    """The pod's request in total, and each container's if there are several."""
    lines = [f"  asks for  {listing(asks_for) or 'nothing'}  ({described})"]
    if len(containers) > 1:
        width = max(len(container.name) for container in containers)
        for container in containers:
            role = "" if container.role is Role.APP else f"  ({container.role.value})"
            lines.append(f"    {container.name:{width}}  {listing(container.requests) or 'nothing'}{role}")
    return lines


def fitting_text(decision: Decision, status: str = "") -> str:
    """`telco/upf-0 fits: telco-1, NUMA zone 1`."""
    zones = zone_phrase(decision.containers)
    place = f"{decision.node}, {zones}" if zones else f"{decision.node}"
    place += f"; {decision.remark}" if decision.remark else ""
    return f"{decision.pod} {status}: it fits now on {place}." if status else f"{decision.pod} fits: {place}"


def held_back_text(decision: Decision) -> str:
    """Why a pod is held back, independent of nodes."""
    return f"{decision.pod} is not placed: it {decision.held_back}."


def change_lines(phrases: Sequence[str]) -> list[str]:
    """What would help, one change per line."""
    if not phrases:
        return [NO_CHANGE]
    others = "or:  ".rjust(len(WOULD_FIT))
    return [(others if position else WOULD_FIT) + phrase for position, phrase in enumerate(phrases)]


def stage_lines(nodes: int, stages: Sequence[FilterStage]) -> list[str]:
    """All nodes, and below them how many each stage left and why."""
    number_width = max(len(str(nodes)), 3)
    label_width = max((len(stage.kind.passed) for stage in stages), default=0)
    lines = [f"  {nodes:{number_width}d} {'node' if nodes == 1 else 'nodes'}"]
    for stage in stages:
        lead = f"  {stage.left:{number_width}d} {stage.kind.passed:{label_width}}   {stage.lost:{number_width}d} "
        lines += prose(stage.detail(), lead)
    return lines


def detail_lines(causes: Sequence[CauseCount], said: str = "") -> list[str]:
    """The terms of selectors that no node meets, and the terms and pods that keep nodes closed, if neighbours do.

    What the answer has `said` is left out.
    """
    lines = []
    for lead, of_selector in (("Selector:  ", True), ("Neighbours:  ", False)):
        found = [cause.details for cause in causes if (cause.plugin == SELECTOR) is of_selector]
        details = [detail for each in found for detail in each if detail not in said]
        more = [f"and {len(details) - MOST_DETAILS} more"] if len(details) > MOST_DETAILS else []
        lines += listed(lead, [*details[:MOST_DETAILS], *more])
    return lines


def volume_lines(volumes: Sequence[str]) -> list[str]:
    """What is in the way of the pod's claims."""
    return listed("Volumes:  ", volumes)


def listed(lead: str, texts: Sequence[str]) -> list[str]:
    """Texts below each other, the first one behind the lead."""
    return [line for position, text in enumerate(texts) for line in prose(text, " " * len(lead) if position else lead)]


def _nearest_lines(misses: Sequence[Miss]) -> list[str]:
    # A node with none of the missing resource is not near.
    misses = [miss for miss in misses if miss.nearest.have or miss.nearest.reason] or misses[:1]
    domain = common_domain(miss.nearest.node for miss in misses)
    names = [miss.nearest.node.removesuffix(domain) for miss in misses]
    width = max(map(len, names), default=0)
    lead = "Nearest:  "
    lines = [
        f"{' ' * len(lead) if position else lead}{name:{width}} {miss_phrase(miss)}"
        for position, (name, miss) in enumerate(zip(names, misses, strict=True))
    ]
    return [*lines, *(f"{' ' * (len(lead) - 2)}{line}" for line in domain_lines(domain))]


def miss_phrase(miss: Miss) -> str:
    """`zone 1 has cpu 22 of 24  (telco/amf-0 holds 4 there)`."""
    nearest, holder = miss.nearest, miss.holder
    where = "" if nearest.zone is None else f"zone {nearest.zone} "
    if nearest.have >= nearest.want:
        enough = f"{where}has enough {nearest.resource}, but: " if nearest.resource else ""
        return f"{enough}{nearest.reason or 'not together with the rest'}"
    phrase = f"{where}has {have_of_want(nearest.resource, nearest.have, nearest.want)}"
    phrase += " in total" if nearest.zone is None else ""
    if holder is not None:
        phrase += f"  ({holder.pod} holds {human(nearest.resource, holder.amount)} there)"
    return phrase
