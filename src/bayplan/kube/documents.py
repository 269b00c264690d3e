"""The documents of a file, YAML or JSON, and where in the file each of their fields stands.

In comes a path, out go `Document`s: each as JSON, so that one decoder serves both formats, and with a way back from a
field to line and column. A file that is neither is an `InvalidObject` with the position of what cannot be read.
`files.py` makes objects of documents.

YAML means what it means to kubectl: `1e3` is a number, `22:22` and `2026-01-01` are strings. Only `y` and `n`, which
kubectl takes for booleans and other tools write for names, are strings here.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.json_text import BYTE, TOO_DEEP, TRAILING, Step, Steps, json_words, number_out_of_range, shallow
from bayplan.kube.quantity import NANO, Format, Quantity

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
LARGEST_FILE: ContextVar[int] = ContextVar("LARGEST_FILE", default=512 * 2**20)
"""How many bytes a file may hold once it is unpacked; `--max-file-size` sets it."""
_MOST_STEPS = 8

_STEP = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_WHITE_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_int=str)  # a whole number of 4,301 digits is an error otherwise


class Position(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


TOP = Position(1, 1)


class ListItem(NamedTuple):
    """An object of a list: its index there, after those of the lists around it; and its JSON."""

    path: tuple[int, ...]
    content: msgspec.Raw

    @property
    def steps(self) -> list[Step]:
        """The way to it from the top of the document."""
        return [step for index in self.path for step in ("items", index)]


class Document:
    """One document of a file; `json` is its content, with null for whatever is nested too deeply."""

    def __init__(self, content: bytes, node: Any = None, too_deep: Sequence[Steps] = (), start: Position = TOP) -> None:
        self.json = content
        self._start = start  # of JSON
        self._node = node  # of YAML: the tree with its positions
        self._too_deep = too_deep

    def position(self, field: str, item: ListItem | None = None) -> Position:
        """Where a field stands, or what is nearest above it; `item` is the entry of a list in which to look for it."""
        steps = steps_of(field)
        if self._node is not None:
            return _yaml_position(self._node, steps if item is None else [*item.steps, *steps])
        start = 0 if item is None else max(self.json.find(bytes(item.content)), 0)
        text = (self.json if item is None else bytes(item.content)).decode("utf-8", "replace")
        try:
            offset = _json_offset(text, steps)
        except RecursionError:  # Python's decoder allows less nesting than msgspec's
            offset = 0
        return _moved(_position_at(self.json, start, self._start), text[:offset])

    def too_deep(self, item: ListItem | None = None) -> str | None:
        """The first field that is nested too deeply, or None; `item` is the entry of a list in which to look for it."""
        above = () if item is None else tuple(item.steps)
        found = next((steps[len(above) :] for steps in self._too_deep if steps[: len(above)] == above), None)
        return None if found is None else _field_of(found[:_MOST_STEPS]) + ("..." if len(found) > _MOST_STEPS else "")

    def out_of_range(self, item: ListItem | None = None) -> str | None:
        """The first number that no decoder takes, or None; `item` is the entry of a list in which to look for it."""
        found = number_out_of_range(self.json if item is None else bytes(item.content))
        return None if found is None else _field_of(found)

    def repeated_keys(self, item: ListItem | None = None) -> list[str]:
        """The fields that stand twice in one mapping."""
        if self._node is not None:
            node = self._node
            for step in () if item is None else item.steps:
                node = _below(node, step)[1]
            return list(_repeated_in_yaml(node, ""))
        read = json.loads(bytes(self.json if item is None else item.content), object_pairs_hook=_Pairs, parse_int=str)
        return list(_repeated_in_json(read, ""))


def steps_of(field: str) -> list[Step]:
    """A field's path as names and numbers.

    >>> steps_of('spec.containers[0].resources.limits["nvidia.com/gpu"]')
    ['spec', 'containers', 0, 'resources', 'limits', 'nvidia.com/gpu']
    """
    return [int(index) if index else quoted or name for quoted, index, name in _STEP.findall(field)]


def _field_of(steps: Iterable[Step]) -> str:
    return functools.reduce(
        lambda field, step: f"{field}[{step}]" if isinstance(step, int) else _join(field, step), steps, ""
    )


def read_bytes(file: Path) -> bytes:
    """The content of a file, unpacked if it is gzipped.

    One larger than `LARGEST_FILE` is an error before it fills the memory.
    """
    largest = LARGEST_FILE.get()
    try:
        with file.open("rb") as opened:
            packed = opened.peek(2)[:2] == GZIP
            data = (gzip.GzipFile(fileobj=opened) if packed else opened).read(largest + 1)
    except FileNotFoundError:
        raise InvalidObject(ObjectPath(f"file {file}"), "does not exist") from None
    except IsADirectoryError:
        raise InvalidObject(ObjectPath(f"file {file}"), "is a folder") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the compressed data is damaged"
        raise InvalidObject(ObjectPath(f"file {file}"), f"cannot be read: {reason}") from None
    if len(data) > largest:
        unpacked = " when it is unpacked" if packed else ""
        size = Quantity(largest * NANO, Format.BINARY_SI)
        problem = f"is larger than {size}{unpacked}; raise the limit with --max-file-size"
        raise InvalidObject(ObjectPath(f"file {file}"), problem)
    return data


def read_documents(file: Path) -> Iterator[Document]:
    """The documents of a file, those that are empty left out."""
    yield from documents_in(read_bytes(file), file)


def documents_in(data: bytes, file: Path) -> Iterator[Document]:
    """The documents of a text; `file` is where it comes from."""
    if not data:
        raise InvalidObject(ObjectPath(f"file {file}"), "is empty: did the command that wrote it fail?")
    data = data.removeprefix(BYTE_ORDER_MARK)
    start = data.lstrip()[:1]
    if start in (b"{", b"["):
        try:
            documents: Iterable[Document] = _json_documents(data, file)
        except InvalidObject as problem:
            documents = _yaml_documents(data, file, problem)
        yield from documents
    elif start:
        yield from _yaml_documents(data, file, None)


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
    """An error about the first byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return at_position(file, _position_at(data, error.start), "is not UTF-8 text")
    return at_position(file, None, "is not UTF-8 text")


