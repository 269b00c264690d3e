"""A gang of existing pods: one of bayplan's PodGroups and the pods that name it.

Pods join by the label `bayplan.io/pod-group`, and a group inside it by `bayplan.io/group`, in the order of their ranks
(`gangs/ranks/ranks.py`). Late members follow running ones into their domain.

A gang whose minimum has not arrived is `Incomplete`. A gang that was complete waits for no more pods while any member
runs: missing ones have ended. If the minimum is smaller than the size, the pods still to come are assumed to look like
those that are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete, counted, group_of, has_place, has_started, succeeded
from bayplan.dialects.own.reader import read_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.ranks.parallelism import parallel_groups
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.manifest_limits import MOST_PODS_OF_OBJECT
from bayplan.kube.wire.bayplan_v1alpha1 import SCHEDULED, STARTED, GroupSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Affinity, Pod, Toleration

POD_GROUP = "bayplan.io/pod-group"
GROUP = "bayplan.io/group"


def gang_with_pods(written: PodGroup, pods: Iterable[Pod]) -> Gang | Incomplete:
    """The gang of a PodGroup and its pods. Raises `InvalidObject` if either is invalid."""
    frame = read_gang(msgspec.structs.replace(written, spec=_without_pods(written.spec)))
    at = ObjectPath.of(written).child("spec")
    _check_minima(written.spec, at)
    names = {group.name for group in frame.root.every_group()}
    members = counted(pods)
    by_group = _by_group(written.spec, members)
    for name, some in by_group.items():
        if name not in names:
            raise InvalidObject(at.child("groups"), _no_such_group(some[0], name, names - {""}))
    started = has_started(members, was_complete=was_complete(written))
    missing = _missing(written.spec, by_group)
    if missing and not started:
        return Incomplete(frame.name, f"waits for pods: {missing} have arrived{_without_group(written.spec, by_group)}")
    root = _filled(frame.root, written.spec, by_group, started=started)
    parallelism = parallel_groups(written.spec.parallelism or (), written.spec.size, at.child("parallelism"))
    likely = _waiting(members) or [pod for pod in members if started and pod.spec.node_name]
    root = _expecting(root, frame.root, written.spec, by_group, likely[-1]) if likely else root
    return replace(frame, root=root, parallelism=parallelism)


def _no_such_group(pod: Pod, name: str, names: Collection[str]) -> str:
    named = f'pod {pod_key(pod)} names the group "{name}"'
    if not names:
        return f"{named}, but the PodGroup has no groups"
    return f"{named}, which does not exist; known: {', '.join(sorted(names))}"


def _without_group(spec: PodGroupSpec, by_group: Mapping[str, list[Pod]]) -> str:
    """The first pod that counts nowhere, because all pods belong into groups and it names none."""
    strays = by_group.get("") if not spec.size and spec.groups else None
    return f"; pod {pod_key(strays[0])} names no group (label {GROUP})" if strays else ""


def members_left(written: PodGroup, pods: Iterable[Pod]) -> str:
    """`2 of 4`, or `2 of 4 in group workers`, if a gang has fewer pods than it needs; otherwise empty."""
    return _missing(written.spec, _by_group(written.spec, counted(pods)))


def lacking(written: PodGroup, pods: Iterable[Pod]) -> Counter[str]:
    """By group, how many members have no node: they wait, or do not exist.

    Ten thousand pods take 5 ms; sorting them by rank would take ten times that.
    """
    home = _home(written.spec)
    found = Counter({name: spec.size for name, spec in _specs(written.spec)})
    found.subtract((pod.metadata.labels or {}).get(GROUP, home) for pod in pods if has_place(pod))
    return +found


def size_of(written: PodGroup) -> int:
    """How many members a gang has once all are there."""
    return sum(spec.size for _, spec in _specs(written.spec))


def asks_for_a_level(written: PodGroup) -> bool:
    """True if a gang or one of its groups asks for a level."""
    return any(spec.required or spec.preferred or spec.segments for _, spec in _specs(written.spec))


def _specs(spec: PodGroupSpec | GroupSpec, name: str = "") -> Iterator[tuple[str, PodGroupSpec | GroupSpec]]:
    yield name, spec
    for each in spec.groups or ():
        yield from _specs(each, each.name)


def group_label(written: PodGroup, pod: Pod) -> str:
    """The group that a member belongs to."""
    return (pod.metadata.labels or {}).get(GROUP, _home(written.spec))


def _by_group(spec: PodGroupSpec, members: Iterable[Pod]) -> dict[str, list[Pod]]:
    home = _home(spec)
    by_group: dict[str, list[Pod]] = {}
    for pod in members:
        by_group.setdefault((pod.metadata.labels or {}).get(GROUP, home), []).append(pod)
    return by_group


def _check_minima(spec: PodGroupSpec | GroupSpec, at: ObjectPath) -> None:
    """Reject a minimum above the size, which no gang could reach."""
    if spec.minimum is not None and spec.minimum > spec.size:
        raise InvalidObject(at.child("minimum"), f"{spec.minimum} is more than the size {spec.size}")
    for number, group in enumerate(spec.groups or ()):
        _check_minima(group, at.child("groups").item(number))


def was_complete(written: PodGroup) -> bool:
    """True if the status shows it, for as long as the gang has pods."""
    if written.status is None:
        return False
    conditions = written.status.conditions or ()
    return written.status.phase == SCHEDULED or any(
        each.type == STARTED and each.status == "True" for each in conditions
    )


_Spec = TypeVar("_Spec", PodGroupSpec, GroupSpec)


def _without_pods(spec: _Spec) -> _Spec:
    """The same groups without pods of their own."""
    inner = None if spec.groups is None else [_without_pods(each) for each in spec.groups]
    return msgspec.structs.replace(spec, size=0, pod=None, groups=inner)


def _home(spec: PodGroupSpec) -> str:
    """The group of pods that name none: the gang itself, or its only group."""
    if not spec.size and len(spec.groups or ()) == 1:
        return (spec.groups or [])[0].name
    return ""


def _missing(spec: PodGroupSpec | GroupSpec, by_group: dict[str, list[Pod]], name: str = "") -> str:
    """`3 of 8` for the first incomplete group; with a minimum of groups, the others can be absent."""
    least = spec.size if spec.minimum is None else spec.minimum
    here = len(by_group.get(name, ()))
    if here < least:
        return f"{here} of {least}{f' in group {name}' if name else ''}"
    missing = [text for group in spec.groups or () if (text := _missing(group, by_group, group.name))]
    most_absent = 0 if spec.minimum_groups is None else len(spec.groups or ()) - spec.minimum_groups
    return missing[0] if len(missing) > most_absent else ""


def _filled(group: Group, spec: PodGroupSpec | GroupSpec, by_group: dict[str, list[Pod]], *, started: bool) -> Group:
    """A group with its pods, and with the inner groups that have arrived or were there once.

    If the group has `started`, those are all; with a minimum of groups, those that have started themselves.
    """
    least = spec.size if spec.minimum is None else spec.minimum
    own = group_of(by_group.get(group.name, ()), least)
    inner: list[Group] = []
    for each, written in zip(group.groups, spec.groups or (), strict=True):
        pods = [pod for some in each.every_group() for pod in by_group.get(some.name, ())]
        inner_started = started and (spec.minimum_groups is None or has_started(pods, was_complete=True))
        if inner_started or not _missing(written, by_group, written.name):
            inner.append(_filled(each, written, by_group, started=inner_started))
    return replace(
        group,
        pods=own.pods,
        running=own.running,
        groups=tuple(inner),
        minimum=own.minimum,
        minimum_groups=None if group.minimum_groups is None else min(group.minimum_groups, len(inner)),
    )


# -- members still to come --------------------------------------------------------------------------------------


def _expecting(
    group: Group, frame: Group, spec: PodGroupSpec | GroupSpec, by_group: dict[str, list[Pod]], like: Pod
) -> Group:
    """A group and its inner groups with the members still to come.

    They look like the last waiting pod of their group. Without one they have the amounts of a pod of the nearest group
    around it, else of `like`, and no relations to other pods: a leader's affinity is not that of its followers. If any
    member of a group has a node, missing ones may have ended and do not count.
    """
    here = by_group.get(group.name, ())
    waiting = _waiting(here)
    inside = [pod for some in frame.every_group() for pod in _waiting(by_group.get(some.name, ()))]
    like = (waiting or inside or [like])[-1]
    missing = spec.size - len(group.pods) if len(waiting) == len(here) else 0
    # A copy, so that it is not mistaken for a member.
    coming = msgspec.structs.replace(like) if waiting else _unrelated(like)
    known = {each.name: each for each in group.groups}
    inner = [
        _expecting(known.get(each.name, each), each, written, by_group, like)
        for each, written in zip(frame.groups, spec.groups or (), strict=True)
    ]
    return replace(
        group,
        coming=(coming,) * min(max(missing, 0), MOST_PODS_OF_OBJECT),
        groups=tuple(each for each in inner if each.name in known),
        absent=tuple(each for each in inner if each.name not in known),
    )


def _unrelated(pod: Pod) -> Pod:
    """A pod of the same amounts that neither asks for a relation to other pods nor is asked for by one."""
    spec, affinity = pod.spec, pod.spec.affinity
    if spec.node_name:
        # A running member: one like it has no node yet.
        spec = msgspec.structs.replace(spec, node_name=None)
        pod = msgspec.structs.replace(pod, spec=spec, status=None)
    if not spec.topology_spread_constraints and (
        affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None)
    ):
        return msgspec.structs.replace(pod)
    nodes = None if affinity is None else Affinity(node_affinity=affinity.node_affinity)
    # Rules among pods hold for whole classes. The toleration of no taint makes this a class of its own.
    tolerations = [*(spec.tolerations or ()), Toleration(key=GROUP, operator="Exists", effect="NoSchedule")]
    alone = msgspec.structs.replace(spec, affinity=nodes, topology_spread_constraints=None, tolerations=tolerations)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=None), spec=alone)


def _waiting(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not pod.spec.node_name and not succeeded(pod)]
