"""What a pod alone tells about its gang, for a scheduler that does not look at owners: somebody else groups pods, or nobody does."""

from __future__ import annotations

from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.grouping.annotations import GANG, asks
from bayplan.scheduling.grouping.group import may_have_group


def asks_for_group(pod: Pod) -> bool:
    """Whether a pod that an owner made asks for a gang by its own annotations, and names none yet."""
    annotations = pod.metadata.annotations or {}
    return asks(annotations) and annotations.get(GANG) != "false" and may_have_group(pod)
