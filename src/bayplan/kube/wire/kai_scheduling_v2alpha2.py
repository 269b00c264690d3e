"""KAI-Scheduler's PodGroup (`scheduling.run.ai/v2alpha2`): the wire struct, its sub-groups as a tree, and what may be
wrong.

A PodGroup lists its sub-groups flat, each naming its parent. Those that have children become a `SubGroupSet`, the
others a `PodSet`, which is where pods belong; everything hangs below one nameless root that carries the PodGroup's own
constraint.

`sub_group_tree` says what KAI's scheduler says when it builds the tree, in KAI's own sentences, and raises nothing.
`compat/kai/scheduler/` places what comes out of `gang_tree`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bayplan.kube.wire.core_v1 import GroupObject, Int32, Metadata, PodCondition, WireStruct

API_VERSION = "scheduling.run.ai/v2alpha2"

ROOT = ""
# Topologies have at most 16 levels; deeper nesting than this is a mistake.
DEEPEST = 64
# The pod set of pods that name no sub-group.
DEFAULT_POD_SET = "default"
# The condition by which bayplan tells that all pods which a gang needs had nodes.
SCHEDULED = "Scheduled"


class WireConstraint(WireStruct, frozen=True):
    """`topologyConstraint` of a PodGroup or of one of its sub-groups: levels are node labels of that topology."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(WireStruct, frozen=True):
    """A part of a PodGroup; it holds pods, or other sub-groups that name it as their parent."""

    name: str = ""
    min_member: Int32 = 0
    min_sub_group: Int32 | None = None
    parent: str | None = None
    topology_constraint: WireConstraint | None = None
    topology_constraints: WireConstraint | None = None


class PodGroupSpec(WireStruct, frozen=True):
    """How many pods must start together, for which queue, how close to each other and in which parts."""

    min_member: Int32 = 1
    min_sub_group: Int32 | None = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: WireConstraint = WireConstraint()
    # The name of the field in KAI's design document; served CRDs say `topologyConstraint`.
    topology_constraints: WireConstraint | None = None
    sub_groups: list[SubGroup] | None = None


class PodGroupStatus(WireStruct, frozen=True):
    """Scheduling progress, as KAI or the scheduler in its place reports it."""

    conditions: list[PodCondition] | None = None
    scheduling_conditions: list[PodCondition] | None = None


class PodGroup(GroupObject, frozen=True):
    """A gang, as KAI's pod grouper writes it."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None


@dataclass(frozen=True, slots=True)
class TopologyConstraint:
    """All pods within one domain of the level `required`, and best within one of the level `preferred`.

    "" asks for nothing.
    """

    topology: str
    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class PodSet:
    """A leaf: pods of one kind, of which `min_available` start together."""

    name: str
    min_available: Int32
    constraint: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True)
class SubGroupSet:
    """An inner sub-group, or the root. Of what is directly inside, `min_sub_groups` must start; None means all."""

    name: str
    constraint: TopologyConstraint | None = None
    sub_groups: tuple[SubGroupSet, ...] = ()
    pod_sets: tuple[PodSet, ...] = ()
    min_sub_groups: Int32 | None = None

    def all_pod_sets(self) -> Iterator[PodSet]:
        """The leaves below this sub-group."""
        for sub_group in self.sub_groups:
            yield from sub_group.all_pod_sets()
        yield from self.pod_sets


def sub_group_tree(spec: PodGroupSpec) -> SubGroupSet | str:
    """The tree of a PodGroup's sub-groups, or the sentence with which KAI's scheduler turns the PodGroup down.

    Names of parents are looked up in lower case, names of sub-groups are not, as in KAI: a parent with a capital letter
    is never found.
    """
    sub_groups = spec.sub_groups or []
    names: set[str] = set()
    for sub_group in sub_groups:
        if not sub_group.name:
            return "a subgroup has no name"
        if sub_group.name in names:
            return f"subgroup <{sub_group.name}> already exists"
        names.add(sub_group.name)
    parents = {sub_group.name: _parent_of(sub_group) for sub_group in sub_groups}
    names.add(ROOT)
    for name, parent in parents.items():
        if parent not in names:
            return f"parent subgroup <{parent}> of <{name}> not found"
    depths = _depths({name: parent or None for name, parent in parents.items()})
    if len(depths) < len(parents):
        return "cycle detected in subgroups"  # KAI's webhook never lets one in, and its scheduler would lose those pods
    too_deep = [name for name, depth in depths.items() if depth > DEEPEST]
    if too_deep:
        return f"subgroup <{too_deep[0]}> is nested more than {DEEPEST} deep"
    constraint = spec.topology_constraint
    own = _constraint_of(constraint if constraint.topology else None)
    children: dict[str, list[SubGroup]] = {}
    for sub_group in sub_groups:
        children.setdefault(_parent_of(sub_group), []).append(sub_group)
    return _sub_group_set(ROOT, own, children, spec.min_sub_group if sub_groups else None)


def gang_tree(spec: PodGroupSpec) -> SubGroupSet | str:
    """The tree to place: one without sub-groups gets the pod set `default`, with the PodGroup's own minimum."""
    tree = sub_group_tree(spec)
    if isinstance(tree, str) or spec.sub_groups:
        return tree
    return SubGroupSet(tree.name, tree.constraint, pod_sets=(PodSet(DEFAULT_POD_SET, max(spec.min_member, 1)),))


def _sub_group_set(
    name: str, constraint: TopologyConstraint | None, children: Mapping[str, list[SubGroup]], least: int | None
) -> SubGroupSet:
    here = children.get(name, [])
    return SubGroupSet(
        name,
        constraint,
        tuple(
            _sub_group_set(child.name, _constraint_of(child.topology_constraint), children, child.min_sub_group)
            for child in here
            if child.name in children
        ),
        tuple(
            PodSet(child.name, max(child.min_member, 1), _constraint_of(child.topology_constraint))
            for child in here
            if child.name not in children
        ),
        least,
    )


def _parent_of(sub_group: SubGroup) -> str:
    return ROOT if sub_group.parent is None else sub_group.parent.lower()


def _constraint_of(wire: WireConstraint | None) -> TopologyConstraint | None:
    if wire is None:
        return None
    return TopologyConstraint(wire.topology, wire.required_topology_level, wire.preferred_topology_level)


def _depths(parents: dict[str, str | None]) -> dict[str, int]:
    """How deep each name is nested, 1 at the top; names from which following parents never ends are left out."""
    children: dict[str | None, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    depths: dict[str, int] = {}
    here, depth = children.get(None, []), 1
    while here:
        depths |= dict.fromkeys(here, depth)
        here, depth = [child for name in here for child in children.get(name, [])], depth + 1
    return depths
