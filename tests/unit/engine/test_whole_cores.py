"""`full-pcpus-only`: a container gets whole cores or nothing, under every policy, and all nodes are judged at once."""

from __future__ import annotations

import pytest

from bayplan.engine.numa.admission import Verdict
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from tests.builders.clusters import cluster, decide
from tests.builders.objects import container, pod, simple_pod, topology, zone

PLUGIN = NodeResourceTopologyMatch()


def node_with(options: dict[str, str], name: str = "n1", policy: str = "single-numa-node") -> NodeResourceTopology:
    return topology(
        zone(0, {"cpu": 16, "memory": "32Gi"}),
        name=name,
        policy=policy,
        attributes={"cpuManagerPolicy": "static", **options},
    )


FULL = {"cpuManagerPolicyOptions": "full-pcpus-only=true"}


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize(
    "options, cpus, refused",
    [
        ({}, 3, False),
        (FULL, 3, True),
        (FULL, 4, False),
        ({**FULL, "bayplan.io/threads-per-core": "1"}, 3, False),
        ({**FULL, "bayplan.io/threads-per-core": "4"}, 6, True),
        ({**FULL, "cpuManagerPolicy": "none"}, 3, False),
    ],
)
def test_cpus_come_in_whole_cores(policy: str, options: dict[str, str], cpus: int, refused: bool) -> None:
    state = cluster(node_with(options, policy=policy))
    waiting = simple_pod({"cpu": cpus, "memory": "1Gi"})
    code = PLUGIN.refusal(state, state.classes.of(waiting), 0)
    assert (code == Verdict.NOT_WHOLE_CORES) == refused
    assert decide(state, waiting).placed != refused


def test_each_container_is_judged_by_itself() -> None:
    state = cluster(node_with(FULL))
    three_and_one = pod(container({"cpu": 3, "memory": "1Gi"}, "a"), container({"cpu": 1, "memory": "1Gi"}, "b"))
    assert not decide(state, three_and_one).placed


def test_shared_cpus_may_be_odd() -> None:
    assert decide(cluster(node_with(FULL)), simple_pod({"cpu": "1500m", "memory": "1Gi"})).placed


def test_only_nodes_with_the_option_refuse() -> None:
    state = cluster(node_with(FULL, "strict"), node_with({}, "plain"))
    assert decide(state, simple_pod({"cpu": 3, "memory": "1Gi"})).node == "plain"
