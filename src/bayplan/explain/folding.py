"""Lines that fit the terminal: what does not fit goes to the next line, and no name or number is cut.

`fitting` sets the terminal's width. Pipes and files have none: there only `prose` is folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

WIDTH = 100
HANG = 2
CONTINUED = " \\"

# Where a line breaks, the best place first: between columns, between words but not before a number or a bracket,
# between words, inside of a list of hosts such as n[01-03,07].
_BREAKS = tuple(map(re.compile, ("( {2,})", "( )(?![(0-9])", "( )", r"(?<=,)()(?=[0-9,-]+\])")))
_LEAD = re.compile(r"\s*\S.*?\S {2,}|\s*")

_width: ContextVar[int | None] = ContextVar("width", default=None)


@contextmanager
def fitting(width: int | None) -> Iterator[None]:
    """Limit lines to a number of columns within the context; None means unlimited."""
    token = _width.set(width)
    try:
        yield
    finally:
        _width.reset(token)


def width() -> int | None:
    """The limit that `fitting` has set."""
    return _width.get()


def prose(text: str, lead: str, hang: int | None = None) -> list[str]:
    """A text behind its lead, in lines of at most `WIDTH` even where the terminal is wider."""
    return folded(text, lead, len(lead) if hang is None else hang, min(_width.get() or WIDTH, WIDTH))


def fitted(line: str) -> list[str]:
    """A line in lines that fit the terminal, indented to where the words began, behind a lead such as `Nearest:  `."""
    limit = _width.get()
    if limit is None or len(line) <= limit:
        return [line]
    begin = _LEAD.match(line)
    lead = begin[0] if begin else ""
    return folded(line.removeprefix(lead), lead, len(lead) if lead.strip() else len(lead) + HANG, limit)


def typed(line: str) -> list[str]:
    """A command in lines that fit the terminal and that a shell takes, with its comment below."""
    limit = _width.get()
    if limit is None or len(line) <= limit:
        return [line]
    command, _, comment = line.partition("  # ")
    indent = indent_of(line)
    *lines, last = folded(command.strip(), " " * indent, indent + HANG, limit - len(CONTINUED))
    begin = " " * (indent + HANG) + "# "
    return [
        *(each + CONTINUED for each in lines),
        last,
        *(begin + each for each in pieces(comment, limit - len(begin)) if each),
    ]


def folded(text: str, lead: str, hang: int, width: int) -> list[str]:
    """A text in lines of this width, the first one behind `lead`, the others indented by `hang`, or only a little where
    that leaves too little room.
    """
    lines = _filled(text, lead, width, hang)
    if hang > width * 2 // 3 or max(map(len, lines)) > width:
        indent = indent_of(lead)
        lines = _filled(lead.lstrip() + text, " " * indent, width, indent + HANG)
    return lines


def pieces(text: str, width: int) -> list[str]:
    """A text in lines of this width, indented as it is."""
    if len(text) <= width:
        return [text]
    indent = " " * indent_of(text)
    return _filled(text.strip(), indent, width, len(indent))


def longest_word(text: str) -> int:
    """The width that `pieces` cannot go below."""
    return max(map(len, pieces(text, 1)))


def indent_of(text: str) -> int:
    """How many blanks it begins with."""
    return len(text) - len(text.lstrip())


def _filled(text: str, lead: str, width: int, hang: int) -> list[str]:
    lines = [lead]
    _add(lines, "", text, width, " " * hang, _BREAKS)
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _add(lines: list[str], between: str, text: str, width: int, hang: str, breaks: Sequence[re.Pattern[str]]) -> None:
    """Add to the last line what fits there, and lines for the rest."""
    if len(lines[-1]) + len(between) + len(text) <= width:
        lines[-1] += between + text
    elif len(hang) + len(text) <= width or not breaks:
        lines.append(hang + text)
    else:
        parts = breaks[0].split(text)
        for before, part in zip([between, *parts[1::2]], parts[::2], strict=True):
            _add(lines, before, part, width, hang, breaks[1:])
