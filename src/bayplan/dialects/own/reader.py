"""From bayplan's own PodGroup to a `Gang` for planning, with pods made from its shapes.

Invalid fields raise `InvalidObject`. `gangs/checks.py` checks what depends on the cluster, such as levels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf

from bayplan.engine.gangs.objective import objective_of
from bayplan.extensions import PLACEMENT_STYLE, compat_names
from bayplan.gangs.model import BAYPLAN, Gang, Group, Patience, Segments
from bayplan.gangs.ranks.parallelism import parallel_groups
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.manifest_limits import count_pods, most_pods_of
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.validation.resources import container_faults
from bayplan.kube.wire.bayplan_v1alpha1 import PLACEMENTS, GroupSpec, PatienceSpec, PodGroup, PodGroupSpec, PodShape
from bayplan.kube.wire.core_v1 import Container, Metadata, Pod, PodSpec, ResourceRequirements

# Part of pod names and label values.
GROUP_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def read_gang(written: PodGroup) -> Gang:
    """The gang of bayplan's own PodGroup, with pods made from its shapes."""
    at = ObjectPath.of(written).child("spec")
    spec = written.spec
    for field, value in (("placement", spec.placement), ("domainPlacement", spec.domain_placement)):
        if value not in PLACEMENTS:
            raise InvalidObject(at.child(field), f'"{value}" must be one of {", ".join(PLACEMENTS)}')
    if spec.style != BAYPLAN and spec.style not in compat_names(PLACEMENT_STYLE):
        known = ", ".join((BAYPLAN, *compat_names(PLACEMENT_STYLE)))
        raise InvalidObject(at.child("style"), f'"{spec.style}" must be one of {known}')
    try:
        objective = objective_of(spec.objective or ())
    except ValueError as wrong:
        raise InvalidObject(at.child("objective"), str(wrong)) from None
    maker = _Maker(written.metadata, most_pods_of(at.subject))
    root = maker.group(spec, "", at, spec.pod)
    count_pods(at.subject, at.child("size"), maker.made)
    if spec.parallelism and spec.groups:
        raise InvalidObject(at.child("parallelism"), "is for a gang without groups inside")
    return Gang(
        _name(written.metadata),
        root,
        spec.topology,
        spec.placement == "spread",
        _patience(spec.patience, at.child("patience")),
        spec.style,
        objective,
        spec.domain_placement == "spread",
        parallelism=parallel_groups(spec.parallelism or (), maker.made, at.child("parallelism")),
    )


def _patience(written: PatienceSpec | None, at: ObjectPath) -> Patience | None:
    if written is None:
        return None
    if written.domains < 1:
        raise InvalidObject(at.child("domains"), f"{written.domains} must be 1 or more")
    if not 0 <= written.seconds < inf:
        raise InvalidObject(at.child("seconds"), f"{written.seconds:g} must be a number of seconds, 0 or more")
    return Patience(written.domains, written.seconds)


def has_shapes(spec: PodGroupSpec | GroupSpec) -> bool:
    """True if a PodGroup describes any of its pods."""
    return spec.pod is not None or any(map(has_shapes, spec.groups or ()))


class _Maker:
    """Makes the pods of a gang, at most so many, and counts them."""

    def __init__(self, metadata: Metadata, most: int) -> None:
        self.metadata = metadata
        self.made = 0
        self.most = most

    def group(
        self, spec: PodGroupSpec | GroupSpec, name: str, at: ObjectPath, shape: PodShape | None, around: str = ""
    ) -> Group:
        """A group and its inner groups, which inherit its shape."""
        if isinstance(spec, GroupSpec) and not GROUP_NAME.fullmatch(name):
            allowed = 'must be lower-case letters, digits and "-", at most 63, as in a label of a host name'
            raise InvalidObject(at.child("name"), f'"{name}" {allowed}')
        segment = spec.segment if isinstance(spec, GroupSpec) else None
        if segment is not None and segment < 0:
            raise InvalidObject(at.child("segment"), f"{segment} is negative: must be 0 or more")
        if spec.size < 0:
            raise InvalidObject(at.child("size"), f"{spec.size} is negative: must be 0 or more")
        own = spec.pod or shape
        if spec.size and own is None:
            raise InvalidObject(at.child("pod"), "is missing: what do the pods look like?")
        _check_segments(spec.groups or (), at.child("groups"))
        self.made += spec.size
        pods: tuple[Pod, ...] = ()
        if own is not None and self.made <= self.most:
            pod_spec = _spec_of(own, at.child("pod"))
            prefix = f"{self.metadata.name}-{name}" if name else self.metadata.name
            pods = tuple(self._pod(f"{prefix}-{number}", pod_spec) for number in range(spec.size))
        return Group(
            name=name,
            pods=pods,
            groups=tuple(
                self.group(inner, inner.name, at.child("groups").item(index), own, name)
                for index, inner in enumerate(spec.groups or ())
            ),
            required=spec.required,
            preferred=spec.preferred,
            minimum=spec.minimum,
            minimum_groups=spec.minimum_groups,
            segments=tuple(
                Segments(each.size, each.level, each.apart, required=not each.preferred) for each in spec.segments or ()
            ),
            segment=segment,
            segment_of=None if segment is None else around,
        )

    def _pod(self, name: str, spec: PodSpec) -> Pod:
        metadata = Metadata(name=name, namespace=self.metadata.namespace, labels=self.metadata.labels)
        return Pod(metadata=metadata, spec=spec)


def _check_segments(groups: Sequence[GroupSpec], at: ObjectPath) -> None:
    """Reject two groups that are the same segment: their pods could not be told apart."""
    named: dict[int, str] = {}
    for index, each in enumerate(groups):
        if each.segment is not None and named.setdefault(each.segment, each.name) != each.name:
            problem = f'{each.segment} is the segment of group "{named[each.segment]}": each group must have its own'
            raise InvalidObject(at.item(index).child("segment"), problem)


def _spec_of(shape: PodShape, at: ObjectPath) -> PodSpec:
    if (shape.spec is None) == (shape.resources is None):
        raise InvalidObject(at, "needs one of spec and resources")
    if shape.spec is not None:
        if not shape.spec.containers:
            raise InvalidObject(at.child("spec").child("containers"), "is empty: a pod needs at least one container")
        return shape.spec
    for name, amount in (shape.resources or {}).items():
        try:
            parse(amount)
        except QuantityError as error:
            raise InvalidObject(at.child("resources").key(name), str(error)) from None
    for fault in container_faults({"resources": {"limits": shape.resources}}, (), at):
        field = fault.at.field.replace(".resources.limits", ".resources", 1)
        raise InvalidObject(ObjectPath(at.subject, field), fault.problem)
    resources = ResourceRequirements(requests=shape.resources, limits=shape.resources)
    return PodSpec(containers=[Container(name="main", resources=resources)])


def _name(metadata: Metadata) -> str:
    return f"{metadata.namespace or 'default'}/{metadata.name}"
