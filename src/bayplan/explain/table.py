"""Rows of text in aligned columns: names to the left, numbers to the right, two spaces between.

A table is as wide as its cells. Where the terminal is narrower, texts fold in their columns, or the last columns move
below their row, each cell behind its heading, whichever takes fewer lines:

    node        report  frag
    amd-nps4-1  fresh   25 % gpu
        policy: single-numa-node  zones: 8  gpu free: 6
    arm-1       none    -
        policy: -                 zones: -  gpu free: -

Nothing is left out, and no name or number is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from bayplan.explain import folding
from bayplan.explain.folding import folded, indent_of, longest_word, pieces
from bayplan.kube.visible import visible

BETWEEN = "  "
BELOW = "    "

Row = Sequence[str]


def table(header: Row, rows: Sequence[Row], indent: str = "", numbers: Row = ()) -> list[str]:
    """Lines of a table; columns with a heading in `numbers` are right-aligned."""
    drawn = _Table(header, [[visible(cell) for cell in row] for row in rows], numbers)
    widths = list(map(max, map(len, header), drawn.widths))
    screen = folding.width()
    if screen is None or len(indent) + _total(widths) <= screen:
        lines = drawn.lines(widths)
    else:
        room = screen - len(indent)
        lines = drawn.with_columns_below(widths, room)
        if narrow := drawn.narrow(room):
            lines = min(drawn.lines(narrow), lines, key=len)
    return [(indent + line).rstrip() for line in lines]


class _Table:
    """Headings, rows, which columns hold numbers, and how wide the cells of each column are."""

    def __init__(self, header: Row, rows: Sequence[Row], numbers: Row) -> None:
        self.header = header
        self.rows = rows
        self.is_number = [heading in numbers for heading in header]
        self.widths = [max((len(row[column]) for row in rows), default=0) for column in range(len(header))]

    def lines(self, widths: Sequence[int]) -> list[str]:
        """The columns that have a width; wider cells fold."""
        return [line for row in (self.header, *self.rows) for line in self._row(row, widths)]

    def narrow(self, room: int) -> list[int]:
        """Widths with which texts and headings fold into this room; none if their words are too long."""
        headings = [longest_word(heading) for heading in self.header]
        cells = [
            width if is_number else max((longest_word(row[column]) for row in self.rows), default=0)
            for column, (width, is_number) in enumerate(zip(self.widths, self.is_number, strict=True))
        ]
        narrowest = list(map(max, headings, cells))
        # Headings fold first: that takes one line for all rows.
        widths = list(map(max, headings, self.widths))
        while _total(widths) > room:
            wide = [column for column, width in enumerate(widths) if width > narrowest[column]]
            if not wide:
                return []
            widths[max(wide, key=widths.__getitem__)] -= 1
        return widths

    def with_columns_below(self, widths: Sequence[int], room: int) -> list[str]:
        """The columns that fit unfolded, the first one in any case, and the others below each row."""
        widths = [min(widths[0], room), *widths[1:]]
        fit = max(end for end in range(1, len(widths) + 1) if _total(widths[:end]) <= room)
        deepest = max((indent_of(row[0]) for row in self.rows), default=0)
        bands = self._bands(fit, room - len(BELOW) - deepest)
        lines = list(self._row(self.header, widths[:fit]))
        for row in self.rows:
            lines += self._row(row, widths[:fit])
            lead = BELOW + " " * indent_of(row[0])
            lines += [line for band in bands for line in self._below(row, band, lead, room)]
        return lines

    def _row(self, row: Row, widths: Sequence[int]) -> Iterator[str]:
        cells = map(pieces, row, widths)
        for parts in zip_longest(*cells, fillvalue=""):
            yield BETWEEN.join(map(self._aligned, range(len(widths)), parts, widths))

    def _aligned(self, column: int, cell: str, width: int) -> str:
        return cell.rjust(width) if self.is_number[column] else cell.ljust(width)

    def _bands(self, first: int, room: int) -> list[list[int]]:
        """The columns from `first` on, as many in a line as fit there."""
        bands: list[list[int]] = []
        left = 0
        for column in range(first, len(self.header)):
            width = len(f"{self.header[column]}: ") + self.widths[column]
            left -= len(BETWEEN) + width
            if left < 0:
                bands.append([])
                left = room - width
            bands[-1].append(column)
        return bands

    def _below(self, row: Row, band: Sequence[int], lead: str, room: int) -> list[str]:
        """`policy: restricted  zones: 8`, with blanks for what a row does not have."""
        line = lead
        for column in band:
            label = f"{self.header[column]}: "
            cell = self._aligned(column, row[column], self.widths[column])
            line += (label + cell if row[column] else " " * len(label + cell)) + BETWEEN
        label, colon, text = line.strip().partition(": ")
        lead = " " * indent_of(line) + label + colon
        return folded(text, lead, len(lead), room) if label else []


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(BETWEEN) * (len(widths) - 1)
