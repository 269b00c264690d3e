"""Filter and scores of every node, against scheduler-plugins' NodeResourceTopologyMatch.

8 zones, 6 resources, half full, `single-numa-node`.

bayplan's own rules are timed. Its `filterMode: Upstream` must answer as scheduler-plugins does about every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.pods.pod_class import pod_class_of
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_resource_topology_args import decode_arguments, read_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from benchmarks.clusters import ZONES, cluster, node, topology
from benchmarks.engine import PODS
from benchmarks.peers.contest import asked_for_times, in_turns, ratio, seconds_each, seconds_of
from tests.peers.asking import Asked, Json
from tests.peers.catalogue import find_peer

SIZES = (1_000, 5_000)
STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
POD = PODS["6-resources"]
ROUNDS = 3
RUNS = 9
PEER_RUNS = 3


def run() -> None:
    """Print all figures of this group."""
    with Asked(find_peer("scheduler-plugins")) as peer:
        for size in SIZES:
            state = cluster(size)
            given = {"pod": _with_requests(POD), **reports(state)}
            compare(peer, state, {"input": given, "what": "filter"}, f"filter/{size}")
            for strategy in STRATEGIES:
                question = {"input": {**given, "scoring_strategy": strategy}, "what": "score"}
                compare(peer, state, question, f"score/{strategy}/{size}")


def compare(peer: Asked, state: ClusterState, question: Json, name: str) -> None:
    """Time both sides, and hold their answers against each other."""
    strategy = question["input"].get("scoring_strategy", STRATEGIES[0])
    plugin = NodeResourceTopologyMatch(decode_arguments({"scoringStrategy": {"type": strategy}}))
    everything, asked = slice(0, len(state.names)), pod_class_of(POD)
    is_filter = question["what"] == "filter"
    decide = partial(plugin.refusals if is_filter else plugin.scores, state, asked, everything)
    answers: list[Json] = []

    def ask() -> Mapping[str, Sequence[float]]:
        answers.append(asked_for_times(peer, {**question, "repeat": PEER_RUNS}))
        return {"scheduler-plugins": seconds_of(answers[-1], "ns")}

    decide()
    medians = in_turns(name, ROUNDS, ask, lambda: {"bayplan": seconds_each(decide, RUNS)})
    ratio(f"{name}/scheduler-plugins-to-bayplan", medians["scheduler-plugins"], medians["bayplan"])
    upstream = topology_match(read_arguments({"filterMode": "Upstream", "scoringStrategy": {"type": strategy}}))
    own: Any = (upstream.refusals if is_filter else upstream.scores)(state, asked, everything)
    same = np.array_equal(own == 0, answers[-1]["passed"]) if is_filter else np.array_equal(own, answers[-1]["scores"])
    assert same, f"{name}: bayplan and scheduler-plugins differ"


def reports(state: ClusterState) -> Json:
    """Nodes and NodeResourceTopologies with what the columns have free."""
    columns = state.columns
    names = [each["name"] for each in _resources(topology("any"), 0)]
    free = {name: columns.zone_available[columns.index_of(name)] for name in names}
    documents = []
    for row, name in enumerate(state.names):
        document = topology(name)
        for zone in range(ZONES):
            for resource in _resources(document, zone):
                left = int(free[resource["name"]][zone, row])
                resource["available"] = f"{left}m" if resource["name"] == "cpu" else str(left)
        documents.append(document)
    return {"nodes": [node(name) for name in state.names], "nrts": documents}


def _with_requests(pod: Pod) -> Json:
    """As the API server stores it: requests that are not written are the limits."""
    written: Json = msgspec.to_builtins(pod)
    for container in written["spec"]["containers"]:
        container["resources"]["requests"] = container["resources"]["limits"]
    return written


def _resources(document: Any, zone: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = document["zones"][zone]["resources"]
    return found
