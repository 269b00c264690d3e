"""Volcano's annotations on pods: which policy a pod asks for, and which NUMA nodes were decided for it.

    volcano.sh/numa-topology-policy   none, best-effort, restricted or single-numa-node; the job controller copies a
                                      task's `topologyPolicy` here
    volcano.sh/topology-decision      {"numa": {"0": {"cpu": "4"}}}: amounts by NUMA id and resource

`cluster/pods/pod_class.py` reads the first; the second is written where a decision is told.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bayplan.kube.quantity import parse

POLICY = "volcano.sh/numa-topology-policy"
DECISION = "volcano.sh/topology-decision"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
# What a pod says that asks for no policy.
NO_POLICIES = ("", "none")


def policy_in(annotations: Mapping[str, str] | None) -> str:
    """The policy that a pod asks for, as written; empty if it asks for none."""
    return (annotations or {}).get(POLICY, "")


def policy_annotations(topology_policy: str) -> dict[str, str]:
    """What a task's `topologyPolicy` becomes on its pods."""
    return {POLICY: topology_policy} if topology_policy else {}


def decision_annotations(decided: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """The annotation that tells a decision, with its keys in the order in which Go writes them.

    Empty if nothing was decided.
    """
    if not decided:
        return {}
    # Go sorts the keys of a map as text: 10 before 2.
    numa = {
        str(number): {name: str(parse(text)) for name, text in sorted(amounts.items())}
        for number, amounts in sorted(decided.items(), key=lambda entry: str(entry[0]))
    }
    return {DECISION: msgspec.json.encode({"numa": numa}).decode()}
