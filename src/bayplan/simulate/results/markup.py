"""HTML and SVG as text in which nothing can be forgotten: whatever is not `Markup` is escaped.

Names of pods, nodes and workloads come from users' files. `element("td", name)` is safe whatever the name holds; only
text that was built here is taken as it is.
"""

from __future__ import annotations

from html import escape

from bayplan.kube.visible import visible


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str | float) -> Markup:
    """`<tag name="value">content</tag>`. A trailing underscore avoids Python's words; inner ones become hyphens.

    >>> element("p", "a < b", class_="dim")
    '<p class="dim">a &lt; b</p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{written}>{joined(*content)}</{tag}>")


def joined(*content: str, between: str = "") -> Markup:
    """Pieces one after another; texts among them are escaped."""
    return Markup(between.join(piece if isinstance(piece, Markup) else escape(visible(piece)) for piece in content))


def _attribute(value: str | float) -> str:
    """Coordinates need no more than a tenth of a pixel."""
    return escape(visible(value)) if isinstance(value, str) else f"{round(value, 1):g}"
