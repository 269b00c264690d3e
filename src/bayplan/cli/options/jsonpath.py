r"""kubectl's JSONPath, for `-o jsonpath=TEMPLATE` and `--sort-by PATH`.

A template is text with expressions in braces: a path, a string such as "\n", `range PATH` and `end`. As with kubectl,
a field that is missing writes nothing. Unions (`['a','b']`), `&&` and `||` are not supported.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bayplan.kube.visible import visible, visible_json

SUPPORTED = """.field, ['field'], [0], [0:2], [*], ..field, [?(@.field=="value")], {range PATH}, {end}, {"text"}"""

Step = Callable[[Any], Iterable[Any]]

_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_STRING = re.compile(_QUOTED)
_STEP = re.compile(
    rf"""(?P<deep>\.\.)?(?:
      \[(?P<key>{_QUOTED})\]
    | \[(?P<slice>-?\d+|-?\d*:-?\d*(?::-?\d+)?)\]
    | \[\?\(\s*(?P<left>@[^=!<>\s)]*)\s*(?:(?P<compare>[=!<>]=|<|>)\s*(?P<right>{_QUOTED}|[-+\w.]+)\s*)?\)\]
    | \[\*\] | (?:(?<=\.\.)|\.)(?:\*|(?P<name>(?:\\.|[\w/-])+)))""",
    re.VERBOSE,
)
_OPENING = re.compile(r"\{\s*(?:(?P<range>range\s)|(?P<end>end(?=\s*\})))?\s*")
_CLOSING = re.compile(r"\s*\}")
_ROOT = re.compile(r"[$@]|\.(?=\s*(?:\}|$))")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class JsonPathError(ValueError):
    """What is wrong with a template, and where."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        found = f"before {text[at:]!r}" if text[at:] else "at the end"
        super().__init__(f"character {at + 1}, {found}: expected {expected}; supported: {SUPPORTED}")


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path into a document."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """The values that it leads to."""
        found = [value]
        for step in self.steps:
            found = [below for each in found for below in step(each)]
        return found


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """Text, paths and templates for each value that a path leads to."""

    each: JsonPath
    parts: list[str | JsonPath | JsonPathTemplate] = field(default_factory=list)

    def pieces(self, document: Any) -> Iterator[str]:
        """The document as the template writes it."""
        for value in self.each.find(document):
            for part in self.parts:
                if isinstance(part, JsonPathTemplate):
                    yield from part.pieces(value)
                else:
                    yield part if isinstance(part, str) else " ".join(map(_shown, part.find(value)))


def template_of(text: str) -> JsonPathTemplate:
    """Read a template; raises `JsonPathError`."""
    open_ranges = [JsonPathTemplate(JsonPath(()))]
    at = 0
    while at < len(text):
        opening = _OPENING.match(text, at)
        if opening is None:
            plain = text[at:].partition("{")[0]
            open_ranges[-1].parts.append(plain)
            at += len(plain)
            continue
        at = opening.end()
        if opening["end"]:
            open_ranges.pop()
            if not open_ranges:
                raise JsonPathError(text, opening.start(), "{range PATH} before {end}")
        elif string := _STRING.match(text, at):
            open_ranges[-1].parts.append(_unquoted(string[0]))
            at = string.end()
        else:
            path, at = _path(text, at)
            inner = JsonPathTemplate(path) if opening["range"] else path
            open_ranges[-1].parts.append(inner)
            if isinstance(inner, JsonPathTemplate):
                open_ranges.append(inner)
        closing = _CLOSING.match(text, at)
        if closing is None:
            raise JsonPathError(text, at, "}")
        at = closing.end()
    if len(open_ranges) > 1:
        raise JsonPathError(text, at, "{end}")
    if "{" not in text:
        raise JsonPathError(text, 0, "an expression in braces")
    return open_ranges[0]


def path_of(text: str) -> JsonPath:
    """Read `{.a.b}`, `.a.b` or `a.b`, as kubectl's --sort-by does; raises `JsonPathError`."""
    inner = text[1:-1] if text[:1] == "{" and text[-1:] == "}" else text
    inner = inner if inner[:1] in (".", "[", "$", "@") else f".{inner}"
    path, end = _path(inner, 0)
    if end < len(inner):
        raise JsonPathError(inner, end, "a field")
    return path


def _path(text: str, at: int) -> tuple[JsonPath, int]:
    """The path that begins at a character, and where it ends."""
    root = _ROOT.match(text, at)
    end = at if root is None else root.end()
    steps: list[Step] = []
    while step := _STEP.match(text, end):
        steps += [_self_and_below, _step(step)] if step["deep"] else [_step(step)]
        end = step.end()
    if end == at:
        raise JsonPathError(text, at, "a path or a string")
    return JsonPath(tuple(steps)), end


def _step(found: re.Match[str]) -> Step:
    if name := found["name"] or found["key"]:
        key = _unquoted(name) if found["key"] else re.sub(r"\\(.)", r"\1", name)
        return lambda value: [value[key]] if isinstance(value, dict) and key in value else ()
    if numbers := found["slice"]:
        first, *others = (int(each) if each else None for each in numbers.split(":"))
        chosen = slice(first, *others) if others else slice(first, None if first == -1 else (first or 0) + 1)
        return lambda value: value[chosen] if isinstance(value, list) else ()
    if not found["left"]:
        return _children
    left = path_of(found["left"])
    if not found["compare"]:
        return lambda value: [each for each in _children(value) if left.find(each)]
    compare, right = _COMPARE[found["compare"]], _constant(found, "right")
    return lambda value: [
        each for each in _children(value) if any(_holds(compare, one, right) for one in left.find(each))
    ]


def _constant(found: re.Match[str], group: str) -> Any:
    text = found[group]
    if text[0] in "\"'":
        return _unquoted(text)
    try:
        return json.loads(text)
    except ValueError:
        raise JsonPathError(found.string, found.start(group), "a string in quotes, a number, true or false") from None


def _holds(compare: Callable[[Any, Any], bool], one: Any, other: Any) -> bool:
    try:
        return compare(one, other)
    except TypeError:  # a number is neither above nor below a string
        return False


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _self_and_below(value: Any) -> Iterator[Any]:
    yield value
    for each in _children(value):
        yield from _self_and_below(each)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text[1:-1])


def _shown(value: Any) -> str:
    return visible(value) if isinstance(value, str) else visible_json(json.dumps(value, ensure_ascii=False))
