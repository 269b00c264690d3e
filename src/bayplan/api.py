"""The public surface for packages that extend bayplan: plugins, dialects, and the types they meet.

Names here follow semantic versioning; everything else may change with any release. `docs/extending.md` has a worked
example.
"""

from __future__ import annotations

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.dialects.dialect import Dialect, FieldNames, GroupContents, asked_by_label, full_name, topology_for
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.progress import Document, MemberCounts, Phase, Progress
from bayplan.engine.numa.rows import Codes, Rows, Scores, count
from bayplan.gangs.model import Gang, Group, Patience, Segments
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.resources import Resource
from bayplan.kube.wire.core_v1 import GroupObject, Metadata, Node, Pod, WireStruct
from bayplan.plugins.base import FilterPlugin, ScorePlugin, of_one_node
from bayplan.plugins.node_resource_topology_args import ArgumentError

__all__ = [
    "ArgumentError",
    "ClusterState",
    "Codes",
    "Dialect",
    "Document",
    "FieldNames",
    "FilterPlugin",
    "Gang",
    "Group",
    "GroupContents",
    "GroupObject",
    "Incomplete",
    "InvalidObject",
    "MemberCounts",
    "Metadata",
    "Node",
    "ObjectPath",
    "Patience",
    "Phase",
    "Pod",
    "PodClass",
    "Progress",
    "Resource",
    "Rows",
    "ScorePlugin",
    "Scores",
    "Segments",
    "Topologies",
    "WireStruct",
    "arrived",
    "asked_by_label",
    "count",
    "counted",
    "full_name",
    "group_of",
    "has_started",
    "of_one_node",
    "topology_for",
]
