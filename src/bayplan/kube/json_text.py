"""JSON that a tenant or a node may have written: decoding that fails in one way only, and a scan that no nesting can
break.

msgspec recurses once for each level of nesting, in fields that it skips as well, and Python stops it with a
`RecursionError` after about a thousand. `decode` turns that into the `msgspec.DecodeError` that callers expect of bad
JSON. `items_of` and `pruned` read without recursion, so that one object that is nested too deeply can be told apart
from its neighbours and named (`kube/client/decoding.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar, overload

import msgspec

TOO_DEEP = "is nested too deeply to be read"
OUT_OF_RANGE = "is a number that is too large to be read"
# Deep enough for metadata and its labels, of an object or of a watch event around it.
HEAD_DEPTH = 4
DEEPEST = 200
"""Levels of nesting that files are read to.

Kubernetes objects have about 30, the schema of a CustomResourceDefinition 60.
"""

Step = str | int
Steps = tuple[Step, ...]
"""The way from the top of a document to a field: keys and indexes."""

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_TOKEN_OR_COMMA = re.compile(_STRING + rb"|[\[\]{},]", re.DOTALL)
_NOT_A_LINE_END = re.compile(rb"[^\n]")

_METADATA, _VERSION = b'"metadata"', b'"resourceVersion"'

MOST_DIGITS = 4300
"""More digits than these Python makes no whole number of."""

BYTE = re.compile(r" \(byte (\d+)\)$")
"""Where msgspec's message says in which byte it stopped."""
TRAILING = "trailing characters"
"""What it says of text behind a value."""

V = TypeVar("V")


@overload
def decode(data: bytes | str | msgspec.Raw) -> Any: ...
@overload
def decode(data: bytes | str | msgspec.Raw, kind: type[V]) -> V: ...
def decode(data: bytes | str | msgspec.Raw, kind: Any = Any) -> Any:
    """A value of some type; raises msgspec.DecodeError for whatever is wrong with the text."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError:
        raise msgspec.ValidationError(TOO_DEEP) from None
    except UnicodeError as error:
        raise msgspec.DecodeError(str(error)) from None


def number_out_of_range(data: bytes) -> Steps | None:
    """The way to the first number that no decoder takes, such as 1e400; None if there is none."""
    found = json.loads(data, parse_int=_whole, parse_float=_fraction, parse_constant=str)
    return next(_ways_to_unreadable(found, ()), None)


class _Unreadable:
    """Stands for a number that is out of range."""


def _whole(text: str) -> int | _Unreadable:
    return int(text) if len(text) <= MOST_DIGITS else _Unreadable()


def _fraction(text: str) -> float | _Unreadable:
    number = float(text)
    return number if math.isfinite(number) else _Unreadable()


def _ways_to_unreadable(value: Any, steps: Steps) -> Iterator[Steps]:
    if isinstance(value, _Unreadable):
        yield steps
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _ways_to_unreadable(each, (*steps, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _ways_to_unreadable(each, (*steps, index))


def items_of(page: bytes) -> tuple[list[bytes], bytes]:
    """The objects of a list, uncut, and the page without them; raises msgspec.DecodeError if its brackets do not
    match.
    """
    items: list[bytes] = []
    rest: list[bytes] = []
    depth = start = since = 0
    key, inside = b"", False
    for token in _TOKEN.finditer(page):
        text = token[0]
        if text[:1] == b'"':
            key = text if depth == 1 else key
        elif text in b"[{":
            depth += 1
            if depth == 2:
                inside = text == b"[" and key == b'"items"'
                if inside:
                    rest.append(page[since : token.end()])
            elif depth == 3:
                start = token.start()
        else:
            if depth == 3 and inside:
                items.append(page[start : token.end()])
            elif depth == 2 and inside:
                since = token.start()
            depth -= 1
    if depth:
        raise msgspec.DecodeError("the list breaks off")
    return items, b"".join((*rest, page[since:]))


def pruned(data: bytes, depth: int = HEAD_DEPTH, *, head_at: int = 0) -> bytes:
    """The same JSON with null instead of whatever is nested deeper.

    With `head_at`, the level of the object's own fields, it ends with the resource version: name and namespace come
    before it, whether fields are in the order of Go structs or of the alphabet. A tenant may write half a million
    brackets behind it, and a look at each of them takes half a second.
    """
    kept: list[bytes] = []
    level = since = 0
    ends: list[bytes] = []  # of what is open, to the deepest level that is kept
    field, is_version = b"", False
    for token in _TOKEN.finditer(data):
        text = token[0]
        if text[:1] == b'"':
            if is_version:
                return b"".join((*kept, data[since : token.end()], *reversed(ends)))
            if level == head_at:
                field = text
            elif level == head_at + 1 and text == _VERSION and field == _METADATA and head_at:
                is_version = data[token.end() : token.end() + 2] == b':"'
        elif text in b"[{":
            level += 1
            if level == depth + 1:
                kept.append(data[since : token.start()])
            elif level <= depth:
                ends.append(b"]" if text == b"[" else b"}")
        else:
            if level == depth + 1:
                kept.append(b"null")
                since = token.end()
            elif level <= depth and ends:
                ends.pop()
            level -= 1
    return b"".join((*kept, data[since:]))


def shallow(data: bytes, depth: int = DEEPEST) -> tuple[bytes, dict[int, Steps]]:
    """The same JSON with null and spaces instead of whatever is nested deeper, so that all else stays in its place; and
    the fields that were cut, by the byte at which each begins.
    """
    kept: list[bytes] = []
    cut: dict[int, Steps] = {}
    steps: list[Step] = []  # to the value that is next, one for each level up to the deepest
    level = since = 0
    for token in _TOKEN_OR_COMMA.finditer(data):
        text = token[0]
        if text in (b"[", b"{"):
            level += 1
            if level == depth + 1:
                cut[token.start()] = tuple(steps)
                kept.append(data[since : token.start()])
                since = token.start()
            elif level <= depth:
                steps.append(0 if text == b"[" else "")
        elif text in (b"]", b"}"):
            if level == depth + 1:
                kept.append(b"null" + _NOT_A_LINE_END.sub(b" ", data[since : token.end()])[4:])
                since = token.end()
            elif 0 < level <= depth:
                steps.pop()
            level -= 1
        elif 0 < level <= depth:
            last = steps[-1]
            if isinstance(last, int):
                steps[-1] = last + (text == b",")
            elif text != b",":
                steps[-1] = text[1:-1].decode("utf-8", "replace")
    rest = data[since:] if level <= depth else b"null"  # the text ends too early
    return b"".join((*kept, rest)), cut


def json_words(error: msgspec.DecodeError | UnicodeDecodeError) -> str:
    """What is wrong with a text that is not JSON."""
    if isinstance(error, UnicodeDecodeError):
        return "the text is not UTF-8"
    said = BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
    return said.replace("Input data was truncated", "it ends too early")
