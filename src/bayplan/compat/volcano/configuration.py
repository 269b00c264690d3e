"""A profile from Volcano's scheduler configuration: `volcano-scheduler.conf`, or the ConfigMap that holds it.

In comes the decoded document (actions, tiers of plugins, their arguments), out goes a profile called `volcano` and one
remark about everything in it that bayplan has no counterpart for. The kubelet's verdict is asked whatever the file
says, since Volcano's own predicates do not look at zones; only `compatibility: volcano` among the arguments of
`numa-aware` wants Volcano's answer as it is.

    predicates   the filters of kube-scheduler            binpack      the fullest node, weight binpack.weight
    nodeorder    its scores, weights as in the arguments  numa-aware   the plugin of that name

`gang` and `priority` need no plugin: gangs are PodGroups, and the queue knows priorities. As with Volcano, a switch
`enable...` is on unless it says false, a non-integer argument counts as not given, and an unknown switch or argument
has no effect; both produce a remark.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from bayplan.kube.documents import documents_in
from bayplan.kube.errors import InvalidObject, field_and_problem
from bayplan.kube.files import decoded
from bayplan.plugins.base import ScorePlugin
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.numa_zone_limit import NAME as NUMA_ZONE_LIMIT
from bayplan.plugins.registry import build_plugin
from bayplan.plugins.volcano_numa_aware import ARGUMENTS as NUMA_AWARE_ARGUMENTS
from bayplan.plugins.volcano_numa_aware import AS_VOLCANO_ALONE, answers_as_volcano
from bayplan.plugins.volcano_numa_aware import NAME as NUMA_AWARE
from bayplan.plugins.volcano_numa_aware import read_arguments as read_numa_aware_arguments
from bayplan.scheduling.profile import Profile

NAME = "volcano"
CONFIG_MAP_KEY = "volcano-scheduler.conf"
ACTIONS = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "shuffle",
    "gangpreempt",
    "gangreclaim",
)
# What the queue and the dispatcher do anyway.
DONE_ANYWAY = ("enqueue", "allocate", "backfill")
# Volcano spells its switches in two ways, and both are read.
SWITCHES = frozenset(
    {
        *(f"enable{point}" for point in ("Predicate", "NodeOrder", "BestNode", "JobOrder", "TaskOrder", "QueueOrder")),
        *(f"enable{point}" for point in ("JobReady", "JobPipelined", "JobStarving", "JobEnqueued", "JobValid")),
        *(f"enable{point}" for point in ("Preemptable", "Reclaimable", "Preemptive", "Hierarchy", "NamespaceOrder")),
        *(f"enable{point}" for point in ("TargetJob", "ReservedNodes", "ClusterOrder", "Allocatable", "Overused")),
        *(f"enabled{point}" for point in ("HyperNodeOrder", "HyperNodeGradient", "SubJobReady", "SubJobPipelined")),
        *(f"enabled{point}" for point in ("SubJobOrder", "Victim", "Overused", "Allocatable", "ClusterOrder")),
    }
)
KUBE_FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts")
VOLUME_FILTERS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
RELATION_FILTERS = ("PodTopologySpread", "InterPodAffinity")
# Arguments of nodeorder, our plugin for each, and Volcano's default weight.
NODE_ORDER = {
    "leastrequested.weight": ("NodeResourcesFit", 1),
    "nodeaffinity.weight": ("NodeAffinity", 2),
    "podaffinity.weight": ("InterPodAffinity", 2),
    "tainttoleration.weight": ("TaintToleration", 3),
    "podtopologyspread.weight": ("PodTopologySpread", 2),
}
# The plugins that have a counterpart, and which of their arguments count.
HANDLED: dict[str, tuple[str, ...]] = {
    "predicates": (),
    "nodeorder": tuple(NODE_ORDER),
    "binpack": ("binpack.weight",),
    NUMA_AWARE: NUMA_AWARE_ARGUMENTS,
    "gang": (),
    "priority": (),
}
LARGEST_WEIGHT = 1000


class _Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: list[dict[str, Any]] = []


class _File(msgspec.Struct, frozen=True):
    tiers: list[_Tier]
    actions: str = "enqueue, allocate, backfill"


def recognizes(raw: object) -> TypeGuard[dict[str, Any]]:
    """Whether a document is a configuration of Volcano, by itself or in its ConfigMap."""
    return isinstance(raw, dict) and (isinstance(raw.get("data"), dict) or "tiers" in raw) and "profiles" not in raw


def profile_of(raw: Mapping[str, Any]) -> tuple[Profile, tuple[str, ...]]:
    """The profile, and remarks about what was left out. Raises `ArgumentError` naming the field."""
    file = _decoded(_unwrapped(raw))
    remarks: list[str] = []
    _check_actions(file.actions, remarks)
    written = _plugins(file, remarks)
    others = sorted(name for name in written if name not in HANDLED)
    if others:
        remarks.append(
            f"bayplan has no counterpart for the plugins {', '.join(others)} of Volcano: they have no effect"
        )
    unheard = [f"{name}: {', '.join(keys)}" for name in HANDLED if (keys := _without_counterpart(written, name))]
    if unheard:
        remarks.append(f"bayplan has no counterpart for these arguments, they have no effect: {'; '.join(unheard)}")
    return _profile(written, remarks), tuple(remarks)


def _unwrapped(raw: Mapping[str, Any]) -> object:
    if "tiers" in raw:
        return raw
    text = raw["data"].get(CONFIG_MAP_KEY)
    if not isinstance(text, str):
        raise ArgumentError(f'data["{CONFIG_MAP_KEY}"]: is missing in the ConfigMap')
    inside = Path(f'data["{CONFIG_MAP_KEY}"]')
    try:
        documents = [decoded(each, inside, strict=False) for each in documents_in(text.encode(), inside)]
    except InvalidObject as error:
        raise ArgumentError(str(error).removeprefix("file ")) from None
    if len(documents) != 1:
        raise ArgumentError(f"{inside}: holds {len(documents)} documents; expected one")
    return documents[0]


def _decoded(raw: object) -> _File:
    try:
        return msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error, _File)
        raise ArgumentError(f"{where or 'document'}: {problem}") from None


def _check_actions(text: str, remarks: list[str]) -> None:
    actions = [action.strip() for action in text.split(",") if action.strip()]
    unknown = [action for action in actions if action not in ACTIONS]
    if unknown:
        raise ArgumentError(f'actions: "{unknown[0]}" is no action; expected {", ".join(ACTIONS)}')
    left_out = [action for action in actions if action not in DONE_ANYWAY]
    if left_out:
        remarks.append(
            f"the actions {', '.join(left_out)} have no effect: this profile evicts no pods; "
            "a KubeSchedulerConfiguration with `preemption: On` does"
        )


def _plugins(file: _File, remarks: list[str]) -> dict[str, dict[str, Any]]:
    """Plugins by name, over all tiers: bayplan has no tiers. Fields that Volcano would pass over are remarked."""
    found: dict[str, dict[str, Any]] = {}
    for tier, plugins in enumerate(file.tiers):
        for index, plugin in enumerate(plugins.plugins):
            at = f"tiers[{tier}].plugins[{index}]"
            name = plugin.get("name")
            if not isinstance(name, str) or not name:
                raise ArgumentError(f"{at}.name: is missing")
            for key, value in plugin.items():
                if key in SWITCHES and not isinstance(value, bool):
                    raise ArgumentError(f"{at}.{key}: {value!r} is not allowed: must be true or false")
                if key not in ("name", "arguments") and key not in SWITCHES:
                    meant = get_close_matches(key, SWITCHES, 1)
                    hint = f" (perhaps {meant[0]} is meant)" if meant else ""
                    remarks.append(f"{at}.{key}: is no field of a plugin and has no effect, as with Volcano{hint}")
            if not isinstance(plugin.get("arguments") or {}, dict):
                raise ArgumentError(f"{at}.arguments: must be a mapping")
            found[name] = plugin
    return found


def _without_counterpart(written: Mapping[str, dict[str, Any]], name: str) -> list[str]:
    """Arguments of a plugin that do not count here. One that is off, or weighs nothing, asks for nothing."""
    given = (written.get(name) or {}).get("arguments") or {}
    return sorted(str(key) for key, value in given.items() if value and key not in HANDLED[name])


def _profile(written: Mapping[str, dict[str, Any]], remarks: list[str]) -> Profile:
    filters = ["NodeResourcesFit", TOPOLOGY_MATCH, NUMA_ZONE_LIMIT]
    weights: dict[str, int] = {}
    arguments: dict[str, dict[str, Any]] = {}
    if _on(written, "predicates", "enablePredicate"):
        filters = [*KUBE_FILTERS, *filters, *VOLUME_FILTERS, *RELATION_FILTERS]
    if _on(written, "nodeorder", "enableNodeOrder"):
        for key, (plugin, usual) in NODE_ORDER.items():
            weights[plugin] = _whole_number(written["nodeorder"], key, usual, remarks)
    if _on(written, "binpack", "enableNodeOrder"):
        if weights.get("NodeResourcesFit"):
            remarks.append("nodeorder's leastrequested.weight has no effect beside binpack: the fullest node counts")
        weights["NodeResourcesFit"] = _whole_number(written["binpack"], "binpack.weight", 1, remarks)
        arguments["NodeResourcesFit"] = {"scoringStrategy": {"type": "MostAllocated"}}
    if NUMA_AWARE in written:
        arguments[NUMA_AWARE] = _numa_aware_arguments(written[NUMA_AWARE])
        if _on(written, NUMA_AWARE, "enablePredicate"):
            filters.append(NUMA_AWARE)
        if _on(written, NUMA_AWARE, "enableNodeOrder"):
            weights[NUMA_AWARE] = _whole_number(written[NUMA_AWARE], "weight", 1, remarks)
    else:
        filters.append(NUMA_AWARE)
    plugins: dict[str, Any] = {
        name: build_plugin(name, arguments.get(name), on_request=name in written)
        for name in dict.fromkeys((*filters, *weights))
    }
    if answers_as_volcano(plugins.values()):
        filters.remove(TOPOLOGY_MATCH)
        remarks.append(AS_VOLCANO_ALONE)
    scoring = tuple(
        (plugin, weights[name])
        for name, plugin in plugins.items()
        if weights.get(name) and isinstance(plugin, ScorePlugin)
    )
    return Profile(NAME, tuple(plugins[name] for name in filters), scoring)


def _numa_aware_arguments(plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Bayplan's own, as they are written. Volcano's `weight` becomes that of the profile, which comes to the same."""
    written = plugin.get("arguments") or {}
    given = {key: value for key, value in written.items() if key in NUMA_AWARE_ARGUMENTS and key != "weight"}
    try:
        read_numa_aware_arguments(given)
    except ArgumentError as error:
        raise ArgumentError(f"{NUMA_AWARE}: {error}") from None
    return given


def _on(written: Mapping[str, dict[str, Any]], name: str, switch: str) -> bool:
    return name in written and written[name].get(switch, True) is True


def _whole_number(plugin: Mapping[str, Any], key: str, usual: int, remarks: list[str]) -> int:
    """An argument as Volcano reads it: only a whole number counts. What bayplan cannot do is refused."""
    value = (plugin.get("arguments") or {}).get(key, usual)
    if type(value) is not int:
        remarks.append(f"{plugin['name']}: {key}: {value!r} is no whole number: taken as {usual}, as Volcano does")
        return usual
    if not 0 <= value <= LARGEST_WEIGHT:
        raise ArgumentError(f"{plugin['name']}: {key}: {value} is not allowed: must be 0 to {LARGEST_WEIGHT}")
    return value
