"""The documents of a file, YAML or JSON, and where in the file each of their fields stands.

In comes a path, out go `Document`s: each as JSON, so that one decoder serves both formats, and with a way back from a field to line and column.
A file that is neither is an `InvalidObject` with the position of what cannot be read. `files.py` makes objects of documents.

YAML means what it means to kubectl: `1e3` is a number, `22:22` and `2026-01-01` are strings. Only `y` and `n`, which kubectl takes for booleans and
other tools write for names, are strings here.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.json_text import BYTE, json_words

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Step = str | int

_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_WHITE_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_LARGEST_WHOLE_FLOAT = 1e21

# What a YAML parser says, and what helps a reader of the file more.
_YAML_HINTS = (
    (
        "found character that cannot start any token",
        "a tab cannot indent, and @ and ` cannot begin a value: use spaces, or quotes",
    ),
    ("found a tab character", "a tab cannot indent: use spaces"),
    (
        "mapping values are not allowed",
        'unexpected ":"; put a value that contains ": " in quotes, and check the indentation',
    ),
    ("did not find expected key", 'expected "key: value" here; check the indentation'),
    ("could not find expected ':'", 'expected ":" after the key above; check the indentation'),
    ("block sequence entries are not allowed", 'a list ("- ") cannot begin here; check the indentation'),
    ("did not find expected '-' indicator", 'expected another "- " of the list here; check the indentation'),
    ("did not find expected ',' or ']'", 'a list that begins with "[" is not closed'),
    ("did not find expected ',' or '}'", 'a mapping that begins with "{" is not closed'),
    ("did not find expected node content", "expected a value here"),
    ("found unexpected end of stream", "a quoted text is not closed"),
    ("found unhashable key", "a list or mapping cannot be a key; is a quote or a comma missing?"),
    ("but found another document", "expected one document; --- begins another one"),
    ("found undefined alias", "the name after * is not defined with & above"),
    ("could not determine a constructor", "the tag after ! is not known"),
    ("did not find expected <document start>", "expected the end of the document here, or --- before another one"),
    ("control characters are not allowed", "a control character cannot stand in a text file"),
)


class Position(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class ListItem(NamedTuple):
    """An object of a list: its index there, after those of the lists around it; and its JSON."""

    path: tuple[int, ...]
    content: msgspec.Raw

    @property
    def steps(self) -> list[Step]:
        """The way to it from the top of the document."""
        return [step for index in self.path for step in ("items", index)]


class Document:
    """One document of a file; `json` is its content."""

    def __init__(self, content: bytes, node: Any = None) -> None:
        self.json = content
        self._node = node  # of YAML: the tree with its positions

    def position(self, field: str, item: ListItem | None = None) -> Position:
        """Where a field stands, or what is nearest above it; `item` is the entry of a list in which to look for it."""
        steps = steps_of(field)
        if self._node is not None:
            return _yaml_position(self._node, steps if item is None else [*item.steps, *steps])
        start = 0 if item is None else max(self.json.find(bytes(item.content)), 0)
        text = (self.json if item is None else bytes(item.content)).decode("utf-8", "replace")
        return _moved(_position_at(self.json, start), text[: _json_offset(text, steps)])

    def repeated_keys(self, item: ListItem | None = None) -> list[str]:
        """The fields that stand twice in one mapping."""
        if self._node is not None:
            node = self._node
            for step in () if item is None else item.steps:
                node = _below(node, step)[1]
            return list(_repeated_in_yaml(node, ""))
        read = json.loads(bytes(self.json if item is None else item.content), object_pairs_hook=_Pairs)
        return list(_repeated_in_json(read, ""))


def steps_of(field: str) -> list[Step]:
    """A field's path as names and numbers.

    >>> steps_of('spec.containers[0].resources.limits["nvidia.com/gpu"]')
    ['spec', 'containers', 0, 'resources', 'limits', 'nvidia.com/gpu']
    """
    return [int(index) if index else quoted or name for quoted, index, name in _STEP.findall(field)]


def read_documents(file: Path) -> Iterator[Document]:
    """The documents of a file, those that are empty left out."""
    try:
        raw = file.read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the compressed data is damaged"
        raise InvalidObject(ObjectPath(f"file {file}"), f"cannot be read: {reason}") from None
    yield from documents_in(data, file)


def documents_in(data: bytes, file: Path) -> Iterator[Document]:
    """The documents of a text; `file` is where it comes from."""
    if not data:
        raise InvalidObject(ObjectPath(f"file {file}"), "is empty: did the command that wrote it fail?")
    data = data.removeprefix(BYTE_ORDER_MARK)
    start = data.lstrip()[:1]
    problem = _json_problem(data, file) if start in (b"{", b"[") else None
    if start in (b"{", b"[") and problem is None:
        yield Document(data)
    elif start:
        yield from _yaml_documents(data, file, problem)


def located(file: Path, message: str) -> str:
    """A message about a file that begins with a field's path, with the file and the field's position in front."""
    field = message.partition(": ")[0]
    try:
        (document, *others) = read_documents(file)
    except (InvalidObject, ValueError):
        return f"{file}: {message}"
    steps = steps_of(field)
    if others or not steps or " " in field or "/" in field:
        return f"{file}: {message}"
    return f"{file}:{document.position(field)}: {message}"


def in_place(error: InvalidObject, file: Path) -> InvalidObject:
    """An error about a file of one document, which it names, with the position of the field."""
    if f"{file}:" in error.at.subject:
        return error
    try:
        (document,) = read_documents(file)
    except (InvalidObject, ValueError):
        return error
    subject = error.at.subject.replace(str(file), f"{file}:{document.position(error.at.field)}", 1)
    return InvalidObject(ObjectPath(subject, error.at.field), error.problem)


def at_position(file: Path, position: Position | None, problem: str) -> InvalidObject:
    """An error about a place of a file that belongs to no object."""
    return InvalidObject(ObjectPath(f"file {file}:{position}" if position else f"file {file}"), problem)


def not_utf_8(data: bytes, file: Path) -> InvalidObject:
    """An error about the first letter that is not encoded as it should be."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return at_position(file, _position_at(data, error.start), "is not UTF-8 text")
    return at_position(file, None, "is not UTF-8 text")


