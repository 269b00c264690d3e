"""A topology as one self-contained SVG: blocks, racks, a numbered cell for every node; a gang in strong colours.

The two lowest levels are nested boxes; blocks of one wider domain are under its name. Numbers repeat what colours show,
and a rack lists the ranks of a gang's pods, so the picture works without colours. Hovering over a cell shows the node's
name. Every title has its room (`_Sizes`). About a thousand nodes fit on a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, sqrt
from typing import TypeVar

from bayplan.cluster.pods.request import CPU
from bayplan.cluster.topology.tree import Path, distance
from bayplan.explain.amounts import count, counted_in_bytes, human
from bayplan.explain.gangs.outcome import missing_labels
from bayplan.explain.numa.labels import short_labels, short_listing
from bayplan.explain.svg import SMALL, Canvas, cut, in_lines, listed, width_of
from bayplan.explain.theme import LIGHT, Shade, Theme
from bayplan.explain.topology.hostlist import hostlist
from bayplan.explain.topology.levels import domain_name, short_levels
from bayplan.explain.topology.map import DomainView, TopologyMap, leading_resource

TITLE = 16

WIDEST, WIDEST_OF_MANY, NARROWEST = 1080, 530, 640
MARGIN, GAP, PADDING = 20, 10, 10
NARROWEST_CELL, CELL_HEIGHT, CELL_GAP, ZONE_STRIP = 24, 19, 3, 6
RACK_PADDING, RACK_CAPTION, NARROWEST_RACK, WIDEST_RACK_CAPTION = 7, 23, 118, 220
CAPTION_LINE, BLOCK_CAPTION, WIDEST_BLOCK_CAPTION = 16, 28, 300
LINE_HEIGHT, HEADING = 20, 22
PARTY_LINE, PARTY_TEXT, MOST_PARTIES = 14, 11, 4
GIB = 2**30

_Thing = TypeVar("_Thing")


def topology_svg(drawn: TopologyMap, theme: Theme = LIGHT) -> str:
    """The whole picture."""
    return _Picture(drawn, theme).drawing()


@dataclass(frozen=True, slots=True)
class _Block:
    """A domain of the second lowest level with its racks; nameless if the topology has one level."""

    around: Path
    name: str
    domain: DomainView | None
    racks: Sequence[DomainView]


class _Words:
    """Names, numbers and parties of domains."""

    def __init__(self, drawn: TopologyMap) -> None:
        self.drawn = drawn
        self.labels = short_labels([*drawn.resources, *drawn.asks_for])
        # The resource beside names, and in cells without a requested shape.
        self.resource = leading_resource(
            [each for each in drawn.resources if each in drawn.asks_for] or drawn.resources
        )
        # The gang's pods on a node: the numbers of their parties, and their ranks.
        self._on_node: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        for number, party in enumerate(drawn.parties):
            for node, ranks in party.ranks.items():
                self._on_node.setdefault(node, []).append((number, ranks))

    def rack_name(self, rack: DomainView) -> str:
        levels = self.drawn.levels
        return domain_name(short_levels(levels)[-2], rack.path[-1]) if levels else "all nodes"

    def figure(self, domain: DomainView) -> tuple[int, int]:
        """What a cell shows, and its maximum."""
        if domain.slots is not None:
            return domain.slots, domain.slots_if_idle or 0
        unit = 1000 if self.resource == CPU else GIB if counted_in_bytes(self.resource) else 1
        return domain.free.get(self.resource, 0) // unit, domain.total.get(self.resource, 0) // unit

    def in_rack(self, rack: DomainView) -> str:
        here = sum(self.pods_on(node) for node in rack.nodes)
        if here:
            return count(here, "pod")
        value, most = self.figure(rack)
        return f"{value} {'fit' if rack.slots is not None else 'free'} of {most}"

    def room(self, domain: DomainView) -> str:
        """`94 gpu free of 160 · 20 more fit`."""
        free, total = (human(self.resource, each.get(self.resource, 0)) for each in (domain.free, domain.total))
        words = f"{free} {self.labels[self.resource]} free of {total}"
        more = " more" if self.drawn.parties else ""
        return words if domain.slots is None else f"{words} · {domain.slots}{more} fit"

    def pods_on(self, node: str) -> int:
        return sum(len(ranks) for _, ranks in self._on_node.get(node, ()))

    def parties_on(self, nodes: Sequence[str]) -> list[tuple[int, str]]:
        """The numbers of the parties on some nodes, and their ranks there."""
        found: dict[int, list[int]] = {}
        for node in nodes:
            for number, ranks in self._on_node.get(node, ()):
                found.setdefault(number, []).extend(ranks)
        return [(number, self.drawn.parties[number].words(found[number])) for number in sorted(found)]

    def number(self, node: DomainView) -> str:
        """The number in a cell: pods of the gang, else what is free; a dash if there never was anything.

        A closed node is hatched instead.
        """
        value, most = self.figure(node)
        pods = self.pods_on(node.path[-1])
        if not pods and node.path[-1] in self.drawn.closed_by:
            return ""
        return str(pods) if pods else str(value) if most else "-"

    def in_cell(self, node: DomainView) -> str:
        """What hovering over a cell tells."""
        name = node.path[-1]
        pods = self.pods_on(name)
        words = f"{name}: {self.room(node)}"
        words += "".join(f", NUMA zone {zone.path[-1]} {self.room(zone)}" for zone in node.inside)
        closed = self.drawn.closed_by.get(name)
        if closed is not None:
            words += f", {', '.join(closed.causes)}"
        words += f", distance {distance(self.drawn.origin, node.path)}" if self.drawn.origin else ""
        if pods:
            words += f", {count(pods, 'pod')} of the gang: " + "; ".join(each for _, each in self.parties_on([name]))
        return words


class _Sizes:
    """The widths of racks and blocks, and their number per row, set by the largest one and the longest title."""

    def __init__(self, words: _Words, blocks: Sequence[_Block]) -> None:
        racks = [rack for block in blocks for rack in block.racks]
        most_nodes = max((len(rack.inside) for rack in racks), default=1)
        self.cells_per_row = most_nodes if most_nodes <= 5 else min(12, max(4, ceil(sqrt(most_nodes))))
        numbers = [width_of(words.number(node), SMALL, bold=True) for rack in racks for node in rack.inside]
        self.cell = max(NARROWEST_CELL, ceil(max(numbers, default=0)) + 4)
        with_zones = any(node.inside for rack in racks for node in rack.inside)
        self.cell_height = CELL_HEIGHT + (ZONE_STRIP if with_zones else 0)
        cells = self.cells_per_row * (self.cell + CELL_GAP) - CELL_GAP
        captions = [width_of(words.rack_name(each), SMALL) + width_of(words.in_rack(each), SMALL) + 8 for each in racks]
        captions += [width_of(ranks, SMALL) + PARTY_TEXT for each in racks for _, ranks in words.parties_on(each.nodes)]
        caption = min(max(captions, default=0), WIDEST_RACK_CAPTION)
        self.rack = max(NARROWEST_RACK, cells + 2 * RACK_PADDING, ceil(caption) + 2 * RACK_PADDING)
        # A rack that is wide for its caption has more cells per row.
        self.cells_per_row = _balanced(most_nodes, (self.rack - 2 * RACK_PADDING + CELL_GAP) // (self.cell + CELL_GAP))
        named = [
            (width_of(each.name, bold=True), width_of(words.room(each.domain), SMALL)) for each in blocks if each.domain
        ]
        widest = WIDEST if len(blocks) == 1 else WIDEST_OF_MANY
        most_racks = max((len(block.racks) for block in blocks), default=1)
        self.racks_per_row = _balanced(most_racks, (widest - PADDING) // (self.rack + GAP))
        grid = self.racks_per_row * (self.rack + GAP) - GAP
        # The room of a block is beside its name if all blocks are wide enough, else below.
        self.in_one_line = all(name + room + 12 <= grid for name, room in named)
        longest = max((min(max(pair), WIDEST_BLOCK_CAPTION) for pair in named), default=0)
        self.block = max(grid, ceil(longest)) + 2 * PADDING
        self.block_caption = BLOCK_CAPTION + (0 if self.in_one_line else CAPTION_LINE)
        largest_group = max((len(list(group)) for _, group in groupby(blocks, key=_around)), default=1)
        self.blocks_per_row = _balanced(largest_group, (WIDEST + GAP) // (self.block + GAP))
        self.width = max(self.blocks_per_row * (self.block + GAP) - GAP, NARROWEST)


class _Picture:
    """Blocks from left to right in rows, under the name of the domain around them."""

    def __init__(self, drawn: TopologyMap, theme: Theme) -> None:
        self.drawn = drawn
        self.theme = theme
        self.canvas = Canvas(theme)
        self.words = _Words(drawn)
        self.blocks = _blocks(drawn)
        self.sizes = _Sizes(self.words, self.blocks)

    def drawing(self) -> str:
        """Title, blocks, legend, and nodes that are closed or outside."""
        y = self._header()
        for around, group in groupby(self.blocks, key=_around):
            y = self._heading(around, y)
            for row in _in_rows(list(group), self.sizes.blocks_per_row):
                height = max(self._block_height(block) for block in row)
                for column, block in enumerate(row):
                    self._block(block, MARGIN + column * (self.sizes.block + GAP), y, height)
                y += height + GAP
        y = self._outside(self._legend(y + 4))
        title = self.drawn.title or self.drawn.answer
        return self.canvas.document(title, self.sizes.width + 2 * MARGIN, y + MARGIN - 8)

    def _header(self) -> float:
        drawn = self.drawn
        levels = " > ".join(short_levels(drawn.levels))
        facts = [*drawn.facts, f"topology {drawn.name} ({levels})" if drawn.name else levels]
        facts += [count(drawn.nodes, "node")] if drawn.title else []
        y = float(MARGIN + 12)
        for line in in_lines(drawn.title or drawn.answer, self.sizes.width, TITLE, bold=True):
            self.canvas.text(MARGIN, y, line, size=TITLE, bold=True)
            y += LINE_HEIGHT
        for line in listed(facts, self.sizes.width):
            self.canvas.text(MARGIN, y + 1, line, fill=self.theme.dim)
            y += CAPTION_LINE
        return y - 2

    def _heading(self, around: Path, y: float) -> float:
        """The domains around a group of blocks, and the room of the lowest."""
        if not around:
            return y
        levels = short_levels(self.drawn.levels)
        name = " / ".join(domain_name(level, value) for level, value in zip(levels, around, strict=False))
        room = next(self.words.room(each) for each in self.drawn.at(len(around)) if each.path == around)
        for line in in_lines(f"{name} · {room}", self.sizes.width):
            self.canvas.text(MARGIN, y + 13, line, fill=self.theme.dim)
            y += CAPTION_LINE
        return y + HEADING - CAPTION_LINE

    def _block_height(self, block: _Block) -> float:
        rows = [self._rack_height(row) for row in _in_rows(block.racks, self.sizes.racks_per_row)]
        caption = self.sizes.block_caption if block.name else PADDING
        return caption + sum(rows) + GAP * (len(rows) - 1) + PADDING

    def _rack_height(self, racks: Sequence[DomainView]) -> float:
        rows = max(ceil(len(rack.inside) / self.sizes.cells_per_row) for rack in racks)
        lines = max(min(len(self.words.parties_on(rack.nodes)), MOST_PARTIES + 1) for rack in racks)
        listed = lines * PARTY_LINE + 2 if lines else 0
        return RACK_CAPTION + rows * (self.sizes.cell_height + CELL_GAP) - CELL_GAP + RACK_PADDING + listed

    def _block(self, block: _Block, x: float, y: float, height: float) -> None:
        sizes = self.sizes
        self.canvas.box((x, y), (sizes.block, height), self.theme.panel, stroke=self.theme.frame, radius=6)
        top = y + PADDING
        if block.domain is not None:
            room = self.words.room(block.domain)
            inner = sizes.block - 2 * PADDING
            self.canvas.text(x + PADDING, y + 19, cut(block.name, inner, bold=True), bold=True)
            if sizes.in_one_line:
                self.canvas.text(x + sizes.block - PADDING, y + 19, room, fill=self.theme.dim, size=SMALL, anchor="end")
            else:
                self.canvas.text(
                    x + PADDING, y + 19 + CAPTION_LINE, cut(room, inner, SMALL), fill=self.theme.dim, size=SMALL
                )
            top = y + sizes.block_caption
        for racks in _in_rows(block.racks, sizes.racks_per_row):
            rack_height = self._rack_height(racks)
            for column, rack in enumerate(racks):
                self._rack(rack, x + PADDING + column * (sizes.rack + GAP), top, rack_height)
            top += rack_height + GAP

    def _rack(self, rack: DomainView, x: float, y: float, height: float) -> None:
        parties = self.words.parties_on(rack.nodes)
        canvas, width = self.canvas, self.sizes.rack
        theme = self.theme
        canvas.box((x, y), (width, height), theme.paper, stroke=theme.new if parties else theme.line)
        figure = self.words.in_rack(rack)
        ink = theme.new if parties else theme.dim
        canvas.text(x + width - RACK_PADDING, y + 15, figure, fill=ink, size=SMALL, anchor="end")
        room = width - 2 * RACK_PADDING - width_of(figure, SMALL) - 6
        canvas.text(x + RACK_PADDING, y + 15, cut(self.words.rack_name(rack), room, SMALL), size=SMALL)
        for number, node in enumerate(rack.inside):
            row, column = divmod(number, self.sizes.cells_per_row)
            left = x + RACK_PADDING + column * (self.sizes.cell + CELL_GAP)
            self._cell(node, left, y + RACK_CAPTION + row * (self.sizes.cell_height + CELL_GAP))
        rows = ceil(len(rack.inside) / self.sizes.cells_per_row)
        self._rack_parties(parties, x + RACK_PADDING, y + RACK_CAPTION + rows * (self.sizes.cell_height + CELL_GAP))

    def _rack_parties(self, parties: Sequence[tuple[int, str]], x: float, y: float) -> None:
        """The ranks in a rack, a line per party."""
        room = self.sizes.rack - 2 * RACK_PADDING - PARTY_TEXT
        for number, words in parties[:MOST_PARTIES]:
            colour = self._party(number)
            self.canvas.box((x, y + 3), (8, 8), colour, radius=2, hint=words)
            self.canvas.text(x + PARTY_TEXT, y + 11, cut(words, room, SMALL), fill=colour, size=SMALL)
            y += PARTY_LINE
        if len(parties) > MOST_PARTIES:
            self.canvas.text(
                x + PARTY_TEXT, y + 11, f"and {len(parties) - MOST_PARTIES} more", fill=self.theme.dim, size=SMALL
            )

    def _cell(self, node: DomainView, x: float, y: float) -> None:
        pods = self.words.pods_on(node.path[-1])
        hint = self.words.in_cell(node)
        if pods:
            self._gang_cell([number for number, _ in self.words.parties_on([node.path[-1]])], x, y, hint)
            ink = self.theme.paper
        else:
            shade = self._shade(*self.words.figure(node))
            closed = node.path[-1] in self.drawn.closed_by
            fill, ink = (self.theme.paper, self.theme.dim) if closed else shade
            self.canvas.box((x, y), (self.sizes.cell, CELL_HEIGHT), fill, radius=3, hint=hint)
            if closed:
                self.canvas.hatch((x, y), (self.sizes.cell, CELL_HEIGHT), self.theme.frame)
        middle = x + self.sizes.cell / 2
        self.canvas.text(
            middle, y + 13.5, self.words.number(node), fill=ink, size=SMALL, bold=bool(pods), anchor="middle"
        )
        self._zones(node, x, y + CELL_HEIGHT + 1)

    def _gang_cell(self, numbers: Sequence[int], x: float, y: float, hint: str) -> None:
        """A cell with pods of the gang: in the colour of their party, striped for several."""
        stripe, radius = self.sizes.cell / len(numbers), 3 if len(numbers) == 1 else 0
        for place, number in enumerate(numbers):
            self.canvas.box(
                (x + place * stripe, y), (stripe, CELL_HEIGHT), self._party(number), radius=radius, hint=hint
            )

    def _party(self, number: int) -> str:
        return self.theme.parties[number % len(self.theme.parties)]

    def _shade(self, value: int, most: int) -> Shade:
        """The colours for a free amount; pale beside a gang."""
        if not most:
            return Shade(self.theme.panel, self.theme.dim)
        none, less, more, everything = self.theme.free
        if not value or self.drawn.parties:
            return less if value else none
        return everything if value >= most else more if 2 * value >= most else less

    def _zones(self, node: DomainView, x: float, y: float) -> None:
        """A box below a cell for each NUMA zone."""
        if node.inside and node.path[-1] not in self.drawn.closed_by:
            width = self.sizes.cell / len(node.inside)
            self.canvas.box((x, y), (self.sizes.cell, ZONE_STRIP - 1), self.theme.frame, radius=0)
            for place, zone in enumerate(node.inside):
                corner, size = (x + place * width + 0.5, y + 0.5), (width - 1, ZONE_STRIP - 2)
                self.canvas.box(corner, size, self._shade(*self.words.figure(zone)).fill, radius=0)

    def _legend(self, y: float) -> float:
        drawn, labels = self.drawn, self.words.labels
        asked = ", ".join(short_listing(drawn.asks_for, labels))
        what = f"pods of {asked} that fit" if drawn.asks_for else f"free {labels[self.words.resource]}"
        none, less, more, everything = (shade.fill for shade in self.theme.free)
        shades = [(everything, "all free"), (more, "half or more"), (less, "less than half"), (none, "none left")]
        if drawn.parties:
            gang = "pods of the gang" if len(drawn.parties) == 1 else "pods of the gang, parts by colour"
            shades = [(self._party(0), gang), (less, "room left"), (none, "none left")]
        x = float(MARGIN)
        for fill, words in shades:
            self.canvas.box((x, y + 2), (14, 12), fill, stroke=self.theme.line, radius=2)
            self.canvas.text(x + 20, y + 12, words, fill=self.theme.dim, size=SMALL)
            x += 34 + width_of(words, SMALL)
        if drawn.closed:
            self.canvas.box((x, y + 2), (14, 12), self.theme.paper, stroke=self.theme.line, radius=2)
            self.canvas.hatch((x, y + 2), (14, 12), self.theme.frame)
            self.canvas.text(
                x + 20,
                y + 12,
                "closed to such pods" if drawn.named and drawn.asks_for else "closed",
                fill=self.theme.dim,
                size=SMALL,
            )
        where = "Numbers in other cells" if drawn.parties else "Numbers"
        told = f"{where}: {what}." + (f" Strips: {labels[self.words.resource]} of NUMA zones." if drawn.zones else "")
        self.canvas.text(MARGIN, y + 32, cut(told, self.sizes.width, SMALL), fill=self.theme.dim, size=SMALL)
        return y + 38

    def _outside(self, y: float) -> float:
        for each in self.drawn.closed:
            words = cut(each.sentence, self.sizes.width, SMALL)
            self.canvas.text(MARGIN, y + 12, words, fill=self.theme.dim, size=SMALL)
            y += 18
        for lacked, nodes in missing_labels(self.drawn.outside):
            words = f"Outside, {self.drawn.lead}{lacked}: {hostlist(nodes, 80)}"
            self.canvas.text(MARGIN, y + 12, cut(words, self.sizes.width, SMALL), fill=self.theme.dim, size=SMALL)
            y += 18
        return y


def _blocks(drawn: TopologyMap) -> list[_Block]:
    depth = len(drawn.levels)
    if depth < 2:
        racks = drawn.domains if depth else (_all_nodes(drawn),)
        return [_Block((), "", None, racks)] if drawn.domains else []
    level = short_levels(drawn.levels)[depth - 2]
    return [
        _Block(block.path[:-1], domain_name(level, block.path[-1]), block, block.inside)
        for block in drawn.at(depth - 1)
    ]


def _around(block: _Block) -> Path:
    return block.around


def _all_nodes(drawn: TopologyMap) -> DomainView:
    """A topology whose only level is the node: all nodes side by side."""
    nodes = tuple(node for domain in drawn.domains for node in domain.nodes)
    slots = sum(domain.slots or 0 for domain in drawn.domains) if drawn.asks_for else None
    free = {name: sum(domain.free[name] for domain in drawn.domains) for name in drawn.resources}
    total = {name: sum(domain.total[name] for domain in drawn.domains) for name in drawn.resources}
    return DomainView(("",), nodes, free, total, slots, slots, drawn.domains)


def _in_rows(things: Sequence[_Thing], per_row: int) -> list[Sequence[_Thing]]:
    return [things[start : start + per_row] for start in range(0, len(things), per_row)]


def _balanced(number: int, most: int) -> int:
    """The number of items per row, at most `most`, so that rows are about equally long."""
    most = max(1, most)
    return max(1, ceil(number / ceil(max(number, 1) / most)))
