"""`-l` and `--field-selector` as kubectl has them, for nodes and for pods.

In come the words of the command line, out goes a test of an object. A field or an operator that cannot be selected by
is an error that lists those that can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bayplan.cluster.pods.label_selectors import Requirement, Selector
    from bayplan.kube.wire.core_v1 import Node, Pod

_Function = TypeVar("_Function", bound=Callable[..., Any])

Field = Callable[[Any], str]

# A comma inside brackets separates values, not requirements.
_BETWEEN_REQUIREMENTS = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=!\s]*)")
_KEY = re.compile(r"(?P<absent>!?)\s*(?P<key>[^=!\s(),]+)")
_SELECTORS = "expected such as app=web,tier!=db, 'zone in (a,b)', gpu or '!gpu'"

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
            help=f"Only {what} with these labels: app=web, app!=web, 'app in (a,b)', app, '!app'.",
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
    """A label selector as kubectl writes it."""
    from bayplan.cluster.pods.label_selectors import Selector

    parts = [part.strip() for part in _BETWEEN_REQUIREMENTS.split(text)]
    return Selector(tuple(_requirement(part) for part in parts if part))


def _requirement(part: str) -> Requirement:
    from bayplan.cluster.pods.label_selectors import Requirement

    if match := _SET.fullmatch(part):
        values = tuple(sorted(value.strip() for value in match["values"].split(",")))
        return Requirement(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return Requirement(match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],))
    if match := _KEY.fullmatch(part):
        return Requirement(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise click.UsageError(f"-l: '{part}' is not a label selector; {_SELECTORS}")


def _field(part: str, fields: Mapping[str, Field]) -> tuple[Field, bool, str]:
    match = _EQUALITY.fullmatch(part.strip())
    if match is None:
        raise click.UsageError(f"--field-selector: '{part}' is not of the form FIELD=VALUE or FIELD!=VALUE")
    read = fields.get(match["key"])
    if read is None:
        raise click.UsageError(
            f"--field-selector: '{match['key']}' cannot be selected by; fields are {', '.join(fields)}"
        )
    return read, match["operator"] != "!=", match["value"]
