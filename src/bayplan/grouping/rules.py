"""Rules: what a kind of workload means, as data. Number of pods, groups, minima and ranks.

bayplan's own kinds (`kinds.py`) and users' rule files have this form:

    kinds:
    - kind: TrainingRun
      group: example.com
      roles:
      - {name: driver, replicas: 1}
      - name: worker
        replicas: spec.workers.count
        minimum: spec.workers.atLeast
        template: spec.workers.template
        rank: [{label: example.com/worker-index}]
      roleLabel: [example.com/role]

`rules_of` reads such a document and reports errors with file, field and value. `expressions.py` evaluates paths and
amounts; `workload.py` applies a rule to an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from bayplan.grouping.expressions import amount_of, path_of
from bayplan.grouping.raw import Reference
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem

ALWAYS, ASKED = "always", "asked"
# One amount, or several: the smallest of several replicas counts, and the first present minimum.
Amounts = int | str | list[str]

_API_GROUP = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ROLE_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_ONCE = "1"


class _Written(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of a rule file: an unknown field is an error."""


class Rank(_Written, frozen=True):
    """A pod label with an index. Of several, all but the last are multiplied by `times` and added."""

    label: str
    times: str = _ONCE


class PodRole(_Written, frozen=True):
    """Pods of one role: a group of the gang, or the whole gang if it is the only role.

    With `each`, a list in the object, there is one group per entry, named by the field `name_at`; paths then start at
    the entry. A pod belongs to the role whose `means` (else its name) is the value of the rule's role label; `*` takes
    all other pods. `minimum` pods must start together, but never more than `remaining`. A role exists only if there is
    a value at `needs`, and not if `unless` is true. Indexes begin at 1 if `from_one` is true. `segment` is the default
    size of segments.
    """

    name: str = ""
    means: str = ""
    each: str = ""
    name_at: str = ""
    replicas: Amounts = 1
    minimum: Amounts | None = None
    remaining: str | None = None
    template: str = ""
    rank: list[Rank] = []
    segment: Amounts | None = None
    needs: str = ""
    unless: str = ""
    from_one: str = ""


class Condition(_Written, frozen=True):
    """True if the text at a path `is` this one; `otherwise` is its default."""

    at: str
    value: str = msgspec.field(name="is")
    otherwise: str = ""


class Rule(_Written, frozen=True):
    """A kind. `gang` says whether its pods are always a gang, or only if an annotation requests it.

    A kind with one role has `replicas`, `minimum`, `remaining`, `template` and `rank` itself; one with several has
    `roles`, and its `minimum` is for the whole: the last role gives way. `one_gang_per` is a pod label that divides the
    pods into gangs. If `staged`, groups are created one after the other; if `one_by_one`, pods are. No pod then waits
    for all others. With `ranks_of_whole`, indexes and segments run through all roles, unless `leader_apart` holds.
    """

    kind: str
    group: str = ""
    gang: str = ALWAYS
    replicas: Amounts | None = None
    minimum: Amounts | None = None
    remaining: str | None = None
    template: str = ""
    rank: list[Rank] = []
    roles: list[PodRole] = []
    role_label: list[str] = []
    one_gang_per: str = ""
    staged: Condition | None = None
    one_by_one: Condition | None = None
    ranks_of_whole: bool = False
    leader_apart: Condition | None = None

    def every_role(self) -> Sequence[PodRole]:
        """The roles; a kind with one role has one without a name."""
        if self.roles:
            return self.roles
        replicas = 1 if self.replicas is None else self.replicas
        return [PodRole(replicas=replicas, remaining=self.remaining, template=self.template, rank=self.rank)]


class RuleFile(_Written, frozen=True):
    """What a rule file holds."""

    kinds: list[Rule]


Rules = dict[tuple[str, str], Rule]


def rules_by_kind(rules: Sequence[Rule]) -> Rules:
    """Rules by API group and kind; the later of two for one kind wins."""
    return {(rule.group, rule.kind): rule for rule in rules}


def rule_for(rules: Rules, about: Reference) -> Rule | None:
    """The rule for an object's kind, in any version."""
    return rules.get((about.group, about.kind))


def rules_of(document: object, file: str) -> list[Rule]:
    """The rules in a document. Raises `InvalidObject` with file, field, value and what is allowed."""
    at = ObjectPath(f"rule file {file}")
    try:
        rules = msgspec.convert(document, RuleFile).kinds
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error, RuleFile)
        raise InvalidObject(ObjectPath(at.subject, field), problem) from None
    seen: set[tuple[str, str]] = set()
    for number, rule in enumerate(rules):
        here = at.child("kinds").item(number)
        if (rule.group, rule.kind) in seen:
            raise InvalidObject(here.child("kind"), f'"{rule.kind}" of group "{rule.group}" has a rule already')
        seen.add((rule.group, rule.kind))
        _check(rule, here)
    return rules


