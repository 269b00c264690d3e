"""Hardware classes: what a machine model is, as far as zones are concerned."""

from __future__ import annotations

from bayplan.cluster.columns.hardware import HardwareClass, hardware_of
from bayplan.cluster.reports.topology_report import read_report
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.objects import topology, zone


def hardware(report: NodeResourceTopology) -> HardwareClass:
    return hardware_of(read_report(report))


def test_ids_ascend_and_distances_follow_their_order() -> None:
    report = topology(zone(4, {}, {0: 21, 4: 10}), zone(0, {}, {0: 10, 4: 20}))
    assert hardware(report) == HardwareClass((0, 4), ((10, 20), (21, 10)))
    assert hardware(report).zone_count == 2


def test_an_unreported_distance_is_unknown() -> None:
    assert hardware(topology(zone(0, {}, {0: 10}), zone(1, {}))).distances == ((10, 255), (255, 255))


def test_amounts_do_not_make_another_model_but_the_kubelets_choice_by_distance_does() -> None:
    plain = topology(zone(0, {"cpu": 4}))
    assert hardware(plain) == hardware(topology(zone(0, {"cpu": 8}), policy="none"))
    closest = topology(zone(0, {"cpu": 4}), attributes={"topologyManagerOptionPreferClosestNumaNodes": "true"})
    assert hardware(plain) != hardware(closest)
