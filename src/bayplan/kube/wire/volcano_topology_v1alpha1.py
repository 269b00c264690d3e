"""HyperNode (`topology.volcano.sh/v1alpha1`): how Volcano's users describe their network, one object per switch, or per
set of switches.

Each has a tier, the smaller the closer, and members: nodes, or HyperNodes of smaller tiers. Cluster-scoped; written by
hand or by Volcano's discovery. What they mean together is decided in `cluster/topology/hyper_nodes.py`.
"""

from __future__ import annotations

from bayplan.kube.wire.core_v1 import Int64, LabelSelector, Metadata, WireStruct

API_VERSION = "topology.volcano.sh/v1alpha1"
KIND = "HyperNode"
PLURAL = "hypernodes"

NODE = "Node"
MEMBER_TYPES = (NODE, KIND)


class ExactMatch(WireStruct, frozen=True):
    """A member by its name."""

    name: str = ""


class RegexMatch(WireStruct, frozen=True):
    """Nodes with a name in which the pattern is found, in the syntax of Go."""

    pattern: str = ""


class MemberSelector(WireStruct, frozen=True):
    """Exactly one of the three; a HyperNode can only be named."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(WireStruct, frozen=True):
    """Nodes, or one HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(WireStruct, frozen=True):
    """A tier, which may have a name, and who belongs to it."""

    tier: Int64 | None = None
    tier_name: str = ""
    members: list[Member] | None = None


class HyperNode(WireStruct, frozen=True):
    """A set of nodes that are close to each other."""

    metadata: Metadata = Metadata()
    spec: HyperNodeSpec = HyperNodeSpec()
