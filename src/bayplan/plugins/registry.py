"""All plugins by the names that users write in a scheduler configuration, in filter order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bayplan.extensions import PLUGINS, entry_named, registered
from bayplan.plugins.added import build_added
from bayplan.plugins.base import FilterPlugin, ScorePlugin
from bayplan.plugins.image_locality import NAME as IMAGE_LOCALITY
from bayplan.plugins.image_locality import ImageLocality
from bayplan.plugins.inter_pod_affinity import InterPodAffinity
from bayplan.plugins.node_basics import NodeDeclaredFeatures, NodeName, NodePorts, NodeUnschedulable, TaintToleration
from bayplan.plugins.node_resource_topology_args import ArgumentError, read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from bayplan.plugins.numa_zone_limit import NAME as NUMA_ZONE_LIMIT
from bayplan.plugins.numa_zone_limit import NumaZoneLimit
from bayplan.plugins.stock_args import (
    BALANCED,
    balanced_allocation,
    node_affinity,
    reject_extra,
    resources_fit,
    topology_spread,
)
from bayplan.plugins.volcano_numa_aware import NAME as NUMA_AWARE
from bayplan.plugins.volcano_numa_aware import PolicyGate, numa_aware
from bayplan.plugins.volcano_numa_aware import read_arguments as read_numa_aware_arguments
from bayplan.plugins.volume_binding import VolumeBinding, VolumeZone
from bayplan.plugins.volume_limits import NodeVolumeLimits, VolumeRestrictions

FACTORIES: Mapping[str, Callable[[dict[str, Any] | None], FilterPlugin]] = {
    "NodeUnschedulable": lambda arguments: _without_arguments(NodeUnschedulable(), arguments),
    "NodeName": lambda arguments: _without_arguments(NodeName(), arguments),
    "TaintToleration": lambda arguments: _without_arguments(TaintToleration(), arguments),
    "NodeAffinity": lambda arguments: node_affinity(arguments or {}),
    "NodeDeclaredFeatures": lambda arguments: _without_arguments(NodeDeclaredFeatures(), arguments),
    "NodePorts": lambda arguments: _without_arguments(NodePorts(), arguments),
    "NodeResourcesFit": lambda arguments: resources_fit(arguments or {}),
    "VolumeRestrictions": lambda arguments: _without_arguments(VolumeRestrictions(), arguments),
    "NodeVolumeLimits": lambda arguments: _without_arguments(NodeVolumeLimits(), arguments),
    "VolumeBinding": lambda arguments: _volume_binding(arguments or {}),
    "VolumeZone": lambda arguments: _without_arguments(VolumeZone(), arguments),
    "NodeResourceTopologyMatch": lambda arguments: topology_match(
        read_arguments(arguments), names_strategy="scoringStrategy" in (arguments or {})
    ),
    "PodTopologySpread": lambda arguments: topology_spread(arguments or {}),
    "InterPodAffinity": lambda arguments: _inter_pod_affinity(arguments or {}),
    NUMA_AWARE: lambda arguments: _without_arguments(PolicyGate(), arguments),
    NUMA_ZONE_LIMIT: lambda arguments: _without_arguments(NumaZoneLimit(), arguments),
}
# Used where a configuration names it, in place of the default plugin of that name if there is one.
ON_REQUEST: Mapping[str, Callable[[dict[str, Any] | None], FilterPlugin | ScorePlugin]] = {
    BALANCED: lambda arguments: balanced_allocation(arguments or {}),
    IMAGE_LOCALITY: lambda arguments: _image_locality(arguments or {}),
    NUMA_AWARE: lambda arguments: numa_aware(read_numa_aware_arguments(arguments)),
}
FILTER_ORDER = tuple(FACTORIES)
# kube-scheduler's weights; NUMA fit, the reason to run bayplan, counts twice.
DEFAULT_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourceTopologyMatch": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
}
SCORE_ORDER = tuple(DEFAULT_WEIGHTS)
WEIGHTS_ON_REQUEST = {NUMA_AWARE: 1, BALANCED: 1, IMAGE_LOCALITY: 1}
# A profile of this name replaces kube-scheduler: it has all of kube-scheduler's default scores.
STOCK_NAME = "default-scheduler"
STOCK_SCORES = (BALANCED, IMAGE_LOCALITY)
STOCK_ARGUMENTS: Mapping[str, dict[str, Any]] = {"PodTopologySpread": {"defaultingType": "System"}}


# kube-scheduler's, built in: a file can disable everything and enable these again.
ALWAYS_ON = frozenset(("DefaultBinder", "PrioritySort", "SchedulingGates"))
DEFAULT_PREEMPTION = "DefaultPreemption"


def added_names() -> tuple[str, ...]:
    """The plugins of other packages. Raises `BrokenExtension` if one has the name of a plugin of bayplan."""
    names = registered(PLUGINS)
    for name in names:
        if name in FACTORIES or name in ON_REQUEST or name in ALWAYS_ON or name == DEFAULT_PREEMPTION:
            raise entry_named(PLUGINS, name).wrong("has the name of a plugin of bayplan; choose another one")
    return tuple(names)


def is_added(name: str) -> bool:
    """True if another package adds a plugin of this name."""
    return name in added_names()


def build_plugin(
    name: str, arguments: dict[str, Any] | None, *, on_request: bool = False
) -> FilterPlugin | ScorePlugin:
    """Build a plugin; raises `ArgumentError` naming the invalid field."""
    if is_added(name):
        return build_added(name, arguments)
    return ON_REQUEST[name](arguments) if on_request and name in ON_REQUEST else FACTORIES[name](arguments)


def _without_arguments(plugin: FilterPlugin, arguments: dict[str, Any] | None) -> FilterPlugin:
    reject_extra(arguments or {}, plugin.name)
    return plugin


def _volume_binding(arguments: dict[str, Any]) -> VolumeBinding:
    """Read kube-scheduler's `VolumeBindingArgs`; `shape` scores only where an alpha feature gate is on."""
    reject_extra(arguments, "VolumeBinding", "bindTimeoutSeconds")
    seconds = arguments.get("bindTimeoutSeconds", 600)
    if type(seconds) is not int or seconds < 1:
        raise ArgumentError(f"bindTimeoutSeconds: Invalid value: {seconds!r}: must be a whole number of 1 or more")
    return VolumeBinding(seconds)


def _inter_pod_affinity(arguments: dict[str, Any]) -> InterPodAffinity:
    """Read kube-scheduler's `InterPodAffinityArgs`."""
    reject_extra(arguments, "InterPodAffinity", "hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods")
    weight = arguments.get("hardPodAffinityWeight", 1)
    if type(weight) is not int or not 0 <= weight <= 100:
        raise ArgumentError(f"hardPodAffinityWeight: Invalid value: {weight!r}: must be a whole number from 0 to 100")
    ignore = arguments.get("ignorePreferredTermsOfExistingPods", False)
    if not isinstance(ignore, bool):
        raise ArgumentError(f"ignorePreferredTermsOfExistingPods: Invalid value: {ignore!r}: must be true or false")
    return InterPodAffinity(weight, ignore)


def _image_locality(arguments: dict[str, Any]) -> ImageLocality:
    reject_extra(arguments, IMAGE_LOCALITY)
    return ImageLocality()
