"""Arguments of kube-scheduler's NodeAffinity, NodeResourcesFit,
NodeResourcesBalancedAllocation and PodTopologySpread.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.kube.errors import within
from bayplan.kube.wire.core_v1 import NodeAffinity as WrittenAffinity
from bayplan.kube.wire.core_v1 import TopologySpreadConstraint
from bayplan.plugins.node_affinity import AddedAffinity, NodeAffinity
from bayplan.plugins.node_resource_topology_args import ArgumentError, refuse_unknown_resource
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.plugins.pod_topology_spread import SYSTEM_DEFAULTS, DefaultConstraint, PodTopologySpread
from bayplan.plugins.resource_scores import (
    CPU_AND_MEMORY,
    MOST_ALLOCATED,
    STRATEGIES,
    TO_CAPACITY_RATIO,
    NodeResourcesBalancedAllocation,
    Strategy,
)

BALANCED = "NodeResourcesBalancedAllocation"
LARGEST_WEIGHT = 100
LARGEST_SCORE = 10


def reject_extra(arguments: dict[str, Any], name: str, *allowed: str) -> None:
    """Raise `ArgumentError` for a field that a plugin does not have."""
    extra = sorted(set(arguments) - {"apiVersion", "kind", *allowed})
    if extra:
        raise ArgumentError(f"{extra[0]}: {name} takes no such argument")


def node_affinity(arguments: dict[str, Any]) -> NodeAffinity:
    """Read `NodeAffinityArgs`: affinity that holds for every pod of the profile."""
    reject_extra(arguments, "NodeAffinity", "addedAffinity")
    try:
        written = msgspec.convert(arguments.get("addedAffinity") or {}, WrittenAffinity)
    except msgspec.ValidationError as error:
        raise ArgumentError(within("addedAffinity", error)) from None
    preferred = tuple(written.preferred_during_scheduling_ignored_during_execution or ())
    for index, term in enumerate(preferred):
        if not 1 <= term.weight <= LARGEST_WEIGHT:
            at = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}].weight"
            raise ArgumentError(f"{at}: Invalid value: {term.weight}: must be 1 to {LARGEST_WEIGHT}")
    return NodeAffinity(AddedAffinity(written.required_during_scheduling_ignored_during_execution, preferred))


def resources_fit(arguments: dict[str, Any]) -> NodeResourcesFit:
    """Read `NodeResourcesFitArgs`: the scoring strategy, and extended resources that other programs manage."""
    reject_extra(arguments, "NodeResourcesFit", "scoringStrategy", "ignoredResources", "ignoredResourceGroups")
    written = arguments.get("scoringStrategy") or {}
    if not isinstance(written, dict):
        raise ArgumentError(f"scoringStrategy: Invalid value: {written!r}: must be an object")
    extra = sorted(set(written) - {"type", "resources", "requestedToCapacityRatio"})
    if extra:
        raise ArgumentError(f"scoringStrategy.{extra[0]}: NodeResourcesFit takes no such argument")
    kind = written.get("type", STRATEGIES[0])
    if kind not in STRATEGIES:
        raise ArgumentError(f'scoringStrategy.type: Invalid value: "{kind}": must be {", ".join(STRATEGIES)}')
    resources = _resources(written.get("resources"), "scoringStrategy.resources")
    shape = _shape(written.get("requestedToCapacityRatio"), kind)
    strategy = Strategy(kind, resources, shape)
    is_usual = resources == CPU_AND_MEMORY and kind != TO_CAPACITY_RATIO
    return NodeResourcesFit(
        most_allocated=kind == MOST_ALLOCATED,
        strategy=None if is_usual else strategy,
        ignored=_names(arguments, "ignoredResources"),
        ignored_groups=_names(arguments, "ignoredResourceGroups"),
    )


def balanced_allocation(arguments: dict[str, Any]) -> NodeResourcesBalancedAllocation:
    """Read `NodeResourcesBalancedAllocationArgs`: resources, each of weight 1."""
    reject_extra(arguments, BALANCED, "resources")
    resources = _resources(arguments.get("resources"), "resources")
    for index, (_, weight) in enumerate(resources):
        if weight != 1:
            raise ArgumentError(f"resources[{index}].weight: Invalid value: {weight}: must be 1")
    return NodeResourcesBalancedAllocation(resources)


def topology_spread(arguments: dict[str, Any]) -> PodTopologySpread:
    """Read `PodTopologySpreadArgs`. Default constraints only score: `DoNotSchedule` belongs on the pods."""
    reject_extra(arguments, "PodTopologySpread", "defaultConstraints", "defaultingType")
    written = arguments.get("defaultConstraints") or []
    kind = arguments.get("defaultingType", "List")
    if kind not in ("System", "List"):
        raise ArgumentError(f'defaultingType: Invalid value: "{kind}": must be System or List')
    if kind == "System":
        if written:
            raise ArgumentError("defaultConstraints: must be empty if defaultingType is System")
        return PodTopologySpread(SYSTEM_DEFAULTS)
    if not isinstance(written, list):
        raise ArgumentError(f"defaultConstraints: Invalid value: {written!r}: must be a list")
    return PodTopologySpread(tuple(_constraint(each, f"defaultConstraints[{at}]") for at, each in enumerate(written)))


def _constraint(written: Any, at: str) -> DefaultConstraint:
    try:
        constraint = msgspec.convert(written, TopologySpreadConstraint)
    except msgspec.ValidationError as error:
        raise ArgumentError(within(at, error)) from None
    if constraint.when_unsatisfiable != "ScheduleAnyway":
        refused = f'Invalid value: "{constraint.when_unsatisfiable}": must be ScheduleAnyway'
        raise ArgumentError(f"{at}.whenUnsatisfiable: {refused}; set other constraints on the pods")
    if not constraint.topology_key or constraint.max_skew < 1:
        field = "topologyKey" if not constraint.topology_key else "maxSkew"
        raise ArgumentError(f"{at}.{field}: Required value: a label of nodes and a skew of 1 or more")
    if constraint.label_selector is not None or constraint.match_label_keys or constraint.min_domains is not None:
        raise ArgumentError(
            f"{at}: labelSelector, matchLabelKeys and minDomains are not allowed: the selector is deduced"
        )
    return DefaultConstraint(
        constraint.topology_key,
        constraint.max_skew,
        honors_affinity=constraint.node_affinity_policy != "Ignore",
        honors_taints=constraint.node_taints_policy == "Honor",
    )


def _resources(written: Any, where: str) -> tuple[tuple[str, int], ...]:
    if not written:
        return CPU_AND_MEMORY
    if not isinstance(written, list):
        raise ArgumentError(f"{where}: Invalid value: {written!r}: must be a list")
    found = []
    for index, each in enumerate(written):
        at = f"{where}[{index}]"
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or not each["name"]:
            raise ArgumentError(f"{at}.name: must be the name of a resource")
        refuse_unknown_resource(each["name"], f"{at}.name")
        weight = each.get("weight", 1) or 1
        if type(weight) is not int or not 1 <= weight <= LARGEST_WEIGHT:
            raise ArgumentError(f"{at}.weight: Invalid value: {weight!r}: must be 1 to {LARGEST_WEIGHT}")
        found.append((each["name"], weight))
    return tuple(found)


def _shape(written: Any, kind: str) -> tuple[tuple[int, int], ...]:
    where = "scoringStrategy.requestedToCapacityRatio"
    if kind != TO_CAPACITY_RATIO:
        if written:
            raise ArgumentError(f"{where}: is only allowed with type {TO_CAPACITY_RATIO}")
        return ()
    points = written.get("shape") if isinstance(written, dict) else None
    if not isinstance(points, list) or not points:
        raise ArgumentError(f"{where}.shape: at least one point must be specified")
    found: list[tuple[int, int]] = []
    for index, point in enumerate(points):
        at = f"{where}.shape[{index}]"
        values: list[Any] = [
            point.get(field) if isinstance(point, dict) else None for field in ("utilization", "score")
        ]
        for field, value, most in zip(("utilization", "score"), values, (100, LARGEST_SCORE), strict=True):
            if type(value) is not int or not 0 <= value <= most:
                raise ArgumentError(f"{at}.{field}: Invalid value: {value!r}: must be 0 to {most}")
        if found and values[0] <= found[-1][0]:
            raise ArgumentError(f"{at}.utilization: Invalid value: {values[0]}: must be above the point before")
        found.append((values[0], values[1]))
    return tuple(found)


def _names(arguments: dict[str, Any], field: str) -> frozenset[str]:
    written = arguments.get(field) or []
    if not isinstance(written, list) or not all(isinstance(each, str) for each in written):
        raise ArgumentError(f"{field}: Invalid value: {written!r}: must be a list of names")
    return frozenset(written)
