"""`-l` and `--field-selector` as kubectl has them, for nodes and for pods.

In come the words of the command line, out goes a test of an object. Labels have the grammar of apimachinery's
`labels.Parse`. A field or an operator that cannot be selected by is an error that lists those that can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bayplan.cluster.pods.label_selectors import Requirement, Selector
    from bayplan.kube.wire.core_v1 import Node, Pod

_Function = TypeVar("_Function", bound=Callable[..., Any])

Field = Callable[[Any], str]

_TOKEN = re.compile(r"==|!=|[=!<>(),]|[^=!<>(),\s]+")
_PUNCTUATION = frozenset(("==", "!=", "=", "!", "<", ">", "(", ")", ","))
_OPERATORS = {"in": "In", "notin": "NotIn", "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_END = "end of text"
_SELECTORS = "write it such as app=web,tier!=db, 'zone in (a,b)', gpu, '!gpu' or 'gpu.count>4'"
_FIELD = re.compile(r"(?P<key>[^=!]+)(?P<operator>==|=|!=)(?P<value>[^=!]*)")

NODE_FIELDS: Mapping[str, Field] = {
    "metadata.name": lambda node: str(node.metadata.name),
    "spec.unschedulable": lambda node: "true" if node.spec.unschedulable else "false",
}
POD_FIELDS: Mapping[str, Field] = {
    "metadata.name": lambda pod: str(pod.metadata.name),
    "metadata.namespace": lambda pod: pod.metadata.namespace or "default",
    "spec.nodeName": lambda pod: pod.spec.node_name or "",
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name or "default-scheduler",
    "status.phase": lambda pod: (pod.status and pod.status.phase) or "Pending",
}


def selector_options(what: str, fields: Mapping[str, Field]) -> Callable[[_Function], _Function]:
    """`-l` and `--field-selector` about nodes or pods."""

    def decorate(function: _Function) -> _Function:
        function = click.option(
            "--field-selector",
            "field_selector",
            metavar="FIELDS",
            help=f"Only {what} with these fields: {', '.join(fields)}; operators =, ==, !=.",
        )(function)
        return click.option(
            "-l",
            "--selector",
            "label_selector",
            metavar="LABELS",
            help=f"Only {what} with these labels: app=web, app!=web, 'app in (a,b)', app, '!app', 'n>4'.",
        )(function)

    return decorate


def selected(
    label_selector: str | None, field_selector: str | None, fields: Mapping[str, Field]
) -> Callable[[Node | Pod], bool]:
    """Whether an object is meant by both selectors."""
    labels = labels_meant(label_selector) if label_selector is not None else None
    wanted = [_field(part, fields) for part in (field_selector or "").split(",") if part.strip()]

    def is_meant(thing: Node | Pod) -> bool:
        if labels is not None and not labels.matches(thing.metadata.labels or {}):
            return False
        return all((read(thing) == value) is equal for read, equal, value in wanted)

    return is_meant


def labels_meant(text: str) -> Selector:
    """A label selector as kubectl takes it."""
    from bayplan.cluster.pods.label_selectors import Selector

    return Selector(tuple(_LabelParser(text).requirements()))


class _LabelParser:
    """Reads requirements from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left: list[str] = [*_TOKEN.findall(text), _END]

    def requirements(self) -> Iterator[Requirement]:
        """All of them; raises `click.UsageError` for what is none."""
        while self._left != [_END]:
            yield self._requirement()
            if self._left[0] != _END:
                self._take(",")
                if self._left[0] == _END:
                    raise self._wrong(f"found {_END}, expected a label after ','")

    def _requirement(self) -> Requirement:
        from bayplan.cluster.columns.labels import whole_number
        from bayplan.cluster.pods.label_selectors import Requirement
        from bayplan.kube.validation.names import label_value, qualified_name

        absent = self._left[0] == "!"
        if absent:
            self._take("!")
        key = self._word("a label")
        for problem in qualified_name(key):
            raise self._wrong(f"label '{key}' {problem}")
        if absent or self._left[0] in (",", _END):
            return Requirement(key, "DoesNotExist" if absent else "Exists")
        operator = _OPERATORS.get(self._left[0])
        if operator is None:
            raise self._wrong(f"found {_shown(self._left[0])}, expected {', '.join(_OPERATORS)}")
        values = self._set() if self._left.pop(0) in ("in", "notin") else [self._value()]
        for value in values:
            for problem in label_value(value):
                raise self._wrong(f"value '{value}' of label '{key}' {problem}")
        if operator in ("Gt", "Lt") and whole_number(values[0]) is None:
            raise self._wrong(f"value '{values[0]}' of label '{key}' must be a whole number to be compared")
        return Requirement(key, operator, tuple(sorted(values)))

    def _set(self) -> list[str]:
        self._take("(")
        if self._left[0] == ")":
            raise self._wrong("the list of values must not be empty")
        values = [self._value()]
        while self._left[0] == ",":
            self._take(",")
            values.append(self._value())
        self._take(")")
        return values

    def _value(self) -> str:
        """A value, which may be empty."""
        return "" if self._left[0] in (",", ")", _END) else self._word("a value")

    def _word(self, expected: str) -> str:
        if self._left[0] in _PUNCTUATION or self._left[0] == _END:
            raise self._wrong(f"found {_shown(self._left[0])}, expected {expected}")
        return self._left.pop(0)

    def _take(self, expected: str) -> None:
        if self._left[0] != expected:
            raise self._wrong(f"found {_shown(self._left[0])}, expected '{expected}'")
        del self._left[0]

    def _wrong(self, problem: str) -> click.UsageError:
        return click.UsageError(f"-l: '{self._text}' is not a label selector: {problem}; {_SELECTORS}")


def _shown(token: str) -> str:
    return token if token == _END else f"'{token}'"


def _field(part: str, fields: Mapping[str, Field]) -> tuple[Field, bool, str]:
    match = _FIELD.fullmatch(part.strip())
    if match is None:
        raise click.UsageError(
            f"--field-selector: '{part}' is not of the form FIELD=VALUE, FIELD==VALUE or FIELD!=VALUE"
        )
    read = fields.get(match["key"])
    if read is None:
        raise click.UsageError(
            f"--field-selector: '{match['key']}' cannot be selected by; fields are {', '.join(fields)}"
        )
    return read, match["operator"] != "!=", match["value"]
