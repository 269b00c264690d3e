"""The extender protocol of kube-scheduler (`k8s.io/kube-scheduler/extender/v1`): field names are capitalised.

Pods and nodes inside requests stay raw: pods are decoded on their own, so that an invalid one has its own message, and
nodes because `prioritize` often repeats those of `filter`, and because they are sent back as they came.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from bayplan.kube.wire.core_v1 import Pod

MAX_EXTENDER_PRIORITY = 10
ABSENT = Raw(b"null")


class ExtenderStruct(Struct, frozen=True, rename="pascal", gc=False):
    """Base of all messages."""


class NodeHead(Struct, frozen=True, gc=False):
    """The name inside a node's metadata."""

    name: str = ""


class NamedNode(Struct, frozen=True, gc=False):
    """As much of a node as names it."""

    metadata: NodeHead = NodeHead()


class NamedNodeList(Struct, frozen=True, gc=False):
    """The names of whole node objects."""

    items: list[NamedNode] | None = None


class NodeList(Struct, frozen=True, gc=False):
    """Whole node objects; only `items` matters."""

    items: list[Raw] | None = None


class ExtenderArgs(ExtenderStruct, frozen=True):
    """Request of `filter` and `prioritize`: `node_names` with `nodeCacheCapable: true`, else `nodes`."""

    pod: Raw = ABSENT
    nodes: Raw = ABSENT
    node_names: Raw = ABSENT


class ExtenderFilterResult(ExtenderStruct, frozen=True):
    """Answer of `filter`. Preemption does not help nodes under `failed_and_unresolvable_nodes`."""

    nodes: Raw | NodeList | None = None
    node_names: Raw | list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(ExtenderStruct, frozen=True):
    """The score of one node, 0 to `MAX_EXTENDER_PRIORITY`."""

    host: str
    score: int


class ExtenderBindingArgs(
    ExtenderStruct,
    frozen=True,
    rename={"pod_name": "PodName", "pod_namespace": "PodNamespace", "pod_uid": "PodUID", "node": "Node"},
):
    """Request of `bind`."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = ""
    node: str = ""


class ExtenderBindingResult(ExtenderStruct, frozen=True):
    """Answer of `bind`; an empty error is a success."""

    error: str = ""


class MetaPod(ExtenderStruct, frozen=True, rename="upper"):
    """A victim by its uid."""

    uid: str


class MetaVictims(ExtenderStruct, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims on one node, by uid."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = 0


class Victims(ExtenderStruct, frozen=True, rename={"pods": "Pods", "num_pdb_violations": "NumPDBViolations"}):
    """The victims on one node as whole objects."""

    pods: list[Pod] | None = None
    num_pdb_violations: int = 0


class ExtenderPreemptionArgs(ExtenderStruct, frozen=True):
    """Request of `preempt`: `node_name_to_meta_victims` with `nodeCacheCapable: true`, else `node_name_to_victims`."""

    pod: Raw = ABSENT
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(ExtenderStruct, frozen=True):
    """Answer of `preempt`: the candidates that remain, each with at least one victim."""

    node_name_to_meta_victims: dict[str, MetaVictims] = {}
