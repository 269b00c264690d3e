"""Every fast form of the engine against the plain one it stands for, on random clusters and pods.

* the columns' verdict for many nodes = the kubelet's replay on each node (where one container decides alone);
* the answer for one node = the same node's entry in the answer for many;
* answers repaired from the change log = answers worked out from nothing;
* what is assumed and forgotten leaves no trace.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import numpy as np
from hypothesis import given, settings

from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import admit
from bayplan.engine.numa.placement import knowledge_of, zones_held
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import SCORING_STRATEGIES, decode_arguments
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from bayplan.scheduling.answers import ClassAnswer, ClassAnswers
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.profile import default_profile

GIB = 2**30
DEVICE = "vendor.com/gpu"


@st.composite
def zone_resources(draw: st.DrawFn, cpus: int) -> list[dict[str, str]]:
    """Amounts of one zone. All zones have the same CPUs: on lopsided machines the kubelet hands out CPUs twice."""
    resources = []
    for name, most, unit in (("cpu", 8, 1), ("memory", 8, GIB), ("hugepages-1Gi", 4, GIB), (DEVICE, 3, 1)):
        if draw(st.integers(0, 9)) == 0:
            continue  # a zone need not have everything
        capacity = cpus if name == "cpu" else draw(st.integers(0, most))
        allocatable = draw(st.integers(max(capacity - 2, 0), capacity))
        available = draw(st.integers(0, allocatable))
        amounts = {"capacity": capacity, "allocatable": allocatable, "available": available}
        resources.append({"name": name, **{field: str(amount * unit) for field, amount in amounts.items()}})
    return resources


@st.composite
def topologies(draw: st.DrawFn, name: str) -> dict[str, Any]:
    ids = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5, unique=True))
    cpus = draw(st.integers(1, 8))
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": draw(zone_resources(cpus)),
            "costs": [{"name": f"node-{other}", "value": draw(st.sampled_from([12, 20, 32]))} for other in ids],
        }
        for zone in ids
    ]
    attributes = {
        "topologyManagerPolicy": draw(st.sampled_from([policy.text for policy in Policy])),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        "topologyManagerOptionPreferClosestNumaNodes": draw(st.sampled_from(["true", "false"])),
        "cpuManagerPolicy": draw(st.sampled_from(["static", "static", "none"])),
        "memoryManagerPolicy": draw(st.sampled_from(["Static", "Static", "None"])),
    }
    written = [{"name": key, "value": value} for key, value in attributes.items()]
    return {"metadata": {"name": name}, "zones": zones, "attributes": written}


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    state = ClusterState()
    for row in range(draw(st.integers(1, 6))):
        name = f"n{row}"
        allocatable = {"cpu": "64", "memory": str(64 * GIB), "hugepages-1Gi": str(32 * GIB), DEVICE: "64", "pods": "20"}
        state.set_node(msgspec.convert({"metadata": {"name": name}, "status": {"allocatable": allocatable}}, Node))
        if draw(st.integers(0, 7)):
            state.set_topology(msgspec.convert(draw(topologies(name)), NodeResourceTopology))
    return state


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    cpu = draw(st.sampled_from(["0", "500m", "1", "2", "3", "5", "9", "14"]))
    memory = draw(st.integers(1, 14))
    limits = {"cpu": cpu, "memory": str(memory * GIB)}
    if draw(st.booleans()):
        limits["hugepages-1Gi"] = str(draw(st.integers(1, 5)) * GIB)
    if draw(st.booleans()):
        limits[DEVICE] = str(draw(st.integers(0, 4)))
    return {"name": name, "resources": {"limits": limits}}


@st.composite
def pods(draw: st.DrawFn, most_containers: int = 3) -> Pod:
    listed = [draw(containers(f"c{index}")) for index in range(draw(st.integers(1, most_containers)))]
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": listed}}, Pod)


@settings(max_examples=300)
@given(state=clusters(), pod=pods(most_containers=1))
def test_columns_say_what_the_replay_says(state: ClusterState, pod: Pod) -> None:
    pod_class = state.classes.of(pod)
    codes = NodeResourceTopologyMatch().refusals(state, pod_class, slice(0, len(state.names)))
    for row, name in enumerate(state.names):
        node = knowledge_of(state, row, Assumptions())
        if node is None:
            continue
        replayed = admit(node, pod_class.request)
        # The Device Manager counts devices on the whole node; in the columns that is the business of NodeResourcesFit.
        fits = all(
            state.columns.free[state.columns.resource(resource), row] >= amount
            for resource, amount in pod_class.request.total.items()
        )
        if fits and replayed.stage != "device":
            assert (codes is None or codes[row] == 0) == replayed.admitted, f"{name}: {replayed}"


@given(
    state=clusters(),
    pod=pods(),
    strategy=st.sampled_from(SCORING_STRATEGIES),
    mode=st.sampled_from(["Kubelet", "Upstream"]),
)
def test_one_node_is_answered_as_among_many(state: ClusterState, pod: Pod, strategy: str, mode: str) -> None:
    plugin = topology_match(decode_arguments({"scoringStrategy": {"type": strategy}, "filterMode": mode}))
    pod_class = state.classes.of(pod)
    everything = slice(0, len(state.names))
    codes = plugin.refusals(state, pod_class, everything)
    scores = plugin.scores(state, pod_class, everything)
    some = np.arange(0, len(state.names), 2)
    assert plugin.scores(state, pod_class, some).tolist() == scores[some].tolist()
    for row in range(len(state.names)):
        assert plugin.refusal(state, pod_class, row) == (0 if codes is None else codes[row])
        assert plugin.score(state, pod_class, row) == scores[row]


@settings(max_examples=200)
@given(state=clusters(), pod=pods())
def test_zones_that_are_counted_are_the_zones_that_are_replayed(state: ClusterState, pod: Pod) -> None:
    plugin, pod_class = NodeResourceTopologyMatch(), state.classes.of(pod)
    for row in range(len(state.names)):
        node = knowledge_of(state, row, Assumptions())
        if node is None or node.settings.policy is Policy.NONE or plugin.refusal(state, pod_class, row):
            continue
        replayed = admit(node, pod_class.request)
        placement = plugin.place(state, pod_class, row)
        if not replayed.admitted:
            continue  # the columns may be wrong about later containers; then it is up to the replay in `place`
        # A placement names the zones in which a container holds something.
        zones = {placed.name: tuple(sorted(zones_held(node, placed))) or None for placed in replayed.containers}
        for placed in placement.containers:
            assert placed.estimated or zones[placed.container] == placed.zones
        cpus = sum(charge.amount for charge in placement.charges if charge.resource == 0)
        assert cpus == 1000 * len({cpu for placed in replayed.containers for cpu in placed.cpus})


@settings(max_examples=60)
@given(state=clusters(), waiting=st.lists(pods(), min_size=1, max_size=8), data=st.data())
def test_repaired_answers_equal_fresh_ones(state: ClusterState, waiting: list[Pod], data: st.DataObject) -> None:
    profile, answers = default_profile(), ClassAnswers(state)
    for number, pod in enumerate(waiting):
        renamed = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=f"p{number}"))
        decision = schedule_one(state, renamed, profile, answers)
        if decision.placed:
            assume(state, decision, renamed)
            if data.draw(st.booleans()):
                state.forget(decision.pod)
        if data.draw(st.integers(0, 3)) == 0:
            state.set_topology(msgspec.convert(data.draw(topologies("n0")), NodeResourceTopology))
        for seen in waiting[: number + 1]:
            pod_class = state.classes.of(seen)
            kept, fresh = answers.for_class(pod_class, profile), ClassAnswer(state, pod_class, profile).refresh()
            assert kept.blocked.tolist() == fresh.blocked.tolist()
            for row, admission in kept.refused_by_replay.items():
                fresh.refuse(row, admission)
            assert kept.total_score.tolist() == fresh.total_score.tolist()


@given(state=clusters(), pod=pods())
def test_what_is_forgotten_leaves_no_trace(state: ClusterState, pod: Pod) -> None:
    decision = schedule_one(state, pod, default_profile(), ClassAnswers(state))
    free, zones = state.columns.free.copy(), state.columns.zone_available.copy()
    if decision.placed:
        assume(state, decision, pod)
        assert (state.columns.zone_available >= 0).all()
        state.forget(decision.pod)
    assert (state.columns.free == free).all()
    assert (state.columns.zone_available == zones).all()
