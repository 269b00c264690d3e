"""The trees of a cluster by name: one per Topology, and one or two for HyperNodes.

A tree is rebuilt (0.6 s at 50,000 nodes) only if a changed node has other values of the labels that matter. HyperNode
trees have reserved names and are not Topologies: gangs must ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES, WITH_OTHER_NODES, Hierarchy, hierarchy_of
from bayplan.cluster.topology.tree import Tree, build_hyper_tree, build_tree
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.model import Gang, Group, LevelRoom
from bayplan.kube.errors import InvalidObject
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant
from bayplan.kube.wire.volcano_topology_v1alpha1 import HyperNode

# The tree of a cluster without any Topology: all nodes side by side.
NO_LEVELS = ""
SINGLE_LABEL = "nodes by "


def single_label(label: str) -> str:
    """Return the name of the tree whose domains are the values of one label; it needs no Topology."""
    return SINGLE_LABEL + label


@dataclass(frozen=True, slots=True)
class Topologies:
    """What gangs can refer to: the levels of each Topology, widest first, and HyperNodes.

    `hierarchy` is None without HyperNodes, or if `hyper_nodes_problem` says why they form no tree.
    """

    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None
    hyper_nodes_problem: str = ""
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By Topology, the labels of its levels by their alias."""

    def with_labels(self, gang: Gang) -> Gang:
        """Return the gang with the label of each level that it names by an alias of its Topology."""
        name = gang.topology or (next(iter(self.levels)) if len(self.levels) == 1 else "")
        known = self.aliases.get(name)
        return (
            gang if not known or known.keys().isdisjoint(gang.levels) else replace(gang, root=_named(gang.root, known))
        )


def _named(group: Group, aliases: Mapping[str, str]) -> Group:
    return replace(
        group,
        groups=tuple(_named(each, aliases) for each in group.groups),
        absent=tuple(_named(each, aliases) for each in group.absent),
        required=aliases.get(group.required or "", group.required),
        preferred=aliases.get(group.preferred or "", group.preferred),
        segments=tuple(replace(each, level=aliases.get(each.level, each.level)) for each in group.segments),
    )


def names_domains(gang: Gang, levels: Sequence[str]) -> bool:
    """True if a gang asks for a level above the node. Every tree has nodes and NUMA zones."""
    return any(level_meant(level, levels) not in (HOSTNAME, NUMA) for level in gang.levels)


