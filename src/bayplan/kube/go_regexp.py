r"""Patterns in the syntax of Go's `regexp` (RE2), as objects of other systems hold them, compiled by Python's `re`.

Both read most patterns alike. Where they do not, Go counts: what it refuses is refused here (looking around, backreferences, possessive repetitions, `\Z`), and
what only it knows is rewritten (`\z`, `\Q...\E`, `[[:alpha:]]`, `(?i)` in the middle). `\p{...}` is refused, though Go takes it: names of Kubernetes' objects are
ASCII. It makes no difference here that Python tries alternatives in another order: whether a pattern is found is all that is asked.
"""

from __future__ import annotations

import re

# Go allows no more repetitions than that.
MOST_REPETITIONS = 1000
POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_GROUP = re.compile(r"\(\?(?:P?<(?P<name>\w+)>|(?P<on>[imsU]*)(?P<off>-[imsU]+)?(?P<end>[:)]))", re.ASCII)
_REPETITION = re.compile(r"[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:[dDsSwWafnrtv]|x[0-9A-Fa-f]{2}|x\{(?P<code>[0-9A-Fa-f]{1,6})\}|0[0-7]{0,2}|[^\w\s])", re.ASCII
)
_ASSERTIONS = {r"\A": r"\A", r"\z": r"\Z", r"\b": r"\b", r"\B": r"\B"}
_POSIX = re.compile(r"\[:(?P<negated>\^?)(?P<name>\w+):\]")


def compile_go(pattern: str) -> re.Pattern[str]:
    """The pattern, to be searched for anywhere in a text. Raises `ValueError` with what is wrong with it."""
    try:
        return re.compile(_Rewriter(pattern).rewritten(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


class _Rewriter:
    """Walks through a pattern once and writes it down for Python."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        # For each open group, the brackets that flags in the middle of it have opened: they are closed with it.
        self._open: list[list[str]] = [[]]

    def rewritten(self) -> str:
        pattern = self._pattern
        while self._at < len(pattern):
            character = pattern[self._at]
            if character == "\\":
                self._escape()
            elif character == "[":
                self._class()
            elif character == "(":
                self._group()
            elif character == ")":
                self._close()
            elif character == "|":
                self._alternative()
            elif repetition := _REPETITION.match(pattern, self._at):
                self._repetition(repetition)
            else:
                # A bracket that begins no repetition stands for itself; Python would take `{,3}` for one.
                self._put(re.escape(character) if character in "{}" else character, 1)
        if len(self._open) > 1:
            raise ValueError("missing closing )")
        return "".join(self._out) + ")" * len(self._open[0])

    def _put(self, text: str, length: int) -> None:
        self._out.append(text)
        self._at += length

    def _group(self) -> None:
        if not self._pattern.startswith("(?", self._at):
            self._open.append([])
            self._put("(?:", 1)
            return
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            raise ValueError(f"{self._pattern[self._at : self._at + 4]} is Perl syntax that Go does not know")
        # Whether repetitions are greedy makes no difference to whether anything is found.
        on, off = (found["on"] or "").replace("U", ""), (found["off"] or "").replace("U", "").removeprefix("-")
        opening = f"(?{on}{'-' + off if off else ''}:"
        if found["end"] == ")":
            self._open[-1].append(opening)
        else:
            self._open.append([])
        self._put(opening, len(found[0]))

    def _close(self) -> None:
        if len(self._open) == 1:
            raise ValueError("unexpected )")
        self._put(")" * (len(self._open.pop()) + 1), 1)

    def _alternative(self) -> None:
        """Flags hold behind the bar too."""
        flags = self._open[-1]
        self._put(f"{')' * len(flags)}|{''.join(flags)}", 1)

    def _repetition(self, found: re.Match[str]) -> None:
        for bound in (found["least"], found["most"]):
            if bound and int(bound) > MOST_REPETITIONS:
                raise ValueError(f"invalid repeat count {found[0]}: at most {MOST_REPETITIONS}")
        end = found.end()
        end += self._pattern.startswith("?", end)
        if _REPETITION.match(self._pattern, end):
            raise ValueError(f"invalid nested repetition operator {self._pattern[found.start() : end + 1]}")
        self._put(self._pattern[found.start() : end], end - found.start())

    def _escape(self) -> None:
        if self._pattern.startswith("\\Q", self._at):
            text, _, _ = self._pattern[self._at + 2 :].partition("\\E")
            self._put(re.escape(text), min(len(text) + 4, len(self._pattern) - self._at))
            return
        two = self._pattern[self._at : self._at + 2]
        if two in _ASSERTIONS:
            self._put(_ASSERTIONS[two], 2)
        else:
            self._put(*self._escaped_character())

    def _escaped_character(self) -> tuple[str, int]:
        """An escape that stands for characters, inside of a class and outside, and its length in the pattern."""
        found = _ESCAPE.match(self._pattern, self._at)
        if found is None:
            raise ValueError(f"invalid escape sequence {self._pattern[self._at : self._at + 2]}")
        return (f"\\U{int(found['code'], 16):08x}" if found["code"] else found[0]), len(found[0])

    def _class(self) -> None:
        pattern = self._pattern
        negated = pattern.startswith("[^", self._at)
        self._put("[^" if negated else "[", 2 if negated else 1)
        first = self._at
        while self._at < len(pattern) and (pattern[self._at] != "]" or self._at == first):
            if posix := _POSIX.match(pattern, self._at):
                if posix["name"] not in POSIX_CLASSES or posix["negated"]:
                    raise ValueError(f"invalid character class {posix[0]}")
                self._put(POSIX_CLASSES[posix["name"]], len(posix[0]))
            elif pattern[self._at] == "\\":
                self._put(*self._escaped_character())
            else:
                # Python keeps some characters for sets of its own.
                self._put(f"\\{pattern[self._at]}" if pattern[self._at] in "[]&|~" else pattern[self._at], 1)
        if self._at >= len(pattern):
            raise ValueError("missing closing ]")
        self._put("]", 1)
