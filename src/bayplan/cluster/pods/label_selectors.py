"""Label selectors as values that can be compared, kept as keys and asked.

In comes a wire `LabelSelector` that has been checked (`cluster/pods/checks.py`), out goes a `Selector`: two that demand
the same are equal, in whatever order they were written. `anchors` names labels of which every match must have one, so
that thousands of selectors need not all be asked about each pod; `AnchoredIndex` makes use of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bayplan.cluster.columns.labels import whole_number
from bayplan.kube.wire.core_v1 import LabelSelector

Labels = Mapping[str, str]
Label = tuple[str, str]

_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """`key operator values`, with the values in order."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Labels) -> bool:
        """Kubernetes' rule: a label that is absent is not in any list of values."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "Gt" | "Lt":
                number, bound = whole_number(labels.get(self.key, "")), whole_number(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator == "Gt" else number < bound
        return self.key not in labels

    def __str__(self) -> str:
        """As kubectl takes it: `app=web`, `tier in (a,b)`, `!canary`, `gpus>4`."""
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "NotIn" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {'in' if self.operator == 'In' else 'notin'} ({','.join(self.values)})"
            case "Exists":
                return self.key
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"
        return f"!{self.key}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold. None of them: everything matches; `None` itself: nothing does."""

    requirements: tuple[Requirement, ...] | None

    def matches(self, labels: Labels) -> bool:
        """True if something with these labels is meant."""
        if self.requirements is None:
            return False
        return all(requirement.holds(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """As kubectl takes it; in words where it means everything or nothing."""
        if self.requirements is None:
            return "no pods"
        return ",".join(map(str, self.requirements)) or "all pods"

    def narrowed(self, further: Iterable[Requirement]) -> Selector:
        """The same selector with more requirements; one that matches nothing stays so."""
        if self.requirements is None:
            return self
        return Selector(tuple(sorted({*self.requirements, *further})))

    def anchors(self) -> tuple[Label, ...] | None:
        """Labels of which whatever matches has exactly one; None if there is no such list."""
        for requirement in self.requirements or ():
            if requirement.operator == "In":
                return tuple((requirement.key, value) for value in requirement.values)
        return () if self.requirements is None else None


NOTHING = Selector(None)
EVERYTHING = Selector(())


def selector_of(written: LabelSelector | None) -> Selector:
    """The selector that Kubernetes reads: absent means nothing, empty means everything."""
    if written is None:
        return NOTHING
    labels = [Requirement(key, "In", (value,)) for key, value in (written.match_labels or {}).items()]
    expressions = [
        Requirement(each.key, each.operator, tuple(sorted(set(each.values or ()))))
        for each in written.match_expressions or ()
    ]
    return EVERYTHING.narrowed([*labels, *expressions])


class AnchoredIndex(Generic[_Entry]):
    """Entries that concern pods with certain labels, looked up by the labels of one pod.

    They come in insertion order.
    """

    def __init__(self) -> None:
        self._anchored: dict[Label, dict[_Entry, None]] = {}
        self._anybody: dict[_Entry, None] = {}

    def add(self, entry: _Entry, anchors: tuple[Label, ...] | None) -> None:
        """Take in an entry with the anchors of its selector."""
        if anchors is None:
            self._anybody[entry] = None
        for anchor in anchors or ():
            self._anchored.setdefault(anchor, {})[entry] = None

    def discard(self, entry: _Entry, anchors: tuple[Label, ...] | None) -> None:
        """Forget an entry."""
        self._anybody.pop(entry, None)
        for anchor in anchors or ():
            entries = self._anchored.get(anchor, {})
            entries.pop(entry, None)
            if not entries:
                self._anchored.pop(anchor, None)

    def for_labels(self, labels: Labels) -> Iterator[_Entry]:
        """Every entry that may concern a pod with these labels; its selector has the last word."""
        if self._anchored:
            for label in labels.items():
                yield from self._anchored.get(label, ())
        yield from self._anybody

    def __bool__(self) -> bool:
        return bool(self._anchored or self._anybody)
