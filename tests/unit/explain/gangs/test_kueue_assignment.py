"""Seats as Kueue's TopologyAssignments: what is written can be read again, pod set by pod set."""

from __future__ import annotations

import msgspec

from bayplan.explain.gangs.document import assignments_document
from bayplan.gangs.model import Seat
from bayplan.kube.wire.kueue_v1beta2 import Domain, TopologyAssignment, decoded


def seat(rank: int, node: str, group: str = "") -> Seat:
    return Seat(f"ml/p-{rank}", group, node, ("b1", node), rank)


def test_pods_are_counted_host_by_host() -> None:
    (only,) = assignments_document([seat(0, "n-2"), seat(1, "n-1"), seat(2, "n-1")])
    assert only["podSet"] == "main"
    read = decoded(msgspec.convert(only["topologyAssignment"], TopologyAssignment))
    assert read.levels == ("kubernetes.io/hostname",)
    assert read.domains == (Domain(("n-1",), 2), Domain(("n-2",), 1))


def test_every_group_is_a_pod_set() -> None:
    found = assignments_document([seat(0, "n-1", "leader"), seat(1, "n-1", "workers"), seat(2, "n-2", "workers")])
    assert [each["podSet"] for each in found] == ["leader", "workers"]


def test_no_pod_has_a_seat() -> None:
    assert assignments_document([]) == []
