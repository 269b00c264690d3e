"""KAI's groups of Grove's PodGangs: pod groups are sub-groups, the configurations that join some of them their parents.

Labels and annotations of the PodGang come first; what it does not say, the owner above it may, priority class and
preemptibility included.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.compat.kai.grouping.metadata import (
    NO_CONSTRAINT,
    PREEMPTIBILITIES,
    PREEMPTIBILITY,
    PRIORITY_CLASS,
    KaiCase,
    KaiConstraint,
    KaiGroup,
    KaiSubGroup,
    constraint_of,
    usual_group,
    wrong_pod,
)
from bayplan.grouping.grove import POD_GANG, GrovePods, Levels, find_pod_gang, gang_name, read_pod_gang
from bayplan.grouping.raw import RawObject, Reference, WrongValue, annotations_of, labels_of, text_at


def pod_gang(case: KaiCase) -> KaiGroup:
    """The group of a PodGang, which the pod names in a label."""
    pod = Reference.of(case.pod)
    if not gang_name(case.pod):
        raise wrong_pod(case.pod, "metadata.labels", None, f"{POD_GANG} is missing: which PodGang is the pod in?")
    gang = find_pod_gang(case.pod, case.answers)
    if gang is None:
        raise wrong_pod(
            case.pod, f'metadata.labels["{POD_GANG}"]', gang_name(case.pod), "does not exist in the pod's namespace"
        )
    read = read_pod_gang(gang, pod.namespace)
    own = usual_group(replace(case, owner=gang))
    named = text_at(gang, ("spec", "priorityClassName"))
    own = own if named is None else replace(own, priority_class=named)
    if read.levels != Levels():
        own = replace(own, constraint=_constraint(read.levels, read.topology))
    group = _with_owners_wishes(own, case.owner)
    parents = [
        KaiSubGroup(name, 0, constraint=_constraint(levels, read.topology)) for name, levels in read.parents.items()
    ]
    children = [_sub_group(pods, read.topology) for pods in read.pod_groups]
    least = sum(child.min_available for child in children)
    return replace(group, min_available=least, sub_groups=(*parents, *children))


def _with_owners_wishes(group: KaiGroup, owner: RawObject) -> KaiGroup:
    """The group with what only the owner above the PodGang says."""
    labels = {**labels_of(owner), **group.labels}
    annotations = {**annotations_of(owner), **group.annotations}
    said = labels.get(PREEMPTIBILITY)
    if said is not None and said not in PREEMPTIBILITIES:
        raise WrongValue(f'metadata.labels["{PREEMPTIBILITY}"]', said, f"must be one of {', '.join(PREEMPTIBILITIES)}")
    asked = constraint_of({"metadata": {"annotations": annotations}})
    return replace(
        group,
        labels=labels,
        annotations=annotations,
        priority_class=labels.get(PRIORITY_CLASS, group.priority_class),
        preemptibility=said or group.preemptibility,
        constraint=KaiConstraint(
            group.constraint.topology or asked.topology,
            group.constraint.required or asked.required,
            group.constraint.preferred or asked.preferred,
        ),
    )


def _sub_group(pods: GrovePods, topology: str) -> KaiSubGroup:
    return KaiSubGroup(pods.name, pods.minimum, pods.parent, pods.pods, _constraint(pods.levels, topology))


def _constraint(levels: Levels, topology: str) -> KaiConstraint:
    if levels == Levels():
        return NO_CONSTRAINT
    return KaiConstraint(topology, levels.required or "", levels.preferred or "")
