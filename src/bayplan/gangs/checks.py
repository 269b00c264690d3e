"""Problems of a gang regardless of the nodes: one sentence that names field and value, empty if there is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bayplan.cluster.topology.tree import Tree
from bayplan.gangs.model import BAYPLAN, Gang, Group, Segments
from bayplan.gangs.numa_level import is_numa
from bayplan.gangs.ranks.late_segments import by_segments
from bayplan.gangs.trees import Topologies, names_domains
from bayplan.kube.topology_levels import HOSTNAME, not_a_level

MOST_LAYERS = 3
# What a gang lacks whose levels several Topologies have; their names follow.
CHOOSE = "is missing; choose "
_FIELD = re.compile(r'(group "[^"]*": )?([^\s:]+)(?=: )')
# A problem with a field that names a tree or a level: the field, the problem, and the name.
_NAMING = re.compile(r'(?:group "[^"]*": )?(topology|required|preferred|segments): ((?:level )?(?:"([^"]*)")?.*)')


def problem_of(gang: Gang, tree: Tree | None, topologies: Topologies) -> str:
    """Return the first problem that no cluster state can resolve, in the words of the gang's group object."""
    problem = _problem_of(gang, tree, topologies)
    return _in_words(problem, gang.field_names) if problem and gang.field_names else problem


def _in_words(problem: str, field_names: Mapping[str, str]) -> str:
    """The same problem with the field under another name."""
    found = _FIELD.match(problem)
    if found is None or found[2] not in field_names:
        return problem
    return f"{found[1] or ''}{field_names[found[2]]}{problem[found.end(2) :]}"


def _problem_of(gang: Gang, tree: Tree | None, topologies: Topologies) -> str:
    if tree is None:
        names = topologies.levels
        meant = [name for name in names if name.partition("/")[2] == gang.topology]
        if meant:
            return f'topology: "{gang.topology}" is ambiguous: it may be {" or ".join(meant)}'
        known = f"known: {', '.join(names)}" if names else "the cluster has no Topology"
        return f'topology: "{gang.topology}" does not exist; {known}'
    if not gang.topology and not tree.name and topologies.levels and names_domains(gang, ()):
        choice = topologies.having(gang.levels, gang.system) or topologies.having()
        return f"topology: {CHOOSE}{' or '.join(choice)}"
    if gang.patience is not None and gang.root.preferred is None:
        return "patience: is for a preferred level; the gang has none"
    wrong = _wrong_as_written(gang, tree) or _wrong_members(gang)
    if wrong:
        return wrong
    if not tree.size and not tree.levels:
        return "the cluster has no nodes"
    if not tree.size:
        return f"topology: {_no_nodes(gang, tree, topologies)}"
    return ""


def _wrong_as_written(gang: Gang, tree: Tree) -> str:
    """Check levels and segments as written, before segments are cut."""
    right: set[Hashable] = set()
    for group in gang.root.every_group():
        asked = (group.required, group.preferred, group.segments)
        if asked in right:
            continue  # most groups of a gang ask for the same
        wrong = _wrong_layers(group.segments) or _wrong_levels(group, tree)
        if wrong:
            return f"{_prefix(group)}{wrong}"
        right.add(asked)
    return ""


def _wrong_members(gang: Gang) -> str:
    """Check groups, after late members are cut into segments."""
    groups = by_segments(gang).every_group()
    if len({group.name for group in groups}) < len(groups):
        twice = next(name for name, number in Counter(group.name for group in groups).items() if number > 1)
        return f'groups: "{twice}" is the name of two groups' if twice else "groups: a group inside has no name"
    if gang.duplicate_pod:
        return f"pod {gang.duplicate_pod} is twice in the gang"
    if not gang.pods and not any(group.running for group in groups):
        return "size: 0; the gang or a group inside it must have 1 pod or more"
    if gang.root.segments and gang.root.groups:
        return "segments: a gang with groups cannot have segments of its own; make each segment a group"
    for group in groups:
        if group.minimum is None and group.minimum_groups is None and not group.segments:
            continue
        # Other systems cut replacements into segments in their own way.
        joins = bool(group.running) and gang.style != BAYPLAN
        wrong = _wrong_sizes(group) or ("" if joins else _wrong_segments(group))
        if wrong:
            return f"{_prefix(group)}{wrong}"
    return ""


@dataclass(frozen=True, slots=True)
class Naming:
    """A problem with a tree or level named in a field, which only the gang's or the Topology's author can fix."""

    field: str
    name: str
    problem: str


def naming_in(problem: str, field_names: Mapping[str, str] = MappingProxyType({})) -> Naming | None:
    """Parse the field and name out of a problem; None if it is not about a tree or level."""
    ours = _in_words(problem, {written: each for each, written in field_names.items()}) if field_names else problem
    found = _NAMING.fullmatch(ours)
    return None if found is None else Naming(found[1], found[3] or "", found[2])


def _no_nodes(gang: Gang, tree: Tree, topologies: Topologies) -> str:
    if tree.name in topologies.levels:
        return f'no node carries all labels of "{tree.name}" ({", ".join(tree.levels)})'
    if not tree.by_labels:
        return tree.when_empty
    return f"no node carries the label {tree.levels[0]}" + (f"; {gang.asked_in}" if gang.asked_in else "")


def _prefix(group: Group) -> str:
    return f'group "{group.name}": ' if group.name else ""


def _wrong_sizes(group: Group) -> str:
    if group.minimum is not None and not 0 <= group.minimum <= len(group.pods):
        return f"minimum: {group.minimum} {_not_a_minimum(group)}"
    if group.minimum_groups is not None and not 0 <= group.minimum_groups <= len(group.groups):
        return f"minimumGroups: {group.minimum_groups} is not between 0 and the {len(group.groups)} groups inside"
    return ""


def _not_a_minimum(group: Group) -> str:
    if group.groups and (group.minimum or 0) > 0:
        whose = "the group" if group.name else "the gang"
        return f"is more than {whose}'s own pods ({len(group.pods)}); pods of groups have their own minimum"
    return f"is not between 0 and the size {len(group.pods)}"


def _wrong_segments(group: Group) -> str:
    segment_size = next((each.size for each in group.segments if each.required), 1)
    if group.segments and len(group.pods) % group.segments[0].size:
        return f"segments: size {group.segments[0].size} does not divide {len(group.pods)}"
    if group.least % segment_size:
        return f"minimum: {group.minimum} is not a multiple of the segments' size {segment_size}"
    return ""


def _wrong_layers(segments: Sequence[Segments]) -> str:
    if len(segments) > MOST_LAYERS:
        return f"segments: {len(segments)} layers; must be at most {MOST_LAYERS}"
    around = 0
    for each in segments:
        if each.size < 1:
            return f"segments: size {each.size} must be 1 or more"
        if around % each.size:
            return f"segments: size {each.size} does not divide {around}"
        around = each.size
    return ""


def _wrong_levels(group: Group, tree: Tree) -> str:
    known = f"the topology has {', '.join((*tree.levels, HOSTNAME))}" if tree.name else "the cluster has no Topology"
    for field, label in (("required", group.required), ("preferred", group.preferred)):
        if label is not None and tree.level_number(label) is None:
            return f"{field}: {not_a_level(label, tree.levels, known)}"
    outer = -1
    for each in group.segments:
        number = tree.level_number(each.level)
        if number is None:
            return f"segments: {not_a_level(each.level, tree.levels, known)}"
        below = number + is_numa(each.level, tree.levels)
        if below <= outer:
            return f'segments: level "{each.level}" must be below the one before'
        outer = below
    return ""
