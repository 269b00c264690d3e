"""Which HyperNodes select a node: by its name, by a pattern that is found in its name, or by its labels.

Filled by `cluster/topology/hyper_nodes.py`, which has checked the selectors. Names and labels are looked up. Patterns are found by what names must begin with (`^gpu-12-`); those that
begin anywhere are all tried: 600 of them on 6,000 nodes take 4 s instead of 0.1.
"""

from __future__ import annotations

from collections import defaultdict

from bayplan.cluster.pods.label_selectors import AnchoredIndex, Labels, Selector
from bayplan.kube.go_regexp import GoPattern


class NodeMembers:
    """Selectors of nodes, each with the HyperNode that it belongs to."""

    def __init__(self) -> None:
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        self._by_prefix: defaultdict[str, list[tuple[GoPattern, str]]] = defaultdict(list)
        self._by_labels: AnchoredIndex[tuple[Selector, str]] = AnchoredIndex()
        # Labels that any selector asks for, in the order in which they came.
        self.label_keys: tuple[str, ...] = ()

    def add_name(self, node: str, hyper_node: str) -> None:
        """A node by its name; it need not exist."""
        self._by_name[node].add(hyper_node)

    def add_pattern(self, pattern: GoPattern, hyper_node: str) -> None:
        """Nodes whose name has the pattern anywhere, unless it is anchored: so does Volcano."""
        self._by_prefix[pattern.prefix].append((pattern, hyper_node))

    def add_labels(self, selector: Selector, hyper_node: str) -> None:
        """Nodes by labels; an empty selector means none of them, as in Volcano."""
        if selector.requirements:
            self._by_labels.add((selector, hyper_node), selector.anchors())
            keys = (requirement.key for requirement in selector.requirements)
            self.label_keys = tuple(dict.fromkeys((*self.label_keys, *keys)))

    def containing(self, node: str, labels: Labels) -> set[str]:
        """The HyperNodes that select a node themselves; those around them are not among them."""
        found = set(self._by_name.get(node, ()))
        for length in range(len(node) + 1):
            found |= {name for pattern, name in self._by_prefix.get(node[:length], ()) if pattern.found_in(node)}
        found |= {name for selector, name in self._by_labels.for_labels(labels) if selector.matches(labels)}
        return found