# ---- JSON ------------------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with every key that was written."""


def _json_problem(data: bytes, file: Path) -> InvalidObject | None:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        byte = BYTE.search(str(error))
        where = _position_at(data, min(int(byte[1]), len(data)) if byte else len(data))
        return at_position(file, where, f"is not valid JSON: {json_words(error)}")
    except UnicodeDecodeError:
        return not_utf_8(data, file)
    except RecursionError:
        return at_position(file, None, "is nested too deeply")
    return None


def _json_offset(text: str, steps: list[Step]) -> int:
    """Where the key or entry stands to which the steps lead; of a key that stands twice, the second."""
    at = _skip(text, 0)
    found = at
    for step in steps:
        below = _json_below(text, at, step)
        if below is None:
            break
        found, at = below
    return found


def _json_below(text: str, at: int, step: Step) -> tuple[int, int] | None:
    """Where a key and its value begin, or an entry of a list, which is its own key."""
    opening = text[at : at + 1]
    if opening not in ("{", "[") or (opening == "[") != isinstance(step, int):
        return None
    found, index, at = None, 0, _skip(text, at + 1)
    while text[at : at + 1] not in ("}", "]", ""):
        key_at, name = at, index
        if opening == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if name == step:
            found = (key_at, at)
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at = _skip(text, at + 1) if text[at : at + 1] == "," else at
        index += 1
    return found


def _skip(text: str, at: int) -> int:
    white = _WHITE_SPACE.match(text, at)
    return white.end() if white else at


def _position_at(data: bytes, offset: int) -> Position:
    line_start = data.rfind(b"\n", 0, offset) + 1
    column = len(data[line_start:offset].decode("utf-8", "replace")) + 1
    return Position(data.count(b"\n", 0, offset) + 1, column)


def _moved(start: Position, over: str) -> Position:
    lines = over.count("\n")
    if not lines:
        return Position(start.line, start.column + len(over))
    return Position(start.line + lines, len(over) - over.rfind("\n"))


