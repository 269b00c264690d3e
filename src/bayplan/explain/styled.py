"""Lines of pieces with a meaning (`free`, `used`, `dim`), so that a terminal can colour them.

Without colours the pieces are joined; no picture depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.kube.visible import visible


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line and its meaning."""

    text: str
    style: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", visible(self.text))


@dataclass(frozen=True, slots=True)
class StyledLine:
    """A line of spans."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, *pieces: str | Span) -> StyledLine:
        """A line from plain texts and spans."""
        return cls(tuple(Span(piece) if isinstance(piece, str) else piece for piece in pieces))

    @property
    def plain(self) -> str:
        """The line without any style."""
        return "".join(span.text for span in self.spans)

    def __len__(self) -> int:
        return sum(len(span.text) for span in self.spans)

    def filled(self, width: int) -> StyledLine:
        """The line with blanks up to this width."""
        return StyledLine((*self.spans, Span(" " * (width - len(self)))))

    def __add__(self, other: StyledLine) -> StyledLine:
        return StyledLine(self.spans + other.spans)
