"""Names and gangs of a cluster, kept current object by object: what the page searches, lists and hides.

Objects come in one at a time (`put`, `drop`); questions cost what they ask for, and a change costs what it changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import NamedTuple

from bayplan.cluster.state import TERMINAL_PHASES
from bayplan.dialects.registry import gang_named
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.meta_v1 import WireObject
from bayplan.services.web.answers import Names

POD, GROUP, NAMESPACE, OTHER = "pod", "group", "namespace", "other"


class _Entry(NamedTuple):
    """What one object contributes: its namespace and the names in it, its gang, and its node."""

    namespace: str
    names: tuple[str, ...] = ()
    gang: str = ""
    node: str = ""


class Catalogue:
    """`nodes` are names that are no secret."""

    def __init__(self, nodes: Collection[str]) -> None:
        self._nodes = nodes
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._by_name: dict[str, frozenset[str]] = {}
        self._uses: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._in_namespace: Counter[str] = Counter()
        self._namespaces: frozenset[str] = frozenset()
        # By gang, the nodes of its pods; "" for those that wait. A PodGroup without pods has an empty one.
        self._gangs: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._groups: set[str] = set()

    @property
    def names(self) -> Names:
        """Everything that has a namespace."""
        return Names(self._namespaces, self._by_name, self._nodes)

    @property
    def gangs(self) -> dict[str, dict[str, str]]:
        """By gang (`namespace/name`), the node of each pod of it; empty for pods that wait."""
        return self._gangs

    def put(self, kind: str, thing: WireObject) -> None:
        """An object came or changed."""
        entry = _entry_of(kind, thing)
        key = (kind, _full_name(kind, thing.metadata))
        if self._entries.get(key) == entry:
            return
        self.drop(*key)
        self._entries[key] = entry
        self._count(entry, 1)
        if kind == GROUP:
            self._groups.add(key[1])
            self._gangs.setdefault(key[1], {})
        elif entry.gang:
            self._gangs[entry.gang][key[1]] = entry.node

    def drop(self, kind: str, name: str) -> None:
        """An object is gone."""
        entry = self._entries.pop((kind, name), None)
        if entry is None:
            return
        self._count(entry, -1)
        if kind == GROUP:
            self._groups.discard(name)
        gang = name if kind == GROUP else entry.gang
        if gang in self._gangs:
            self._gangs[gang].pop(name, None)
            if not self._gangs[gang] and gang not in self._groups:
                del self._gangs[gang]

    def _count(self, entry: _Entry, change: int) -> None:
        before = self._in_namespace[entry.namespace]
        self._in_namespace[entry.namespace] += change
        if not before or not self._in_namespace[entry.namespace]:
            self._in_namespace = +self._in_namespace
            self._namespaces = frozenset(self._in_namespace)
        for name in entry.names:
            uses = self._uses[name]
            uses[entry.namespace] += change
            if uses[entry.namespace]:
                if entry.namespace not in self._by_name.get(name, ()):
                    self._by_name[name] = frozenset(uses)
                continue
            del uses[entry.namespace]
            if uses:
                self._by_name[name] = frozenset(uses)
            else:
                del self._uses[name], self._by_name[name]


def _entry_of(kind: str, thing: WireObject) -> _Entry:
    metadata = thing.metadata
    if kind == NAMESPACE:
        return _Entry(metadata.name)
    names = (metadata.name, *(owner.name for owner in metadata.owner_references or ()))
    if kind != POD or not isinstance(thing, Pod):
        return _Entry(metadata.namespace or "default", names)
    ended = thing.status is not None and thing.status.phase in TERMINAL_PHASES
    gang = "" if ended else gang_named(thing).rpartition(" ")[2]
    return _Entry(metadata.namespace or "default", names, gang, thing.spec.node_name or "")


def _full_name(kind: str, metadata: Metadata) -> str:
    return metadata.name if kind == NAMESPACE else f"{metadata.namespace or 'default'}/{metadata.name}"
