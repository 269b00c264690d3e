"""A YAML file as a tree of values that know where they stand, and the list of what is wrong with them.

In comes a path, out goes a `YamlValue`: a text, a list or a mapping of further ones, each with its `SourcePosition`
(file, line, key). The other modules of this folder take what they need through `Section`, which never raises: a value
that cannot be used is added to the file's `Faults` and its default is used instead, so that one reading finds all
faults. `Faults.check` raises them in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml

from bayplan.kube.documents import not_utf_8, read_bytes
from bayplan.kube.errors import InvalidObject
from bayplan.kube.visible import visible_lines
from bayplan.kube.yaml_text import YamlLimit, composed, yaml_words

MOST_FAULTS = 10
# Aliases can make a file of ten lines unfold into billions of values, or into itself.
MOST_VALUES = 200_000
DEEPEST = 50

Value = TypeVar("Value")
_STEP = re.compile(r'\["([^"]*)"\]|\[([0-9]+)\]|([^.\[]+)')


class ScenarioError(ValueError):
    """A scenario that cannot be used; a line of text for every fault, each with file, line and key."""


class Wrong(ValueError):
    """A value that cannot be used; says what it is and what is allowed, not where it stands."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where something stands: `demo.yaml:12:5: nodes[1].count`. A column of 0 is not known."""

    file: Path
    line: int
    key: str = ""
    column: int = 0

    def child(self, key: str, line: int, column: int = 0) -> SourcePosition:
        """A key of the mapping that stands here; quoted where a dot or slash would be read as a further key."""
        quoted = f'["{key}"]' if set(key) & set("./") or not key else f".{key}" if self.key else key
        return SourcePosition(self.file, line, self.key + quoted, column)

    def item(self, index: int, line: int, column: int = 0) -> SourcePosition:
        """An entry of the list that stands here."""
        return SourcePosition(self.file, line, f"{self.key}[{index}]", column)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"
        return f"{where}: {self.key}" if self.key else where


@dataclass
class Faults:
    """What is wrong with a file and those it refers to, each once: aliases may lead to the same fault again."""

    found: dict[tuple[SourcePosition, str], None] = field(default_factory=dict)

    def add(self, place: SourcePosition, problem: str) -> None:
        """Note a fault."""
        self.found[place, problem] = None

    def check(self) -> None:
        """Raise what was found, file by file and in the order of lines."""
        if not self.found:
            return
        files = list(dict.fromkeys(place.file for place, _ in self.found))
        ordered = sorted(self.found, key=lambda fault: (files.index(fault[0].file), fault[0].line))
        lines = [f"{place}: {problem}" for place, problem in ordered[:MOST_FAULTS]]
        if len(ordered) > MOST_FAULTS:
            lines.append(f"and {len(ordered) - MOST_FAULTS} more")
        raise ScenarioError(visible_lines(lines))


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value as it was written.

    `content` is the text of a scalar, None for an empty value, or the parts of a list or mapping. `scalar` is what YAML
    makes of the text (8, 0.5, true); it matters only for parts that are Kubernetes objects.
    """

    place: SourcePosition
    faults: Faults
    content: str | list[YamlValue] | dict[str, YamlValue] | None
    scalar: str | int | float | bool | None = None

    def plain(self) -> Any:
        """The value without its lines, as any YAML reader would give it."""
        if isinstance(self.content, dict):
            return {key: value.plain() for key, value in self.content.items()}
        if isinstance(self.content, list):
            return [value.plain() for value in self.content]
        return self.scalar

    def at(self, path: str) -> YamlValue:
        """The deepest value on a path such as `containers[0].resources.limits["example.com/gpu"]`."""
        here = self
        for name, index, word in _STEP.findall(path):
            parts = here.content
            if isinstance(parts, dict) and (name or word) in parts:
                here = parts[name or word]
            elif isinstance(parts, list) and index and int(index) < len(parts):
                here = parts[int(index)]
            else:
                break
        return here

    def wrong(self, problem: str) -> None:
        """Note that this value cannot be used."""
        self.faults.add(self.place, problem)


class Section:
    """A mapping of which the keys are known. Anything but a mapping is a fault, and then like an empty one."""

    def __init__(self, written: YamlValue, allowed: Iterable[str]) -> None:
        self.written = written
        self._entries: Mapping[str, YamlValue] = {}
        keys = list(allowed)
        if isinstance(written.content, dict):
            self._entries = written.content
            for key, value in self._entries.items():
                if key not in keys:
                    value.wrong(f"is unknown{suggestion(key, keys)}")
        elif written.content is not None:
            written.wrong(f"{described(written)} is not allowed: must be keys and values: {', '.join(keys)}")

    def get(self, key: str) -> YamlValue | None:
        """What stands under a key; None if there is nothing."""
        value = self._entries.get(key)
        return None if value is None or value.content is None else value

    def take(self, key: str, read: Callable[[YamlValue], Value], default: Value) -> Value:
        """The value of a key as `read` understands it; the default if it is absent or wrong."""
        value = self.get(key)
        if value is None:
            return default
        try:
            return read(value)
        except Wrong as error:
            value.wrong(str(error))
            return default

    def items(self, key: str, read: Callable[[YamlValue], Value]) -> list[Value]:
        """The entries of the list under a key, none if it is absent."""
        empty: list[Value] = []
        return self.take(key, lambda value: items_of(value, read), empty)

    def entries(self, key: str, read: Callable[[str, YamlValue], Value]) -> dict[str, Value]:
        """The entries of the mapping under a key, none if it is absent."""
        empty: dict[str, Value] = {}
        return self.take(key, lambda value: entries_of(value, read), empty)

    def inner(self, key: str, allowed: Iterable[str]) -> Section:
        """The mapping under a key, with keys that are known; an empty one if it is absent."""
        return Section(self.get(key) or YamlValue(self.written.place, self.written.faults, None), allowed)

    def need(self, key: str, read: Callable[[YamlValue], Value], placeholder: Value) -> Value:
        """The same for a key that must be there."""
        if self.get(key) is None and isinstance(self.written.content, dict | None):
            place = self.written.place
            self.written.faults.add(place.child(key, place.line), "is missing")
        return self.take(key, read, placeholder)


def items_of(written: YamlValue, read: Callable[[YamlValue], Value]) -> list[Value]:
    """The entries of a list; those that cannot be used are noted and left out."""
    if not isinstance(written.content, list):
        raise Wrong(f"{described(written)} is not allowed: must be a list")
    found = []
    for entry in written.content:
        try:
            found.append(read(entry))
        except Wrong as error:
            entry.wrong(str(error))
    return found


def entries_of(written: YamlValue, read: Callable[[str, YamlValue], Value]) -> dict[str, Value]:
    """The entries of a mapping whose keys are names that users choose.

    Those that cannot be used are noted and left out.
    """
    if not isinstance(written.content, dict):
        raise Wrong(f"{described(written)} is not allowed: must be keys and values")
    found = {}
    for key, value in written.content.items():
        try:
            found[key] = read(key, value)
        except Wrong as error:
            value.wrong(str(error))
    return found


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what it may have been meant to be, or what there is."""
    allowed = list(known)
    close = get_close_matches(word.lower(), [each.lower() for each in allowed], n=1, cutoff=0.6)
    meant = next((each for each in allowed if close and each.lower() == close[0]), None)
    return f": did you mean {meant}?" if meant else f": must be one of {', '.join(allowed)}"


