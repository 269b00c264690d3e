"""The outline of a gang for the search: groups and segments become parts, pods become shapes.

    Group -> Outline (parts, and the pods behind them) -> Problem (what each node has room for) -> search

The outline does not depend on what is free. Pods of one class are one shape. Segments are parts inside their group;
only a gang of equal pods has them as *layers*, which are counted instead of searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass, are_alike
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.cluster.volumes.needs import NO_VOLUMES
from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.problem import Counts, Part, Problem, Solution, Status, preferred_domains
from bayplan.engine.numa.mixes import NodeMixes
from bayplan.gangs.model import Group, Segments
from bayplan.gangs.numa_level import bundle_problem, zone_bundles
from bayplan.gangs.relations.members import MemberClass
from bayplan.gangs.relations.shared_claims import once_only_problem
from bayplan.gangs.split_gangs import split_message
from bayplan.kube.wire.core_v1 import Pod, PodSpec, PodStatus
from bayplan.scheduling.cycle import why_not_yet

Amounts = NDArray[np.float64]
NO_SUMS: tuple[Amounts, Amounts] = (np.zeros((1, 0)), np.zeros((0, 0)))


class PartPods(Struct, frozen=True):
    """The pods behind a part by shape, in rank order, with their group and segment number."""

    group: str
    by_shape: Mapping[int, Sequence[Pod]]
    segment: int | None = None


@dataclass(frozen=True)
class Outline:
    """A gang independent of what is free. `problem` says why it must not be placed yet."""

    levels: tuple[str, ...]
    parts: tuple[Part, ...]
    pods_of: tuple[PartPods, ...]
    classes: tuple[PodClass, ...]
    layers: tuple[SegmentLayer, ...]
    problem: str
    bundles: tuple[int, ...]
    """By shape, how many consecutive pods share a NUMA zone, or `NO_BUNDLE`."""
    pods: int
    """The number of waiting pods."""
    numbers: tuple[int, ...]
    """By shape, the number of its `MemberClass`."""

    @property
    def members(self) -> list[MemberClass]:
        """The class of each shape, as terms divide it."""
        return [MemberClass(*each) for each in zip(self.classes, self.numbers, strict=True)]


@dataclass(frozen=True)
class Tried:
    """An outline and its search result. `mixes` knows the admission order of different pods on a node."""

    outline: Outline
    problem: Problem
    solution: Solution
    mixes: NodeMixes | None = None

    def answers(self, outline: Outline, tree: Tree, slots: tuple[Counts, ...]) -> bool:
        """True if this is the same question again. Compares identity only, of arrays that do not change."""
        same_slots = len(slots) == len(self.problem.slots) and all(map(is_, slots, self.problem.slots))
        return same_slots and outline is self.outline and tree is self.problem.tree

    @property
    def status(self) -> Status:
        """The status of the answer."""
        return self.solution.status

    @property
    def domains(self) -> int:
        """The sum of preferred domains that the groups use."""
        return preferred_domains(self.problem, self.solution)


def outline_of(state: ClusterState, tree: Tree, root: Group, numbers: Mapping[str, int]) -> Outline:
    """Return the parts and shapes of a gang, or of the part that is to start."""
    bundles = zone_bundles(root, tree.levels)
    are_running = any(group.running for group in root.every_group())
    reader = _Reader(state, tree, bundles, numbers, are_running, problem=bundle_problem(state, root, bundles))
    reader.read_shapes(root)
    if any(pod.volumes is not NO_VOLUMES for pod, _, _ in reader.classes):
        reader.problem = reader.problem or once_only_problem(state, root)
    in_layers = len(reader.classes) <= 1 and not root.groups
    reader.read(replace(root, segments=()) if in_layers and root.segments else root, -1)
    return Outline(
        tree.levels,
        tuple(reader.parts),
        tuple(reader.pods_of),
        tuple(pod for pod, _, _ in reader.classes),
        tuple(reader.layer(each) for each in root.segments) if in_layers else (),
        reader.problem,
        tuple(bundle for _, bundle, _ in reader.classes),
        sum([len(group.pods) for group in root.every_group()]),
        tuple(number for _, _, number in reader.classes),
    )


@dataclass
class _Reader:
    """Reads pods into shapes and groups into parts, parents first."""

    state: ClusterState
    tree: Tree
    bundles: Mapping[str, int]
    class_numbers: Mapping[str, int]
    are_running: bool
    classes: dict[tuple[PodClass, int, int], int] = field(default_factory=dict)
    shape_of: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    pods_of: list[PartPods] = field(default_factory=list)
    problem: str = ""
    avoiding: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def read_shapes(self, root: Group) -> None:
        """Find the shape of every pod. Pods from one template are read once.

        Most pods equal the one before: comparing specs takes 0.1 us by identity and 0.4 us by value, reading one 4 us.
        """
        for group in root.every_group():
            before: Pod | None = None
            spec: PodSpec | None = None
            status: PodStatus | None = None
            bundle, number, number_before = self.bundles[group.name], 0, 0
            for pod in group.pods:
                if self.class_numbers:
                    number_before, number = number, self._number(pod)
                if pod.spec is spec and pod.status is status and number == number_before:
                    continue
                template = id(pod.spec), id(pod.status), bundle, number
                if template not in self.shape_of:
                    if before is not None and number == number_before and are_alike(pod, before):
                        self.shape_of[template] = self.shape_of[id(spec), id(status), bundle, number]
                    else:
                        self.shape_of[template] = self._shape(pod, bundle, number)
                before, spec, status = pod, pod.spec, pod.status

    def _number(self, pod: Pod) -> int:
        return self.class_numbers.get(pod_key(pod), 0) if self.class_numbers else 0

    def _shape(self, pod: Pod, bundle: int, number: int) -> int:
        pod_class = self.state.classes.of(pod)
        reason = "" if self.problem else why_not_yet(pod, pod_class)
        self.problem = f"pod {pod_key(pod)} {reason}" if reason else self.problem
        return self.classes.setdefault((pod_class, bundle, number), len(self.classes))

    def layer(self, segments: Segments) -> SegmentLayer:
        return SegmentLayer(self.number(segments.level), segments.size, segments.apart)

    def number(self, label: str) -> int:
        if label not in self.numbers:
            number = self.tree.level_number(label)
            assert number is not None, label  # ensured by checks.py
            self.numbers[label] = number
        return self.numbers[label]

    def read(self, group: Group, parent: int) -> None:
        number = len(self.parts)
        running_at = self._running_at(group) if self.are_running else []
        required = None if group.required is None else self.number(group.required)
        if group.optional and required is not None and len({self._domain(required, at) for at in running_at}) > 1:
            required = None  # members run in several domains: the preference was dropped before
        preferred = None if group.preferred is None else self.number(group.preferred)
        own = self._by_shape(group, () if group.segments else group.pods)
        part = Part(
            group.name,
            parent,
            {shape: len(pods) for shape, pods in own.items()},
            required,
            preferred,
            None if group.apart is None or required is None else self._set_of(group.apart),
            home=self._home(group, required, running_at) if running_at else None,
            running_at=tuple(running_at),
        )
        self._add(part, PartPods(group.name if group.segment_of is None else group.segment_of, own, group.segment))
        if group.segments:
            layers = [self.layer(each) for each in group.segments]
            sets = {
                depth: self._set_of(f"{group.name}/{each.level}")
                for depth, each in enumerate(group.segments)
                if each.apart
            }
            self._cut(group, layers, sets, number, 0, group.pods)
        for inner in group.groups:
            self.read(inner, number)

    def _set_of(self, apart: str) -> int:
        """Return a number for groups that keep apart from each other."""
        return self.avoiding.setdefault(apart, len(self.avoiding))

    def _cut(
        self,
        group: Group,
        layers: Sequence[SegmentLayer],
        sets: Mapping[int, int],
        parent: int,
        first: int,
        pods: Sequence[Pod],
        depth: int = 0,
    ) -> None:
        """Cut a run of pods, beginning at rank `first`, into segments of a layer, and these into the next layer's."""
        layer = layers[depth]
        lowest = depth + 1 == len(layers)
        for begin in range(0, len(pods), layer.size):
            slice_ = pods[begin : begin + layer.size]
            segment = (first + begin) // layer.size
            name = f"{group.name} segment {segment}".strip()
            number = len(self.parts)
            own = self._by_shape(group, slice_ if lowest else ())
            part = Part(
                name, parent, {shape: len(pods) for shape, pods in own.items()}, layer.level, apart=sets.get(depth)
            )
            self._add(part, PartPods(group.name, own, segment if lowest else None))
            if not lowest:
                self._cut(group, layers, sets, number, first + begin, slice_, depth + 1)

    def _add(self, part: Part, pods: PartPods) -> None:
        self.parts.append(part)
        self.pods_of.append(pods)

    def _by_shape(self, group: Group, pods: Sequence[Pod]) -> Mapping[int, Sequence[Pod]]:
        if pods and len(self.classes) == 1:
            return {0: pods}
        by_shape: dict[int, list[Pod]] = {}
        for pod in pods:
            shape = self.shape_of[id(pod.spec), id(pod.status), self.bundles[group.name], self._number(pod)]
            by_shape.setdefault(shape, []).append(pod)
        return by_shape

    # -- running members ---------------------------------------------------------------------------------------------

    @cached_property
    def _position_of(self) -> dict[str, int]:
        return {self.state.names[row]: position for position, row in enumerate(self.tree.rows)}

    def _running_at(self, group: Group) -> list[int]:
        """Return the positions of running members of a group and of groups inside it."""
        nodes = [pod.spec.node_name for each in group.every_group() for pod in each.running]
        return [self._position_of[node] for node in nodes if node in self._position_of] if nodes else []

    def _domain(self, level: int, position: int) -> int:
        return int(self.tree.domain_at[level][position])

    def _home(self, group: Group, required: int | None, running_at: Sequence[int]) -> int | None:
        """Return the domain that running members bind a group to."""
        if required is None:
            return None
        first, *others = sorted({self._domain(required, at) for at in running_at})
        if others:
            one, other = ("/".join(self.tree.paths[required][domain]) for domain in (first, others[0]))
            self.problem = split_message(group, one, other)
        return first


# -- free resources --------------------------------------------------------------------------------------------------


def resources_of(classes: Sequence[PodClass]) -> tuple[str, ...]:
    """Return the resources that any of the classes requests."""
    return tuple(sorted({name for pod in classes for name, amount in pod.request.total.items() if amount} | {PODS}))


def node_sums(
    state: ClusterState, tree: Tree, classes: Sequence[PodClass], names: Sequence[str]
) -> tuple[Amounts, Amounts]:
    """Return the amounts that a pod of each class takes of these resources, and what each position has free."""
    amounts = np.array([[float({**pod.request.total, PODS: 1}.get(name, 0)) for name in names] for pod in classes])
    free = np.stack([state.columns.free[state.columns.index_of(name)][tree.rows] for name in names])
    return amounts, free
