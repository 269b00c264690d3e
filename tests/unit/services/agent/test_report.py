"""The agent's account as objects: every attribute is one that the scheduler reads back, and
nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.cluster.reports.inventory import Inventory
from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.cluster.reports.numatopology import read_numatopology
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from bayplan.services.agent.accounting import account
from bayplan.services.agent.evidence import Evidence
from bayplan.services.agent.report import ReportFormat, legacy_policy, substance, topology_document
from bayplan.services.agent.sources.kubelet_config import KubeletSetup
from bayplan.services.agent.sources.pod_resources import PodResources
from bayplan.services.agent.sources.sysfs import Hardware
from tests.unit.services.agent.nodes import GI, OFFERED, TWO_ZONES, container, machine, memory, pod

SETTINGS = KubeletSettings(
    policy=Policy.RESTRICTED,
    scope=Scope.POD,
    max_numa_nodes=8,
    cpu_static=True,
    cpu_options=frozenset({"full-pcpus-only"}),
    memory_static=True,
)
BUSY = pod("a", container(1, 2, gpus={"gpu2": (1,)}, memory=[memory(20 * GI, 0, 1)]))


def document(*pods: PodResources, hardware: Hardware = TWO_ZONES, **how: Any) -> dict[str, Any]:
    found = account(Evidence(hardware, allocatable=OFFERED, pods=pods))
    return topology_document("w1", found, hardware, KubeletSetup(SETTINGS), **{"made_at": 1000.25, **how})


def read_back(written: dict[str, Any]) -> TopologyReport:
    return read_report(msgspec.convert(written, NodeResourceTopology))


def attributes(written: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in written["attributes"]}


def test_the_scheduler_reads_what_the_agent_knew() -> None:
    report = read_back(document(BUSY))
    assert report.remarks == []
    assert report.settings == replace(SETTINGS, threads_per_core=1)
    assert report.pods == {
        "default/a": {"cpu": {0: 2000}, "vendor.com/gpu": {1: 1}, "memory": {0: 10 * GI, 1: 10 * GI}}
    }
    assert report.made_at == 1000.25
    first, second = report.zones
    assert (first.resources["cpu"].available, second.resources["vendor.com/gpu"].available) == (5000, 0)
    assert first.memory_group == (0, 1)
    assert first.costs == {0: 10, 1: 21}


def test_cpus_and_devices_go_by_name() -> None:
    inventory = read_back(document(BUSY)).inventory
    assert isinstance(inventory, Inventory)
    assert inventory.free_cpus == 0b1111_1110_1111_1000
    assert inventory.reserved_cpus == 0b1_0000_0001
    assert [device.state for device in inventory.devices["vendor.com/gpu"]] == ["free", "free", "used"]


def test_the_fingerprint_stands_for_pods_that_hold_something() -> None:
    written = attributes(document(BUSY, pod("b", container())))
    assert written["nodeTopologyPodsFingerprint"] == fingerprint_of([("default", "a")])
    assert written["nodeTopologyPodsFingerprintMethod"] == "with-exclusive-resources"


def test_or_for_all_pods_if_that_is_asked_for() -> None:
    written = attributes(document(BUSY, all_pods=[("default", "a"), ("kube-system", "proxy")]))
    assert written["nodeTopologyPodsFingerprint"] == fingerprint_of([("default", "a"), ("kube-system", "proxy")])
    assert written["nodeTopologyPodsFingerprintMethod"] == "all"


def test_if_pods_are_unknown_the_report_omits_them() -> None:
    report = read_back(document(pods_known=False))
    assert (report.pods, report.fingerprint) == (None, "")


def test_machines_with_nameless_zones_report_only_amounts() -> None:
    written = attributes(document(pod("a", container(9)), hardware=machine({0: range(8), 70: range(8, 16)})))
    assert not {"bayplan.io/cpus", "bayplan.io/free-cpus", "bayplan.io/devices", "bayplan.io/pods"} & written.keys()
    assert written["nodeTopologyPodsFingerprint"] == fingerprint_of([("default", "a")])


def test_preemption_learns_which_container_is_in_which_zone() -> None:
    found = account(Evidence(TWO_ZONES, allocatable=OFFERED, pods=[pod("a", container(1)), pod("b", container(9))]))
    setup = KubeletSetup(replace(SETTINGS, policy=Policy.SINGLE_NUMA_NODE))
    written = topology_document("w1", found, TWO_ZONES, setup, made_at=0.0)
    assert attributes(written)["topology.node.k8s.io/numaplacement-metadata"] == "npv0v001::ve=leb89::cc=2::nn=2::bn=0"
    assert attributes(written["zones"][1])["topology.node.k8s.io/numaplacement-vector"] in ("!", "#")
    assert "attributes" not in written["zones"][0]


@pytest.mark.parametrize("version", ReportFormat)
def test_reports_differ_by_content_and_not_by_timestamp(version: ReportFormat) -> None:
    first, later = document(BUSY, version=version), document(BUSY, version=version, made_at=2000.0)
    assert substance(first) == substance(later)
    assert first != later  # so that a heartbeat is seen
    assert substance(first) != substance(document(version=version))


def test_v1alpha1_has_one_word_for_policy_and_scope() -> None:
    written = document(BUSY, version=ReportFormat.V1ALPHA1)
    assert (written["apiVersion"], written["topologyPolicies"]) == (
        "topology.node.k8s.io/v1alpha1",
        ["RestrictedPodLevel"],
    )
    assert "attributes" not in written
    assert read_back(written).settings.policy is Policy.RESTRICTED


def test_volcanos_object() -> None:
    spec = document(BUSY, version=ReportFormat.NUMATOPOLOGY)["spec"]
    assert spec["policies"] == {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}
    (holder,) = spec["podAllocations"]
    assert holder["containerAllocations"] == [{"name": "main", "allocations": {"cpu": "1-2"}}]


@pytest.mark.parametrize(
    "offered, free, amount, ids, for_pods",
    [
        pytest.param(range(2, 16), "0-15", "2", "0-1", [6, 8], id="the lowest are found from their number, and listed"),
        pytest.param(OFFERED.cpus, "1-7,9-15", "0", "0,8", [7, 7], id="others look taken"),
    ],
)
def test_what_a_kubelet_reserves_in_volcanos_object(
    offered: Iterable[int], free: str, amount: str, ids: str, for_pods: list[int]
) -> None:
    """Volcano takes the lowest `resReserved` CPUs off the free ones.

    A reader of the object must not promise a reserved CPU to a pod.
    """
    found = account(Evidence(TWO_ZONES, allocatable=replace(OFFERED, cpus=tuple(offered)), pods=()))
    written = topology_document(
        "w1", found, TWO_ZONES, KubeletSetup(SETTINGS), made_at=1000.25, version=ReportFormat.NUMATOPOLOGY
    )
    assert written["spec"]["numares"] == {"cpu": {"allocatable": free, "capacity": 16}}
    assert written["spec"]["resReserved"] == {"cpu": amount}
    assert written["metadata"]["annotations"] == {"timestamp": "1000", "bayplan.io/reserved-cpus": ids}
    report = read_numatopology(msgspec.convert(written, Numatopology))
    assert [zone.resources["cpu"].available // 1000 for zone in report.zones] == for_pods
    assert (report.remarks, report.pods) == ([], {})


def test_nothing_in_a_report_is_null() -> None:
    def nulls(value: object) -> bool:
        if isinstance(value, dict):
            return any(nulls(each) for each in value.values())
        return any(nulls(each) for each in value) if isinstance(value, list) else value is None

    assert not any(nulls(document(BUSY, version=version)) for version in ReportFormat)


@pytest.mark.parametrize(
    "policy, scope, word",
    [
        ("single-numa-node", "container", "SingleNUMANodeContainerLevel"),
        ("best-effort", "pod", "BestEffortPodLevel"),
        ("none", "pod", "None"),
        ("restricted", "", "None"),
        ("", "", "None"),
    ],
)
def test_words_of_v1alpha1(policy: str, scope: str, word: str) -> None:
    assert legacy_policy(policy, scope) == word
