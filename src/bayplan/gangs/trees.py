"""The trees of a cluster by name: one per Topology, and one or two for HyperNodes.

A tree is rebuilt (0.6 s at 50,000 nodes) only if a changed node has other values of the labels that matter. HyperNode
trees have reserved names and are not Topologies: gangs must ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from bayplan.cluster.state import ClusterState
from bayplan.cluster.topology.hyper_nodes import HYPER_NODES, WITH_OTHER_NODES, Hierarchy, hierarchy_of
from bayplan.cluster.topology.tree import Tree, build_hyper_tree, build_tree
from bayplan.engine.gangs.problem import Counts
from bayplan.gangs.model import Gang, Group, LevelRoom
from bayplan.kube.errors import InvalidObject
from bayplan.kube.topology_levels import HOSTNAME, NUMA, level_meant, levels_meant
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

    Kueue and KAI each have a kind of Topology. Two of one name and with different levels are called `kueue/dc` and
    `kai/dc`; `full_names` has the name of each in `levels` by this one. `hierarchy` is None without HyperNodes, or if
    `hyper_nodes_problem` says why they form no tree.
    """

    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hierarchy: Hierarchy | None = None
    hyper_nodes_problem: str = ""
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By Topology, the labels of its levels by their alias."""
    full_names: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str, system: str = "") -> str:
        """The Topology that a name means, in the words of a `system` its own; the name itself if none or several."""
        return self.full_names.get(f"{system}/{name}") or self.full_names.get(name) or name

    def having(self, wanted: Sequence[str] = (), system: str = "") -> list[str]:
        """The Topologies with all these levels, of a `system` its own if any has them; of equal ones the first."""
        own = {known for full, known in self.full_names.items() if system and full.startswith(f"{system}/")}
        found = [name for name, levels in self.levels.items() if self._has(name, levels, wanted)]
        found = [name for name in found if name in own] or found
        return list({_domain_levels(self.levels[name]): name for name in reversed(found)}.values())[::-1]

    def _has(self, name: str, levels: Sequence[str], wanted: Sequence[str]) -> bool:
        aliases = self.aliases.get(name, {})
        return all(each in aliases or levels_meant(each, levels) for each in wanted)

    def only(self, levels: Sequence[str] = (), system: str = "") -> str:
        """The only Topology with these levels, or the first of equal ones; without any, the only one; else empty."""
        found = self.having(levels, system) or self.having(system=system)
        return found[0] if len(found) == 1 else ""

    def of(self, gang: Gang) -> str:
        """The Topology that a gang names, or the only one with its levels; empty if that is ambiguous."""
        return self.named(gang.topology, gang.system) if gang.topology else self.only(gang.levels, gang.system)

    def with_labels(self, gang: Gang) -> Gang:
        """Return the gang with the label of each level that it names by an alias of its Topology."""
        known = self.aliases.get(self.of(gang))
        return (
            gang if not known or known.keys().isdisjoint(gang.levels) else replace(gang, root=_named(gang.root, known))
        )


def _domain_levels(levels: Sequence[str]) -> tuple[str, ...]:
    return tuple(level for level in levels if level != HOSTNAME)


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


class _Written(NamedTuple):
    levels: tuple[str, ...]
    aliases: Mapping[str, str]


class Trees:
    """Topologies and HyperNodes, and the current tree of each."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        # By system and name.
        self._written: dict[tuple[str, str], _Written] = {}
        self._built: dict[str, tuple[int, Tree, dict[int, tuple[str | None, ...]]]] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        # Computed on first use.
        self._topologies: Topologies | None = None

    def set(
        self,
        name: str,
        levels: tuple[str, ...],
        aliases: Mapping[str, str] = MappingProxyType({}),
        system: str = "",
    ) -> None:
        """Add or change a Topology, that of a `system` if it has a kind; `aliases` are further names of its levels."""
        self._written[system, name] = _Written(levels, aliases)
        self._changed()

    def remove(self, name: str, system: str = "") -> None:
        """Remove a Topology."""
        self._written.pop((system, name), None)
        self._changed()

    def _changed(self, *, hyper: bool = False) -> None:
        """Forget what the Topologies were, and their trees, or those of the HyperNodes."""
        self._topologies = None
        of_hyper_nodes = (HYPER_NODES, WITH_OTHER_NODES)
        self._built = {name: tree for name, tree in self._built.items() if (name in of_hyper_nodes) is not hyper}

    def set_hyper_node(self, written: HyperNode) -> bool:
        """Add or change a HyperNode; False if its spec is unchanged."""
        known = self._hyper_nodes.get(written.metadata.name)
        self._hyper_nodes[written.metadata.name] = written
        changed = known is None or known.spec != written.spec
        if changed:
            self._changed(hyper=True)
        return changed

    def remove_hyper_node(self, name: str) -> None:
        """Remove a HyperNode."""
        self._hyper_nodes.pop(name, None)
        self._changed(hyper=True)

    @property
    def topologies(self) -> Topologies:
        """Everything that gangs can refer to now."""
        if self._topologies is None:
            self._topologies = self._read()
        return self._topologies

    def _read(self) -> Topologies:
        levels: dict[str, tuple[str, ...]] = {}
        aliases: dict[str, dict[str, str]] = {}
        full_names: dict[str, str] = {}
        by_name: dict[str, set[tuple[str, ...]]] = {}
        for (_, name), written in self._written.items():
            by_name.setdefault(name, set()).add(_domain_levels(written.levels))
        for (system, name), written in self._written.items():
            full = f"{system}/{name}"
            shown = name if not system or len(by_name[name]) == 1 else full
            full_names[full] = shown
            levels.setdefault(shown, written.levels)
            aliases.setdefault(shown, {}).update(written.aliases)
        hierarchy, problem = None, ""
        if self._hyper_nodes:
            try:
                hierarchy = hierarchy_of(self._hyper_nodes.values())
            except InvalidObject as error:
                problem = str(error)
        return Topologies(levels, hierarchy, problem, aliases, full_names)

    def over(self, state: ClusterState) -> Trees:
        """Return the same Topologies and HyperNodes over another state."""
        trees = Trees(state)
        trees._written.update(self._written)
        trees._hyper_nodes.update(self._hyper_nodes)
        return trees

    @property
    def names(self) -> list[str]:
        """The names of the Topologies."""
        return list(self.topologies.levels)

    def name_for(self, gang: Gang) -> str:
        """Return the Topology for a gang: the one it names, or the only one with its levels.

        A gang without levels above the node may use every node. It still uses the only tree if that contains all
        nodes, so that its pods are close together.
        """
        found = self.topologies.of(gang)
        if gang.topology or not found or names_domains(gang, self.topologies.levels[found]):
            return found
        tree = self.get(found)
        return found if tree is not None and not tree.outside else NO_LEVELS

    def get(self, name: str) -> Tree | None:
        """Return the current tree of a Topology or of the HyperNodes; None if there is none."""
        topologies = self.topologies
        if name in (HYPER_NODES, WITH_OTHER_NODES):
            return None if topologies.hierarchy is None else self._current(name, topologies.hierarchy)
        levels = () if name == NO_LEVELS else topologies.levels.get(name)
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
