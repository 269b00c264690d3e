"""A topology as one self-contained SVG: blocks, racks in them, a cell for every node with a number in it; a gang's nodes in blue.

In comes a `TopologyMap`, out goes text that a browser or a ticket shows as it is. The two lowest levels are boxes in boxes; wider levels
are part of the blocks' names. A number says what its colour says, so the picture works without colours; pointing at a cell
tells the node's name. About a thousand nodes fit on a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from bayplan.cluster.pod_request import CPU
from bayplan.explain.amounts import counted_in_bytes, human
from bayplan.explain.gang_outcome import missing_labels
from bayplan.explain.hostlist import hostlist
from bayplan.explain.levels import counted, domain_name, short_levels
from bayplan.explain.numa_labels import short_labels, short_listing
from bayplan.explain.svg import INK, Canvas, cut
from bayplan.explain.topology_map import Domain, TopologyMap

DIM, LINE, FRAME = "#5b6477", "#d9dee8", "#aab3c5"
PAPER, BLOCK, RACK = "#ffffff", "#f3f5f9", "#ffffff"
ALL_FREE, SOME_FREE, NONE_FREE, NEVER = "#bfe5d6", "#f6e4b8", "#f5d2c4", "#eceff4"
GANG, GANG_FILL = "#0b5cad", "#d5e6f8"
SMALL, TINY = 11, 10

WIDEST, WIDEST_OF_MANY = 1080, 530
MARGIN, GAP, PADDING = 20, 10, 10
CELL_WIDTH, CELL_HEIGHT, CELL_GAP = 24, 19, 3
RACK_PADDING, RACK_CAPTION, NARROWEST_RACK = 7, 22, 118
BLOCK_CAPTION = 28
GIB = 2**30


def topology_svg(drawn: TopologyMap) -> str:
    """The whole picture."""
    return _Picture(drawn).drawing()


@dataclass(frozen=True, slots=True)
class _Block:
    """A domain of the second lowest level with the racks in it; without a name if the topology has one level only."""

    name: str
    domain: Domain | None
    racks: Sequence[Domain]


class _Picture:
    """Blocks from left to right in rows; everything is laid out on a grid that the largest rack sets."""

    def __init__(self, drawn: TopologyMap) -> None:
        self.drawn = drawn
        self.canvas = Canvas()
        self.blocks = _blocks(drawn)
        most_nodes = max((len(_cells(rack)) for block in self.blocks for rack in block.racks), default=1)
        most_racks = max((len(block.racks) for block in self.blocks), default=1)
        self.cells_per_row = most_nodes if most_nodes <= 5 else min(12, max(4, ceil(sqrt(most_nodes))))
        cells_width = self.cells_per_row * (CELL_WIDTH + CELL_GAP) - CELL_GAP + 2 * RACK_PADDING
        self.rack_width = max(NARROWEST_RACK, cells_width)
        widest = WIDEST if len(self.blocks) == 1 else WIDEST_OF_MANY
        self.racks_per_row = _balanced(most_racks, (widest - PADDING) // (self.rack_width + GAP))
        self.block_width = self.racks_per_row * (self.rack_width + GAP) - GAP + 2 * PADDING
        self.blocks_per_row = _balanced(len(self.blocks), (WIDEST + GAP) // (self.block_width + GAP))
        self.width = max(self.blocks_per_row * (self.block_width + GAP) - GAP, 640)
        self.labels = short_labels([*drawn.resources, *drawn.asks_for])

    def drawing(self) -> str:
        """Title, blocks, legend, and who is outside."""
        y = self._header()
        for start in range(0, len(self.blocks), self.blocks_per_row):
            row = self.blocks[start : start + self.blocks_per_row]
            height = max(self._block_height(block) for block in row)
            for column, block in enumerate(row):
                self._block(block, MARGIN + column * (self.block_width + GAP), y, height)
            y += height + GAP
        y = self._outside(self._legend(y + 4))
        title = self.drawn.title or self.drawn.answer
        return self.canvas.document(title, self.width + 2 * MARGIN, y + MARGIN - 8, PAPER)

    def _header(self) -> float:
        drawn = self.drawn
        self.canvas.text(MARGIN, MARGIN + 12, cut(drawn.title or drawn.answer, self.width, 15), size=16, bold=True)
        levels = " > ".join(short_levels(drawn.levels))
        facts = [*drawn.facts, f"topology {drawn.name} ({levels})" if drawn.name else levels]
        facts += [counted(drawn.nodes, "node")] if drawn.title else []
        self.canvas.text(MARGIN, MARGIN + 33, cut(" · ".join(facts), self.width, 11), fill=DIM)
        return MARGIN + 46

    def _block_height(self, block: _Block) -> float:
        rows = [self._rack_height(row) for row in _in_rows(block.racks, self.racks_per_row)]
        caption = BLOCK_CAPTION if block.name else PADDING
        return caption + sum(rows) + GAP * (len(rows) - 1) + PADDING

    def _rack_height(self, racks: Sequence[Domain]) -> float:
        rows = max(ceil(len(_cells(rack)) / self.cells_per_row) for rack in racks)
        return RACK_CAPTION + rows * (CELL_HEIGHT + CELL_GAP) - CELL_GAP + RACK_PADDING

    def _block(self, block: _Block, x: float, y: float, height: float) -> None:
        self.canvas.box((x, y), (self.block_width, height), BLOCK, stroke=FRAME, radius=6)
        top = y + PADDING
        if block.domain is not None:
            words = self._room_words(block.domain)
            self.canvas.text(x + PADDING, y + 19, cut(block.name, self.block_width / 2), bold=True)
            self.canvas.text(x + self.block_width - PADDING, y + 19, words, fill=DIM, size=SMALL, anchor="end")
            top = y + BLOCK_CAPTION
        for racks in _in_rows(block.racks, self.racks_per_row):
            rack_height = self._rack_height(racks)
            for column, rack in enumerate(racks):
                self._rack(rack, x + PADDING + column * (self.rack_width + GAP), top, rack_height)
            top += rack_height + GAP

    def _rack(self, rack: Domain, x: float, y: float, height: float) -> None:
        here = sum(self.drawn.marked.get(node, 0) for node in rack.nodes)
        canvas = self.canvas
        canvas.box((x, y), (self.rack_width, height), RACK, stroke=GANG if here else LINE)
        words = counted(here, "pod") if here else self._figure_words(rack)
        canvas.text(
            x + self.rack_width - RACK_PADDING, y + 15, words, fill=GANG if here else DIM, size=TINY, anchor="end"
        )
        name = domain_name(short_levels(self.drawn.levels)[-2], rack.path[-1]) if self.drawn.levels else "all nodes"
        canvas.text(x + RACK_PADDING, y + 15, cut(name, self.rack_width - 62, SMALL), size=SMALL)
        for number, node in enumerate(_cells(rack)):
            row, column = divmod(number, self.cells_per_row)
            left = x + RACK_PADDING + column * (CELL_WIDTH + CELL_GAP)
            self._cell(node, left, y + RACK_CAPTION + row * (CELL_HEIGHT + CELL_GAP))

    def _cell(self, node: Domain, x: float, y: float) -> None:
        pods = self.drawn.marked.get(node.path[-1], 0)
        value, most = self._figure(node)
        words = f"{node.path[-1]}: {self._room_words(node)}" + (f", {counted(pods, 'pod')} of the gang" if pods else "")
        size = (CELL_WIDTH, CELL_HEIGHT)
        if pods:
            self.canvas.box(
                (x + 0.5, y + 0.5), (size[0] - 1, size[1] - 1), GANG_FILL, stroke=GANG, radius=3, hint=words
            )
        else:
            fill = NEVER if not most else NONE_FREE if not value else ALL_FREE if value >= most else SOME_FREE
            self.canvas.box((x, y), size, fill, radius=3, hint=words)
        text = str(pods) if pods else str(value) if most else "-"
        ink = GANG if pods else INK if value else DIM
        self.canvas.text(x + CELL_WIDTH / 2, y + 13.5, text, fill=ink, size=TINY, bold=bool(pods), anchor="middle")

    # -- numbers and words ----------------------------------------------------------------------------------------------

    @property
    def _resource(self) -> str:
        """The resource that cells show where no shape was asked for: the first device, else the first of all."""
        devices = [name for name in self.drawn.resources if "/" in name]
        return (devices or list(self.drawn.resources) or [CPU])[0]

    def _figure(self, domain: Domain) -> tuple[int, int]:
        """What a cell shows, and the most that it could be."""
        if domain.slots is not None:
            return domain.slots, domain.slots_if_idle or 0
        name = self._resource
        unit = 1000 if name == CPU else GIB if counted_in_bytes(name) else 1
        return domain.free.get(name, 0) // unit, domain.total.get(name, 0) // unit

    def _figure_words(self, domain: Domain) -> str:
        value, _ = self._figure(domain)
        return f"{value} fit" if domain.slots is not None else f"{value} free"

    def _room_words(self, domain: Domain) -> str:
        free = f"{human(self._resource, domain.free.get(self._resource, 0))} {self.labels[self._resource]} free"
        more = " more" if self.drawn.marked else ""
        return free if domain.slots is None else f"{free} · {domain.slots}{more} fit"

    def _legend(self, y: float) -> float:
        asked = ", ".join(short_listing(self.drawn.asks_for, self.labels))
        what = f"pods of {asked} that fit" if self.drawn.asks_for else f"free {self.labels[self._resource]}"
        entries = [(ALL_FREE, "all free"), (SOME_FREE, "some left"), (NONE_FREE, "none left")]
        if self.drawn.marked:
            entries.insert(0, (GANG_FILL, "pods of the gang"))
        x = float(MARGIN)
        for fill, words in entries:
            self.canvas.box((x, y + 2), (14, 12), fill, stroke=GANG if fill == GANG_FILL else "", radius=2)
            self.canvas.text(x + 20, y + 12, words, fill=DIM, size=SMALL)
            x += 34 + 6.4 * len(words)
        where = "Numbers in other cells" if self.drawn.marked else "Numbers"
        self.canvas.text(MARGIN, y + 32, cut(f"{where}: {what}.", self.width, SMALL), fill=DIM, size=SMALL)
        return y + 38

    def _outside(self, y: float) -> float:
        for lacked, nodes in missing_labels(self.drawn.outside):
            words = f"Outside, {self.drawn.lead}{lacked}: {hostlist(nodes, 80)}"
            self.canvas.text(MARGIN, y + 12, cut(words, self.width, SMALL), fill=DIM, size=SMALL)
            y += 18
        return y


def _blocks(drawn: TopologyMap) -> list[_Block]:
    depth = len(drawn.levels)
    if depth < 2:
        racks = drawn.domains if depth else (_all_nodes(drawn),)
        return [_Block("", None, racks)] if drawn.domains else []
    names = short_levels(drawn.levels)
    return [
        _Block(" / ".join((*block.path[:-1], domain_name(names[depth - 2], block.path[-1]))), block, block.inside)
        for block in drawn.at(depth - 1)
    ]


def _all_nodes(drawn: TopologyMap) -> Domain:
    """A topology whose only level is the node: all nodes side by side."""
    nodes = tuple(node for domain in drawn.domains for node in domain.nodes)
    slots = sum(domain.slots or 0 for domain in drawn.domains) if drawn.asks_for else None
    free = {name: sum(domain.free[name] for domain in drawn.domains) for name in drawn.resources}
    total = {name: sum(domain.total[name] for domain in drawn.domains) for name in drawn.resources}
    return Domain(("",), nodes, free, total, slots, slots, drawn.domains)


def _cells(rack: Domain) -> Sequence[Domain]:
    return rack.inside


def _in_rows(racks: Sequence[Domain], per_row: int) -> list[Sequence[Domain]]:
    return [racks[start : start + per_row] for start in range(0, len(racks), per_row)]


def _balanced(number: int, most: int) -> int:
    """How many to put into a row of at most `most`, so that rows are about equally long."""
    most = max(1, most)
    return max(1, ceil(number / ceil(max(number, 1) / most)))
