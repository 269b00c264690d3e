"""Dialects of other packages: mistakes are named, Topologies are found, and errors use the object's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.api import (
    Dialect,
    FieldNames,
    Gang,
    Group,
    GroupObject,
    Incomplete,
    Metadata,
    Pod,
    Resource,
    Topologies,
    WireStruct,
    arrived,
    counted,
    full_name,
    group_of,
)
from bayplan.dialects import registry
from bayplan.dialects.kai import pod_group as kai
from bayplan.dispatch.actions import Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.roster import GangRoster
from bayplan.extensions import DIALECTS, BrokenExtension
from bayplan.gangs.checks import Naming, naming_in, problem_of
from bayplan.gangs.trees import Trees
from bayplan.kube.errors import InvalidObject
from bayplan.kube.object_set import kind_in_set
from bayplan.scheduling.profile import default_profile
from tests.builders.clusters import cluster
from tests.builders.entries import entries_of
from tests.builders.gangs import group_object, member
from tests.builders.objects import node

LABEL = "example.com/squad"
WHOSE = 'bayplan.dialects: "squad" of package squad-pkg'


class SquadSpec(WireStruct, frozen=True):
    size: int = 0
    keep_together: str | None = None


class Squad(GroupObject, frozen=True, kw_only=True):
    metadata: Metadata = Metadata()
    spec: SquadSpec = SquadSpec()


class NoGroupObject(WireStruct, frozen=True, kw_only=True):
    metadata: Metadata = Metadata()
    spec: SquadSpec = SquadSpec()


class WithoutSpec(GroupObject, frozen=True, kw_only=True):
    metadata: Metadata = Metadata()


class Job(Squad, frozen=True, kw_only=True):
    """A kind of another group than Kubernetes' own."""


