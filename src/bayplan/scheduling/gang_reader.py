"""From what users write to a `Gang`: bayplan's own PodGroup, and KAI's with the pods that name it.

Wrong fields raise `InvalidObject` naming object, field and value. What only the cluster can tell (levels, sizes that do not divide) is
left to `scheduling/gang_checks.py`, so that a gang that waits is told the same sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import inf

from bayplan.cluster.state import TERMINAL_PHASES, pod_key
from bayplan.cluster.tree import natural_key
from bayplan.engine.gangs.objective import objective_of
from bayplan.kube import podgroup_v2alpha2 as kai
from bayplan.kube.core_v1 import Container, Metadata, Pod, PodSpec, ResourceRequirements
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.podgroup_v1alpha1 import GroupSpec, PatienceSpec, PodGroup, PodGroupSpec, PodShape
from bayplan.scheduling.gang import Gang, Group, Patience, Slices
from bayplan.scheduling.gang_styles import STYLES

MOST_PODS = 100_000
PLACEMENTS = ("binpack", "spread")
# The names of pods and the values of labels are made of it.
GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

KAI_POD_GROUP = "pod-group-name"
KAI_SUB_GROUP = "kai.scheduler/subgroup-name"


def gang_of(written: PodGroup) -> Gang:
    """The gang of bayplan's own PodGroup, with pods made from its shapes."""
    at = ObjectPath.of(written).child("spec")
    spec = written.spec
    if spec.placement not in PLACEMENTS:
        raise InvalidObject(at.child("placement"), f'"{spec.placement}" must be one of {", ".join(PLACEMENTS)}')
    if spec.style not in STYLES:
        raise InvalidObject(at.child("style"), f'"{spec.style}" must be one of {", ".join(STYLES)}')
    try:
        objective = objective_of(spec.objective or ())
    except ValueError as wrong:
        raise InvalidObject(at.child("objective"), str(wrong)) from None
    maker = _Maker(written.metadata)
    whole = maker.group(spec, "", at, spec.pod)
    if maker.made > MOST_PODS:
        raise InvalidObject(at.child("size"), f"{maker.made} pods are too many: must be at most {MOST_PODS}")
    return Gang(
        _name(written.metadata),
        whole,
        spec.topology,
        spec.placement == "spread",
        _patience(spec.patience, at.child("patience")),
        spec.style,
        objective,
    )


def _patience(written: PatienceSpec | None, at: ObjectPath) -> Patience | None:
    if written is None:
        return None
    if written.domains < 1:
        raise InvalidObject(at.child("domains"), f"{written.domains} must be 1 or more")
    if not 0 <= written.seconds < inf:
        raise InvalidObject(at.child("seconds"), f"{written.seconds:g} must be a number of seconds, 0 or more")
    return Patience(written.domains, written.seconds)


