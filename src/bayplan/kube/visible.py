"""Text from objects made safe to show: whatever a reader cannot see is written out.

Annotations, levels, zone names and everything in a dump are free text. An escape sequence in them would drive a
terminal, a line break would forge a line of output or of a log, and controls for the direction of text would show
another text than there is. Every output passes here: `visible` for people's text, HTML, SVG, events and conditions,
`visible_json` for JSON, where the escapes are JSON's own and the value stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_VALUE = 1000
"""Letters of a value that a message shows whole: more than any name has, and enough for a list of hosts."""
_SHOWN = 80
_LONG = re.compile(rf'"[^"]{{{LONGEST_VALUE},}}"|[^\s"]{{{LONGEST_VALUE},}}')


def visible(text: str) -> str:
    r"""The same text with an escape for every character that cannot be seen: controls, line breaks, invisible and
    unassigned characters.

    >>> visible("a\x1b[31m\nb\u202e")
    'a\\x1b[31m\\nb\\u202e'
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def short_values(text: str) -> str:
    """A message with the beginning of each value that is too long to read; texts in quotes are values, too.

    >>> short_values(f'Pod {"x" * 1000}: is "{"y " * 500}"') == f'Pod {"x" * 80}...: is "{"y " * 40}..."'
    True
    """
    return text if len(text) < LONGEST_VALUE else _LONG.sub(_shortened, text)


def _shortened(found: re.Match[str]) -> str:
    value = found[0]
    return f'{value[: _SHOWN + 1]}..."' if value.startswith('"') else f"{value[:_SHOWN]}..."


def visible_lines(lines: Iterable[str]) -> str:
    """Lines of text, none of which can be broken by what it shows."""
    return "\n".join(map(visible, lines))


def visible_text(text: str) -> str:
    """The same for a text whose line breaks are known to be ours."""
    return visible_lines(text.split("\n"))


def visible_json(text: str) -> str:
    r"""JSON with `\u` escapes for whatever cannot be seen; it can only stand inside of strings, but for the line breaks
    between lines.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _in_json(c) for c in text)


def _escaped(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
