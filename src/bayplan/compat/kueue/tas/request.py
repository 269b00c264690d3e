"""A pod set's wish, read against the levels of a topology: at which level to be together, in slices of which sizes.

In comes a `PodSet`, out goes a `Plan` for the search, or the reason why the wish makes no sense here. Reasons that
Kueue has are given in its words; what Kueue leaves to its webhooks (a count that slices do not divide) is refused here
in ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.compat.kueue.tas.model import PodSet, Profile, Settings, SliceLayer, TopologyRequest


@dataclass(frozen=True, slots=True)
class Slicing:
    """Slices of `size` pods within a domain of `level`. Without slices: single pods on the lowest level.

    `inner_sizes[level]` is the size in which pods come to the domains of a level below `level`: 1 unless a further
    layer, there or lower, says more.
    """

    size: int
    level: int
    inner_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """How domains are compared: the least free first (else the freest), and whether liked hosts
    come before everything.
    """

    least_free_first: bool
    by_affinity: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What the search has to find: `pods` pods together at `level`, and a leader beside them if `leader`.

    `layers` is set only where slices have more than one layer; reasons then speak of each of them.
    """

    pods: int
    level: int
    required: bool
    unconstrained: bool
    leader: bool
    slicing: Slicing
    policy: Policy
    layers: tuple[SliceLayer, ...] = ()

    @property
    def slices(self) -> int:
        """How many slices the pods make."""
        return self.pods // self.slicing.size


def plan_of(pod_set: PodSet, levels: Sequence[str], settings: Settings, *, leader: bool) -> Plan | str:
    """The plan for a pod set, or the reason why there is none."""
    request = pod_set.topology or TopologyRequest()
    label = wanted_level(pod_set, levels)
    if request.slices and request.slices[0].size <= 0:
        return "slice topology requested, but slice size not provided"
    if label is None:
        return "topology level not specified"
    if label not in levels:
        return f"no requested topology level: {label}"
    slicing = _slicing(request.slices, levels)
    if isinstance(slicing, str):
        return slicing
    if levels.index(label) > slicing.level:
        return f"podset slice topology {levels[slicing.level]} is above the podset topology {label}"
    if pod_set.count < 0:
        return f"pod count {pod_set.count} is below zero"
    if pod_set.count % slicing.size:
        return f"pod count {pod_set.count} is not a multiple of the slice size {slicing.size}"
    unconstrained = request.unconstrained or pod_set.implied or is_only_sliced(request)
    return Plan(
        pods=pod_set.count,
        level=levels.index(label),
        required=request.required is not None,
        unconstrained=unconstrained,
        leader=leader,
        slicing=slicing,
        policy=Policy(_least_free_first(settings.profile, unconstrained=unconstrained), settings.preferred_affinity),
        layers=request.slices if len(request.slices) > 1 else (),
    )


def _least_free_first(profile: Profile, *, unconstrained: bool) -> bool:
    return profile is Profile.LEAST_FREE_CAPACITY or (profile is Profile.MIXED and unconstrained)


def wanted_level(pod_set: PodSet, levels: Sequence[str]) -> str | None:
    """The label of the level at which the pods are to be together."""
    request = pod_set.topology or TopologyRequest()
    named = request.required if request.required is not None else request.preferred
    if named is not None or not levels:
        return named
    if is_only_sliced(request):
        return levels[0]
    return levels[-1] if request.unconstrained or pod_set.implied else None


def is_only_sliced(request: TopologyRequest) -> bool:
    """Slices that need not be near each other: Kueue treats them as unconstrained, from the top."""
    return bool(request.slices) and request.required is None and request.preferred is None


def _slicing(layers: Sequence[SliceLayer], levels: Sequence[str]) -> Slicing | str:
    outer = layers[0] if layers else SliceLayer(levels[-1], 1)
    if outer.level not in levels:
        return f"no requested topology level for slices: {outer.level}"
    inner_sizes = [1] * len(levels)
    above, size = levels.index(outer.level), outer.size
    for layer in layers[1:]:
        if layer.level not in levels:
            return f"no requested topology level for additional slice layer: {layer.level}"
        level = levels.index(layer.level)
        if level <= above:
            return f"additional slice layer topology {layer.level} must be at a lower level than {levels[above]}"
        if layer.size <= 0 or size % layer.size:
            return f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
        # Levels between two layers hand out pods in the finer size too: anything else could not be split below.
        inner_sizes[above + 1 : level + 1] = [layer.size] * (level - above)
        above, size = level, layer.size
    return Slicing(outer.size, levels.index(outer.level), tuple(inner_sizes))
