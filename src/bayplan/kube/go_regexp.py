r"""Go's regular expressions (RE2), as objects of other systems hold them: is a pattern found in a name?

Python's `re` would do for most of them, but it refuses some that Go knows (`\z`, `[[:alpha:]]`, `(?i)` in the middle), takes some that Go refuses (looking around,
backreferences), and needs exponential time for others (`^([a-z0-9]+-?)+$`): one of those would stop a scheduler. So a pattern is parsed here by Go's rules, into a machine
that is in all its states at once and reads every character once. What it does in a set of states is remembered. `re` judges single characters.

Left out: `\p{...}`, because names of Kubernetes' objects are ASCII. They have no line ends either, so that `^` and `$` mean the ends of the name. Which of several matches Go would choose,
and how greedily, makes no difference here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

# Go allows no more repetitions than that.
MOST_REPETITIONS = 1000
# More than any sensible pattern has; repetitions of repetitions can ask for millions.
MOST_STATES = 20_000
# How many sets of states are remembered.
MOST_REMEMBERED = 1000

_GROUP = re.compile(r"\(\?(?:P?<\w+>|(?P<on>[imsU]*)(?P<off>-[imsU]+)?(?P<end>[:)]))", re.ASCII)
_REPETITION = re.compile(r"[*+?]|\{(?P<least>\d+)(?P<more>,(?P<most>\d*))?\}", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:[dDsSwWafnrtv]|x[0-9A-Fa-f]{2}|x\{(?P<code>[0-9A-Fa-f]{1,6})\}|0[0-7]{0,2}|[^\w\s])", re.ASCII
)
_QUOTED = re.compile(r"\\Q(?P<text>.*?)(?:\\E|\Z)|\\.", re.DOTALL)
# One character that stands for itself, as `re.escape` writes it.
_LITERAL = re.compile(r"[^\\.\[]|\\[^\w\s]", re.ASCII)
_POSIX = re.compile(r"\[:(?P<name>\^?\w+):\]")
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


class _Beside(Enum):
    """What stands beside a place in a text."""

    END = "end"
    WORD = "word"
    OTHER = "other"


class _Assertion(Enum):
    """What may be asked of a place in a text."""

    START = "start"
    END = "end"
    WORD_BOUNDARY = "word boundary"
    NO_WORD_BOUNDARY = "no word boundary"

    def holds(self, before: _Beside, after: _Beside) -> bool:
        match self:
            case _Assertion.START:
                return before is _Beside.END
            case _Assertion.END:
                return after is _Beside.END
        boundary = (before is _Beside.WORD) != (after is _Beside.WORD)
        return boundary == (self is _Assertion.WORD_BOUNDARY)


_ASSERTIONS = {
    "^": _Assertion.START,
    "$": _Assertion.END,
    r"\A": _Assertion.START,
    r"\z": _Assertion.END,
    r"\b": _Assertion.WORD_BOUNDARY,
    r"\B": _Assertion.NO_WORD_BOUNDARY,
}


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    ways: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """So many times at least; at most, or without end."""

    inner: _Node
    least: int
    most: int | None


# A pattern of `re` stands for one character.
_Node = _Sequence | _Choice | _Repeated | _Assertion | re.Pattern[str]


class GoPattern:
    """A pattern of Go. Raises `ValueError` with what is wrong with it. `prefix` is what every name begins with in which it is found."""

    def __init__(self, pattern: str) -> None:
        try:
            tree = _Parser(pattern).tree()
            self._machine = _Machine(tree)
            self.prefix = _prefix(tree)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        except re.error as error:
            raise ValueError(error.msg) from None

    def found_in(self, text: str) -> bool:
        """True if the pattern is found anywhere in a text."""
        return self._machine.finds(text)


class _Parser:
    """Walks through a pattern once."""

    def __init__(self, pattern: str) -> None:
        # Quoted text is text with every character escaped.
        self._pattern = _QUOTED.sub(lambda m: m[0] if m["text"] is None else re.escape(m["text"]), pattern)
        self._at = 0
        self._ignores_case = False

    def tree(self) -> _Node:
        found = self._choice()
        if self._at < len(self._pattern):
            raise ValueError("unexpected )")
        return found

    def _choice(self) -> _Node:
        ways = [self._sequence()]
        while self._pattern.startswith("|", self._at):
            self._at += 1
            ways.append(self._sequence())
        return _Choice(tuple(ways))

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            parts.append(self._repeated(self._one()))
        return _Sequence(tuple(parts))

    def _one(self) -> _Node:
        """Whatever a repetition would repeat."""
        pattern, at = self._pattern, self._at
        if repetition := _REPETITION.match(pattern, at):
            raise ValueError(f"missing argument to repetition operator {repetition[0]}")
        for length in (1, 2):
            if pattern[at : at + length] in _ASSERTIONS:
                self._at += length
                return _ASSERTIONS[pattern[at : at + length]]
        if pattern[at] == "(":
            return self._group()
        if pattern[at] == "[":
            return self._class()
        if pattern[at] == "\\":
            return self._character(self._escaped())
        self._at += 1
        return self._character(pattern[at] if pattern[at] == "." else re.escape(pattern[at]))

    def _character(self, text: str) -> re.Pattern[str]:
        return re.compile(text, re.ASCII | (re.IGNORECASE if self._ignores_case else 0))

    def _group(self) -> _Node:
        outer = self._ignores_case
        if self._pattern.startswith("(?", self._at):
            found = _GROUP.match(self._pattern, self._at)
            if found is None:
                raise ValueError(f"{self._pattern[self._at : self._at + 4]} is Perl syntax that Go does not know")
            self._at = found.end()
            self._ignores_case = (outer or "i" in (found["on"] or "")) and "i" not in (found["off"] or "")
            if found["end"] == ")":
                return _Sequence(())  # Flags alone hold until the group ends that they stand in.
        else:
            self._at += 1
        inner = self._choice()
        if not self._pattern.startswith(")", self._at):
            raise ValueError("missing closing )")
        self._at += 1
        self._ignores_case = outer
        return inner

    def _repeated(self, inner: _Node) -> _Node:
        found = _REPETITION.match(self._pattern, self._at)
        if found is None:
            return inner
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found[0], (0, 0))
        if found["least"]:
            least = int(found["least"])
            most = (int(found["most"]) if found["most"] else None) if found["more"] else least
        if max(least, most or 0) > MOST_REPETITIONS or (most is not None and most < least):
            raise ValueError(f"invalid repeat count {found[0]}")
        end = found.end()
        end += self._pattern.startswith("?", end)
        if _REPETITION.match(self._pattern, end):
            raise ValueError(f"invalid nested repetition operator {self._pattern[found.start() : end + 1]}")
        self._at = end
        return _Repeated(inner, least, most)

    def _escaped(self) -> str:
        """An escape that stands for characters, inside of a class and outside, as `re` writes it."""
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            raise ValueError(f"invalid escape sequence {self._pattern[self._at : self._at + 2]}")
        self._at = found.end()
        return f"\\U{int(found['code'], 16):08x}" if found["code"] else found[0]

    def _class(self) -> _Node:
        pattern = self._pattern
        text = "[^" if pattern.startswith("[^", self._at) else "["
        self._at += len(text)
        first = self._at
        while self._at < len(pattern) and (pattern[self._at] != "]" or self._at == first):
            if posix := _POSIX.match(pattern, self._at):
                if posix["name"] not in _POSIX_CLASSES:
                    raise ValueError(f"invalid character class {posix[0]}")
                text += _POSIX_CLASSES[posix["name"]]
                self._at = posix.end()
            elif pattern[self._at] == "\\":
                text += self._escaped()
            else:
                # `re` keeps some characters for sets of its own.
                text += f"\\{pattern[self._at]}" if pattern[self._at] in "[]&|~" else pattern[self._at]
                self._at += 1
        if self._at >= len(pattern):
            raise ValueError("missing closing ]")
        self._at += 1
        return self._character(text + "]")


_FOUND = -1
# Is read after the last character.
_THE_END = ""


@dataclass(slots=True)
class _States:
    """A set of states after some character, and where further characters lead from there; None where the pattern is found."""

    numbers: frozenset[int]
    before: _Beside
    moves: dict[str, _States | None] = field(default_factory=dict)
    is_dead: bool = False


_UNKNOWN = _States(frozenset(), _Beside.END)


class _Machine:
    """States with a character to read, an assertion to hold, or nothing to do but to go on; each with those that follow."""

    def __init__(self, tree: _Node) -> None:
        self._steps: list[tuple[re.Pattern[str] | _Assertion | None, list[int]]] = []
        self._start = self._wired(tree, _FOUND)
        self._begins_anywhere = any(
            number == _FOUND or isinstance(self._steps[number][0], re.Pattern)
            for before in (_Beside.WORD, _Beside.OTHER)
            for after in _Beside
            for number in self._reached([self._start], before, after)
        )
        self._forget()

    def _forget(self) -> None:
        self._first = _States(frozenset({self._start}), _Beside.END)
        self._known: dict[tuple[frozenset[int], _Beside], _States] = {}

    def finds(self, text: str) -> bool:
        """True if the pattern is found in a text."""
        states = self._first
        for character in text:
            following = states.moves.get(character, _UNKNOWN)
            if following is _UNKNOWN:
                following = states.moves[character] = self._read(states, character)
            if following is None:
                return True
            states = following
            if states.is_dead:
                return False
        if _THE_END not in states.moves:
            states.moves[_THE_END] = self._read(states, _THE_END)
        return states.moves[_THE_END] is None

    def _read(self, states: _States, character: str) -> _States | None:
        reached = self._reached(states.numbers, states.before, _beside(character))
        if _FOUND in reached:
            return None
        following = {self._start} if self._begins_anywhere else set()
        for number in reached:
            reads, targets = self._steps[number]
            if isinstance(reads, re.Pattern) and reads.fullmatch(character):
                following.update(targets)
        key = frozenset(following), _beside(character)
        if key not in self._known:
            if len(self._known) >= MOST_REMEMBERED:
                self._forget()
            self._known[key] = _States(*key, is_dead=not following)
        return self._known[key]

    def _reached(self, numbers: Iterable[int], before: _Beside, after: _Beside) -> set[int]:
        """Everywhere one comes to without reading."""
        reached, open_ends = set(numbers), list(numbers)
        while open_ends:
            number = open_ends.pop()
            if number == _FOUND:
                continue
            asks, targets = self._steps[number]
            if asks is None or (isinstance(asks, _Assertion) and asks.holds(before, after)):
                new = set(targets) - reached
                reached |= new
                open_ends += new
        return reached

    def _wired(self, node: _Node, target: int) -> int:
        """The number of the state from which a part of the pattern leads to a target."""
        match node:
            case _Sequence(parts):
                for part in reversed(parts):
                    target = self._wired(part, target)
                return target
            case _Choice(ways):
                return self._step(None, [self._wired(way, target) for way in ways])
            case _Repeated(inner, least, most):
                begin = self._loop(inner, target) if most is None else target
                for _ in range((most or least) - least):
                    begin = self._step(None, [self._wired(inner, begin), target])
                for _ in range(least):
                    begin = self._wired(inner, begin)
                return begin
        return self._step(node, [target])

    def _loop(self, inner: _Node, target: int) -> int:
        begin = self._step(None, [target])
        self._steps[begin][1].append(self._wired(inner, begin))
        return begin

    def _step(self, asks: re.Pattern[str] | _Assertion | None, targets: list[int]) -> int:
        if len(self._steps) >= MOST_STATES:
            raise ValueError("expression too large")
        self._steps.append((asks, targets))
        return len(self._steps) - 1


def _prefix(tree: _Node) -> str:
    """The characters that a pattern has behind its first `^`."""
    while isinstance(tree, _Choice) and len(tree.ways) == 1:
        tree = tree.ways[0]
    parts = tree.parts if isinstance(tree, _Sequence) else ()
    if not parts or parts[0] is not _Assertion.START:
        return ""
    found = ""
    for part in parts[1:]:
        if not isinstance(part, re.Pattern) or part.flags & re.IGNORECASE or not _LITERAL.fullmatch(part.pattern):
            break
        found += part.pattern[-1]
    return found


def _beside(character: str) -> _Beside:
    if not character:
        return _Beside.END
    return _Beside.WORD if re.fullmatch(r"\w", character, re.ASCII) else _Beside.OTHER
