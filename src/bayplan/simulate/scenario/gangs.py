"""The key `gang` of a workload: the spec of bayplan's own PodGroup, in which the scenario's `levels` are the topology
and the workload's `pod` is the usual shape.

In comes what is written, out goes a `GangPattern` with the shape of every pod of one gang. There is no second grammar:
the structs of `kube/wire/bayplan_v1alpha1.py` say which keys there are, `dialects/own/reader.py` and `gangs/checks.py`
what they may mean; here their sentences find the lines that they are about. The pod of a group is written like that of
a workload (`pods.py`), or under `spec` as in a PodGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.dialects.own.members import GROUP
from bayplan.dialects.own.reader import read_gang
from bayplan.gangs.checks import problem_of
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Trees
from bayplan.kube.errors import InvalidObject, field_and_problem
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PatienceSpec, PodGroup, PodGroupSpec, PodShape, Segment
from bayplan.kube.wire.core_v1 import Metadata, Node, Pod
from bayplan.simulate.scenario.lines import Section, YamlValue, described
from bayplan.simulate.scenario.model import GangPattern, SimulatedNode

# The one tree of a scenario; gangs need not name it.
TREE = "scenario"
# What msgspec expects, in words.
PodReader = Callable[[YamlValue], Pod | None]
_Spec = TypeVar("_Spec", PodGroupSpec, GroupSpec)


def _keys(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(struct))


# What a PodGroup says in its spec and a scenario elsewhere.
ELSEWHERE = {
    "topology": "is not allowed in a scenario: the levels of the file are the only topology",
    "pod": "is not allowed here: the pod of a gang stands beside it, in the workload",
}


def gang_written(
    written: YamlValue, replicas: int | None, template: Pod | None, metadata: Metadata, read_pod: PodReader
) -> tuple[GangPattern, tuple[Pod, ...]] | None:
    """A workload's gangs, and the shape of each pod of one of them.

    None if something is wrong, which is noted where it stands.

    `replicas` and `template` are what the workload says about itself, None where it does not; `metadata` is that of all
    its pods.
    """
    spec = _spec(written, PodGroupSpec, read_pod)
    if GROUP in (metadata.labels or {}):
        written.wrong(f"its groups give pods the label {GROUP}: must not be among the labels of the workload")
        return None
    if spec is None:
        return None
    if not spec.groups and not _has(written, "size"):
        spec = msgspec.structs.replace(spec, size=replicas or 1)
    if template is not None:
        spec = msgspec.structs.replace(spec, pod=PodShape(spec=template.spec))
    try:
        gang = _gang(spec)
    except InvalidObject as error:
        _note(written, error.at.field.removeprefix("spec."), error.problem)
        return None
    if not gang.pods:
        written.at("size").wrong("0 is not allowed: the gang or a group inside it must have 1 pod or more")
        return None
    return GangPattern(spec, len(gang.pods)), tuple(_shapes(gang, template, metadata))


def gives_all_shapes(written: YamlValue | None) -> bool:
    """True if a gang consists of groups alone, so that the workload need not say what pods look like."""
    return written is not None and _has(written, "groups") and not _has(written, "size")


def note_what_cannot_be(written: YamlValue, together: GangPattern, trees: Trees) -> None:
    """Note what is wrong with a gang before any node is looked at: the sentence that it would
    be told while it waits.
    """
    gang = _gang(together.spec)
    problem = problem_of(gang, trees.get(trees.name_for(gang)), trees.topologies)
    field, _, sentence = problem.partition(": ")
    if not problem:
        return
    if _has(written, field):
        written.at(field).wrong(sentence)
    else:
        written.wrong(problem)


def trees_of(nodes: Sequence[SimulatedNode], levels: tuple[str, ...]) -> Trees:
    """The tree of a scenario."""
    state = ClusterState()
    for node in nodes:
        state.set_node(Node(metadata=Metadata(name=node.name, labels=dict(node.labels))))
    trees = Trees(state)
    trees.set(TREE, levels)
    return trees


def _gang(spec: PodGroupSpec) -> Gang:
    return read_gang(PodGroup(metadata=Metadata(name="gang"), spec=spec))


def _spec(written: YamlValue, struct: type[_Spec], read_pod: PodReader) -> _Spec | None:
    """What is written as a struct of the PodGroup; None if something is wrong."""
    before = len(written.faults.found)
    section = Section(written, _keys(struct))
    section.items("segments", lambda each: Section(each, _keys(Segment)))
    groups = section.items("groups", lambda each: _spec(each, GroupSpec, read_pod))
    shape: PodShape | None = None
    if struct is PodGroupSpec:
        section.inner("patience", _keys(PatienceSpec))
        for key in filter(partial(_has, written), ELSEWHERE):
            written.at(key).wrong(ELSEWHERE[key])
    else:
        shape = section.take("pod", lambda value: _shape(value, read_pod), None)
    if len(written.faults.found) > before:
        return None
    plain = {key: value for key, value in (written.plain() or {}).items() if key not in ("groups", "pod")}
    try:
        # Quotes are never needed in a scenario, and never in the way.
        spec = msgspec.convert(plain, struct, strict=False)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error, struct)
        _note_type(written, field, problem)
        return None
    return msgspec.structs.replace(spec, groups=[group for group in groups if group is not None] or None, pod=shape)


def _shape(written: YamlValue, read_pod: PodReader) -> PodShape | None:
    """A group's pod, as a workload has it or under `spec` as a PodGroup has it."""
    pod = read_pod(written.at("spec"))
    return None if pod is None else PodShape(spec=pod.spec)


def _shapes(gang: Gang, template: Pod | None, metadata: Metadata) -> list[Pod]:
    """For each pod of a gang what it looks like, the same object for all of a group.

    Pods name the group that they are in.
    """
    found: list[Pod] = []
    for group in gang.root.every_group():
        if not group.name and template is not None:
            found += [template] * len(group.pods)
        elif group.pods:
            labels = {**(metadata.labels or {}), GROUP: group.name}
            shape = Pod(metadata=msgspec.structs.replace(metadata, labels=labels), spec=group.pods[0].spec)
            found += [shape] * len(group.pods)
    return found


def _has(written: YamlValue, key: str) -> bool:
    return isinstance(written.content, dict) and key in written.content


def _note(written: YamlValue, field: str, problem: str) -> None:
    """Note a fault of a field, also of one that is missing."""
    here, own_key = written.at(field), field.rpartition(".")[2]
    if field and not here.place.key.endswith(own_key):
        written.faults.add(here.place.child(own_key, here.place.line), problem)
    else:
        here.wrong(problem)


def _note_type(written: YamlValue, field: str, problem: str) -> None:
    """Note what msgspec says, in the words of this folder."""
    if problem == "is missing":
        _note(written, field, problem)
        return
    allowed = problem.partition(", not ")[0]
    here = written.at(field)
    here.wrong(f"{described(here)} is not allowed: {allowed}")
