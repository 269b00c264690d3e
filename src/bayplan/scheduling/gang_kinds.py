"""Groups that differ in nothing but names: of fifty replicas of which forty must start, it does not matter which forty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from bayplan.cluster.pod_class import PodClass
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.gang import Group

ClassOf = Callable[[Pod], PodClass]


def kind_of(group: Group, class_of: ClassOf) -> Hashable:
    """Everything about a group but names; groups inside in any order."""
    return (
        tuple(id(class_of(pod)) for pod in group.pods),
        (group.required, group.preferred, group.minimum, group.minimum_groups, group.slices),
        (group.apart, group.wished),
        tuple(pod.spec.node_name for pod in group.running),
        frozenset(Counter(kind_of(inner, class_of) for inner in group.groups).items()),
    )
