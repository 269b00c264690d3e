"""Rows of text in aligned columns: names to the left, numbers to the right, two spaces between.

A table is as wide as its cells, unless `fitting` sets the width of the terminal. Then long texts lose their middle, and
columns are dropped from the right, with a note below the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from bayplan.explain.topology.hostlist import shortened
from bayplan.kube.visible import visible

BETWEEN = "  "
SHORTEST_TEXT = 12

_width: ContextVar[int | None] = ContextVar("width", default=None)


@contextmanager
def fitting(width: int | None) -> Iterator[None]:
    """Limit the width of tables to a number of columns within the context; None means unlimited."""
    token = _width.set(width)
    try:
        yield
    finally:
        _width.reset(token)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "", numbers: Sequence[str] = ()
) -> list[str]:
    """Lines of a table; columns with a heading in `numbers` are right-aligned."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    width = _width.get()
    shown = len(header)
    if width is not None:
        texts = [heading not in numbers for heading in header]
        widths, shown = _fitted(widths, texts, width - len(indent))
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if heading in numbers else shortened(cell, width, SHORTEST_TEXT).ljust(width)
            for cell, width, heading in zip(row[:shown], widths, header, strict=False)
        ]
        lines.append((indent + BETWEEN.join(cells)).rstrip())
    if shown < len(header):
        lines.append(f"{indent}(too narrow for: {', '.join(filter(None, header[shown:]))})")
    return lines


def _fitted(widths: Sequence[int], texts: Sequence[bool], room: int) -> tuple[list[int], int]:
    """The widths of the shown columns: texts are shortened, then columns are dropped from the right."""
    for shown in range(len(widths), 0, -1):
        kept = list(widths[:shown])
        # A text that lost more than a third says too little: then drop a column, down to two.
        shortest = [max(SHORTEST_TEXT, width * 2 // 3 if shown > 2 else 0) for width in kept]
        spare = sum(kept) + len(BETWEEN) * (shown - 1) - room
        while spare > 0:
            long = [column for column in range(shown) if texts[column] and kept[column] > shortest[column]]
            if not long:
                break
            longest = max(long, key=lambda column: kept[column])
            kept[longest] -= 1
            spare -= 1
        if spare <= 0 or shown == 1:
            return kept, shown
    return list(widths), len(widths)
