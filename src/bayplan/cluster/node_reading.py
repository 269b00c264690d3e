"""What the cluster's state takes over from a Node: its amounts, images and kubelet, and remarks about what it does not.

`cluster/state.py: set_node` comes first.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from bayplan.cluster.columns.columns import Columns
from bayplan.cluster.columns.images import MOST_NAMES, Images
from bayplan.cluster.limits import IN_ALL, OF_ONE_OBJECT, left_out, within_names
from bayplan.cluster.pods.request import amounts_of
from bayplan.cluster.remarks import ObjectRemark, Remarks
from bayplan.cluster.reports.kubelet_version import version_of
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.core_v1 import Node

MOST_ODD_VERSIONS = 32


def allocatable_of(node: Node, columns: Columns, remarks: Remarks) -> dict[str, int]:
    """The amounts of a node, as many as are read."""
    at = ObjectPath.of(node).child("status").child("allocatable")
    named, beyond = within_names(node.status.allocatable or {})
    if beyond:
        remarks.note(ObjectRemark(at, left_out(beyond, OF_ONE_OBJECT)))
    amounts = amounts_of(named, at)
    without_column = columns.without_room(amounts)
    for name in without_column:
        del amounts[name]
    if without_column:
        remarks.note(ObjectRemark(at, left_out(without_column, IN_ALL)))
    return amounts


def is_ready(node: Node) -> bool:
    """False if the condition Ready is False or Unknown; a node without the condition counts as ready."""
    return all(each.status == "True" for each in node.status.conditions or () if each.type == "Ready")


def slimmed(node: Node, row: int, images: Images, remarks: Remarks) -> Node:
    """Take over a node's images; the node without them and its conditions takes a tenth of the memory."""
    beyond = images.set(row, node.status.images or ())
    if beyond:
        at = ObjectPath.of(node).child("status").child("images")
        remarks.note(ObjectRemark(at, f"{beyond} names left out: at most {MOST_NAMES} are read"))
    if not node.status.images and not node.status.conditions:
        return node
    return structs.replace(node, status=structs.replace(node.status, images=None, conditions=None))


def for_kubelet_of(node: Node | None, report: TopologyReport) -> TopologyReport:
    """A report with the version of the kubelet that it is about, which only the Node says."""
    version, _ = version_of(_kubelet_of(node))
    if report.settings.version == version:
        return report
    return replace(report, settings=replace(report.settings, version=version))


class OddVersions:
    """Versions of kubelets that bayplan does not know; each is remarked once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def note(self, node: Node, remarks: Remarks) -> None:
        """Remark by which version the nodes of an odd one are judged."""
        written = _kubelet_of(node)
        _, problem = version_of(written)
        if problem and written not in self._seen and len(self._seen) < MOST_ODD_VERSIONS:
            self._seen.add(written)
            at = ObjectPath.of(node).child("status").child("nodeInfo").child("kubeletVersion")
            remarks.note(ObjectRemark(at, problem))


def _kubelet_of(node: Node | None) -> str:
    info = None if node is None else node.status.node_info
    return info.kubelet_version if info else ""
