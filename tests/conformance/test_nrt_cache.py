"""scheduler-plugins' caches of topology reports as recorded: fingerprints, helpers, and whole stories step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.cluster.pods.request import amounts_of
from bayplan.cluster.reports.fingerprint import VERSION, check, fingerprint_of, pod_hash
from bayplan.compat.scheduler_plugins.cache.caches import DiscardReserved, TopologyCache
from bayplan.compat.scheduler_plugins.cache.over_reserve import OverReserve, fingerprint_in
from bayplan.compat.scheduler_plugins.cache.views import View, is_foreign, pods_by_node, resource_names
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology, resources_of, zones_of

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

HERE = ObjectPath("case")


# -- fingerprints ---------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/pod_fingerprint", chunks=1)
def test_pod_fingerprints(conformance: Conformance) -> None:
    named = {case["id"]: pod_names(case) for case in conformance.cases if case["op"] == "sign"}
    conformance.check_each(lambda case: fingerprint_problem(case, named))


def fingerprint_problem(case: Case, named: dict[str, list[tuple[str, str]]]) -> str | None:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "sign":
            pods = pod_names(case)
            hashes = [f"{pod_hash(*pod):016x}" for pod in pods]
            found = {"fingerprint": fingerprint_of(pods), "pod_hashes_hex": hashes}
            return differs({name: found[name] for name in expected}, expected)
        case "check":
            # A collection in parts may lack the pods: then what does not depend on them is checked, with none at all.
            result = check(given["fingerprint"], named.get(given["pods_of_case"], [])).value
            if given["pods_of_case"] not in named and expected["result"] == "ok":
                return differs(result, "mismatch")
            return differs(result, expected["result"])
        case "version_compatible":
            return differs(check_version(given["version"]), expected["result"])
    return f"unknown op {case['op']}"


def check_version(version: str) -> str:
    """Whether fingerprints of this version can be compared with ours."""
    if len(version) != len(VERSION):
        return "malformed"
    return "compatible" if version == VERSION else "incompatible"


def pod_names(case: Case) -> list[tuple[str, str]]:
    return [(pod["namespace"], pod["name"]) for pod in case["input"]["pods"]]


# -- helpers of the caches ------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/cache_upstream", chunks=1)
def test_cache_helpers(conformance: Conformance) -> None:
    conformance.check_each(helper_problem)


def helper_problem(case: Case) -> str | None:
    given, expected = case["input"], case["expect"]
    match case["op"]:
        case "resource_names":
            report = None if given["nrt"] is None else topology_of(given["nrt"])
            return differs(sorted(resource_names(report)), sorted(expected["names"]))
        case "fingerprint_from_nrt":
            return differs(
                fingerprint_in(topology_of(given["nrt"]), given["resync_method"])[0], expected["fingerprint"]
            )
        case "fingerprint_only_exclusive":
            found = fingerprint_in(topology_of(given["nrt"]), given["resync_method"])[1]
            return differs(found, expected["only_exclusive"])
        case "is_foreign_pod":
            foreign = is_foreign(
                msgspec.convert(given["pod"], Pod),
                given["profile_names"] or [],
                only_exclusive=given["only_exclusive"],
                reported=given["nrt_resources"] or [],
            )
            return differs(foreign, expected["foreign"])
        case "node_to_pods":
            return differs(nodes_with_pods(given), expected["nodes"])
    return f"unknown op {case['op']}"


def nodes_with_pods(given: dict[str, Any]) -> dict[str, Any]:
    """What the lister shows, by node; one that fails shows nothing."""
    pods = [] if given["lister_error"] else msgspec.convert(given["pods"] or [], list[Pod])
    everywhere = given.get("nrt_resources") or []
    reported = {pod.spec.node_name or "": everywhere for pod in pods}
    found = pods_by_node(pods, given["informer_mode"], given["preemption_mode"], reported)
    return {
        node: [{**msgspec.to_builtins(pod), "pinned_containers": list(pod.pinned_containers)} for pod in on_node]
        for node, on_node in found.items()
    }


# -- stories --------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("nrt/cache_scenarios")
def test_cache_scenarios(conformance: Conformance) -> None:
    conformance.check_each(scenario_problem)


def scenario_problem(case: Case) -> str | None:
    story = Story(case["input"])
    for number, step in enumerate(case["steps"], 1):
        found = story.take(step)
        problem = differs(found, as_compared(step["expect"])) if "expect" in step else None
        if problem:
            return f"step {number}, {step['op']}: {problem}"
    return None


class Story:
    """An API server with reports and pods, and the cache under test."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.reports: dict[str, NodeResourceTopology] = {}
        self.pods: list[Pod] = []
        self.cache: TopologyCache = TopologyCache(self.reports)

    def take(self, step: dict[str, Any]) -> dict[str, Any] | None:
        """One step; returned is what it shows, if it shows anything."""
        match step["op"]:
            case "view":
                return shown(self.cache.view(step["node"]))
            case "desynced":
                return dict(msgspec.to_builtins(self.cache.desynced))
            case "nrt_modified_event":
                return {"marked_config_changed": self.cache.modified(topology_of(step["nrt"]))}
            case "nrt_added_event":
                return {"marked_config_changed": False}  # without a listener
            case "reserve" | "unreserve" | "post_bind":
                getattr(self.cache, step["op"])(step["node"], msgspec.convert(step["pod"], Pod))
            case "filter_rejected" | "foreign_pod":
                getattr(self.cache, step["op"])(step["node"])
            case "resync":
                self.cache.resync(self.pods)
            case _:
                self.change_api_server(step)
        return None

    def change_api_server(self, step: dict[str, Any]) -> None:
        match step["op"]:
            case "put_nrt":
                topology = topology_of(step["nrt"])
                self.reports[topology.metadata.name] = topology
            case "delete_nrt":
                self.reports.pop(step["node"], None)
            case "set_pods":
                self.pods = msgspec.convert(step["pods"] or [], list[Pod])
            case "start":
                self.cache = self.started()
            case unknown:
                raise ValueError(f"unknown step {unknown}")

    def started(self) -> TopologyCache:
        match self.given["cache"]:
            case "OverReserve":
                return OverReserve(
                    self.reports,
                    resync_method=self.given["resync_method"],
                    informer_mode=self.given["informer_mode"],
                    preemption_mode=self.given["preemption_mode"],
                )
            case "DiscardReserved":
                return DiscardReserved(self.reports)
            case "Passthrough":
                return TopologyCache(self.reports)
        raise ValueError(f"unknown cache {self.given['cache']}")


