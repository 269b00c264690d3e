"""How many equal pods a node takes one after another, as tables of machines and pods.

Every count is asked for in columns together with other nodes, as one row of them, and on a cluster of that node alone;
all must be the one in the table. The machine is the same throughout unless a test says otherwise: two zones of 8 CPUs,
16 Gi and 2 GPUs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import admit
from bayplan.engine.numa.placement import knowledge_of
from bayplan.engine.numa.rows import Rows
from bayplan.engine.slots import outlook
from bayplan.engine.slots.in_zones import slots_in_zones
from bayplan.engine.slots.outlook import after
from bayplan.engine.slots.slots import slot_bounds, slots
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, place
from tests.builders.objects import GI, GPU, Amounts, bound, container, node, pod, simple_pod, topology, zone

ZONE: Amounts = {"cpu": 8, "memory": "16Gi", GPU: 2}
ALL: Amounts = {"cpu": 16, "memory": "32Gi", GPU: 4}
MANY = 100
OTHERS = [
    topology(zone(0, {"cpu": 4, "memory": "1Gi", GPU: 1}), zone(3, {"cpu": 2}), name="other-1", policy="restricted"),
    topology(zone(0, {"cpu": 64, "memory": "512Gi"}), zone(1, {}), zone(2, {}), name="other-2", policy="none"),
]


def machine(policy: str = "single-numa-node", scope: str = "container", **attributes: str) -> NodeResourceTopology:
    return topology(zone(0, ZONE), zone(1, ZONE), name="machine", policy=policy, scope=scope, attributes=attributes)


def slots_on(report: NodeResourceTopology, waiting: Pod, most: int = MANY, allocatable: Amounts = ALL) -> int:
    """The slots of one node, after all ways of asking have been seen to agree."""
    nodes = [node(name, allocatable) for name in ("other-1", "machine", "other-2")]
    among_others = cluster(report, *OTHERS, nodes=nodes)
    alone = cluster(report, nodes=nodes[1:2])
    (count,) = {
        slots_in(among_others, waiting, slice(0, 3), most)[1],
        slots_in(among_others, waiting, slice(1, 2), most)[0],
        slots_in(among_others, waiting, np.array([2, 1]), most)[1],
        slots_in(alone, waiting, slice(0, 1), most)[0],
    }
    return count


def slots_in(state: ClusterState, waiting: Pod, rows: Rows | None = None, most: int = MANY) -> list[int]:
    everywhere = slice(0, len(state.names))
    chosen = everywhere if rows is None else rows
    return [int(count) for count in slots(state, state.classes.of(waiting), Assumptions(), chosen, most)]


@pytest.mark.parametrize(
    "amounts, single_numa_node, restricted, best_effort, none",
    [
        # what each zone holds by itself, and what they hold together
        ({"cpu": 3, "memory": "2Gi"}, 4, 4, 5, 5),
        ({"cpu": 2, "memory": "5Gi"}, 6, 6, 6, 6),
        ({"cpu": 1, "memory": "1Gi", GPU: 1}, 4, 4, 4, 4),
        # larger than a zone: restricted takes both zones if every resource needs both
        ({"cpu": 10, "memory": "20Gi"}, 0, 1, 1, 1),
        ({"cpu": 10, "memory": "4Gi"}, 0, 0, 1, 1),
        # memory of zones that are in use by themselves is not put together
        ({"cpu": 1, "memory": "10Gi"}, 2, 2, 2, 2),
        # CPUs without an owner are counted in sum only
        ({"cpu": "1500m", "memory": "1Gi"}, 10, 10, 10, 10),
        ({"cpu": 17, "memory": "1Gi"}, 0, 0, 0, 0),
    ],
)
def test_policies(amounts: Amounts, single_numa_node: int, restricted: int, best_effort: int, none: int) -> None:
    waiting = simple_pod(amounts)
    assert slots_on(machine("single-numa-node"), waiting) == single_numa_node
    assert slots_on(machine("restricted"), waiting) == restricted
    assert slots_on(machine("best-effort"), waiting) == best_effort
    assert slots_on(machine("none"), waiting) == none


@pytest.mark.parametrize(
    "containers, container_scope, pod_scope",
    [
        # both containers in the same zone, or each in one of its own: then less is left for the next pod
        (({"cpu": 5, "memory": "1Gi"}, {"cpu": 3, "memory": "1Gi"}), 2, 2),
        (({"cpu": 5, "memory": "1Gi"}, {"cpu": 4, "memory": "1Gi"}), 1, 0),
        (({"cpu": 2, "memory": "1Gi", GPU: 1}, {"cpu": 2, "memory": "1Gi"}), 4, 4),
        (({"cpu": 1, "memory": "1Gi"}, {"cpu": "500m", "memory": "12Gi"}), 2, 2),
    ],
)
def test_several_containers(containers: tuple[Amounts, ...], container_scope: int, pod_scope: int) -> None:
    waiting = pod(*(container(amounts, f"c{number}") for number, amounts in enumerate(containers)))
    assert slots_on(machine(scope="container"), waiting) == container_scope
    assert slots_on(machine(scope="pod"), waiting) == pod_scope


def test_what_an_init_container_had_is_used_again() -> None:
    first = container({"cpu": 4, "memory": "1Gi"}, "first")
    assert slots_on(machine(), pod(container({"cpu": 4, "memory": "1Gi"}), init=[first])) == 4
    assert slots_on(machine(), pod(container({"cpu": 2, "memory": "1Gi"}), init=[first])) == 4


@pytest.mark.parametrize("cpus, expected", [(4, 4), (2, 8), (3, 0)])
def test_whole_cores(cpus: int, expected: int) -> None:
    report = machine(cpuManagerPolicyOptions="full-pcpus-only=true")
    assert slots_on(report, simple_pod({"cpu": cpus, "memory": "1Gi"})) == expected


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort", "none"])
def test_managers_that_do_not_run_align_nothing(policy: str) -> None:
    report = machine(policy, cpuManagerPolicy="none", memoryManagerPolicy="None")
    assert slots_on(report, simple_pod({"cpu": 5, "memory": "1Gi"})) == 3
    assert slots_on(report, simple_pod({"cpu": 1, "memory": "1Gi", GPU: 2})) == 2


def test_devices_that_are_in_no_zone_count_where_they_can_be_used() -> None:
    more_gpus: Amounts = {**ALL, GPU: 6}
    waiting = simple_pod({"cpu": 1, "memory": "1Gi", GPU: 1})
    assert slots_on(machine("single-numa-node"), waiting, allocatable=more_gpus) == 4
    assert slots_on(machine("none"), waiting, allocatable=more_gpus) == 6


def test_zero_devices_draw_a_pod_to_zones_that_have_some() -> None:
    report = topology(zone(0, {"cpu": 8}), zone(1, {"cpu": 8, GPU: 2}), name="machine")
    assert slots_on(report, simple_pod({"cpu": 2, "memory": "1Gi", GPU: 0})) == 4


@pytest.mark.parametrize(
    "waiting, most, allocatable, expected",
    [
        (simple_pod({"cpu": 1, "memory": "1Gi"}), 3, ALL, 3),
        (simple_pod({"cpu": 1, "memory": "1Gi"}), 0, ALL, 0),
        (simple_pod({"cpu": 1, "memory": "1Gi"}), MANY, {**ALL, "pods": 5}, 5),
        (simple_pod({"cpu": 1, "memory": "1Gi", "example.com/unknown": 1}), MANY, ALL, 0),
        (pod(container({"cpu": 1}, ports=[{"containerPort": 80, "hostPort": 80}])), MANY, ALL, 1),
        (pod(container(requests={"cpu": "300m"}, limits={})), MANY, {**ALL, "pods": 60}, 53),
    ],
)
def test_the_node_and_the_question_set_limits(waiting: Pod, most: int, allocatable: Amounts, expected: int) -> None:
    assert slots_on(machine(), waiting, most, allocatable) == expected


def test_nodes_without_a_report_count_by_sums_and_those_with_a_wrong_one_not_at_all() -> None:
    twice = topology(zone(0, ZONE), zone(0, ZONE), name="twice")
    nodes = [node(name, ALL) for name in ("silent", "twice", "stale")]
    state = cluster(twice, topology(zone(0, ZONE), zone(1, ZONE), name="stale"), nodes=nodes)
    state.set_fresh("stale", fresh=False)
    aligned, burstable = simple_pod({"cpu": 5, "memory": "1Gi"}), pod(container(requests={"cpu": 5}, limits={}))
    assert slots_in(state, aligned) == [3, 0, 0]
    assert slots_in(state, burstable) == [3, 3, 3]


def test_bounds_differ_only_where_a_replay_decides() -> None:
    state = cluster(machine("best-effort"), nodes=[node("machine", ALL)])
    pod_class = state.classes.of(simple_pod({"cpu": 3, "memory": "2Gi"}))
    certain, possible = slot_bounds(state, pod_class, Assumptions(), slice(0, 1), MANY)
    assert (certain.tolist(), possible.tolist()) == ([4.0], [5.0])


def test_a_node_with_too_many_zones_to_try_all_sets_has_the_slots_that_are_found() -> None:
    wide = topology(*(zone(number, ZONE) for number in range(16)), name="machine", policy="best-effort")
    room: Amounts = {"cpu": 128, "memory": "256Gi", GPU: 32}
    assert slots_on(wide, simple_pod({"cpu": 4, "memory": "4Gi"}), allocatable=room) == 32
    assert slots_on(wide, simple_pod({"cpu": 3, "memory": "4Gi"}), allocatable=room) == 32
    assert slots_on(wide, simple_pod({"cpu": 10, "memory": "20Gi"}), allocatable=room) == 8


def in_group(number: int, members: str) -> Json:
    return {**zone(number, ZONE), "attributes": [{"name": "bayplan.io/memory-group", "value": members}]}


def test_a_group_of_zones_is_closed_to_pods_that_want_one() -> None:
    grouped = topology(in_group(0, "0,1"), in_group(1, "0,1"), name="machine")
    assert slots_on(grouped, simple_pod({"cpu": 1, "memory": "1Gi"})) == 0
    assert slots_on(grouped, simple_pod({"cpu": "500m", "memory": "1Gi", GPU: 1})) == 0


def test_a_new_report_is_seen() -> None:
    state = cluster(machine(), nodes=[node("machine", ALL)])
    waiting = simple_pod({"cpu": 1, "memory": "1Gi"})
    assert slots_in(state, waiting) == [16]
    state.set_topology(topology(in_group(0, "0,1"), in_group(1, "0,1"), name="machine"))
    assert slots_in(state, waiting) == [0]


def test_a_pod_that_must_be_replayed_has_slots_only_while_the_report_shows_every_pod() -> None:
    large, small = simple_pod({"cpu": 10, "memory": "20Gi"}), simple_pod({"cpu": 4, "memory": "1Gi"})
    wide = topology(*(zone(number, ZONE) for number in range(4)), name="machine", policy="restricted")
    state = cluster(wide)
    assert slots_in(state, large) == [2]
    state.freshness.waits_for_reports = True
    assert slots_in(state, large) == [2]
    assert slots_in(state, small) == [8]
    place(state, small)
    assert slots_in(state, large) == [0]
    assert slots_in(state, small) == [7]


@pytest.mark.parametrize(
    "init, scope, at_once, waiting_for_reports",
    [
        # less than the pod: its memory is reused, so it costs no slot
        ({"cpu": "200m", "memory": "64Mi"}, "pod", 4, 4),
        # the same, but the init container of the third pod is aligned by itself and leaves its memory in the other
        # zone: whether it has ended makes no difference to the fourth
        ({"cpu": "200m", "memory": "64Mi"}, "container", 4, 4),
        # just as much: the same CPUs are reused
        ({"cpu": 4, "memory": "4Gi"}, "pod", 4, 4),
        ({"cpu": 4, "memory": "4Gi"}, "container", 4, 4),
        # more memory than the pod: it stays taken until the init container ends
        ({"cpu": "200m", "memory": "10Gi"}, "pod", 2, 1),
        ({"cpu": "200m", "memory": "10Gi"}, "container", 2, 1),
    ],
)
def test_init_containers(init: Amounts, scope: str, at_once: int, waiting_for_reports: int) -> None:
    waiting = pod(container({"cpu": 4, "memory": "4Gi"}), init=[container(init, "prepare")])
    for waits, expected in ((False, at_once), (True, waiting_for_reports)):
        state = cluster(machine("restricted", scope), nodes=[node("machine", ALL)])
        state.freshness.waits_for_reports = waits
        assert slots_in(state, waiting) == [expected]


def test_equal_nodes_are_replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counting(*arguments: Any) -> Any:
        asked.append("admission")
        return admit(*arguments)

    monkeypatch.setattr(outlook, "admit", counting)
    zones = [zone(number, ZONE) for number in range(4)]
    state = cluster(*(topology(*zones, name=f"n{number}", policy="restricted") for number in range(5)))
    assert slots_in(state, simple_pod({"cpu": 10, "memory": "20Gi"})) == [2] * 5
    assert len(asked) == 3  # two pods, and one that is refused
    assert slots_in(state, simple_pod({"cpu": 10, "memory": "20Gi"})) == [2] * 5
    assert len(asked) == 3


def test_after_an_admission_the_node_has_less() -> None:
    state = cluster(machine("restricted"), nodes=[node("machine", ALL)])
    before = knowledge_of(state, 0, Assumptions())
    assert before is not None
    admission = admit(before, simple_pod_request(state, {"cpu": 10, "memory": "20Gi", GPU: 3}))
    left = after(before, admission)
    assert left.free_cpus.bit_count() == 6
    assert {number: memory.free["memory"] // GI for number, memory in left.memory.items()} == {0: 0, 1: 12}
    assert {number: (memory.group, memory.assignments) for number, memory in left.memory.items()} == {
        0: (0b11, 1),
        1: (0b11, 1),
    }
    assert [device.allocated for device in left.devices[GPU]] == [True, True, True, False]
    assert not admit(left, simple_pod_request(state, {"cpu": 1, "memory": "1Gi"})).admitted


def simple_pod_request(state: ClusterState, amounts: Amounts) -> PodRequest:
    return state.classes.of(simple_pod(amounts)).request


def test_what_holds_while_a_node_is_ahead_of_its_report_is_not_remembered() -> None:
    def report(cpus: int, memory: str) -> NodeResourceTopology:
        first = zone(0, {"cpu": (8, 8, cpus), "memory": ("32Gi", "32Gi", memory)})
        return topology(first, zone(1, {"cpu": 8, "memory": "32Gi"}))

    state = cluster(report(8, "32Gi"))
    state.freshness.waits_for_reports = True
    waiting = state.classes.of(
        pod(container({"cpu": 1, "memory": "1Gi"}, "a"), container({"cpu": 1, "memory": "1Gi"}, "b"))
    )
    rows = np.array([0])

    def in_pairs() -> list[int]:
        counted = slots(state, waiting, Assumptions(), slice(0, 1), 24)
        return [int(each) for each in slots_in_zones(state, waiting, Assumptions(), rows, counted, 2)]

    first = simple_pod({"cpu": 2, "memory": "1Gi"}, "first")
    place(state, first)
    assert in_pairs() == [0]
    state.set_pod(bound(first, "n1", phase="Running"))
    state.set_topology(report(6, "31Gi"))  # the same amounts, now reported
    assert in_pairs() == [2]
