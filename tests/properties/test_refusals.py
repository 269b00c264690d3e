"""What is said about a refused pod is true, on random small GPU clusters.

"Too large" means that no idle node takes it, "fragmented" that the idle node does; remedies let it in on as many nodes
as they promise; taints are on the nodes that they are said of.
"""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.explain.refusal import Refusal, refusal_of
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.remedies import OpenNodes, OtherRequest, remedies
from bayplan.scheduling.shortfall import verdict_on
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide
from tests.builders.gpu_clusters import GPU, GPU_TAINT, NIC, asking, gpu_machine, taint

SEEDS = 80
PROFILE = default_profile()
TAINTS = (
    (),
    (),
    (),
    (),
    (GPU_TAINT,),
    (GPU_TAINT, taint("sku", "gpu")),
    (taint("example.com/repair", "", "NoExecute"),),
)
POLICIES = ("restricted", "restricted", "single-numa-node", "single-numa-node", "best-effort", "none")
_KINDS = {"Node": Node, "NodeResourceTopology": NodeResourceTopology, "Pod": Pod}


def random_machines(draw: Random) -> dict[str, Json]:
    """Arguments of `gpu_machine` by the name of the node."""
    made = {}
    for at in range(draw.randint(1, 3)):
        zones = draw.choice((1, 2, 2, 2, 4, 8))
        gpus = draw.choice([each for each in (0, 8, 8, 8, 16) if each % zones == 0])
        made[f"g-{at}"] = {
            "gpus": gpus,
            "zones": zones,
            "cpus": draw.choice((24, 48)),
            "reserved": draw.choice((0, 2)),
            "memory": 512,
            "busy": [draw.randint(0, min(gpus // zones, 5)) for _ in range(zones)] if draw.random() < 0.8 else [],
            "more": {NIC: [draw.choice((0, 1)) for _ in range(zones)]},
            "taints": draw.choice(TAINTS),
            "ready": draw.random() < 0.8,
            "cordoned": draw.random() < 0.2,
            "policy": draw.choice(POLICIES),
            "scope": draw.choice(("container", "pod")),
        }
    return made


def random_pod(draw: Random) -> Json:
    more = {NIC: draw.choice((1, 2))} if draw.random() < 0.2 else {}
    tolerates = draw.choice(((), (GPU,), (GPU, "sku")))
    cpu, memory = draw.choice((1, 1, 1, 8, 23, 47, 48, 95, 160)), draw.choice((1, 1, 1, 64, 600))
    pod = asking(draw.choice((0, 1, 3, 3, 4, 4, 8, 16)), cpu, memory, tolerates=tolerates, amounts=more)
    for at in range(draw.choice((0, 0, 0, 0, 0, 1, 2))):
        resources = written({"cpu": draw.choice((1, 8, 40)), "memory": "1Gi", GPU: draw.choice((1, 2, 3))})
        pod["spec"]["containers"].append({"name": f"beside-{at}", "image": "i", "resources": resources})
    return pod


def written(amounts: Json) -> Json:
    return {"requests": amounts, "limits": amounts}


def state_of(machines: dict[str, Json], **changes: object) -> ClusterState:
    bodies = [body for name, each in machines.items() for body in gpu_machine(name, **{**each, **changes})]
    objects = [msgspec.convert(body, _KINDS[body["kind"]]) for body in bodies]
    return cluster(
        *(each for each in objects if isinstance(each, NodeResourceTopology)),
        nodes=(each for each in objects if isinstance(each, Node)),
        pods=(each for each in objects if isinstance(each, Pod)),
    )


def refused(state: ClusterState, pod: Pod) -> Refusal | None:
    decision = decide(state, pod, PROFILE)
    if decision.placed:
        return None
    pod_class = state.classes.of(pod)
    found = remedies(state, pod_class, PROFILE, ClassAnswers(state).for_class(pod_class, PROFILE))
    return refusal_of(state, pod_class, PROFILE, decision, found)


def taking(state: ClusterState, body: Json) -> set[str]:
    """The nodes that take a pod, each judged by itself."""
    pod = state.classes.of(msgspec.convert(body, Pod))
    answer = ClassAnswers(state).for_class(pod, PROFILE)
    return {name for name, row in state.rows.items() if verdict_on(state, pod, PROFILE, answer, row).fits}


@pytest.fixture(scope="module")
def refusals() -> list[tuple[dict[str, Json], Json, Refusal]]:
    found = []
    for seed in range(SEEDS):
        draw = Random(seed)
        machines, body = random_machines(draw), random_pod(draw)
        refusal = refused(state_of(machines), msgspec.convert(body, Pod))
        if refusal is not None:
            found.append((machines, body, refusal))
    assert len(found) > SEEDS // 3
    return found


Refusals = list[tuple[dict[str, Json], Json, Refusal]]
OPEN = {"busy": (), "taints": (), "ready": True, "cordoned": False}


def test_too_large_is_what_no_idle_node_takes(refusals: Refusals) -> None:
    for machines, body, refusal in refusals:
        if refusal.shortfall.too_large is not None:
            assert not taking(state_of(machines, **OPEN), body), (machines, refusal.sentence)


def test_fragmented_is_what_the_idle_node_takes(refusals: Refusals) -> None:
    for machines, body, refusal in refusals:
        fragmented = {
            node
            for stage in refusal.stages
            if stage.kind.passed in ("enough in zones", "in one zone", "in zones allowed")
            for cause in stage.causes
            for node in cause.nodes
        }
        assert fragmented <= taking(state_of(machines, **OPEN), body), (machines, refusal.sentence)


def test_remedies_let_the_pod_in_on_as_many_nodes_as_they_promise(refusals: Refusals) -> None:
    for machines, body, refusal in refusals:
        for remedy in refusal.remedies:
            if isinstance(remedy, OtherRequest):
                amounts = {remedy.resource: f"{remedy.amount}m" if remedy.resource == "cpu" else remedy.amount}
                containers = [
                    each
                    if each["name"] != remedy.container
                    else {**each, "resources": written({**each["resources"]["requests"], **amounts})}
                    for each in body["spec"]["containers"]
                ]
                changed = {**body, "spec": {**body["spec"], "containers": containers}}
                assert len(taking(state_of(machines), changed)) >= remedy.nodes, (machines, remedy)
            elif isinstance(remedy, OpenNodes):
                opened = {
                    name: {
                        **each,
                        "ready": each["ready"] or name in remedy.ready,
                        "cordoned": each["cordoned"] and name not in remedy.uncordon,
                    }
                    for name, each in machines.items()
                }
                keys = [each.partition("=")[0].partition(":")[0] for each in remedy.tolerate]
                tolerations = [*body["spec"]["tolerations"], *({"key": key, "operator": "Exists"} for key in keys)]
                changed = {**body, "spec": {**body["spec"], "tolerations": tolerations}}
                assert set(remedy.names) <= taking(state_of(opened), changed), (machines, remedy)


def test_taints_are_on_the_nodes_that_they_are_said_of(refusals: Refusals) -> None:
    told = 0
    for machines, _, refusal in refusals:
        for cause in (cause for stage in refusal.stages for cause in stage.causes):
            kind, _, named = cause.words.partition(" ")
            if kind != "taint":
                continue
            told += 1
            for node in cause.nodes:
                texts = [
                    f"{each['key']}{'=' + each['value'] if each['value'] else ''}:{each['effect']}"
                    for each in machines[node]["taints"]
                ]
                assert named in texts, (machines, refusal.sentence)
    assert told