def shown(view: View) -> dict[str, Any]:
    topology = None if view.topology is None else as_recorded(view.topology)
    return {"fresh": view.fresh, "generation": view.generation, "nrt": topology}


def as_recorded(topology: NodeResourceTopology) -> dict[str, Any]:
    zones = {zone.name: {name: left.available or 0 for name, left in resources_of(zone)} for zone in zones_of(topology)}
    attributes = {attribute.name: attribute.value for attribute in topology.attributes or []}
    return {"zones": amounts_by_zone(zones), "attributes": attributes}


def as_compared(expected: dict[str, Any]) -> dict[str, Any]:
    """Quantities by value, lists by name."""
    if not expected.get("nrt"):
        return expected
    zones = {zone["name"]: zone["available"] for zone in expected["nrt"]["zones"] or []}
    attributes = {each["name"]: each["value"] for each in expected["nrt"].get("attributes") or []}
    return {**expected, "nrt": {"zones": amounts_by_zone(zones), "attributes": attributes}}


def amounts_by_zone(zones: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: amounts_of(available, HERE) for name, available in zones.items()}


def topology_of(written: dict[str, Any]) -> NodeResourceTopology:
    return msgspec.convert(written, NodeResourceTopology)


def differs(found: object, recorded: object) -> str | None:
    return None if found == recorded else f"got {found}, recorded {recorded}"
