"""Segments that must be groups: those of different sizes, and those that the leader joins.

bayplan's own segments are equal slices of a group by rank. Workers that do not divide evenly have a smaller last
segment, and a LeaderWorkerSet's leader joins the first one. Such a gang is *cut*: each segment is a group that a pod
finds by its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from bayplan.grouping.grouping import InvalidGrouping, InvalidValue
from bayplan.grouping.raw import Reference
from bayplan.grouping.workload import OwningWorkload, RoleSpec
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, Segment

UNNAMED = "segment"


@dataclass(frozen=True, slots=True)
class Cut:
    """Segments of these sizes by rank; `least` of all their pods must start together."""

    prefix: str
    sizes: tuple[int, ...]
    least: int
    required: str | None
    preferred: str | None

    def groups(self) -> list[GroupSpec]:
        """The segments as groups; if fewer pods suffice, the last segments give way."""
        before = [0, *accumulate(self.sizes)]
        needed = [min(size, max(self.least - start, 0)) for size, start in zip(self.sizes, before, strict=False)]
        return [
            GroupSpec(
                name=f"{self.prefix}-{number}",
                size=size,
                minimum=None if least == size else least,
                required=self.required,
                preferred=self.preferred,
                segment=number,
            )
            for number, (size, least) in enumerate(zip(self.sizes, needed, strict=True))
        ]

    def place(self, index: int) -> str:
        """The segment of the pod with this index; indexes beyond the last fill the segments again."""
        ends = list(accumulate(self.sizes))
        return f"{self.prefix}-{next(number for number, end in enumerate(ends) if index % ends[-1] < end)}"


def cut_of_part(about: Reference, part: RoleSpec, segments: Sequence[Segment], where: str) -> Cut | None:
    """How a part is cut; None if it has no segments, or equal ones. `where` is the annotation that requests them."""
    if not segments or part.size % segments[0].size == 0:
        return None
    allowed = f"size {segments[0].size} of layer 1 must divide the {part.size} pods that there are"
    required, preferred = _levels(segments, InvalidValue(about, where, None, allowed))
    return Cut(part.name or UNNAMED, _sizes(part.size, segments[0].size), part.least, required, preferred)


def cut_of_whole(workload: OwningWorkload, segments: Sequence[Segment], where: str) -> Cut | None:
    """How all pods are cut if ranks run through leaders and workers, else None; `where` is the annotation."""
    if not segments or not workload.cut_through or not workload.parts:
        return None
    unit = segments[0].size
    pods, leaders = sum(part.size for part in workload.parts), workload.parts[0].size
    allowed = "has several layers: must be one where leaders and workers share segments"
    required, preferred = _levels(segments, InvalidValue(workload.about, where, None, allowed))
    sizes = _sizes(pods, unit)
    if pods > leaders and (pods - leaders) % unit == 0:
        sizes = (unit + leaders, *_sizes(pods - leaders - unit, unit))
    least = leaders if workload.staged else sum(part.least for part in workload.parts)
    return Cut(UNNAMED, sizes, least, required, preferred)


def _sizes(pods: int, unit: int) -> tuple[int, ...]:
    return tuple(min(unit, pods - start) for start in range(0, pods, unit))


def _levels(segments: Sequence[Segment], several_layers: InvalidValue) -> tuple[str | None, str | None]:
    """The required and preferred level of a segment. Raises `InvalidGrouping` for several layers of segments."""
    sizes = {each.size for each in segments}
    required = [each.level for each in segments if not each.preferred]
    preferred = [each.level for each in segments if each.preferred]
    if len(sizes) > 1 or len(required) > 1:
        raise InvalidGrouping(several_layers)
    return next(iter(required), None), next(iter(preferred), None)
