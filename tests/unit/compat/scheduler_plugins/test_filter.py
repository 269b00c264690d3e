"""filterMode Upstream: scheduler-plugins' answer where it differs from the kubelet's, with its exact words."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.objects import GPU, Amounts, container, node, pod, simple_pod, topology, zone

OFFERED: Amounts = {"cpu": 64, "memory": "64Gi", GPU: 8}
PASSES = ""


def answer(mode: str, report: NodeResourceTopology, waiting: Pod, offered: Amounts = OFFERED) -> str:
    plugin = topology_match(read_arguments({"filterMode": mode}))
    state = cluster(report, nodes=[node("n1", offered)])
    asked = state.classes.of(waiting)
    code = plugin.refusal(state, asked, 0)
    return plugin.cause(asked, code) if code else PASSES


def score(mode: str, report: NodeResourceTopology, waiting: Pod) -> int:
    plugin = topology_match(read_arguments({"filterMode": mode}))
    state = cluster(report, nodes=[node("n1", OFFERED)])
    return plugin.score(state, state.classes.of(waiting), 0)


def upstream(report: NodeResourceTopology, waiting: Pod, offered: Amounts = OFFERED) -> str:
    return answer("Upstream", report, waiting, offered)


def kubelet(report: NodeResourceTopology, waiting: Pod) -> str:
    return answer("Kubelet", report, waiting)


def cpus(number: int | str, name: str = "main", *, sidecar: bool = False) -> Json:
    return container({"cpu": number, "memory": "1Gi"}, name, sidecar=sidecar)


TWIN = (zone(0, {"cpu": 8, "memory": "16Gi"}), zone(1, {"cpu": 8, "memory": "16Gi"}))


@pytest.mark.parametrize(
    "waiting, scope, words",
    [
        pytest.param(pod(cpus(9)), "container", "cannot align container", id="container"),
        pytest.param(pod(cpus(1), init=[cpus(9, "i")]), "container", "cannot align init container", id="init"),
        pytest.param(
            pod(cpus(1), init=[cpus(9, "s", sidecar=True)]), "container", "cannot align sidecar container", id="sidecar"
        ),
        pytest.param(pod(cpus(5, "a"), cpus(5, "b")), "pod", "cannot align pod", id="pod"),
        pytest.param(pod(cpus(5, "a"), cpus(5, "b")), "container", PASSES, id="containers in a zone each"),
    ],
)
def test_the_exact_words(waiting: Pod, scope: str, words: str) -> None:
    assert upstream(topology(*TWIN, scope=scope), waiting) == words


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies_are_never_refused(policy: str) -> None:
    """scheduler-plugins#885; the kubelet does refuse under `restricted`."""
    assert upstream(topology(*TWIN, policy=policy), pod(cpus(99))) == PASSES


@pytest.mark.parametrize("policy", ["SingleNumaNode", "SingleNUMANode", "Single-Numa-Node", "strictest"])
def test_a_policy_in_another_spelling_is_none_to_scheduler_plugins(policy: str) -> None:
    spelt = msgspec.structs.replace(topology(*TWIN), attributes=None, topology_policies=[policy])
    assert upstream(spelt, pod(cpus(9))) == PASSES
    assert kubelet(spelt, pod(cpus(9))) == "no single NUMA zone holds the request"
    scores = {mode: score(mode, spelt, pod(cpus(4))) for mode in ("Upstream", "Kubelet")}
    assert (scores["Upstream"], scores["Kubelet"] > 0) == (0, True)


def test_a_fraction_of_a_cpu_is_refused_although_it_would_share_the_pool() -> None:
    full = topology(zone(0, {"cpu": (8, 8, 0), "memory": "16Gi"}))
    assert upstream(full, pod(cpus("500m"))) == "cannot align container"
    assert kubelet(full, pod(cpus("500m"))) == PASSES


def test_a_sidecar_is_judged_but_never_subtracted() -> None:
    eight = topology(zone(0, {"cpu": 8, "memory": "16Gi"}))
    waiting = pod(cpus(8), init=[cpus(8, "proxy", sidecar=True)])
    assert upstream(eight, waiting) == PASSES
    assert kubelet(eight, waiting) == "NUMA zones hold too little in sum"


@pytest.mark.parametrize(
    "reported, offered, waiting, words",
    [
        pytest.param({"cpu": 8}, OFFERED, pod(cpus(1)), "cannot align container", id="memory must be reported"),
        pytest.param(
            {"cpu": 8, "memory": "8Gi"},
            OFFERED,
            simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1}),
            PASSES,
            id="a device need not",
        ),
        pytest.param(
            {"cpu": 8, "memory": "8Gi"},
            {"cpu": 8, "memory": "8Gi"},
            simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1}),
            "cannot align container",
            id="unless the node does not offer it",
        ),
        pytest.param(
            {"cpu": 8, "memory": "8Gi"},
            OFFERED,
            simple_pod({"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"}),
            PASSES,
            id="storage belongs to the host",
        ),
        pytest.param(
            {"cpu": 8, "memory": "8Gi"},
            OFFERED,
            pod(container(requests={"cpu": 60, "memory": "60Gi"})),
            PASSES,
            id="Burstable",
        ),
    ],
)
def test_which_resources_must_be_in_zones(reported: Amounts, offered: Amounts, waiting: Pod, words: str) -> None:
    assert upstream(topology(zone(0, reported)), waiting, offered) == words


def test_stale_and_invalid_data_share_their_words() -> None:
    plugin = topology_match(read_arguments({"filterMode": "Upstream"}))
    state = cluster(topology(*TWIN, name="stale"), topology(TWIN[0], TWIN[0], name="invalid"))
    state.set_fresh("stale", fresh=False)
    asked = state.classes.of(pod(cpus(1)))
    words = {name: plugin.cause(asked, plugin.refusal(state, asked, row)) for name, row in state.rows.items()}
    assert words == {"stale": "invalid node topology data", "invalid": "invalid node topology data"}


def test_a_best_effort_pod_without_devices_is_not_looked_at() -> None:
    assert upstream(topology(TWIN[0], TWIN[0]), pod(container())) == PASSES
