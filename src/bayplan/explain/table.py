"""Rows of text in aligned columns: names to the left, numbers to the right, two spaces between."""

from __future__ import annotations

from collections.abc import Sequence


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "", numbers: Sequence[str] = ()
) -> list[str]:
    """Lines of a table; the columns whose headings are in `numbers` are set to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for row in (header, *rows):
        cells = [
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip(row, widths, header, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
