"""YAML as Kubernetes reads it, within limits that no text can exceed.

In comes a text, out go `YamlDocument`s: a tree of nodes with their positions, and the value that it stands for.
PyYAML's own composer recurses in C and follows aliases without end, so that a few kilobytes crash it or fill the
memory. The one here keeps its stack in a list, counts what aliases add, and replaces whatever is nested too deeply with
null; `too_deep` names those fields. `documents.py` is next.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from bayplan.kube.json_text import DEEPEST, MOST_DIGITS, Step, Steps

DEEPEST_PARSED = 10_000
"""A text that is nested deeper than this is not parsed any further.

Libyaml's time grows with the square of the depth.
"""
MOST_ALIASED = 4_000_000
"""How many values and letters all aliases of a text may add."""

_LARGEST_WHOLE_FLOAT = 1e21
_NULL = "tag:yaml.org,2002:null"

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
    ("found undefined alias", "the name after * is not defined with & above"),
    ("could not determine a constructor", "the tag after ! is not known"),
    ("did not find expected <document start>", "expected the end of the document here, or --- before another one"),
    ("control characters are not allowed", "a control character cannot stand in a text file"),
)


class YamlLimit(ValueError):
    """A text that goes beyond a limit; `line` and `column` count from 1."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem)
        self.line, self.column = mark.line + 1, mark.column + 1


class YamlDocument(NamedTuple):
    """The tree of one document, its value, and the fields that are nested too deeply, which are null in it."""

    node: yaml.Node
    value: Any
    too_deep: list[Steps]


