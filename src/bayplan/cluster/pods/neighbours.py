"""The pods that stand somewhere, as newcomers see them: by namespace and labels, and by the terms that they hold
against others.

Pods come in (`place`) and go (`remove`). Out come two answers that cost what they find and not what exists:

* `tally`: on which rows how many pods stand that a selector means. A tally is counted once and then kept: pods are
  grouped in *kinds* (same namespace, same labels), each kind knows the tallies that it belongs to, so a pod that comes
  or goes touches only those.
* `holding`: which terms of pods that stand somewhere mean a newcomer, and on which rows their holders are. Terms are
  kept by the labels that they ask for, so a newcomer meets only those that may concern it.

It knows no rules: `plugins/inter_pod_affinity.py` and `plugins/pod_topology_spread.py` have them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bayplan.cluster.columns.row_counts import RowCounts
from bayplan.cluster.pods.label_selectors import AnchoredIndex, Label, Labels
from bayplan.cluster.pods.terms import PodSelector, PodTerm, PodTerms, labels_of, namespace_of
from bayplan.kube.wire.core_v1 import Pod

# Each costs memory for the rows on which its pods stand, and time when one of them comes or goes.
MOST_TALLIES = 4096
# The API server puts this label on every namespace; a namespace that we have not seen yet has no other.
NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"

_KindKey = tuple[str, bool, frozenset[Label]]
_TallyKey = tuple[tuple[PodSelector, ...], bool]


@dataclass(eq=False, slots=True)
class _Kind:
    """Pods with the same namespace and labels, terminating or not, and the tallies in which they count."""

    namespace: str
    labels: Labels
    terminating: bool
    on: dict[int, int]
    tallies: dict[_Tally, None]


@dataclass(eq=False, slots=True)
class _Tally:
    """How many pods that all of some selectors mean stand on which rows."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool
    on: RowCounts
    kinds: dict[_Kind, None]

    def anchors(self) -> tuple[Label, ...] | None:
        """Labels of which a pod that counts has one."""
        found = (selector.anchors() for selector in self.selectors)
        return next((anchors for anchors in found if anchors is not None), None)


@dataclass(eq=False, slots=True)
class HeldTerm:
    """A term that pods on some rows hold, and the weight of a preference (1 for what is required)."""

    term: PodTerm
    weight: int
    on: RowCounts


