"""Shared by the functions of all kinds: planned pods, templates, owners, and generated names.

Each kind has a function `(workload, around) -> planned pods`. It reads decoded JSON (`grouping/raw.py`) and raises
`WrongValue` for invalid fields. Nothing is random: the same workload gives the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.grouping.expressions import path_of
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    annotations_of,
    labels_of,
    look_up,
    map_at,
    number_at,
    text_at,
)
from bayplan.grouping.rules import Rules
from bayplan.kube.manifest_limits import MOST_PODS_OF_OBJECT
from bayplan.kube.whole_number import whole_number

# Kubernetes' alphabet for generated names: no vowels, so that no words appear.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED = 5
_LONGEST_PREFIX = 58
_ALL_ENDINGS = len(_LETTERS) ** _GENERATED
# Coprime to the number of endings, so that different numbers get different endings.
_STRIDE = 7_368_787


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template and its field in the workload."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: RawObject
    where: str

    def with_labels(self, labels: Mapping[str, str]) -> Template:
        """The same template with further labels."""
        return Template({**self.labels, **labels}, self.annotations, self.spec, self.where)

    def with_spec(self, **fields: object) -> Template:
        """The same template with other fields in its spec."""
        return Template(self.labels, self.annotations, {**self.spec, **fields}, self.where)


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod as its controller would create it, with all its `owners`, the nearest first.

    Pods of one template share the same `spec` object.
    """

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: RawObject
    owners: tuple[RawObject, ...]
    where: str


@dataclass(frozen=True, slots=True)
class Around:
    """What a controller knows beside the workload: the nodes, for DaemonSets, and the rules for kinds."""

    rules: Rules
    state: ClusterState = field(default_factory=ClusterState)


Maker = Callable[[RawObject, Around], Iterator[PlannedPod]]


def template_at(thing: RawObject, path: str, where: str = "") -> Template:
    """The pod template at a path. Raises `WrongValue` if there is none. `where` is the path that the user wrote."""
    shown = where or path
    keys = path_of(path)
    try:
        found = map_at(thing, keys)
        spec = map_at(thing, (*keys, "spec"))
    except WrongValue as wrong:
        raise WrongValue(shown + wrong.field.removeprefix(path), wrong.value, wrong.allowed) from None
    if not spec:
        raise WrongValue(f"{shown}.spec", None, "is missing: a pod template needs a spec")
    _check_texts(found, shown)
    return Template(labels_of(found), annotations_of(found), spec, shown)


def _check_texts(template: RawObject, where: str) -> None:
    """Reject labels and annotations that are not text, as the API server does."""
    for key in ("labels", "annotations"):
        for name, value in map_at(template, ("metadata", key)).items():
            if not isinstance(value, str):
                raise WrongValue(f'{where}.metadata.{key}["{name}"]', value, "must be a text: put it in quotes")


def pod_from(
    template: Template,
    name: str,
    owners: Sequence[RawObject],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> PlannedPod:
    """A pod of a template; the controller's labels and annotations win."""
    return PlannedPod(
        name,
        {**template.labels, **(labels or {})},
        {**template.annotations, **(annotations or {})},
        template.spec,
        tuple(owners),
        template.where,
    )


def owned(
    owner: RawObject, api_version: str, kind: str, name: str, spec: RawObject, labels: Mapping[str, str] | None = None
) -> RawObject:
    """An object that a controller creates between a workload and its pods."""
    about = Reference.of(owner)
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": about.namespace,
            "labels": dict(labels or {}),
            "ownerReferences": [about.as_owner() | {"controller": True}],
        },
        "spec": spec,
    }


def name_of(thing: RawObject) -> str:
    """An object's name."""
    return Reference.of(thing).name


def count_at(thing: RawObject, path: str, otherwise: int, *, where: str = "") -> int:
    """The number of pods at a path: 0 or more, up to a plausible maximum."""
    try:
        number = number_at(thing, path_of(path))
    except WrongValue as wrong:
        raise WrongValue(where or wrong.field, wrong.value, wrong.allowed) from None
    if number is None:
        return otherwise
    if not 0 <= number <= MOST_PODS_OF_OBJECT:
        raise WrongValue(where or path, number, f"must be 0 to {MOST_PODS_OF_OBJECT}")
    return number


def is_true(thing: RawObject, path: str) -> bool:
    """Whether a switch is on."""
    return look_up(thing, path_of(path)) is True


def word_at(thing: RawObject, path: str, otherwise: str = "") -> str:
    """The text at a path."""
    return text_at(thing, path_of(path)) or otherwise


def generated(prefix: str, number: int = 0) -> str:
    """A name as `generateName` gives it: `web-6d4cf56db6-x7k2p`. Different numbers give different names."""
    start = int.from_bytes(hashlib.sha256(prefix.encode()).digest()[:8], "big")
    left = (start + number * _STRIDE) % _ALL_ENDINGS
    ending = ""
    for _ in range(_GENERATED):
        left, letter = divmod(left, len(_LETTERS))
        ending += _LETTERS[letter]
    return prefix[:_LONGEST_PREFIX] + ending


def hash_of(content: object) -> str:
    """A hash in Kubernetes' letters, as in `pod-template-hash`."""
    value = 0x811C9DC5
    for byte in msgspec.json.encode(content, order="deterministic"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(value))


def indexes_in(text: str) -> set[int]:
    """The indexes in a text such as `1,3-5`; invalid parts are skipped."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last or first)
        if begin is not None and end is not None:
            found.update(range(begin, min(end, begin + MOST_PODS_OF_OBJECT) + 1))
    return found


def with_affinity(spec: RawObject, together: Iterable[RawObject], apart: Iterable[RawObject]) -> RawObject:
    """A pod spec with further required terms of pod affinity and anti-affinity."""
    affinity = dict(spec.get("affinity") or {})
    for key, terms in (("podAffinity", together), ("podAntiAffinity", apart)):
        own = dict(affinity.get(key) or {})
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        own[required] = [*(own.get(required) or ()), *terms]
        affinity[key] = own
    return {**spec, "affinity": affinity}


def exclusive(template: Template, label: str, value: str, topology: str, *, everywhere: bool = False) -> Template:
    """A template whose pods share a domain only with pods of the same value of this label."""
    among: RawObject = {"namespaceSelector": {}} if everywhere else {}
    same = [{"key": label, "operator": "In", "values": [value]}]
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [value]}]
    together = {"labelSelector": {"matchExpressions": same}, "topologyKey": topology, **among}
    apart = {"labelSelector": {"matchExpressions": others}, "topologyKey": topology, **among}
    spec = with_affinity(template.spec, [together], [apart])
    return Template(template.labels, template.annotations, spec, template.where)
