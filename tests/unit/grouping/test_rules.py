"""Rule files: how users describe their own kinds, and what they are told when something is wrong."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from bayplan.grouping.expressions import amount_of, path_of
from bayplan.grouping.group import settings_with
from bayplan.grouping.raw import WrongValue
from bayplan.grouping.rules import first, rules_of, smallest
from bayplan.kube.errors import InvalidObject
from tests.unit.grouping.workloads import grouped, pod, spec_of, thing

WRITTEN = """
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
"""


def test_a_rule_file_makes_gangs_of_a_kind_that_bayplan_never_heard_of() -> None:
    settings = settings_with(rules_of(yaml.safe_load(WRITTEN), "rules.yaml"))
    run = thing("example.com/v7", "TrainingRun", {"workers": {"count": 6, "atLeast": 4}})
    member = pod({"example.com/role": "worker", "example.com/worker-index": "2"})
    outcome = grouped(member, run, settings=settings)
    assert spec_of(outcome) == {"groups": [{"name": "driver", "size": 1}, {"name": "worker", "size": 6, "minimum": 4}]}
    assert (outcome.group, outcome.rank) == ("worker", 3)


def test_the_value_of_a_role_label_may_be_written_in_capitals_on_either_side() -> None:
    roles = [{"name": "driver", "means": "Boss"}, {"name": "worker", "replicas": 2}]
    settings = settings_with(rules_of(rule(roleLabel=["role"], roles=roles), "rules.yaml"))
    for written in ("Boss", "boss"):
        assert grouped(pod({"role": written}), thing("v1", "Run", {}), settings=settings).group == "driver"


@pytest.mark.parametrize(
    "value, expected",
    [
        ("3", "train-1b4e28ba-3"),
        ("Big_One", "train-1b4e28ba-big-one-5b1921"),
        ("big-one", "train-1b4e28ba-big-one"),
        ("___", "train-1b4e28ba-"),
        ("a" * 63, f"train-1b4e28ba-{'a' * 25}-"),
    ],
)
def test_a_gang_per_label_has_a_legal_name_of_its_own(value: str, expected: str) -> None:
    settings = settings_with(rules_of(rule(replicas=2, oneGangPer="one"), "rules.yaml"))
    name = grouped(pod({"one": value}), thing("v1", "Run", {}), settings=settings).name
    assert name.startswith(expected)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])", name)


def rule(**fields: Any) -> dict[str, Any]:
    return {"kinds": [{"kind": "Run", **fields}]}


@pytest.mark.parametrize(
    "document, expected",
    [
        ([], "must be a mapping, not a list"),
        ({}, "kinds: is missing"),
        (rule(replica=3), "kinds[0].replica: there is no such field"),
        (rule(gang="sometimes"), 'kinds[0].gang: "sometimes" must be one of always, asked'),
        (rule(kind=""), 'kinds[0].kind: "" must be the name of a kind'),
        (rule(replicas=-1), "kinds[0].replicas: -1 must be 0 or more"),
        (rule(replicas="spec.a + spec.b"), 'kinds[0].replicas: "spec.a + spec.b" must be paths like spec.replicas or '),
        (rule(minimum=["spec.a", "spec..b"]), 'kinds[0].minimum: "spec..b" must be paths like '),
        (rule(template="spec/template"), 'kinds[0].template: "spec/template" must be paths like '),
        (rule(roles=[{"replicas": 1}]), "kinds[0].roles[0].name: needs one of name and each"),
        (rule(roles=[{"each": "spec.tasks"}]), "kinds[0].roles[0].nameAt: goes with each"),
        (
            rule(roles=[{"name": "a"}, {"name": "b"}]),
            "kinds[0].roleLabel: is missing: by which label do pods tell their role?",
        ),
        (
            rule(roles=[{"name": "a"}], replicas=3),
            "kinds[0].roles: a kind with roles says replicas, remaining, template and rank",
        ),
        (rule(staged={"at": "", "is": "x"}), 'kinds[0].staged.at: "" must be paths like '),
        (
            rule(rank=[{"label": "a", "times": "two"}, {"label": "b", "times": "2 2"}]),
            'kinds[0].rank[1].times: "2 2" must be ',
        ),
        (rule(group="e.com/v1"), 'kinds[0].group: "e.com/v1" must be an API group without version'),
        (rule(roles=[{"name": "Bad Name"}]), 'kinds[0].roles[0].name: "Bad Name" must be letters, digits and dashes'),
        (
            rule(roleLabel=["role"], roles=[{"name": "a"}, {"name": "A"}]),
            'kinds[0].roles[1].name: "A" is the name of another role already',
        ),
        (
            rule(roleLabel=["role"], roles=[{"name": "a"}, {"name": "b", "means": "A"}]),
            'kinds[0].roles[1].means: "a" means another role already',
        ),
        (rule(roleLabel=["x y"]), 'kinds[0].roleLabel[0]: "x y" must be the key of a label'),
        (rule(oneGangPer="not a label!"), 'kinds[0].oneGangPer: "not a label!" must be the key of a label'),
        (rule(rank=[{"label": ""}]), 'kinds[0].rank[0].label: "" must be the key of a label'),
        (rule(rank=[{"label": "a/b"}, {"label": "c/d"}]), "kinds[0].rank[0].times: is missing: by what is this index"),
        ({"kinds": [{"kind": "Run"}, {"kind": "Run"}]}, 'kinds[1].kind: "Run" of group "" has a rule already'),
    ],
)
def test_what_is_wrong_names_file_and_field(document: object, expected: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        rules_of(document, "rules.yaml")
    assert str(raised.value).startswith(f"rule file rules.yaml: {expected}")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("3", 3),
        ("spec.replicas", 4),
        ("spec.absent", None),
        ("spec.absent|2", 2),
        ("spec.absent|spec.hosts|1", 2),
        ("spec.absent|spec.missing|1", 1),
        ("spec.replicas|spec.hosts", 4),
        ("spec.replicas * spec.hosts", 8),
        ("spec.replicas * spec.absent", 4),
        ("spec.replicas - 1", 3),
        ("spec.hosts - spec.replicas", 0),
        ('metadata.annotations["example.com/size"]', 5),
    ],
)
def test_amounts(text: str, expected: int | None) -> None:
    written = {"spec": {"replicas": 4, "hosts": 2}, "metadata": {"annotations": {"example.com/size": "5"}}}
    assert amount_of(text).value(written) == expected


def test_of_replicas_the_smallest_counts_and_of_minima_the_first() -> None:
    amounts = ["spec.absent", "spec.parallelism", "spec.completions"]
    written = {"spec": {"parallelism": 8, "completions": 6}}
    assert (smallest(amounts, written), first(amounts, written)) == (6, 8)


@pytest.mark.parametrize("text", ["", ".", ".spec", "spec.", "spec..a", "spec a", '["open', "a-b.c d"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="must be paths like"):
        path_of(text)


@pytest.mark.parametrize(
    "written, expected",
    [
        ({"spec": {"replicas": True}}, "spec.replicas: true must be a whole number"),
        ({"spec": {"replicas": 1.5}}, "spec.replicas: 1.5 must be a whole number"),
        ({"spec": {"replicas": -2}}, "spec.replicas: -2 must be 0 or more"),
        ({"spec": ["replicas"]}, 'spec: ["replicas"] must be a map'),
    ],
)
def test_a_path_that_leads_to_no_number(written: object, expected: str) -> None:
    with pytest.raises(WrongValue) as raised:
        amount_of("spec.replicas").value(written)
    assert str(raised.value) == expected
