"""The few shapes that pictures are made of, as SVG text: boxes, words, a small cross."""

from __future__ import annotations

from html import escape
from textwrap import wrap

INK = "#1d2433"
FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
FONT_SIZE = 12

# The widest common font needs about this much of its size for a character, and this much if it is bold.
_CHARACTER, _BOLD_CHARACTER = 0.6, 0.67


class Canvas:
    """Collects elements from the back to the front."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        fill: str = INK,
        size: int = FONT_SIZE,
        bold: bool = False,
        anchor: str = "",
    ) -> None:
        """Words whose baseline starts (or, with anchor `end` or `middle`, ends or has its middle) at a point."""
        attributes = f'x="{x:g}" y="{y:g}"'
        attributes += f' fill="{fill}"' if fill != INK else ""
        attributes += f' font-size="{size}"' if size != FONT_SIZE else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' text-anchor="{anchor}"' if anchor else ""
        self._elements.append(f"<text {attributes}>{escape(content)}</text>")

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
        """A rectangle with rounded corners; a browser shows the hint to whoever points at it."""
        attributes = f'x="{corner[0]:g}" y="{corner[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="{radius}"'
        attributes += f' fill="{fill}"'
        attributes += f' stroke="{stroke}" stroke-width="{line:g}"' if stroke else ""
        self._elements.append(
            f"<rect {attributes}><title>{escape(hint)}</title></rect>" if hint else f"<rect {attributes}/>"
        )

    def cross(self, x: float, y: float, size: float, stroke: str) -> None:
        """Two strokes inside a square."""
        near, far = 3, size - 3
        path = f"M{x + near:g} {y + near:g}L{x + far:g} {y + far:g}M{x + far:g} {y + near:g}L{x + near:g} {y + far:g}"
        self._elements.append(f'<path d="{path}" stroke="{stroke}" stroke-width="1.6" stroke-linecap="round"/>')

    def document(self, title: str, width: float, height: float, background: str) -> str:
        """The finished picture; the title is what screen readers say."""
        opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="{FONTS}" font-size="{FONT_SIZE}" fill="{INK}">'
        )
        paper = f'<rect width="{width:g}" height="{height:g}" fill="{background}"/>'
        return "\n".join((opening, f"<title>{escape(title)}</title>", paper, *self._elements, "</svg>"))


def width_of(text: str, size: int = FONT_SIZE, *, bold: bool = False) -> float:
    """About how many pixels a text needs."""
    return len(text) * size * (_BOLD_CHARACTER if bold else _CHARACTER)


def cut(text: str, room: float, size: int = FONT_SIZE, *, bold: bool = False) -> str:
    """A text that fits into so many pixels, with an ellipsis where it had to be cut."""
    most = max(4, int(room / width_of("x", size, bold=bold)))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def in_lines(text: str, room: float, size: int = FONT_SIZE, *, bold: bool = False) -> list[str]:
    """A text in as many lines of so many pixels as it needs."""
    return wrap(text, max(4, int(room / width_of("x", size, bold=bold))))
