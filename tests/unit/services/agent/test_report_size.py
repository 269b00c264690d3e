"""Reports that would be too large for an API server: what goes first, what stays, and that it is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports import fingerprint, inventory
from bayplan.cluster.reports.kubelet_settings import KubeletSettings
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.services.agent.accounting import account
from bayplan.services.agent.evidence import Evidence
from bayplan.services.agent.report import LEFT_OUT, MAX_BYTES, ReportFormat, fitting, topology_document
from bayplan.services.agent.sources.kubelet_config import KubeletSetup
from bayplan.services.agent.sources.pod_resources import Allocatable, DeviceGroup
from tests.unit.services.agent.nodes import TWO_ZONES, container, pod

NIC, KVM = "vendor.com/nic", "devices.kubevirt.io/kvm"
CPUS = tuple(range(1, 16))
PODS = [pod(f"pod-{number}", container(number)) for number in CPUS]


def document(*devices: DeviceGroup, **how: Any) -> dict[str, Any]:
    found = account(Evidence(TWO_ZONES, allocatable=Allocatable(CPUS, devices), pods=PODS))
    return topology_document("w1", found, TWO_ZONES, KubeletSetup(KubeletSettings()), made_at=1000.0, **how)


def many(resource: str, count: int, *zones: int) -> DeviceGroup:
    return DeviceGroup(resource, tuple(f"device-{number}" for number in range(count)), zones)


def size(written: dict[str, Any]) -> int:
    return len(msgspec.json.encode(written))


def read_back(written: dict[str, Any]) -> TopologyReport:
    return read_report(msgspec.convert(written, NodeResourceTopology))


def test_a_thousand_devices_without_a_zone_cost_nothing() -> None:
    """KubeVirt has a thousand of each kind on every node, and no reader gains from their names."""
    assert document(many(KVM, 1000)) == document()


def test_a_report_of_ordinary_size_stays_as_it_is() -> None:
    written = document(many(NIC, 1000, 1))
    assert fitting(written) == (written, ())


def test_tens_of_thousands_of_devices_are_only_counted() -> None:
    whole = document(many(NIC, 40_000, 1))
    written, (said,) = fitting(whole)
    assert size(whole) > MAX_BYTES > size(written)
    assert said == "the report would have more than 512 KiB: devices by name are omitted"
    report = read_back(written)
    assert report.remarks == []
    assert report.zones[1].resources[NIC].available == 40_000
    assert report.pods == read_back(whole).pods


@pytest.mark.parametrize(
    "over, left_out",
    [
        ((), ""),
        ((inventory.DEVICES,), "bayplan.io/devices"),
        ((inventory.DEVICES, inventory.PODS), "bayplan.io/devices,bayplan.io/pods"),
    ],
)
def test_devices_are_omitted_first_then_pods(over: tuple[str, ...], left_out: str) -> None:
    whole = document(many(NIC, 100, 1))
    of_details = sum(len(msgspec.json.encode(each)) for each in whole["attributes"] if each["name"] in over)
    written, _ = fitting(whole, size(whole) - of_details + (100 if over else 0))
    attributes = {each["name"]: each["value"] for each in written["attributes"]}
    assert attributes.get(LEFT_OUT, "") == left_out
    assert not attributes.keys() & set(over)
    assert fingerprint.ATTRIBUTE in attributes


@pytest.mark.parametrize("version", [ReportFormat.V1ALPHA1, ReportFormat.NUMATOPOLOGY])
def test_formats_without_attributes_have_no_details_to_leave_out(version: ReportFormat) -> None:
    written = document(version=version)
    assert fitting(written, 0) == (written, ())
