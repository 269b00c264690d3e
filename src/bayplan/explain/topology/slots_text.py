"""How many gangs of equal pods fit in each domain now, as text and as a document.

The first line is the answer:

    5 gangs of 8 pods fit, each in one rack

A gang that can spread over a domain fits there as often as the domain's slots divided by the gang's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.topology.tree import Path, Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.explain.amounts import count, listing
from bayplan.explain.documents import API_VERSION, Document, amounts_document, stages_document
from bayplan.explain.gangs.document import rooms_document
from bayplan.explain.gangs.text import best_in
from bayplan.explain.stages import FilterStage
from bayplan.explain.table import table
from bayplan.explain.topology.closed import ClosedNodeGroup, closed_document
from bayplan.explain.topology.levels import in_one, path_text, short_levels
from bayplan.explain.why import stage_lines
from bayplan.gangs.model import LevelRoom
from bayplan.kube.topology_levels import HOSTNAME, NUMA
from bayplan.kube.visible import visible_lines

MOST_LINES = 40


@dataclass(frozen=True, slots=True)
class DomainSlots:
    """One domain: how many nodes it has, how many pods fit, how many gangs that makes."""

    path: Path
    nodes: int
    slots: int
    gangs: int


@dataclass(frozen=True)
class SlotCount:
    """The answer for gangs of `pods` pods at one `level`; `gangs` counts per level, the node last.

    With `in_zone` each gang is in one NUMA zone, and only slots in such units count. `closed` are nodes that such pods
    cannot use; `nowhere` says why no node has a slot.
    """

    topology: str
    levels: tuple[str, ...]
    level: int
    pods: int
    request: PodRequest
    described: str
    nodes: int
    slots: int
    rooms: tuple[LevelRoom, ...]
    gangs: tuple[int, ...]
    domains: tuple[DomainSlots, ...]
    stages: tuple[FilterStage, ...]
    closed: tuple[ClosedNodeGroup, ...] = ()
    in_zone: bool = False
    nowhere: str = ""

    @property
    def fit(self) -> int:
        """How many gangs fit, each in one domain of the level."""
        return self.gangs[self.level]

    @property
    def answer(self) -> str:
        """The first line."""
        levels = short_levels(self.levels)
        where = "in one NUMA zone" if self.in_zone else in_one(levels[self.level])
        if self.fit:
            verb = "fits" if self.fit == 1 else "fit"
            return f"{count(self.fit, 'gang')} of {count(self.pods, 'pod')} {verb}, each {where}"
        if self.in_zone:
            return f"no gang of {count(self.pods, 'pod')} fits in one NUMA zone"
        if not self.slots:
            return f"no such pod fits anywhere: {self.nowhere}"
        room = self.rooms[self.level]
        wider = next((levels[level] for level in range(self.level - 1, -1, -1) if self.gangs[level]), None)
        also = f"; one fits {in_one(wider)}" if wider else ""
        if not wider and self.slots >= self.pods:
            also = f"; one fits in several {count(2, levels[0]).partition(' ')[2]} together"
        return f"no gang of {count(self.pods, 'pod')} fits {where}: at most {room.most} do{also}"


def slot_count_of(tree: Tree, counts: Counts, pods: int, level: int) -> tuple[tuple[int, ...], tuple[DomainSlots, ...]]:
    """Gangs per level, and the domains of one level; `counts` are slots by position in the tree."""
    gangs = tuple(int((tree.sums(counts, each) // pods).sum()) for each in range(tree.node_level + 1))
    domains = []
    for number, slots in enumerate(tree.sums(counts, level).tolist()):
        first, end = tree.bounds(level, number)
        domains.append(DomainSlots(tree.paths[level][number], end - first, slots, slots // pods))
    return gangs, tuple(domains)


def slots_text(counted_slots: SlotCount) -> str:
    """The answer, every level, and the domains of the requested level."""
    levels = short_levels(counted_slots.levels)
    asked = f"{listing(counted_slots.request.total) or 'nothing'}  ({counted_slots.described})"
    if not counted_slots.slots:
        lines = [counted_slots.answer, f"  each pod asks for  {asked}", *_reason_lines(counted_slots)]
        return visible_lines(lines)
    in_all = count(counted_slots.slots, "slot")
    lines = [counted_slots.answer, f"  each pod asks for  {asked}; {in_all} in all", ""]
    rows = [
        (short, str(room.domains), str(room.holding_all), str(gangs), str(room.most), best_in(room))
        for short, room, gangs in zip(levels, counted_slots.rooms, counted_slots.gangs, strict=True)
    ]
    header = ("level", "domains", "hold one", "gangs", "largest gang", "in")
    lines += table(header, rows, indent="  ", numbers=header[1:5])
    lines += ["", *_domain_lines(counted_slots.domains, levels[counted_slots.level])]
    return visible_lines([*lines, *_reason_lines(counted_slots)])


def _reason_lines(counted_slots: SlotCount) -> list[str]:
    """The nodes that such pods cannot use, and if no gang fits, how the nodes became fewer."""
    lines = ["", *(f"  {each.sentence}" for each in counted_slots.closed)] if counted_slots.closed else []
    return lines if counted_slots.fit else [*lines, "", *stage_lines(counted_slots.nodes, counted_slots.stages)]


def _domain_lines(domains: Sequence[DomainSlots], level: str) -> list[str]:
    """The domains with room first, then the number of those with none or too little."""
    shown = sorted((domain for domain in domains if domain.slots), key=lambda domain: -domain.slots)[:MOST_LINES]
    order = {domain.path: number for number, domain in enumerate(domains)}
    rows = [
        (path_text(domain.path), str(domain.nodes), str(domain.slots), str(domain.gangs))
        for domain in sorted(shown, key=lambda domain: order[domain.path])
    ]
    header = (level, "nodes", "slots", "gangs")
    lines = table(header, rows, indent="  ", numbers=header[1:])
    left = len(domains) - len(shown)
    some_have_slots = any(domain.slots and domain not in shown for domain in domains)
    rest = f"no more than {min(domain.slots for domain in shown)} each" if some_have_slots else "no slot"
    return [*lines, f"  and {left} more with {rest}"] if left else lines


def slots_document(counted_slots: SlotCount) -> Document:
    """What `bayplan slots -o json` prints."""
    levels = (*counted_slots.levels, HOSTNAME)
    return {
        "apiVersion": API_VERSION,
        "kind": "SlotCount",
        "answer": counted_slots.answer,
        "topology": counted_slots.topology,
        "level": NUMA if counted_slots.in_zone else levels[counted_slots.level],
        "pods": counted_slots.pods,
        "asksFor": amounts_document(counted_slots.request.total),
        "slots": counted_slots.slots,
        "gangs": counted_slots.fit,
        "levels": [
            {**room, "gangs": gangs}
            for room, gangs in zip(rooms_document(counted_slots.rooms), counted_slots.gangs, strict=True)
        ],
        "domains": [
            {"path": list(domain.path), "nodes": domain.nodes, "slots": domain.slots, "gangs": domain.gangs}
            for domain in counted_slots.domains
        ],
        "closed": closed_document(counted_slots.closed),
        "stages": stages_document(counted_slots.stages),
    }
