"""One node, written in every form that NodeResourceTopology has had: all of them read alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.kube.wire.node_resource_topology_v1alpha2 import (
    NodeResourceTopology,
    Zone,
    attributes_of,
    costs_of,
    resources_of,
    zones_of,
)

V1ALPHA2 = {
    "metadata": {"name": "n1"},
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    "zones": [
        {
            "name": "node-0",
            "type": "Node",
            "parent": "socket-0",
            "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}],
            "attributes": [{"name": "hops", "value": "1"}],
            "resources": [{"name": "cpu", "capacity": 16, "allocatable": "14", "available": "6"}],
        }
    ],
}
V1ALPHA1 = {**V1ALPHA2, "attributes": None, "topologyPolicies": ["SingleNUMANodeContainerLevel"]}
# The form of the first design: ZoneMap, ResourceInfoMap and costs keyed by name; amounts as text or number, no
# `available`.
MAPS = {
    "metadata": {"name": "n1"},
    "topologyPolicies": ["SingleNUMANode"],
    "zones": {
        "node-0": {
            "type": "Node",
            "parent": "socket-0",
            "costs": {"node-0": 10, "node-1": 21},
            "attributes": {"hops": 1},
            "resources": {"cpu": {"capacity": "16", "allocatable": 14}},
        }
    },
}


def read(written: dict[str, Any]) -> Zone:
    (zone,) = zones_of(msgspec.convert(written, NodeResourceTopology))
    return zone


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(V1ALPHA2, id="v1alpha2: lists"),
        pytest.param(V1ALPHA1, id="v1alpha1: lists without attributes"),
        pytest.param(MAPS, id="KEP: maps"),
    ],
)
def test_zones_costs_and_attributes_read_alike(written: dict[str, Any]) -> None:
    zone = read(written)
    assert (zone.name, zone.type, zone.parent) == ("node-0", "Node", "socket-0")
    assert costs_of(zone) == {"node-0": 10, "node-1": 21}
    assert attributes_of(zone) == {"hops": "1"}
    ((name, amounts),) = resources_of(zone)
    assert (name, str(amounts.capacity), str(amounts.allocatable)) == ("cpu", "16", "14")


def test_forms_before_v1alpha1_know_nothing_of_available() -> None:
    assert [amounts.available for _, amounts in resources_of(read(V1ALPHA2))] == ["6"]
    assert [amounts.available for _, amounts in resources_of(read(MAPS))] == [None]


@pytest.mark.parametrize("zones", [{}, {"zones": None}, {"zones": []}, {"zones": {}}], ids=str)
def test_a_report_without_zones_has_none(zones: dict[str, Any]) -> None:
    assert zones_of(msgspec.convert({"metadata": {"name": "n1"}, **zones}, NodeResourceTopology)) == []


def test_a_zone_may_say_nothing_but_its_name() -> None:
    zone = read({"zones": [{"name": "node-0", "type": "Node"}]})
    assert (costs_of(zone), attributes_of(zone), resources_of(zone)) == ({}, {}, [])