def group_named(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(LABEL, "")


def gang_of(written: Squad, pods: Sequence[Pod], _: Topologies) -> Gang | Incomplete:
    name, members = full_name(written.metadata), counted(pods)
    if missing := arrived(len(members), written.spec.size):
        return Incomplete(name, missing)
    return Gang(name, group_of(members, written.spec.size, required=written.spec.keep_together))


SQUADS = Resource("example.com/v1", "squads", "Squad", Squad)
DIALECT: Any = Dialect(
    "squad", Squad, group_named, gang_of, resource=SQUADS, field_names=FieldNames(required="spec.keepTogether")
)


@contextmanager
def installed(dialect: Any = DIALECT) -> Iterator[None]:
    with entries_of((DIALECTS, "squad", dialect)):
        yield


def of_kind(api_version: str, kind: str, struct: Any = Squad) -> Any:
    return replace(DIALECT, written_as=struct, resource=Resource(api_version, "things", kind, struct))


def raises(*_: object) -> Any:
    raise KeyError("boop")


def with_function(name: str, function: Callable[..., Any]) -> Any:
    changed: dict[str, Any] = {name: function}
    return replace(DIALECT, **changed)


CLASHES = "which bayplan or another dialect reads already"


@pytest.mark.parametrize(
    "dialect, problem",
    [
        (gang_of, "is a function, not a Dialect"),
        (Dialect, "is the class Dialect, not a Dialect"),
        (replace(DIALECT, name="my squad"), "has the name 'my squad'; must be lower case letters, digits"),
        (replace(DIALECT, name="kai"), "has the name of another dialect, kai"),
        (replace(kai.DIALECT, name="kai-again"), "uses the same struct as kai, PodGroup"),
        (of_kind("v1", "Pod", type("Pod", (Squad,), {}, frozen=True)), "plural 'things'"),
        (of_kind("scheduling.run.ai/v3", "PodGroup", type("PodGroup", (Squad,), {}, frozen=True)), CLASHES),
        (of_kind("batch/v1", "Job", Job), CLASHES),
        (of_kind("example.com/v1", "Squad", NoGroupObject), "its struct must derive from GroupObject"),
        (of_kind("example.com/v1", "Band"), "into Squad; its struct must be called Band, as errors name it"),
        (of_kind("example.com/v1", "WithoutSpec", WithoutSpec), "which has no field spec"),
        (replace(DIALECT, resource=None), "has a resource of another struct than written_as"),
        (replace(DIALECT, resource="squads"), "has a resource of type str; must be a Resource"),
        (replace(DIALECT, status_of=None), "has no function for status_of"),
        (replace(DIALECT, field_names={"required": "spec.x"}), "has field_names of type dict; must be FieldNames"),
    ],
)
def test_a_dialect_that_cannot_be_used_is_told_when_it_is_loaded(dialect: Any, problem: str) -> None:
    with installed(dialect), pytest.raises(BrokenExtension) as error:
        registry.dialects()
    assert str(error.value).startswith(WHOSE)
    assert problem in str(error.value)


def test_two_packages_cannot_read_one_kind() -> None:
    class Other(GroupObject, frozen=True, kw_only=True):
        metadata: Metadata = Metadata()
        spec: SquadSpec = SquadSpec()

    Other.__name__ = "Squad"
    other = replace(DIALECT, name="other", written_as=Other, resource=Resource("example.com/v2", "s", "Squad", Other))
    with (
        entries_of((DIALECTS, "squad", DIALECT), (DIALECTS, "troop", other)),
        pytest.raises(BrokenExtension, match=f'"troop" .* {CLASHES}'),
    ):
        registry.dialects()


def test_a_kind_called_like_one_of_kubernetes_is_read_in_its_own_group() -> None:
    with installed(of_kind("example.com/v1", "Job", Job)):
        assert kind_in_set("example.com/v1", "Job") == (Job, "other_gangs")
        assert kind_in_set("batch/v1", "Job") is None


@pytest.mark.parametrize(
    "function, answer, problem",
    [
        *((each, raises, "KeyError: 'boop'") for each in ("gang_of", "was_complete", "least_running", "status_of")),
        ("gang_of", lambda *_: None, "returned None; must be an Incomplete, or a Gang of Groups of pods"),
        ("gang_of", lambda *_: Gang("ml/red", Group(pods=("p0",))), "returned a Gang; must be"),  # type: ignore[arg-type]
        ("gang_of", lambda *_: Gang("ml/red", Group(), None), "returned a Gang; must be"),  # type: ignore[arg-type]
        ("remarks", lambda *_: "spec.size: x", "returned a str; must be a tuple of texts"),
        ("was_complete", lambda *_: None, "returned None; must be True or False"),
        ("may_be_evicted", lambda *_: None, "returned None; must be True or False"),
        ("least_running", lambda *_: "1", "returned a str; must be a number or None"),
        ("status_of", lambda *_: None, "returned None; must be a dict"),
        ("parent", lambda *_: None, "returned None; must be a text"),
    ],
)
def test_a_wrong_answer_names_dialect_package_and_function(
    function: str, answer: Callable[..., Any], problem: str
) -> None:
    with installed(with_function(function, answer)):
        asked = getattr(registry.dialect_written_as(Squad), function)
    with pytest.raises(BrokenExtension) as error:
        asked(*((squad(), (), Topologies()) if function == "gang_of" else (squad(),)))
    assert str(error.value).startswith(f"{WHOSE} failed in {function}: {problem}")
    assert str(error.value).endswith("; report it to that package")


def squad(size: int = 2, keep_together: str | None = None, **metadata: Any) -> Any:
    return group_object(Squad, {"size": size, "keepTogether": keep_together}, "red", **metadata)


def pods(*names: str, **more: Any) -> list[Pod]:
    return [member(name, {LABEL: "red"}, schedulerName="bayplan", **more) for name in names]


def test_none_means_that_a_pod_names_no_group() -> None:
    with installed(replace(DIALECT, group_named=lambda pod: (pod.metadata.labels or {}).get(LABEL))):
        assert registry.gang_named(member("alone")) == ""
        assert registry.gang_named(member("p0", {LABEL: "red"})) == "squad ml/red"


def fails_on_odd(pod: Pod) -> str:
    return group_named(pod) if pod.metadata.name != "odd" else raises()


def test_a_pod_that_a_dialect_fails_on_waits_and_says_why() -> None:
    with installed(replace(DIALECT, group_named=fails_on_odd)):
        roster = GangRoster()
        for each in (member("odd"), *pods("p0", "p1")):
            roster.set_member(each)
        with pytest.raises(BrokenExtension, match="failed in group_named: KeyError: 'boop'"):
            roster.gang(roster.gang_of("ml/odd"))
        roster.set_group(squad())
        assert len(roster.gang("squad ml/red").pods) == 2  # type: ignore[union-attr]


def test_a_broken_dialect_holds_up_only_its_own_gang() -> None:
    def fails_on_red(written: Squad, members: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
        return raises() if written.metadata.name == "red" else gang_of(written, members, topologies)

    with installed(replace(DIALECT, group_named=fails_on_odd, gang_of=fails_on_red)):
        dispatcher = Dispatcher({"bayplan": default_profile()})
        dispatcher.state.set_node(node("n1", {"cpu": 8, "memory": "8Gi", "pods": 10}))
        dispatcher.set_group(squad(1), 0.0)
        dispatcher.set_group(msgspec.structs.replace(squad(1), metadata=Metadata(name="blue", namespace="ml")), 0.0)
        named = {"odd": "x", "p0": "red", "p1": "blue"}
        for name, group in named.items():
            dispatcher.set_pod(member(name, {LABEL: group}, schedulerName="bayplan"), 0.0)
        found = [dispatcher.decide(1.0) for _ in named]
        refused = [each.reason for each in found if isinstance(each, Unschedulable)]
        placed = [each.assignments[0].pod.metadata.name for each in found if isinstance(each, Bind)]
        assert placed == ["p1"]
        for function, reason in zip(("group_named", "gang_of"), sorted(refused, reverse=True), strict=True):
            assert reason == f"{WHOSE} failed in {function}: KeyError: 'boop'; report it to that package"


@pytest.mark.parametrize("function", ["was_complete", "least_running", "may_be_evicted", "parent"])
def test_what_fails_on_an_object_is_said_when_the_object_comes(function: str) -> None:
    with installed(with_function(function, raises)):
        dispatcher = Dispatcher({"bayplan": default_profile()})
        with pytest.raises(BrokenExtension, match=f"failed in {function}: KeyError: 'boop'"):
            dispatcher.set_group(squad(), 0.0)


RACK, BLOCK = "example.com/rack", "example.com/block"


@pytest.mark.parametrize(
    "levels, level, annotations, topology",
    [
        ({"network": (BLOCK, RACK)}, RACK, {}, ""),  # the only one: the gang need not name it
        ({"network": (BLOCK, RACK), "power": ("example.com/feed",)}, "rack", {}, "network"),
        ({"a": (RACK,), "b": (RACK,)}, RACK, {"bayplan.io/topology": "b"}, "b"),
        ({}, RACK, {}, f"nodes by {RACK}"),
        ({"a": (RACK,), "b": (RACK,)}, None, {}, ""),
    ],
)
def test_a_gang_finds_its_topology_as_those_of_other_systems(
    levels: dict[str, tuple[str, ...]], level: str | None, annotations: dict[str, str], topology: str
) -> None:
    with installed():
        written = squad(2, level, annotations=annotations)
        gang = registry.gang_of_members("squad ml/red", written, pods("p0", "p1"), Topologies(levels))
        assert isinstance(gang, Gang)
        assert gang.topology == topology


def test_a_level_of_several_topologies_is_an_error_about_the_object_and_its_field() -> None:
    both = Topologies({"a": (RACK,), "b": ("example.com/zone", RACK)})
    with installed(), pytest.raises(InvalidObject) as error:
        registry.gang_of_members("squad ml/red", squad(2, RACK), pods("p0", "p1"), both)
    choice = "choose with the annotation bayplan.io/topology"
    assert str(error.value) == (
        f'Squad ml/red: spec.keepTogether: "{RACK}" is a level of several Topologies: a, b; {choice}'
    )


def test_problems_of_a_gang_name_the_field_of_the_object() -> None:
    trees = Trees(cluster(nodes=[node("n1", labels={RACK: "r1"})]))
    trees.set("network", (RACK,))
    with installed():
        gang = registry.gang_of_members("squad ml/red", squad(2, "rak"), pods("p0", "p1"), trees.topologies)
        assert isinstance(gang, Gang)
        problem = problem_of(gang, trees.get("network"), trees.topologies)
    told = '"rak" is not a level; the topology has example.com/rack, kubernetes.io/hostname; did you mean '
    assert problem == f'spec.keepTogether: {told}"{RACK}"?'
    assert naming_in(problem, gang.field_names) == Naming("required", "rak", f'{told}"{RACK}"?')
    assert naming_in(problem) is None