def _repeated_in_json(value: Any, field: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, each in value:
            name = _join(field, key)
            if key in seen:
                yield name
            seen.add(key)
            yield from _repeated_in_json(each, name)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _repeated_in_json(each, f"{field}[{index}]")


def _join(field: str, key: str) -> str:
    """A key below a field, quoted where it would be read as several."""
    if set(key) & set('./["') or not key:
        return f'{field}["{key}"]'
    return f"{field}.{key}" if field else key


# ---- YAML ------------------------------------------------------------------------------------------------------------


def _yaml_documents(data: bytes, file: Path, json_problem: InvalidObject | None) -> Iterator[Document]:
    import yaml  # costs 30 ms and most dumps are JSON

    try:
        loader = _loader()(data)
        while loader.check_node():
            node = loader.get_node()
            value = loader.construct_document(node)
            if value is not None:
                yield Document(msgspec.json.encode(value, order=None), node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else None
        raise json_problem or at_position(file, position, f"is not valid YAML: {yaml_words(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        offset = getattr(error, "position", None) or getattr(error, "start", 0)
        position = _position_at(data, offset) if isinstance(offset, int) else None
        raise json_problem or at_position(file, position, "is not a text file of YAML or JSON") from None
    except RecursionError:
        raise InvalidObject(ObjectPath(f"file {file}"), "is nested too deeply") from None
    except (TypeError, ValueError, msgspec.MsgspecError):
        problem = "has a key or value that is no text, number, list or mapping; put it in quotes"
        raise json_problem or InvalidObject(ObjectPath(f"file {file}"), problem) from None


def yaml_words(error: Any) -> str:
    """What a YAML parser says, in words that help the reader of the file."""
    said = " ".join(str(error.problem or error.context or "").split())
    for phrase, hint in _YAML_HINTS:
        if phrase in said:
            return hint
    return said or "it cannot be read"


@functools.cache
def _loader() -> Any:
    """A loader that takes scalars for what Go's YAML takes them for."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    tag = "tag:yaml.org,2002:"
    replaced = {f"{tag}int", f"{tag}float", f"{tag}timestamp"}
    kept = {
        first: [(name, pattern) for name, pattern in resolvers if name not in replaced]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    loader: Any = type("GoLoader", (base,), {"yaml_implicit_resolvers": kept})
    loader.add_implicit_resolver(
        f"{tag}int", re.compile(r"^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$"), list("-+0123456789")
    )
    number = r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
    loader.add_implicit_resolver(f"{tag}float", re.compile(number), list("-+0123456789."))
    loader.add_constructor(f"{tag}int", _whole_number)
    loader.add_constructor(f"{tag}float", _number)
    return loader


def _whole_number(loader: Any, node: Any) -> int:
    text = loader.construct_scalar(node).replace("_", "")
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1:].isdigit()
    return sign * int(digits, 8 if octal else 0)


def _number(loader: Any, node: Any) -> int | float | str:
    """Go writes 1e3 and 1.0 into JSON without a fraction. JSON has neither infinity nor NaN: they stay text, which the reader of a number refuses."""
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        return str(node.value)
    return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE_FLOAT else value


def _below(node: Any, step: Step) -> tuple[Any, Any] | tuple[None, None]:
    """The nodes of a key and its value, or of an entry of a list, which is its own key."""
    if node.id == "mapping":
        pairs = [(key, value) for key, value in node.value if key.id == "scalar" and key.value == str(step)]
        return pairs[-1] if pairs else (None, None)
    if node.id == "sequence" and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None, None


def _yaml_position(node: Any, steps: list[Step]) -> Position:
    mark = node.start_mark
    for step in steps:
        key, value = _below(node, step)
        if key is None or value is None:
            break
        mark, node = key.start_mark, value
    return Position(mark.line + 1, mark.column + 1)


def _repeated_in_yaml(node: Any, field: str) -> Iterator[str]:
    if node is None:
        return
    if node.id == "mapping":
        seen: set[str] = set()
        for key, value in node.value:
            name = _join(field, str(key.value))
            # What is merged in stands before the keys of the mapping itself and gives way to them.
            merged = key.start_mark.index < node.start_mark.index
            if key.value in seen and not merged:
                yield name
            if not merged:
                seen.add(key.value)
            yield from _repeated_in_yaml(value, name)
    elif node.id == "sequence":
        for index, each in enumerate(node.value):
            yield from _repeated_in_yaml(each, f"{field}[{index}]")
