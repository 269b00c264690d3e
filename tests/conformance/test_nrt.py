"""scheduler-plugins' NodeResourceTopologyMatch as recorded: configuration, requests, accounting, filter, four scores,
arguments.

Each check builds a cluster of the case's nodes and reports, asks the same code that schedules, and compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from bayplan.cluster.columns.hardware import HardwareClass
from bayplan.cluster.columns.resource_kinds import asks_for_devices, holds_exclusively, is_host_level, is_numa_affine
from bayplan.cluster.pods.request import amounts_of, effective_request
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, SCOPE_BY_TEXT, KubeletSettings, Policy, Scope
from bayplan.cluster.reports.reported_settings import upstream_attributes, upstream_policies, upstream_settings_of
from bayplan.cluster.state import ClusterState
from bayplan.compat.scheduler_plugins.filter import ZonesLeft, align_containers, align_pod
from bayplan.engine.numa.least_numa import narrowest_sets, normalized_score, take_from_sets
from bayplan.engine.numa.zone_sets import average_distance
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import decode_arguments, validation_error
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from bayplan.plugins.node_resources_fit import NodeResourcesFit
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.profile import Profile
from tests.conformance.conftest import NotBuiltYet

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

HERE = ObjectPath("case")


# -- what the objects say -------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/topology_config")
def test_policy_and_scope(conformance: Conformance) -> None:
    conformance.check_each(config_problem)


def config_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "valid_scope":
            return differs(given["value"] in SCOPE_BY_TEXT, expected["valid"])
        case "valid_policy":
            return differs(given["value"] in POLICY_BY_TEXT, expected["valid"])
        case "equal":
            return differs(given["a"] == given["b"], expected["equal"])
        case "from_attributes":
            attributes = msgspec.convert(given["attributes"] or [], list[Attribute])
            return differs(changed(given["base"], lambda base: upstream_attributes(base, attributes)), expected)
        case "from_policies":
            policies = given["topologyPolicies"] or []
            return differs(changed(given["base"], lambda base: upstream_policies(base, policies)), expected)
        case "from_nrt":
            return differs(
                as_recorded(upstream_settings_of(msgspec.convert(given["nrt"], NodeResourceTopology))), expected
            )
    return f"unknown op {case['op']}"


def changed(base: dict[str, Any], change: Any) -> dict[str, Any]:
    """What a change makes of a base that may hold texts no setting can have: fields it leaves alone stay as given."""
    low = as_recorded(change(KubeletSettings(Policy.NONE, Scope.CONTAINER, 3)))
    high = as_recorded(change(KubeletSettings(Policy.RESTRICTED, Scope.POD, 5)))
    return {name: value if value == high[name] else base[name] for name, value in low.items()}


def as_recorded(settings: KubeletSettings) -> dict[str, Any]:
    return {"policy": settings.policy.text, "scope": settings.scope.text, "maxNUMANodes": settings.max_numa_nodes}


@pytest.mark.fixture_files("nrt/pod_requests")
def test_pod_requests(conformance: Conformance) -> None:
    conformance.check_each(requests_problem)


def requests_problem(case: Case) -> str | None:
    request = effective_request(pod_of(case))
    reported = case["input"].get("nrt_resources") or []
    expected = case["expect"]
    match case["op"]:
        case "include_non_native":
            return differs(asks_for_devices(request), expected["result"])
        case "exclusive":
            return differs(holds_exclusively(request, reported), expected["result"])
        case "describe":
            described = {
                "qos": request.qos.value,
                "effective_request": request.largest_or_sum,
                "include_non_native": asks_for_devices(request),
                "exclusive": holds_exclusively(request, reported),
            }
            wanted = {**expected, "effective_request": amounts_of(expected["effective_request"], HERE)}
            return differs(described, wanted)
    return f"unknown op {case['op']}"


@pytest.mark.fixture_files("nrt/plugin_args")
def test_plugin_arguments(conformance: Conformance) -> None:
    conformance.check_each(arguments_problem)


def arguments_problem(case: Case) -> str | None:
    arguments = decode_arguments(case["input"]["args"])
    defaulted = msgspec.to_builtins(arguments)
    if not defaulted["scoringStrategy"]["type"]:
        del defaulted["scoringStrategy"]["type"]  # Go writes no empty text
    found = {
        "defaulted": defaulted,
        "validation_error": validation_error(arguments),
        "cache_implementation": arguments.cache_implementation,
    }
    return differs(found, case["expect"])


# -- amounts in zones -----------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/numa_accounting")
def test_accounting(conformance: Conformance) -> None:
    conformance.check_each(accounting_problem)


def accounting_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "is_host_level":
            return differs(is_host_level(given["resource"]), expected["result"])
        case "is_numa_affine":
            return differs(is_numa_affine(given["resource"]), expected["result"])
        case "only_non_numa":
            reported = {name for zone in given["numa_nodes"] for name in zone["resources"]}
            return differs(not (reported & set(given["request"])), expected["result"])
        case "subtract_from_numa_node":
            return subtract_one_problem(given, expected)
        case "subtract_from_numas":
            return subtract_many_problem(given, expected)
    return f"unknown op {case['op']}"


def subtract_one_problem(given: dict[str, Any], expected: dict[str, Any]) -> str | None:
    state = state_of_zones(given["numa_nodes"])
    left = ZonesLeft(state.columns, slice(0, 1), guaranteed=given["qos"] == "Guaranteed")
    report = state.reports[0]
    assert report is not None
    ids = [zone.id for zone in report.zones]
    if given["numa_id"] in ids:
        position = ids.index(given["numa_id"])
        left.charge(amounts_of(given["request"], HERE), np.array([position]), np.array([True]))
    amounts = {
        zone.id: {name: int(left.left_of(state.columns.resource_index[name])[position, 0]) for name in zone.resources}
        for position, zone in enumerate(report.zones)
    }
    if any(amount < 0 for zone in amounts.values() for amount in zone.values()):
        return differs(True, expected["error"])
    return differs(amounts, amounts_of_zones(expected["numa_nodes"])) or differs(False, expected["error"])


def subtract_many_problem(given: dict[str, Any], expected: dict[str, Any]) -> str | None:
    state = state_of_zones(given["numa_nodes"])
    report = state.reports[0]
    assert report is not None
    ids = [zone.id for zone in report.zones]
    chosen = {given["numa_nodes"][index]["numa_id"] for index in given["list_indexes"]}
    bits = np.array([sum(1 << ids.index(zone) for zone in chosen)], dtype=np.uint64)
    index_of = state.columns.resource_index
    request = {name: want for name, want in amounts_of(given["request"], HERE).items() if name in index_of}
    left = {name: state.columns.zone_available[index][:, :1] for name, index in index_of.items()}
    take_from_sets(left, request, bits)
    amounts = {
        zone.id: {name: int(left[name][position, 0]) for name in zone.resources}
        for position, zone in enumerate(report.zones)
    }
    return differs(amounts, amounts_of_zones(expected["numa_nodes"]))


def amounts_of_zones(zones: list[dict[str, Any]]) -> dict[int, dict[str, int]]:
    return {zone["numa_id"]: amounts_of(zone["resources"], HERE) for zone in zones}


# -- filter ---------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/filter_upstream", "nrt/filter_edge", "nrt/filter_random")
def test_filter(conformance: Conformance) -> None:
    conformance.check_each(filter_problem)


def filter_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    state = state_of([given["node"]], [given["nrt"]] if given.get("nrt") else [])
    if given.get("cache_fresh") is False:
        state.set_fresh(given["node"]["metadata"]["name"], fresh=False)
    pod = pod_of(case)
    plugin = upstream_plugin()
    pod_class = state.classes.of(pod)
    code = refusals(plugin, state, pod)[0]
    found: dict[str, Any] = {"allowed": code == 0, "qos": pod_class.request.qos.value}
    if code:
        found |= {"code": "Unschedulable", "reason": plugin.cause(pod_class, code)}
    if "placement" in expected:
        found["placement"] = placement_of(state, pod)
    return differs(found, expected)


def placement_of(state: ClusterState, pod: Pod) -> list[int]:
    request = state.classes.of(pod).request
    by_pod = bool(state.columns.scope[0] == Scope.POD)
    answer = (align_pod if by_pod else align_containers)(state.columns, request, slice(0, 1))
    report = state.reports[0]
    assert report is not None
    ids = [zone.id for zone in report.zones] or [0]
    return [ids[int(position)] for position in answer.zones[:, 0]]


# -- scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/score_upstream", "nrt/score_edge", "nrt/score_random")
def test_scores(conformance: Conformance) -> None:
    conformance.check_each(score_problem)


def score_problem(case: Case) -> str | None:
    scores = scores_of(case)
    expected = case["expect"]
    for node, wanted in expected["scores"].items():
        allowed = wanted["any_of"] if isinstance(wanted, dict) else [wanted]
        if scores[node] not in allowed:
            return f"{node}: got {scores[node]}, recorded {wanted}"
    return differs(effective_request(pod_of(case)).qos.value, expected["qos"])


def scores_of(case: Case) -> dict[str, int]:
    given = case["input"]
    state = state_of(given["nodes"], given["nrts"])
    for node in given.get("stale_nodes") or []:
        state.set_fresh(node, fresh=False)
    plugin = upstream_plugin(given["scoring_strategy"], given.get("weights"))
    scores = plugin.scores(state, state.classes.of(pod_of(case)), slice(0, len(state.names)))
    return {name: int(score) for name, score in zip(state.names, scores, strict=True)}


@pytest.mark.fixture_files("nrt/least_numa")
def test_least_numa_nodes(conformance: Conformance) -> None:
    conformance.check_each(least_numa_problem)


def least_numa_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "numa_nodes_required":
            return differs(required_zones(given), expected)
        case "normalize_score":
            score = normalized_score(
                np.array([given["numa_count"]]),
                np.array([given["is_min_distance"]]),
                np.array([given["max_numa_nodes"]]),
            )
            return differs(int(score[0]), expected["score"])
        case "min_avg_distance":
            distances = distances_of(given["numa_nodes"])
            averages = [average_distance(distances, tuple(chosen)) for chosen in given["combinations"]]
            shortest = float(min(np.float32(255), *averages))
            return differs(shortest, float(np.float32(expected["distance_float32"])))
    return f"unknown op {case['op']}"


def required_zones(given: dict[str, Any]) -> dict[str, Any]:
    """The recorded function sees zones in the order of the list, so positions stand for that order here."""
    zones = given["numa_nodes"]
    request = amounts_of(given["request"], HERE)
    available = [amounts_of(zone["resources"], HERE) for zone in zones]
    hardware = HardwareClass(tuple(zone["numa_id"] for zone in zones), distances_of(zones))
    left = {name: np.array([[float(zone.get(name, 0))] for zone in available]) for name in request}
    reported = {
        name: np.array([sum(1 << position for position, zone in enumerate(available) if name in zone)], dtype=np.uint64)
        for name in request
    }
    sets = narrowest_sets(hardware, left, reported, request, guaranteed=given["qos"] == "Guaranteed")
    bits = int(sets.bits[0])
    ids = [zone_id for position, zone_id in enumerate(hardware.zone_ids) if bits >> position & 1]
    return {"numa_ids": sorted(ids) or None, "is_min_distance": bool(sets.closest[0])}


def distances_of(zones: list[dict[str, Any]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(zone["costs"].get(str(other["numa_id"]), 255) for other in zones) for zone in zones)


# -- whole cycles, and inputs that crash upstream -------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/schedule_integration")
def test_schedule(conformance: Conformance) -> None:
    conformance.check_each(schedule_problem)


def schedule_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    state = state_of(given["nodes"], given["nrts"])
    plugin = upstream_plugin(given["scoring_strategy"])
    pod = pod_of(case)
    pod_class = state.classes.of(pod)
    everything = slice(0, len(state.names))
    codes = refusals(plugin, state, pod)
    scores = plugin.scores(state, pod_class, everything)
    verdicts: dict[str, Any] = {}
    for name, code in zip(state.names, codes, strict=True):
        refused = {"code": "Unschedulable", "reason": plugin.cause(pod_class, code)} if code else {}
        verdicts[name] = {"allowed": not code, **refused}
    passing = {name: int(score) for name, score, code in zip(state.names, scores, codes, strict=True) if not code}
    filters = (plugin,) if given["only_nrt_plugin"] else (NodeResourcesFit(), plugin)
    decision = schedule_one(state, pod, Profile("case", filters, ((plugin, 1),)), ClassAnswers(state))
    lands = expected["pod_lands_on_one_of"]
    if decision.node not in (lands or [None]):
        return f"landed on {decision.node}, recorded {lands}"
    event = expected.get("event_contains")
    if event and not any(event in cause.cause for cause in decision.shortfall.causes if decision.shortfall):  # type: ignore[union-attr]
        return f"no cause says {event!r}: {decision.shortfall}"
    return differs(verdicts, expected["filter"]) or differs(passing, expected["scores"])


@pytest.mark.fixture_files("nrt/upstream_crashes", chunks=1)
def test_inputs_that_crash_upstream(conformance: Conformance) -> None:
    conformance.check_each(crash_problem)


def crash_problem(case: Case) -> str | None:
    """A score between 0 and 100, or a verdict: anything but a crash. Agent inputs wait for the agent."""
    match case["kind"]:
        case "score":
            scores = scores_of(case)
            return None if all(0 <= score <= 100 for score in scores.values()) else f"out of range: {scores}"
        case "filter":
            state = state_of([case["input"]["node"]], [case["input"]["nrt"]])
            # Whatever the odd zone is, the verdict is that of the zones that make sense, in words a user can read.
            for plugin in (upstream_plugin(), NodeResourceTopologyMatch()):
                (code,) = refusals(plugin, state, pod_of(case))
                if code and not plugin.cause(state.classes.of(pod_of(case)), code):
                    return f"refused without a cause: {code}"
            return None
        case "agent":
            raise NotBuiltYet
    return f"unknown kind {case['kind']}"


# -- building clusters from cases -----------------------------------------------------------------------------------


def refusals(plugin: NodeResourceTopologyMatch, state: ClusterState, pod: Pod) -> list[int]:
    codes = plugin.refusals(state, state.classes.of(pod), slice(0, len(state.names)))
    return [0] * len(state.names) if codes is None else [int(code) for code in codes]


def differs(found: object, recorded: object) -> str | None:
    return None if found == recorded else f"got {found}, recorded {recorded}"


def pod_of(case: Case) -> Pod:
    return msgspec.convert(case["input"]["pod"], Pod)


def upstream_plugin(
    strategy: str = "LeastAllocated", weights: dict[str, int] | None = None
) -> NodeResourceTopologyMatch:
    resources = [{"name": name, "weight": weight} for name, weight in (weights or {}).items()]
    arguments = {"filterMode": "Upstream", "scoringStrategy": {"type": strategy, "resources": resources}}
    return topology_match(decode_arguments(arguments))


def state_of(nodes: list[dict[str, Any]], topologies: list[dict[str, Any]]) -> ClusterState:
    state = ClusterState()
    for node in nodes:
        state.set_node(msgspec.convert(node, Node))
    for topology in topologies:
        state.set_topology(msgspec.convert(topology, NodeResourceTopology))
    return state


def state_of_zones(zones: list[dict[str, Any]]) -> ClusterState:
    """One node with the recorded zones; only what is available was recorded."""
    written = [
        {
            "name": f"node-{zone['numa_id']}",
            "type": "Node",
            "resources": [{"name": name, "available": amount} for name, amount in zone["resources"].items()],
            "costs": [{"name": f"node-{other}", "value": cost} for other, cost in zone["costs"].items()],
        }
        for zone in zones
    ]
    return state_of([{"metadata": {"name": "n"}}], [{"metadata": {"name": "n"}, "zones": written}])
