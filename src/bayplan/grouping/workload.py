"""A rule applied to an object: the workload of a pod, and its parts with their numbers.

A pod's owners and the rules come in. An `OwningWorkload` goes out: the object that describes the gang, and its parts
(one per role) with size, minimum and first rank. `podgroup.py` is next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bayplan.dialects.kueue.pod_set import INDEX_OFFSET
from bayplan.dialects.volcano.job import said_by_admission
from bayplan.grouping.expressions import amount_of, path_of
from bayplan.grouping.grouping import InvalidGrouping, InvalidValue
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    annotations_of,
    labels_of,
    list_at,
    look_up,
    map_at,
    text_at,
)
from bayplan.grouping.rules import (
    ASKED,
    Amounts,
    Condition,
    PodRole,
    Rule,
    Rules,
    fields_of,
    first,
    rule_for,
    smallest,
)
from bayplan.kube.manifest_limits import MOST_PODS_OF_OBJECT
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.volcano_batch_v1alpha1 import API_VERSION as VOLCANO_JOBS

# A kind without a rule: the number of pods is unknown, so each can start alone, in the domain of the others.
UNKNOWN = Rule(kind="*", gang=ASKED, replicas=1, minimum=1)
EVERYBODY_ELSE = "*"
# Precedes a field that pods have and their template lacks, in messages on the workload.
ITS_PODS = "its pods: "


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """The pods of one role: `size` in all, of which `least` start together and at most `coming` are still to come.

    `source` is the root of the role's paths; `where` is the field of its pod template, empty if it has none.
    """

    role: PodRole
    name: str
    value: str
    size: int
    least: int
    coming: int
    first_rank: int
    source: RawObject
    annotations: Mapping[str, str]
    where: str


@dataclass(frozen=True, slots=True)
class OwningWorkload:
    """The object that describes a pod's gang, and the owners above it, the nearest first.

    `staged` parts are created one after the other; `cut_through` segments run through all parts by rank.
    """

    about: Reference
    rule: Rule
    thing: RawObject
    above: tuple[RawObject, ...]
    parts: tuple[RoleSpec, ...]
    staged: bool = False
    cut_through: bool = False

    @property
    def is_flat(self) -> bool:
        """True if there is only one role, so that the gang needs no groups."""
        return len(self.parts) == 1 and not self.parts[0].name


def workload_of(owners: Sequence[RawObject], rules: Rules) -> OwningWorkload:
    """The workload of a pod with these owners, the top one last. Raises `InvalidGrouping` if it is invalid."""
    number, rule = _described_by(owners, rules)
    thing = owners[number]
    return described(thing, rule, tuple(owners[number + 1 :]))


def gang_rule(owners: Sequence[RawObject], rules: Rules) -> Rule:
    """The rule by which a pod with these owners is grouped."""
    return _described_by(owners, rules)[1]


def described(thing: RawObject, rule: Rule, above: tuple[RawObject, ...] = ()) -> OwningWorkload:
    """The workload that a rule makes of an object. Raises `InvalidGrouping` if the object is invalid."""
    about = Reference.of(thing)
    if about.api_version == VOLCANO_JOBS and (said := said_by_admission(thing)):
        raise InvalidGrouping(InvalidValue(about, "spec", None, said))
    try:
        parts = _parts(thing, rule)
        if _holds(rule.one_by_one, thing):
            parts = [replace(part, least=min(part.least, 1), coming=min(part.coming, 1)) for part in parts]
        staged = _holds(rule.staged, thing)
        cut_through = rule.ranks_of_whole and not _holds(rule.leader_apart, thing)
    except WrongValue as wrong:
        raise InvalidGrouping(InvalidValue(about, wrong.field, wrong.value, wrong.allowed)) from None
    names = [part.name for part in parts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidGrouping(InvalidValue(about, "spec", twice, "is the name of two groups; each must have its own"))
    if not parts:
        raise InvalidGrouping(InvalidValue(about, "spec", None, "describes no pods"))
    return OwningWorkload(about, rule, thing, above, tuple(parts), staged, cut_through)


def part_of(workload: OwningWorkload, pod: RawObject) -> RoleSpec:
    """The part of a pod, by the role label. Raises `InvalidGrouping` if there is none."""
    if workload.is_flat:
        return workload.parts[0]
    labels = labels_of(pod)
    key = next((label for label in workload.rule.role_label if label in labels), None)
    if key is None:
        expected = " or ".join(workload.rule.role_label)
        allowed = f"{expected} is missing: which group is a pod in?"
        raise InvalidGrouping(InvalidValue(workload.about, f"{ITS_PODS}metadata.labels", None, allowed))
    for part in workload.parts:
        if part.value in (labels[key].lower(), EVERYBODY_ELSE):
            return part
    known = ", ".join(part.value for part in workload.parts) or "none"
    field = f'{ITS_PODS}metadata.labels["{key}"]'
    raise InvalidGrouping(
        InvalidValue(workload.about, field, labels[key], f"is no part of {workload.about}; known: {known}")
    )


def index_of(workload: OwningWorkload, part: RoleSpec, pod: RawObject) -> int | None:
    """A pod's index in its part, or in the whole workload if ranks run through it; None if no label has it."""
    total = 0 if workload.rule.ranks_of_whole else -_first_index(workload, part, pod)
    labels = labels_of(pod)
    if not part.role.rank:
        return None
    for rank in part.role.rank:
        index = whole_number(labels.get(rank.label, ""))
        if index is None:
            return None
        total += index * (amount_of(rank.times).value(part.source) or 1)
    return total if total >= 0 else None