class _Open:
    """A mapping or sequence whose end has not come yet."""

    __slots__ = ("anchor", "height", "key", "node", "size", "values")

    def __init__(self, node: Any, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.values = node.value
        self.key: Any = None  # of a mapping: the key whose value is next
        self.size = 1
        self.height = 1

    def take(self, node: Any, size: int, height: int) -> None:
        """Add an entry, a key or the value of the last key."""
        self.size += size
        if height >= self.height:
            self.height = height + 1
        if self.key is not None:
            self.values.append((self.key, node))
            self.key = None
        elif self.node.id == "sequence":
            self.values.append(node)
        else:
            self.key = node

    @property
    def step(self) -> Step:
        """The entry that is next."""
        if self.node.id == "sequence":
            return len(self.values)
        return str(self.key.value) if self.key is not None and self.key.id == "scalar" else ""


def yaml_documents(text: bytes | str) -> Iterator[YamlDocument]:
    """The documents of a text; raises yaml.YAMLError, `YamlLimit` or UnicodeDecodeError."""
    loader = go_loader()(text)
    for node, too_deep in composed(loader):
        yield YamlDocument(node, loader.construct_document(node), too_deep)


def composed(loader: Any) -> Iterator[tuple[yaml.Node, list[Steps]]]:
    """The tree of each document that a loader parses, and the fields of it that are nested too deeply."""
    aliased = 0
    while (event := loader.get_event()) is not None and not isinstance(event, yaml.StreamEndEvent):
        if isinstance(event, yaml.DocumentStartEvent):
            composer = _Composer(loader, aliased)
            yield composer.document(), composer.too_deep
            aliased = composer.aliased


class _Composer:
    """Makes the tree of one document from the events of a loader."""

    def __init__(self, loader: Any, aliased: int) -> None:
        self.too_deep: list[Steps] = []
        self.aliased = aliased
        self._loader = loader
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # node, size and height; no size yet: it is still open
        self._open: list[_Open] = []

    def document(self) -> yaml.Node:
        """The root node; the event that ends the document is taken as well."""
        # One loop for all events: a function for each kind of event would take half as long again.
        get_event, resolve, opened, scalar_node = (
            self._loader.get_event,
            self._loader.resolve,
            self._open,
            yaml.ScalarNode,
        )
        node: yaml.Node = yaml.ScalarNode(_NULL, "")
        while True:
            event = get_event()
            kind = type(event)
            height = 0
            if kind is yaml.ScalarEvent:
                tag, text, anchor = event.tag, event.value, event.anchor
                if tag is None or tag == "!":
                    tag = resolve(scalar_node, text, event.implicit)
                node = scalar_node(tag, text, event.start_mark, event.end_mark, style=event.style)
                size = 1 + len(text)
            elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                closed = opened.pop()
                node, anchor, size, height = closed.node, closed.anchor, closed.size, closed.height
                node.end_mark = event.end_mark
            elif kind is yaml.AliasEvent:
                anchor = None
                node, size, height = self._alias(event)
            elif kind is yaml.DocumentEndEvent:
                return node
            elif len(opened) < DEEPEST:
                opened.append(self._begun(event))
                continue
            else:
                anchor, size = event.anchor, 1
                self._skip()
                node = self._cut(event)
            if anchor is not None:
                self._anchors[anchor] = (node, size, height)
            if opened:
                opened[-1].take(node, size, height)

    def _begun(self, event: Any) -> _Open:
        made = yaml.SequenceNode if type(event) is yaml.SequenceStartEvent else yaml.MappingNode
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(made, None, event.implicit)
        node = made(tag, [], event.start_mark, None, flow_style=event.flow_style)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 0, 0)
        return _Open(node, event.anchor)

    def _alias(self, event: Any) -> tuple[Any, int, int]:
        """The node that an alias stands for, with its size and height."""
        if event.anchor not in self._anchors:
            raise yaml.composer.ComposerError(None, None, "found undefined alias", event.start_mark)
        node, size, height = self._anchors[event.anchor]
        if not size:
            raise YamlLimit(f"is nested too deeply: *{event.anchor} stands inside of itself", event.start_mark)
        self.aliased += size
        if self.aliased > MOST_ALIASED:
            problem = f"repeats itself too often: its aliases stand for more than {MOST_ALIASED:,} values and letters"
            raise YamlLimit(problem, event.start_mark)
        return (node, size, height) if len(self._open) + height <= DEEPEST else (self._cut(event), 1, 0)

    def _cut(self, event: Any) -> yaml.ScalarNode:
        self.too_deep.append(tuple(each.step for each in self._open))
        return _null(event)

    def _skip(self) -> None:
        """Leave out everything up to the end of the collection that has just begun."""
        depth = 1
        while depth:
            event = self._loader.get_event()
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            if depth > DEEPEST_PARSED:
                raise YamlLimit(f"is nested too deeply: more than {DEEPEST_PARSED:,} levels", event.start_mark)
            if isinstance(event, yaml.CollectionStartEvent | yaml.ScalarEvent) and event.anchor is not None:
                self._anchors[event.anchor] = (_null(event), 1, 0)


def _null(event: Any) -> yaml.ScalarNode:
    return yaml.ScalarNode(_NULL, "null", event.start_mark, event.end_mark)


def yaml_words(error: Any) -> str:
    """What a YAML parser says, in words that help the reader of the file."""
    said = " ".join(str(error.problem or error.context or "").split())
    for phrase, hint in _YAML_HINTS:
        if phrase in said:
            return hint
    return said or "it cannot be read"


@functools.cache
def go_loader() -> Any:
    """A loader that takes scalars for what Go's YAML takes them for."""
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


def _whole_number(loader: Any, node: Any) -> int | str:
    """One with more digits than Python reads stays text."""
    text = loader.construct_scalar(node).replace("_", "")
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-")
    if len(digits) > MOST_DIGITS:
        return str(node.value)
    octal = len(digits) > 1 and digits[0] == "0" and digits[1:].isdigit()
    return sign * int(digits, 8 if octal else 0)


def _number(loader: Any, node: Any) -> int | float | str:
    """Go writes 1e3 and 1.0 into JSON without a fraction.

    JSON has neither infinity nor NaN: they stay text, which the reader of a number refuses.
    """
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        return str(node.value)
    return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE_FLOAT else value
