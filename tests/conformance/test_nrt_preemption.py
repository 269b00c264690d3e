"""scheduler-plugins' preemption view as recorded: what victims give back to zones, and what its filter says then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.cluster.pods.request import amount_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of
from tests.conformance.test_nrt import differs, pod_of, refusals, state_of, upstream_plugin
from tests.conformance.upstream_preemption import CannotSimulate, Placement, after_evictions, filter_view

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance


@pytest.mark.fixture_files("nrt/preemption", chunks=1)
def test_preemption_view(conformance: Conformance) -> None:
    conformance.check_each(problem_of)


def problem_of(case: Case) -> str | None:
    match case["op"]:
        case "post_eviction_nrt":
            return view_problem(case)
        case "filter_with_victims":
            return filter_problem(case)
    return f"unknown op {case['op']}"


def view_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    topology = given["nrt"] and msgspec.convert(given["nrt"], NodeResourceTopology)
    error = None
    try:
        found = after_evictions(topology, victims_of(given), placement_of(given))
    except CannotSimulate as reason:
        found, error = topology, str(reason)
    wanted = expected.get("nrt") and msgspec.convert(expected["nrt"], NodeResourceTopology)
    return differs(error, expected.get("error") or None) or (
        differs(amounts_in(found), amounts_in(wanted)) if wanted else None
    )


def filter_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    report = given["nrt"] and msgspec.convert(given["nrt"], NodeResourceTopology)
    view = filter_view(report, victims_of(given), placement_of(given), given["preemption_mode"])
    state = state_of([given["node"]], [])
    if view.topology is not None:
        state.set_topology(view.topology)
    plugin, pod = upstream_plugin(), pod_of(case)
    code = refusals(plugin, state, pod)[0]
    reason = view.refusal or (plugin.cause(state.classes.of(pod), code) if code else "")
    found = {
        "allowed": not reason,
        "code": "Unschedulable" if reason else None,
        "reason": reason or None,
        "marks_node_maybe_overreserved": bool(reason) and view.counts_against_node,
    }
    return differs({name: found[name] for name in expected}, expected)


def victims_of(given: dict[str, Any]) -> list[Pod]:
    return msgspec.convert(given["victims"] or [], list[Pod])


def placement_of(given: dict[str, Any]) -> Placement | None:
    if given["placement"] is None:
        return None
    return {(each["namespace"], each["pod"], each["container"]): each["numa_id"] for each in given["placement"]}


def amounts_in(topology: NodeResourceTopology) -> list[tuple[str, dict[str, tuple[int, ...]]]]:
    """Amounts by value, zones and resources by name."""
    return sorted(
        (
            zone.name,
            {
                name: tuple(amount_of(name, each or 0) for each in (left.capacity, left.allocatable, left.available))
                for name, left in resources_of(zone)
            },
        )
        for zone in zones_of(topology)
    )