# ---- JSON ------------------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with every key that was written."""


def _json_documents(data: bytes, file: Path) -> list[Document]:
    """The values that follow each other in a text, as kubectl takes them."""
    too_deep: dict[int, Steps] = {}
    try:
        starts = _starts_of_values(data, file)
    except RecursionError:
        data, too_deep = shallow(data)
        try:
            starts = _starts_of_values(data, file)
        except InvalidObject:
            raise at_position(file, _position_at(data, min(too_deep)), TOO_DEEP) from None
    found: list[Document] = []
    position = TOP
    for start, end in pairwise(starts):
        content = data[start:end]
        found.append(Document(content, None, [too_deep[at] for at in too_deep if start <= at < end], position))
        position = _position_at(content, len(content), position)
    return found


def _starts_of_values(data: bytes, file: Path) -> list[int]:
    """Where each value of a text begins, and the end of the text."""
    starts, whole = [0], memoryview(data)
    while starts[-1] < len(data):
        try:
            msgspec.json.decode(whole[starts[-1] :], type=msgspec.Raw)
            starts.append(len(data))
        except msgspec.DecodeError as error:
            byte = BYTE.search(str(error))
            at = min(starts[-1] + int(byte[1]), len(data)) if byte else len(data)
            if TRAILING not in str(error):
                raise at_position(file, _position_at(data, at), f"is not valid JSON: {json_words(error)}") from None
            starts.append(at - 1)  # this message alone counts from 1
        except UnicodeDecodeError:
            raise not_utf_8(data, file) from None
    return starts


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


def _position_at(data: bytes, offset: int, start: Position = TOP) -> Position:
    line_start = data.rfind(b"\n", 0, offset) + 1
    return _moved(start, "\n" * data.count(b"\n", 0, offset) + data[line_start:offset].decode("utf-8", "replace"))


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

    from bayplan.kube.yaml_text import YamlLimit, yaml_documents, yaml_words

    try:
        for node, value, too_deep in yaml_documents(data):
            if value is not None:
                yield Document(msgspec.json.encode(value, order=None), node, too_deep)
    except YamlLimit as error:
        raise at_position(file, Position(error.line, error.column), str(error)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else None
        raise json_problem or at_position(file, position, f"is not valid YAML: {yaml_words(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        offset = getattr(error, "position", None) or getattr(error, "start", 0)
        position = _position_at(data, offset) if isinstance(offset, int) else None
        raise json_problem or at_position(file, position, "is not a text file of YAML or JSON") from None
    except (TypeError, ValueError, msgspec.MsgspecError):
        problem = "has a key or value that is no text, number, list or mapping; put it in quotes"
        raise json_problem or InvalidObject(ObjectPath(f"file {file}"), problem) from None


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
