"""By which version a kubelet is judged, and that nodes follow what their Node says."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_version import NEWEST, OLDEST, KubeletVersion, version_of
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Node, NodeSystemInfo
from tests.builders.objects import node, topology, zone

REPORT = topology(zone(0, {"cpu": 4}), zone(1, {"cpu": 4}))


def running(version: str) -> Node:
    bare = node("n1", {"cpu": 8})
    return msgspec.structs.replace(
        bare, status=msgspec.structs.replace(bare.status, node_info=NodeSystemInfo(kubelet_version=version))
    )


def judged_as(state: ClusterState) -> KubeletVersion:
    report = state.reports[0]
    assert report is not None
    assert state.columns.kubelet[0] == report.settings.version
    return report.settings.version


@pytest.mark.parametrize(
    "written, expected, problem",
    [
        ("v1.36.4", KubeletVersion.V1_36, ""),
        ("1.34", KubeletVersion.V1_34, ""),
        ("v1.35.1-gke.1200", KubeletVersion.V1_35, ""),
        ("v1.37.0+k3s1", KubeletVersion.V1_37, ""),
        ("", NEWEST, ""),
        ("v1.41.0", NEWEST, "v1.41.0 is newer than the kubelets that bayplan knows: judged as 1.37"),
        ("v2.0.0", NEWEST, "v2.0.0 is newer than the kubelets that bayplan knows: judged as 1.37"),
        ("v1.29.3", OLDEST, "v1.29.3 is older than the kubelets that bayplan knows: judged as 1.34"),
        ("main", NEWEST, '"main" is no version of a kubelet: judged as 1.37'),
    ],
)
def test_versions(written: str, expected: KubeletVersion, problem: str) -> None:
    assert version_of(written) == (expected, problem)


@pytest.mark.parametrize("node_first", [True, False])
def test_a_node_is_judged_by_its_own_kubelet_whatever_comes_first(*, node_first: bool) -> None:
    state = ClusterState()
    if node_first:
        state.set_node(running("v1.35.8"))
    state.set_topology(REPORT)
    if not node_first:
        state.set_node(running("v1.35.8"))
    assert judged_as(state) is KubeletVersion.V1_35


def test_an_upgrade_changes_the_judge() -> None:
    state = ClusterState()
    state.set_node(running("v1.35.8"))
    state.set_topology(REPORT)
    before = state.usage_log.end
    state.set_node(running("v1.36.0"))
    assert judged_as(state) is KubeletVersion.V1_36
    assert state.usage_log.since(before) is not None
    state.set_topology(REPORT)
    assert judged_as(state) is KubeletVersion.V1_36


def test_an_odd_version_is_told_once() -> None:
    state = ClusterState()
    for name in ("n1", "n2"):
        written = msgspec.structs.replace(
            running("v1.50.0"), metadata=msgspec.structs.replace(running("").metadata, name=name)
        )
        state.set_node(written)
    assert [str(problem) for problem in state.remarks] == [
        "Node n1: status.nodeInfo.kubeletVersion: v1.50.0 is newer than the kubelets that bayplan knows: judged as 1.37"
    ]
