"""The shapes of pictures as SVG text: boxes and words.

Every colour and size is a presentation attribute. Without a style sheet, viewers with little CSS support draw the same
picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil
from textwrap import wrap

from bayplan.explain.theme import Theme
from bayplan.kube.visible import visible

FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
FONT_SIZE = 12
# No text of any picture is smaller.
SMALL = 11
# Pixels between the lines of an area that is hatched.
HATCH = 5

# The width of a character in the widest common font, and in bold, as a share of the font size.
_CHARACTER, _BOLD_CHARACTER = 0.6, 0.67
# Some characters are wider by this factor.
_WIDE, _WIDER = frozenset("mwMW%@…"), 1.65


class Canvas:
    """Collects elements from the back to the front."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self._elements: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        fill: str = "",
        size: int = FONT_SIZE,
        bold: bool = False,
        anchor: str = "",
    ) -> None:
        """Words whose baseline starts at a point, or ends or is centred there with anchor `end` or `middle`."""
        attributes = f'x="{x:g}" y="{y:g}"'
        attributes += f' fill="{fill}"' if fill else ""
        attributes += f' font-size="{size}"' if size != FONT_SIZE else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' text-anchor="{anchor}"' if anchor else ""
        self._elements.append(f"<text {attributes}>{shown(content)}</text>")

    def box(
        self,
        corner: tuple[float, float],
        size: tuple[float, float],
        fill: str,
        *,
        stroke: str = "",
        line: float = 1,
        radius: int = 4,
        hint: str = "",
    ) -> None:
        """A rectangle with rounded corners; browsers show the hint on hover."""
        attributes = f'x="{corner[0]:g}" y="{corner[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="{radius}"'
        attributes += f' fill="{fill}"'
        attributes += f' stroke="{stroke}" stroke-width="{line:g}"' if stroke else ""
        self._elements.append(
            f"<rect {attributes}><title>{shown(hint)}</title></rect>" if hint else f"<rect {attributes}/>"
        )

    def hatch(self, corner: tuple[float, float], size: tuple[float, float], stroke: str) -> None:
        """Diagonal lines over an area."""
        (x, y), (width, height) = corner, size
        ends = [
            (max(start, 0), max(-start, 0), min(start + height, width), min(width - start, height))
            for start in range(HATCH - int(height), ceil(width), HATCH)
        ]
        lines = "".join(f"M{x + left:g} {y + top:g}L{x + right:g} {y + low:g}" for left, top, right, low in ends)
        self._elements.append(f'<path d="{lines}" stroke="{stroke}" stroke-width="1" fill="none"/>')

    def document(self, title: str, width: float, height: float) -> str:
        """The finished picture; screen readers read the title."""
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="{FONTS}" font-size="{FONT_SIZE}" '
            f'fill="{self.theme.ink}">'
        )
        paper = f'<rect width="{width:g}" height="{height:g}" fill="{self.theme.paper}"/>'
        return "\n".join((opening, f"<title>{shown(title)}</title>", paper, *self._elements, "</svg>"))


def shown(text: str) -> str:
    """Text of objects as element content."""
    return escape(visible(text))


def width_of(text: str, size: int = FONT_SIZE, *, bold: bool = False) -> float:
    """About how many pixels a text needs at most."""
    characters = sum(_WIDER if each in _WIDE else 1 for each in text)
    return characters * size * (_BOLD_CHARACTER if bold else _CHARACTER)


def cut(text: str, room: float, size: int = FONT_SIZE, *, bold: bool = False) -> str:
    """A text cut to a width in pixels, with an ellipsis if needed; three characters stay."""
    if width_of(text, size, bold=bold) <= room:
        return text
    kept = text[:-1]
    while len(kept) > 3 and width_of(f"{kept}…", size, bold=bold) > room:
        kept = kept[:-1]
    return f"{kept}…"


def listed(items: Sequence[str], room: float, size: int = FONT_SIZE) -> list[str]:
    """Items with dots between them, wrapped to a width in pixels; items are never broken, but overlong ones are cut."""
    lines: list[str] = []
    for item in items:
        longer = f"{lines[-1]} · {item}" if lines else ""
        if longer and width_of(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(cut(item, room, size))
    return lines


def in_lines(text: str, room: float, size: int = FONT_SIZE, *, bold: bool = False) -> list[str]:
    """A text wrapped to a width in pixels."""
    return wrap(text, max(4, int(room / width_of("x", size, bold=bold))))