def _check(rule: Rule, at: ObjectPath) -> None:
    if not rule.kind:
        raise InvalidObject(at.child("kind"), '"" must be the name of a kind')
    if rule.group and not _API_GROUP.fullmatch(rule.group):
        raise InvalidObject(at.child("group"), f'"{rule.group}" must be an API group without version: example.com')
    if rule.gang not in (ALWAYS, ASKED):
        raise InvalidObject(at.child("gang"), f'"{rule.gang}" must be one of {ALWAYS}, {ASKED}')
    for field, amounts in (("replicas", rule.replicas), ("minimum", rule.minimum), ("remaining", rule.remaining)):
        _check_amounts(amounts, at.child(field))
    _check_path(rule.template, at.child("template"))
    _check_ranks(rule.rank, at.child("rank"))
    conditions = {"staged": rule.staged, "oneByOne": rule.one_by_one, "leaderApart": rule.leader_apart}
    for field, condition in conditions.items():
        if condition is not None:
            _check_path(condition.at, at.child(field).child("at"), needed=True)
    if rule.roles and (rule.replicas is not None or rule.remaining or rule.template or rule.rank):
        raise InvalidObject(
            at.child("roles"), "a kind with roles says replicas, remaining, template and rank in each of them"
        )
    if len(rule.roles) > 1 and not rule.role_label:
        raise InvalidObject(at.child("roleLabel"), "is missing: by which label do pods tell their role?")
    for number, label in enumerate(rule.role_label):
        _check_label(label, at.child("roleLabel").item(number))
    if rule.one_gang_per:
        _check_label(rule.one_gang_per, at.child("oneGangPer"))
    for number, role in enumerate(rule.roles):
        _check_role(role, at.child("roles").item(number))
    _check_roles_differ(rule.roles, at.child("roles"))


def _check_roles_differ(roles: Sequence[PodRole], at: ObjectPath) -> None:
    """Check that no two roles share a name or a value of the role label."""
    names: set[str] = set()
    values: set[str] = set()
    for number, role in enumerate(roles):
        if not role.name:
            continue
        name, value = role.name.lower(), (role.means or role.name).lower()
        if name in names:
            raise InvalidObject(at.item(number).child("name"), f'"{role.name}" is the name of another role already')
        if value in values:
            field = at.item(number).child("means" if role.means else "name")
            raise InvalidObject(field, f'"{value}" means another role already')
        names.add(name)
        values.add(value)


def _check_role(role: PodRole, at: ObjectPath) -> None:
    if bool(role.name) == bool(role.each):
        raise InvalidObject(at.child("name"), "needs one of name and each")
    if role.name and not _ROLE_NAME.fullmatch(role.name):
        raise InvalidObject(at.child("name"), f'"{role.name}" must be letters, digits and dashes, at most 63')
    if bool(role.each) != bool(role.name_at):
        raise InvalidObject(at.child("nameAt"), "goes with each: it is the field of an entry that names the group")
    paths = {
        "each": role.each,
        "nameAt": role.name_at,
        "template": role.template,
        "needs": role.needs,
        "unless": role.unless,
        "fromOne": role.from_one,
    }
    for field, path in paths.items():
        _check_path(path, at.child(field))
    for field, amounts in (("replicas", role.replicas), ("minimum", role.minimum), ("remaining", role.remaining)):
        _check_amounts(amounts, at.child(field))
    _check_amounts(role.segment, at.child("segment"))
    _check_ranks(role.rank, at.child("rank"))


def _check_ranks(ranks: Sequence[Rank], at: ObjectPath) -> None:
    for number, rank in enumerate(ranks):
        here = at.item(number)
        _check_label(rank.label, here.child("label"))
        _check_amounts(rank.times, here.child("times"))
        if rank.times == _ONCE and number < len(ranks) - 1:
            problem = "is missing: by what is this index multiplied, so that no two pods have one rank?"
            raise InvalidObject(here.child("times"), problem)


def _check_label(key: str, at: ObjectPath) -> None:
    if not _LABEL.fullmatch(key):
        raise InvalidObject(at, f'"{key}" must be the key of a label, such as example.com/role')


def _check_path(text: str, at: ObjectPath, *, needed: bool = False) -> None:
    if text or needed:
        try:
            path_of(text)
        except ValueError as wrong:
            raise InvalidObject(at, f'"{text}" {wrong}') from None


def _check_amounts(amounts: Amounts | None, at: ObjectPath) -> None:
    if isinstance(amounts, int) and amounts < 0:
        raise InvalidObject(at, f"{amounts} must be 0 or more")
    for text in _texts(amounts):
        try:
            amount_of(text)
        except ValueError as wrong:
            raise InvalidObject(at, f'"{text}" {wrong}') from None


def _texts(amounts: Amounts | None) -> Iterator[str]:
    if isinstance(amounts, str):
        yield amounts
    elif isinstance(amounts, list):
        yield from amounts


def fields_of(amounts: Amounts | None, field: str, where: str = "") -> str:
    """The fields of an amount, for a message; `field` is the rule's own, for a plain number."""
    texts = [re.sub(r"\|[0-9]+", "", text) for text in _texts(amounts)]
    return " or ".join(f"{where}{text}" for text in texts) or f"{where}{field}"


def smallest(amounts: Amounts, thing: object) -> int | None:
    """The smallest of the present amounts."""
    return min(_values(amounts, thing), default=None)


def first(amounts: Amounts | None, thing: object) -> int | None:
    """The first of the present amounts."""
    return next(iter(_values(amounts, thing)), None)


def _values(amounts: Amounts | None, thing: object) -> list[int]:
    if isinstance(amounts, int):
        return [amounts]
    found = (amount_of(text).value(thing) for text in _texts(amounts))
    return [value for value in found if value is not None]
