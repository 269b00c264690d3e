"""Groups that differ in nothing but names: of fifty replicas of which forty must start, it does not matter which forty.

A kind is a number, the same for all such groups. Ways to leave groups out share most of the groups inside, so each of these is looked at once:
asking again for every way took three minutes for 78 groups of 3 to 51 pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.gangs.model import Group
from bayplan.kube.wire.core_v1 import Pod

ClassOf = Callable[[Pod], PodClass]


class Kinds:
    """The kinds of one gang's groups, as far as anybody has asked."""

    def __init__(self, class_of: ClassOf) -> None:
        self._class_of = class_of
        # Keeping the group with its kind ensures that no other object gets its id.
        self._known: dict[int, tuple[Group, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, group: Group) -> int:
        """Everything about a group but names; groups inside in any order."""
        known = self._known.get(id(group))
        if known is None:
            number = self._numbers.setdefault(self._looked_at(group), len(self._numbers))
            known = self._known[id(group)] = group, number
        return known[1]

    def _looked_at(self, group: Group) -> Hashable:
        return (
            tuple(id(self._class_of(pod)) for pod in group.pods),
            (group.required, group.preferred, group.minimum, group.minimum_groups, group.slices),
            (group.apart, group.optional),
            tuple(pod.spec.node_name for pod in group.running),
            frozenset(Counter(self.of(inner) for inner in group.groups).items()),
        )
