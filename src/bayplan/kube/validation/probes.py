"""Probes and lifecycle hooks: what of a container is asked or told while it runs."""

from __future__ import annotations

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import names
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    choice,
    entries,
    missing,
    named,
    not_negative,
    part,
    text,
    within,
)

LARGEST_PORT = 65_535
SCHEMES = ("HTTP", "HTTPS")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def running_faults(container: Json, grace_period: int, at: ObjectPath) -> Faults:
    """The hooks and probes of a container that runs for as long as its pod; `at` is its place."""
    lifecycle = part(container, "lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if part(lifecycle, hook) is not None:
            yield from _handler_faults(lifecycle[hook], _HOOK_HANDLERS, grace_period, at.child("lifecycle").child(hook))
    for field in PROBES:
        if part(container, field) is not None:
            yield from _probe_faults(container[field], field, grace_period, at.child(field))


def _probe_faults(probe: Json, field: str, grace_period: int, at: ObjectPath) -> Faults:
    yield from _handler_faults(probe, _PROBE_HANDLERS, grace_period, at)
    for count in _COUNTS:
        yield from not_negative(probe, count, at)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield InvalidObject(at.child("terminationGracePeriodSeconds"), f"{grace} is not allowed: must be 1 or more")
    if field == "readinessProbe":
        if grace is not None:
            yield InvalidObject(at.child("terminationGracePeriodSeconds"), "is not allowed in a readinessProbe")
    elif (probe.get("successThreshold") or 1) != 1:
        problem = f"{probe['successThreshold']} is not allowed: must be 1 in a {field}"
        yield InvalidObject(at.child("successThreshold"), problem)


def _handler_faults(handler: Json, kinds: tuple[str, ...], grace_period: int, at: ObjectPath) -> Faults:
    present = [kind for kind in kinds if part(handler, kind) is not None]
    if not present:
        yield InvalidObject(at, f"must have one of {', '.join(kinds)}")
        return
    for further in present[1:]:
        yield InvalidObject(at.child(further), f"is not allowed beside {present[0]}: there can be only one")
    kind = present[0]
    action, place = handler[kind], at.child(kind)
    match kind:
        case "exec":
            if not action.get("command"):
                yield missing(place.child("command"))
        case "httpGet":
            yield from _port_faults(action.get("port"), place)
            yield from choice(text(action, "scheme", "HTTP"), SCHEMES, place.child("scheme"))
            for header, where in entries(action, "httpHeaders", place):
                yield from named(text(header, "name"), names.http_header, where.child("name"))
        case "tcpSocket":
            yield from _port_faults(action.get("port"), place)
        case "grpc":
            yield from within(action.get("port") or 0, 1, LARGEST_PORT, place.child("port"))
        case "sleep":
            yield from within(action.get("seconds") or 0, 0, grace_period, place)


def _port_faults(port: int | str | None, at: ObjectPath) -> Faults:
    if isinstance(port, str):
        yield from named(port, names.port_name, at.child("port"))
    else:
        yield from within(port or 0, 1, LARGEST_PORT, at.child("port"))