def _first_index(workload: OwningWorkload, part: RoleSpec, pod: RawObject) -> int:
    """The index of a part's first pod, by Kueue's annotation on the pod or its template, else by the rule.

    Raises `InvalidGrouping` if the annotation is invalid.
    """
    in_template = part.annotations.get(INDEX_OFFSET)
    text = annotations_of(pod).get(INDEX_OFFSET) or in_template
    if text is None:
        return int(bool(part.role.from_one) and look_up(part.source, path_of(part.role.from_one)) is True)
    index = whole_number(text)
    if index is None:
        about, where = (workload.about, f"{part.where}.") if text == in_template else (Reference.of(pod), "")
        field = f'{where}metadata.annotations["{INDEX_OFFSET}"]'
        raise InvalidGrouping(InvalidValue(about, field, text, "must be a whole number, 0 or more"))
    return index


def _described_by(owners: Sequence[RawObject], rules: Rules) -> tuple[int, Rule]:
    """The topmost owner with a rule; else the topmost."""
    for number in reversed(range(len(owners))):
        rule = rule_for(rules, Reference.of(owners[number]))
        if rule is not None:
            return number, rule
    return len(owners) - 1, UNKNOWN


def _parts(thing: RawObject, rule: Rule) -> list[RoleSpec]:
    parts: list[RoleSpec] = []
    rank = 0
    for role in rule.every_role():
        for source, where, name in _sources(thing, role):
            if not _exists(role, source):
                continue
            part = _part(role, source, where, name, rank)
            parts.append(part)
            rank += part.size
    whole = first(rule.minimum, thing)
    if whole and parts:
        parts = _with_minimum(parts, whole, rule)
    return parts


def _sources(thing: RawObject, role: PodRole) -> list[tuple[RawObject, str, str]]:
    """The roots of a role's paths: the object, or each entry of a list in it; with its field and the role's name."""
    if not role.each:
        return [(thing, "", role.name)]
    found: list[tuple[RawObject, str, str]] = []
    for number, entry in enumerate(list_at(thing, path_of(role.each))):
        field = f"{role.each}[{number}]"
        if not isinstance(entry, dict):
            raise WrongValue(field, entry, "must be a map")
        name = text_at(entry, path_of(role.name_at))
        found.append((entry, f"{field}.", name or f"group-{number}"))
    return found


def _exists(role: PodRole, source: RawObject) -> bool:
    if role.needs and look_up(source, path_of(role.needs)) is None:
        return False
    return not (role.unless and look_up(source, path_of(role.unless)) is True)


def _part(role: PodRole, source: RawObject, where: str, name: str, rank: int) -> RoleSpec:
    try:
        size = smallest(role.replicas, source) or 0
        wanted = _capped(role.minimum, first(role.minimum, source) or size, size)
        remaining = size if role.remaining is None else first(role.remaining, source)
        template = map_at(source, path_of(role.template)) if role.template else {}
    except WrongValue as wrong:
        raise WrongValue(f"{where}{wrong.field}", wrong.value, wrong.allowed) from None
    if size > MOST_PODS_OF_OBJECT:
        allowed = f"pods are too many: must be at most {MOST_PODS_OF_OBJECT}"
        raise WrongValue(fields_of(role.replicas, "replicas", where), size, allowed)
    if wanted > size:
        raise WrongValue(
            fields_of(role.minimum, "minimum", where), wanted, f"is more than the {size} pods that there are"
        )
    coming = size if remaining is None else min(size, remaining)
    annotations = annotations_of(template)
    return RoleSpec(
        role,
        group_name(name),
        (role.means or name).lower(),
        size,
        min(wanted, coming),
        coming,
        rank,
        source,
        annotations,
        f"{where}{role.template}" if role.template else "",
    )


def _capped(minimum: Amounts | None, wanted: int, pods: int) -> int:
    """A rule's fixed minimum is capped by the size; one in the object is reported as invalid."""
    return min(wanted, pods) if isinstance(minimum, int) else wanted


def _with_minimum(parts: list[RoleSpec], whole: int, rule: Rule) -> list[RoleSpec]:
    """Parts with the minimum of the whole in sum; the last part gives way."""
    pods = sum(part.size for part in parts)
    whole = _capped(rule.minimum, whole, pods)
    if whole > pods:
        raise WrongValue(fields_of(rule.minimum, "minimum"), whole, f"is more than the {pods} pods that there are")
    *others, last = parts
    remaining = last.least if last.role.remaining is not None else last.size
    left = max(whole - sum(part.least for part in others), 0)
    return [*others, replace(last, least=min(left, remaining))]


def _holds(condition: Condition | None, thing: RawObject) -> bool:
    if condition is None:
        return False
    return (text_at(thing, path_of(condition.at)) or condition.otherwise) == condition.value


def group_name(name: str) -> str:
    """A valid group name: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:63].strip("-")