class _Maker:
    """Makes the pods of a gang, numbered through."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.made = 0

    def group(self, spec: PodGroupSpec | GroupSpec, name: str, at: ObjectPath, shape: PodShape | None) -> Group:
        """A group and those inside it; a shape that is not given is that of the group around."""
        if isinstance(spec, GroupSpec) and not GROUP_NAME.fullmatch(name):
            allowed = 'must be lower-case letters, digits and "-", at most 63, as in a label of a host name'
            raise InvalidObject(at.child("name"), f'"{name}" {allowed}')
        if spec.size < 0:
            raise InvalidObject(at.child("size"), f"{spec.size} is negative: must be 0 or more")
        own = spec.pod or shape
        if spec.size and own is None:
            raise InvalidObject(at.child("pod"), "is missing: what do the pods look like?")
        self.made += spec.size
        pods: tuple[Pod, ...] = ()
        if own is not None and self.made <= MOST_PODS:
            pod_spec = _spec_of(own, at.child("pod"))
            prefix = f"{self.metadata.name}-{name}" if name else self.metadata.name
            pods = tuple(self._pod(f"{prefix}-{number}", pod_spec) for number in range(spec.size))
        return Group(
            name=name,
            pods=pods,
            groups=tuple(
                self.group(inner, inner.name, at.child("groups").item(index), own)
                for index, inner in enumerate(spec.groups or ())
            ),
            required=spec.required,
            preferred=spec.preferred,
            minimum=spec.minimum,
            minimum_groups=spec.minimum_groups,
            slices=tuple(
                Slices(each.size, each.level, each.apart, required=not each.preferred) for each in spec.segments or ()
            ),
        )

    def _pod(self, name: str, spec: PodSpec) -> Pod:
        metadata = Metadata(name=name, namespace=self.metadata.namespace, labels=self.metadata.labels)
        return Pod(metadata=metadata, spec=spec)


def _spec_of(shape: PodShape, at: ObjectPath) -> PodSpec:
    if (shape.spec is None) == (shape.resources is None):
        raise InvalidObject(at, "needs one of spec and resources")
    if shape.spec is not None:
        if not shape.spec.containers:
            raise InvalidObject(at.child("spec").child("containers"), "is empty: a pod needs at least one container")
        return shape.spec
    resources = ResourceRequirements(requests=shape.resources, limits=shape.resources)
    return PodSpec(containers=[Container(name="main", resources=resources)])


# -- KAI's PodGroup --------------------------------------------------------------------------------------------------------


def gang_of_kai(written: kai.PodGroup, pods: Iterable[Pod]) -> Gang:
    """The gang of a KAI PodGroup: pods find it by annotation and their sub-group by label."""
    at = ObjectPath.of(written).child("spec")
    tree = kai.gang_tree(written.spec)
    if isinstance(tree, str):
        raise InvalidObject(at.child("subGroups"), tree)
    _check_min_sub_groups(tree, at)
    own = [pod for pod in pods if _belongs(pod, written.metadata) and not _has_ended(pod)]
    by_group: dict[str, list[Pod]] = {}
    for pod in sorted(own, key=lambda each: natural_key(pod_key(each))):
        by_group.setdefault((pod.metadata.labels or {}).get(KAI_SUB_GROUP, kai.DEFAULT_POD_SET), []).append(pod)
    known = {pod_set.name for pod_set in tree.all_pod_sets()}
    stray = next((name for name in by_group if name not in known), None)
    if stray is not None:
        first, names = pod_key(by_group[stray][0]), ", ".join(sorted(known))
        raise InvalidObject(
            at.child("subGroups"), f'pod {first} belongs to "{stray}", which holds no pods; there are {names}'
        )
    constraint = written.spec.topology_constraint
    whole = _kai_group(tree, by_group)
    return Gang(_name(written.metadata), whole, constraint.topology or _topology_inside(tree))


def _check_min_sub_groups(tree: kai.SubGroupSet, at: ObjectPath) -> None:
    """KAI's `minSubGroup` must not be more than the sub-groups directly inside."""
    inside = len(tree.sub_groups) + len(tree.pod_sets)
    if tree.min_sub_groups is not None and not 1 <= tree.min_sub_groups <= inside:
        where = f' of "{tree.name}"' if tree.name else ""
        raise InvalidObject(
            at.child("minSubGroup"),
            f"{tree.min_sub_groups}{where} must be between 1 and the {inside} sub-groups inside",
        )
    for inner in tree.sub_groups:
        _check_min_sub_groups(inner, at)


def _belongs(pod: Pod, metadata: Metadata) -> bool:
    annotations = pod.metadata.annotations or {}
    same_namespace = (pod.metadata.namespace or "default") == (metadata.namespace or "default")
    return same_namespace and annotations.get(KAI_POD_GROUP) == metadata.name


def _has_ended(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in TERMINAL_PHASES


def _kai_group(tree: kai.SubGroupSet, by_group: dict[str, list[Pod]]) -> Group:
    inner = [_kai_group(each, by_group) for each in tree.sub_groups]
    for pod_set in tree.pod_sets:
        waiting, running = _divided(by_group.get(pod_set.name, ()))
        minimum = max(pod_set.min_available - len(running), 0)
        constraint = pod_set.constraint
        inner.append(
            Group(
                pod_set.name,
                waiting,
                required=(constraint.required or None) if constraint else None,
                preferred=(constraint.preferred or None) if constraint else None,
                minimum=minimum,
                running=running,
            )
        )
    constraint = tree.constraint
    return Group(
        tree.name,
        groups=tuple(inner),
        minimum_groups=tree.min_sub_groups,
        required=(constraint.required or None) if constraint else None,
        preferred=(constraint.preferred or None) if constraint else None,
    )


def _divided(pods: Sequence[Pod]) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    waiting = tuple(pod for pod in pods if not pod.spec.node_name)
    running = tuple(pod for pod in pods if pod.spec.node_name)
    return waiting, running


def _topology_inside(tree: kai.SubGroupSet) -> str:
    """The topology that a sub-group names, where the PodGroup itself names none."""
    for pod_set in tree.all_pod_sets():
        if pod_set.constraint and pod_set.constraint.topology:
            return pod_set.constraint.topology
    return next((each.constraint.topology for each in tree.sub_groups if each.constraint), "")


def _name(metadata: Metadata) -> str:
    return f"{metadata.namespace or 'default'}/{metadata.name}"