def described(written: YamlValue) -> str:
    """A value in a message: short texts as they are, everything else by its shape."""
    match written.content:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing"
        case text:
            return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}..."'


def read_yaml(path: Path, faults: Faults) -> YamlValue:
    """The one document of a file; a file that cannot be read at all raises at once."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    nothing = SourcePosition(path, 1)
    try:
        documents = list(composed(loader(read_bytes(path).decode())))
    except InvalidObject as error:
        raise ScenarioError(str(error)) from None
    except UnicodeDecodeError as error:
        raise ScenarioError(str(not_utf_8(error.object, path)).removeprefix("file ")) from None
    except YamlLimit as error:
        raise ScenarioError(f"{path}:{error.line}:{error.column}: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(nothing)
        raise ScenarioError(f"{where}: is not valid YAML: {yaml_words(error)}") from None
    except yaml.YAMLError:
        raise ScenarioError(f"{nothing}: is not a text file of YAML") from None
    if not documents:
        raise ScenarioError(f"{nothing}: is empty")
    for other, _ in documents[1:]:
        line, column = _line_and_column(other)
        raise ScenarioError(f"{path}:{line}:{column}: expected one document; --- begins another one")
    root = documents[0][0]
    line, column = _line_and_column(root)
    return _Tree(faults).grown(root, SourcePosition(path, line, column=column), 0)


class _Tree:
    """Turns YAML's nodes into `YamlValue` values and counts them."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.values = 0

    def grown(self, node: yaml.Node, place: SourcePosition, depth: int) -> YamlValue:
        self.values += 1
        if depth > DEEPEST or self.values > MOST_VALUES:
            raise ScenarioError(f"{place}: is nested too deeply or repeats itself without end")
        if isinstance(node, yaml.MappingNode):
            return YamlValue(place, self.faults, self._entries(node, place, depth))
        if isinstance(node, yaml.SequenceNode):
            items = [
                self.grown(each, place.item(index, *_line_and_column(each)), depth + 1)
                for index, each in enumerate(node.value)
            ]
            return YamlValue(place, self.faults, items)
        assert isinstance(node, yaml.ScalarNode)  # there are three kinds of nodes
        scalar = _scalar(node)
        return YamlValue(place, self.faults, None if scalar is None else node.value, scalar)

    def _entries(self, node: yaml.MappingNode, place: SourcePosition, depth: int) -> dict[str, YamlValue]:
        """Keys and values; `<<: *other` puts those of another mapping before them."""
        entries: dict[str, YamlValue] = {}
        merged: dict[str, YamlValue] = {}
        for key, value in node.value:
            here = _line_and_column(key)
            if key.tag == "tag:yaml.org,2002:merge":
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(each, yaml.MappingNode):
                        merged = self._entries(each, place, depth + 1) | merged
                    else:
                        merge = place.child("<<", *here)
                        shown = described(self.grown(each, merge, depth + 1))
                        self.faults.add(merge, f"{shown} is not allowed: must be a mapping, or a list of them")
            elif not isinstance(key, yaml.ScalarNode):
                self.faults.add(
                    SourcePosition(place.file, here[0], place.key, here[1]), "holds a key that is not a string"
                )
            elif key.value in entries:
                self.faults.add(place.child(key.value, *here), "appears twice")
            else:
                entries[key.value] = self.grown(value, place.child(key.value, *here), depth + 1)
        return merged | entries


def _line_and_column(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _scalar(node: yaml.ScalarNode) -> str | int | float | bool | None:
    """Numbers, booleans and nothing as YAML has them; all else, dates included, is text."""
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in ("int", "float", "bool", "null"):
        return str(node.value)
    try:
        value: str | int | float | bool | None = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, yaml.YAMLError):  # `!!int word`
        return str(node.value)
    return value