class HeldTerms:
    """Terms of one sort (say, required anti-affinity) that pods hold, each with the rows of its holders."""

    def __init__(self) -> None:
        self._held: dict[tuple[PodTerm, int], HeldTerm] = {}
        self._index: AnchoredIndex[HeldTerm] = AnchoredIndex()
        self.label_keys: Counter[str] = Counter()
        """The labels by which the terms mean pods, with the number of terms."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, term: PodTerm, weight: int, row: int, change: int) -> None:
        """One holder more or fewer on a row."""
        held = self._held.get((term, weight))
        if held is None:
            held = self._held[term, weight] = HeldTerm(term, weight, RowCounts())
            self._index.add(held, term.pods.anchors())
            self.label_keys.update(term.pods.label_keys())
        held.on.add(row, change)
        if not held.on:
            del self._held[term, weight]
            for key in term.pods.label_keys():
                self.label_keys[key] -= 1
                if not self.label_keys[key]:
                    del self.label_keys[key]
            self._index.discard(held, term.pods.anchors())

    def against(self, namespace: str, namespace_labels: Labels, labels: Labels) -> Iterator[HeldTerm]:
        """The terms that mean a pod."""
        for held in self._index.for_labels(labels):
            if held.term.pods.matches(namespace, namespace_labels, labels):
                yield held


@dataclass(frozen=True, slots=True)
class _Placed:
    """Where a pod stands, and what is counted for it there."""

    row: int
    kind: _Kind
    terms: PodTerms


class Neighbours:
    """Everything about placed pods that matters to pods beside them."""

    def __init__(self) -> None:
        self.affinity = HeldTerms()
        self.anti_affinity = HeldTerms()
        self.preferred = HeldTerms()
        self._placed: dict[str, _Placed] = {}
        self._kinds: dict[_KindKey, _Kind] = {}
        self._kinds_in: dict[str, dict[_Kind, None]] = {}
        self._tallies: OrderedDict[_TallyKey, _Tally] = OrderedDict()
        self._tally_index: AnchoredIndex[_Tally] = AnchoredIndex()
        self._namespaces: dict[str, Labels] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> Neighbours:
        """An independent copy with the same pods; tallies are recounted on demand."""
        copied = Neighbours()
        copied._namespaces = dict(self._namespaces)
        for key, placed in self._placed.items():
            kind = placed.kind
            same = copied._kind(kind.namespace, kind.labels, terminating=kind.terminating)
            copied._enter(key, _Placed(placed.row, same, placed.terms))
        return copied

    @property
    def hold_terms(self) -> bool:
        """True if any placed pod says something about newcomers."""
        return bool(self.anti_affinity or self.preferred or self.affinity)

    # -- pods and namespaces come and go --------------------------------------------------------------------------

    def place(self, key: str, row: int, pod: Pod, terms: PodTerms) -> None:
        """A pod stands on a row.

        Said again, it counts once; said of another row or other labels, it has moved or changed.
        """
        kind = self._kind(namespace_of(pod), labels_of(pod), terminating=pod.metadata.deletion_timestamp is not None)
        before = self._placed.get(key)
        if before is not None:
            if kind is before.kind and row == before.row and terms == before.terms:
                return
            self._leave(before)
        self._enter(key, _Placed(row, kind, terms))
        if before is not None and not before.kind.on:
            self._drop_kind(before.kind)

    def remove(self, key: str) -> None:
        """A pod is gone; a pod that was never placed is ignored."""
        placed = self._placed.pop(key, None)
        if placed is not None:
            self._leave(placed)
            if not placed.kind.on:
                self._drop_kind(placed.kind)

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace's labels, by which terms may mean the pods in it."""
        if self.labels_of_namespace(name) != labels:
            self._namespaces[name] = dict(labels)
            self._forget_tallies_by_namespace_labels()

    def remove_namespace(self, name: str) -> None:
        """A namespace is gone."""
        if self._namespaces.pop(name, None) is not None:
            self._forget_tallies_by_namespace_labels()

    # -- questions ------------------------------------------------------------------------------------------------

    def labels_of_namespace(self, name: str) -> Labels:
        """What is known of a namespace; of an unknown one, its name."""
        return self._namespaces.get(name) or {NAME_OF_NAMESPACE: name}

    def tally(self, selectors: tuple[PodSelector, ...], *, with_terminating: bool = True) -> RowCounts:
        """On which rows how many pods stand that every one of the selectors means."""
        key = (selectors, with_terminating)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = self._counted(_Tally(selectors, with_terminating, RowCounts(), {}))
            if len(self._tallies) > MOST_TALLIES:
                self._drop_tally(next(iter(self._tallies)))
        else:
            self._tallies.move_to_end(key)
        return tally.on

    def holder(self, keys: Iterable[str], term: PodTerm) -> str:
        """The first of some pods that holds a term of required anti-affinity; empty if none does."""
        known = ((key, self._placed[key]) for key in sorted(keys) if key in self._placed)
        return next((key for key, placed in known if term in placed.terms.anti_affinity), "")

    def meant(self, keys: Iterable[str], selectors: tuple[PodSelector, ...]) -> str:
        """The first of some pods that every one of the selectors means; empty if there is none."""
        for key in sorted(keys):
            kind = self._placed[key].kind if key in self._placed else None
            if kind is not None and all(
                each.matches(kind.namespace, self.labels_of_namespace(kind.namespace), kind.labels)
                for each in selectors
            ):
                return key
        return ""

    # -- counting -------------------------------------------------------------------------------------------------

    def _enter(self, key: str, placed: _Placed) -> None:
        self._placed[key] = placed
        on = placed.kind.on
        on[placed.row] = on.get(placed.row, 0) + 1
        self._count(placed, 1)

    def _leave(self, placed: _Placed) -> None:
        on = placed.kind.on
        on[placed.row] -= 1
        if not on[placed.row]:
            del on[placed.row]
        self._count(placed, -1)

    def _count(self, placed: _Placed, change: int) -> None:
        row, terms = placed.row, placed.terms
        for tally in placed.kind.tallies:
            tally.on.add(row, change)
        for term in terms.affinity:
            self.affinity.add(term, 1, row, change)
        for term in terms.anti_affinity:
            self.anti_affinity.add(term, 1, row, change)
        for term, weight in terms.preferred:
            self.preferred.add(term, weight, row, change)

    def _kind(self, namespace: str, labels: Labels, *, terminating: bool) -> _Kind:
        """The kind of a pod; a new one joins every tally that means it."""
        key = (namespace, terminating, frozenset(labels.items()))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(namespace, labels, terminating, {}, {})
            self._kinds_in.setdefault(namespace, {})[kind] = None
            for tally in self._tally_index.for_labels(labels):
                self._join(kind, tally)
        return kind

    def _drop_kind(self, kind: _Kind) -> None:
        del self._kinds[kind.namespace, kind.terminating, frozenset(kind.labels.items())]
        in_namespace = self._kinds_in[kind.namespace]
        del in_namespace[kind]
        if not in_namespace:
            del self._kinds_in[kind.namespace]
        for tally in kind.tallies:
            del tally.kinds[kind]

    def _counted(self, tally: _Tally) -> _Tally:
        """Count a new tally over all kinds in the namespaces that it may mean, and keep it current from now on."""
        self._tally_index.add(tally, tally.anchors())
        for namespace, kinds in self._kinds_in.items():
            if any(_may_mean(selector, namespace) for selector in tally.selectors):
                for kind in kinds:
                    if self._join(kind, tally):
                        for row, count in kind.on.items():
                            tally.on.add(row, count)
        return tally

    def _join(self, kind: _Kind, tally: _Tally) -> bool:
        """Let a kind count in a tally if it is meant."""
        if kind.terminating and not tally.with_terminating:
            return False
        of_namespace = self.labels_of_namespace(kind.namespace)
        for selector in tally.selectors:
            if not selector.matches(kind.namespace, of_namespace, kind.labels):
                return False
        kind.tallies[tally] = None
        tally.kinds[kind] = None
        return True

    def _drop_tally(self, key: _TallyKey) -> None:
        tally = self._tallies.pop(key)
        self._tally_index.discard(tally, tally.anchors())
        for kind in tally.kinds:
            del kind.tallies[tally]

    def _forget_tallies_by_namespace_labels(self) -> None:
        """They are recounted on demand: namespaces change rarely."""
        by_labels = [key for key in self._tallies if any(each.namespace_selector.requirements for each in key[0])]
        for key in by_labels:
            self._drop_tally(key)


def _may_mean(selector: PodSelector, namespace: str) -> bool:
    return namespace in selector.namespaces or selector.namespace_selector.requirements is not None
