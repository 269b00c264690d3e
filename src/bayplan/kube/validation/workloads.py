"""What is wrong with a submitted built-in workload beside its pod templates."""

from __future__ import annotations

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation.rules import Faults, Json, choice, chosen, entries, missing, part, required, text
from bayplan.kube.validation.volumes import claim_faults

_WITH_SELECTOR = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_RESTARTS = {"Job": ("OnFailure", "Never"), **dict.fromkeys(_WITH_SELECTOR, ("Always",))}
COMPLETION_MODES = ("NonIndexed", "Indexed")
POD_REPLACEMENTS = ("TerminatingOrFailed", "Failed")
_POD_MANAGEMENT = ("OrderedReady", "Parallel")
# Of a strategy or update strategy: its type.
_STRATEGIES = {
    "Deployment": ("strategy", ("Recreate", "RollingUpdate")),
    "StatefulSet": ("updateStrategy", ("RollingUpdate", "OnDelete")),
    "DaemonSet": ("updateStrategy", ("RollingUpdate", "OnDelete")),
}
_CONCURRENCY = ("Allow", "Forbid", "Replace")


def built_in_faults(document: Json, kind: str, at: ObjectPath) -> Faults:
    """The rules of an API server for a built-in workload whose shape is right.

    Those of its pod template are checked by `pod.py`.
    """
    spec = part(document, "spec") or {}
    place = at.child("spec")
    if kind == "CronJob":
        yield from required(spec, "schedule", place)
        yield from chosen(spec, "concurrencyPolicy", _CONCURRENCY, place)
        inner = part(spec, "jobTemplate") or {}
        yield from built_in_faults(inner, "Job", place.child("jobTemplate"))
        return
    if kind == "Job":
        yield from chosen(spec, "completionMode", COMPLETION_MODES, place)
        yield from chosen(spec, "podReplacementPolicy", POD_REPLACEMENTS, place)
        if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
            yield missing(place.child("completions"), "an Indexed Job says how many indexes there are")
    else:
        yield from _selector_faults(spec, place)
    for claim, where in entries(spec, "volumeClaimTemplates", place):
        yield from claim_faults(part(claim, "spec") or {}, where.child("spec"))
    if kind == "StatefulSet" and text(spec, "podManagementPolicy"):
        yield from chosen(spec, "podManagementPolicy", _POD_MANAGEMENT, place)
    if kind in _STRATEGIES:
        field, types = _STRATEGIES[kind]
        strategy = part(spec, field) or {}
        if text(strategy, "type"):
            yield from chosen(strategy, "type", types, place.child(field))
    template = part(spec, "template") or {}
    if pod := part(template, "spec"):
        restarts = _RESTARTS[kind]
        yield from choice(text(pod, "restartPolicy", "Always"), restarts, place.child("template.spec.restartPolicy"))


def _selector_faults(spec: Json, at: ObjectPath) -> Faults:
    """A selector must choose the pods of the template; `selector_warnings` tells if there is none."""
    selector = part(spec, "selector") or {}
    labels = (part(part(spec, "template") or {}, "metadata") or {}).get("labels") or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            place = at.child("selector.matchLabels").entry(key)
            yield InvalidObject(place, f'"{value}" is not allowed: must be a label of spec.template.metadata.labels')


def selector_warnings(document: Json, at: ObjectPath) -> Faults:
    """An API server refuses a workload without a selector. That is no reason to plan nothing."""
    spec = part(document, "spec")
    if spec and not part(spec, "selector"):
        yield InvalidObject(at.child("spec.selector"), "is missing: an API server would refuse this object")
