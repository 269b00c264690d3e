"""What a pod alone tells about its gang, for a scheduler that does not look at owners: another component groups pods, or none does.

A standalone pod grouper marks each pod with its result: the labels of a gang, or the annotation `bayplan.io/grouped: alone`. An owned pod with
neither may be the first of a gang, and must not run ahead of the others.
"""

from __future__ import annotations

from bayplan.grouping.annotations import GANG, asks
from bayplan.grouping.group import may_have_group
from bayplan.kube.wire.core_v1 import Pod

GROUPED = "bayplan.io/grouped"
ALONE = "alone"


def awaits_look(pod: Pod) -> bool:
    """Whether a pod may belong to a gang, and no pod grouper has said yet what came of its look."""
    return (pod.metadata.annotations or {}).get(GROUPED) != ALONE and may_have_group(pod)


def asks_for_group(pod: Pod) -> bool:
    """Whether a pod that an owner made asks for a gang by its own annotations, and names none yet."""
    annotations = pod.metadata.annotations or {}
    return asks(annotations) and annotations.get(GANG) != "false" and may_have_group(pod)