class Trees:
    """Topologies and HyperNodes, and the current tree of each."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._levels: dict[str, tuple[str, ...]] = {NO_LEVELS: ()}
        self._aliases: dict[str, Mapping[str, str]] = {}
        self._built: dict[str, tuple[int, Tree, dict[int, tuple[str | None, ...]]]] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        # Computed on first use; an error if the HyperNodes form no tree.
        self._hierarchy: Hierarchy | InvalidObject | None = None

    def set(self, name: str, levels: tuple[str, ...], aliases: Mapping[str, str] = MappingProxyType({})) -> None:
        """Add or change a Topology; `aliases` are further names of its levels."""
        self._levels[name] = levels
        self._aliases[name] = aliases
        self._built.pop(name, None)

    def remove(self, name: str) -> None:
        """Remove a Topology."""
        self._levels.pop(name, None)
        self._aliases.pop(name, None)
        self._built.pop(name, None)

    def set_hyper_node(self, written: HyperNode) -> bool:
        """Add or change a HyperNode; False if its spec is unchanged."""
        known = self._hyper_nodes.get(written.metadata.name)
        self._hyper_nodes[written.metadata.name] = written
        changed = known is None or known.spec != written.spec
        if changed:
            self._hyper_nodes_changed()
        return changed

    def remove_hyper_node(self, name: str) -> None:
        """Remove a HyperNode."""
        self._hyper_nodes.pop(name, None)
        self._hyper_nodes_changed()

    def _hyper_nodes_changed(self) -> None:
        self._hierarchy = None
        self._built.pop(HYPER_NODES, None)
        self._built.pop(WITH_OTHER_NODES, None)

    @property
    def topologies(self) -> Topologies:
        """Everything that gangs can refer to now."""
        if self._hierarchy is None and self._hyper_nodes:
            try:
                self._hierarchy = hierarchy_of(self._hyper_nodes.values())
            except InvalidObject as error:
                self._hierarchy = error
        if isinstance(self._hierarchy, InvalidObject):
            return Topologies(self.levels, hyper_nodes_problem=str(self._hierarchy), aliases=self._aliases)
        return Topologies(self.levels, self._hierarchy, aliases=self._aliases)

    def over(self, state: ClusterState) -> Trees:
        """Return the same Topologies and HyperNodes over another state."""
        trees = Trees(state)
        trees._levels.update(self._levels)
        trees._aliases.update(self._aliases)
        trees._hyper_nodes.update(self._hyper_nodes)
        return trees

    @property
    def names(self) -> list[str]:
        """The names of the Topologies."""
        return [name for name in self._levels if name != NO_LEVELS]

    @property
    def levels(self) -> Mapping[str, tuple[str, ...]]:
        """The levels of each Topology."""
        return {name: levels for name, levels in self._levels.items() if name != NO_LEVELS}

    def name_for(self, gang: Gang) -> str:
        """Return the Topology for a gang: the one it names, or the only one.

        A gang without levels above the node may use every node. It still uses the only tree if that contains all
        nodes, so that its pods are close together.
        """
        if gang.topology or len(self.names) != 1:
            return gang.topology
        only = self.names[0]
        tree = self.get(only)
        return only if names_domains(gang, self._levels[only]) or (tree is not None and not tree.outside) else NO_LEVELS

    def get(self, name: str) -> Tree | None:
        """Return the current tree of a Topology or of the HyperNodes; None if there is none."""
        if name in (HYPER_NODES, WITH_OTHER_NODES):
            hierarchy = self.topologies.hierarchy
            return None if hierarchy is None else self._current(name, hierarchy)
        levels = self._levels.get(name)
        if levels is None and name.startswith(SINGLE_LABEL):
            levels = (name.removeprefix(SINGLE_LABEL),)
        return None if levels is None else self._current(name, levels)

    def _current(self, name: str, made_of: tuple[str, ...] | Hierarchy) -> Tree:
        known = self._built.get(name)
        log = self._state.node_log
        if known is not None:
            cursor, tree, places = known
            changed = log.since(cursor)
            if changed is not None and all(places.get(int(row)) == self._place(made_of, int(row)) for row in changed):
                self._built[name] = (log.end, tree, places)
                return tree
        if isinstance(made_of, Hierarchy):
            tree = build_hyper_tree(self._state, name, made_of)
        else:
            tree = build_tree(self._state, name, made_of)
        places = {row: self._place(made_of, row) for row in self._state.rows.values()}
        self._built[name] = (log.end, tree, places)
        return tree

    def _place(self, made_of: tuple[str, ...] | Hierarchy, row: int) -> tuple[str | None, ...]:
        """Return what decides a node's place: its name and its values of the levels or HyperNode selectors."""
        node = self._state.nodes[row] if row < len(self._state.nodes) else None
        if node is None:
            return ()
        if isinstance(made_of, Hierarchy):
            return made_of.place_key(node)
        labels = node.metadata.labels or {}
        return (node.metadata.name, *(labels.get(label) for label in made_of if label != HOSTNAME))


NODE = "node"


def rooms_of(tree: Tree, slots: Counts, pods: int) -> tuple[LevelRoom, ...]:
    """Return, for each level and finally nodes, how many domains hold `pods` equal pods; `slots` are by position."""
    rooms = []
    for level, label in enumerate((*tree.levels, NODE)):
        sums = tree.sums(slots, level)
        best = int(sums.argmax()) if sums.any() else -1
        rooms.append(
            LevelRoom(
                label,
                len(sums),
                int((sums >= pods).sum()),
                int(sums[best]) if best >= 0 else 0,
                tree.paths[level][best] if best >= 0 else (),
            )
        )
    return tuple(rooms)
