"""Nearest misses: the node that lacks least comes first, with the resource, the zone, what it
has and what is wanted.
"""

from __future__ import annotations

from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import TOO_MANY_ZONES, Admission
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.decision import NearestNode
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.shortfall import nearest_misses, shortfall_of
from tests.builders.clusters import cluster, decide
from tests.builders.objects import GI, GPU, Amounts, ZoneAmounts, container, node, pod, simple_pod, topology, zone

EIGHT: Amounts = {"cpu": 8, "memory": "1Gi"}
LOCALITY = "Resources cannot be allocated with Topology locality"


def machine(name: str, *cpus: int, scope: str = "container") -> NodeResourceTopology:
    zones = (zone(number, {"cpu": count, "memory": "16Gi"}) for number, count in enumerate(cpus))
    return topology(*zones, name=name, scope=scope)


def nearest(state: ClusterState, waiting: Pod) -> list[NearestNode]:
    shortfall = decide(state, waiting).shortfall
    assert shortfall is not None
    return list(shortfall.nearest)


def test_the_zone_that_came_closest() -> None:
    missed = NearestNode("n1", "cpu", 1, 7000, 8000, container="main")
    assert nearest(cluster(machine("n1", 4, 7)), simple_pod(EIGHT)) == [missed]


def test_zones_are_named_by_their_id() -> None:
    state = cluster(topology(zone(9, {"cpu": 7, "memory": "16Gi"}), zone(4, {"cpu": 3, "memory": "16Gi"})))
    assert nearest(state, simple_pod(EIGHT))[0].zone == 9


def test_a_node_that_is_short_in_sum_names_no_zone() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 6, "memory": "8Gi"})])
    assert nearest(state, simple_pod(EIGHT)) == [NearestNode("n1", "cpu", None, 6000, 8000)]


def test_the_resource_that_lacks_most_is_named() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 7, "memory": "1Gi", GPU: 0})])
    assert nearest(state, simple_pod({"cpu": 8, "memory": "4Gi"})) == [NearestNode("n1", "memory", None, GI, 4 * GI)]


def test_a_resource_that_no_node_has() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8})])
    assert nearest(state, simple_pod({"example.com/fpga": 2})) == [NearestNode("n1", "example.com/fpga", None, 0, 2)]


def test_an_overdrawn_node_has_nothing_rather_than_less() -> None:
    running = simple_pod({"cpu": 6}, "greedy", nodeName="n1")
    state = cluster(nodes=[node("n1", {"cpu": 2})], pods=[running])
    assert nearest(state, simple_pod(EIGHT))[0].have == 0


def test_the_smallest_miss_comes_first_whether_in_zones_or_in_sum() -> None:
    state = cluster(machine("far", 1, 1, 1, 1, 1, 1, 1, 1), machine("near", 7, 7), machine("middle", 5, 1))
    assert [miss.node for miss in nearest(state, simple_pod(EIGHT))] == ["near", "middle", "far"]


def test_nodes_that_something_else_keeps_away_are_no_misses() -> None:
    state = cluster(machine("zones", 4, 4), nodes=[node("cordoned", {"cpu": 7}, unschedulable=True)])
    assert [miss.node for miss in nearest(state, simple_pod(EIGHT))] == ["zones"]


def test_stale_nodes_are_no_misses() -> None:
    state = cluster(machine("n1", 16))
    state.set_fresh("n1", fresh=False)
    assert nearest(state, simple_pod(EIGHT)) == []


def test_no_more_than_five() -> None:
    state = cluster(*(machine(f"n{number}", 4, 4) for number in range(9)))
    assert len(nearest(state, simple_pod(EIGHT))) == 5


def test_at_pod_scope_the_sum_is_what_is_missing() -> None:
    waiting = pod(container({"cpu": 5, "memory": "1Gi"}, "a"), container({"cpu": 5, "memory": "1Gi"}, "b"))
    assert nearest(cluster(machine("n1", 8, 8, scope="pod")), waiting) == [NearestNode("n1", "cpu", 0, 8000, 10_000)]


def test_at_container_scope_what_earlier_containers_took_is_missing() -> None:
    waiting = pod(container({"cpu": 6, "memory": "1Gi"}, "a"), container({"cpu": 6, "memory": "1Gi"}, "b"))
    missed = NearestNode("n1", "cpu", 1, 4000, 6000, container="b")
    assert nearest(cluster(machine("n1", 8, 4)), waiting) == [missed]


def test_containers_that_fit_alone_but_not_together_are_measured_by_their_sum() -> None:
    """Both containers fit zone 0 of the first node, one at a time; a third of their sum is missing there, a sixth next
    door.
    """
    waiting = pod(container({"cpu": 6, "memory": "1Gi"}, "a"), container({"cpu": 6, "memory": "1Gi"}, "b"))
    state = cluster(machine("together", 8, 4), machine("near", 5, 5, 5))
    assert [miss.node for miss in nearest(state, waiting)] == ["near", "together"]


def test_the_order_is_that_of_what_is_said() -> None:
    """The second node's best zone has less than the first one's, but its policy lets two of them help each other."""
    twelve: ZoneAmounts = {"cpu": (16, 16, 12)}
    nine: ZoneAmounts = {"cpu": (16, 16, 9)}
    state = cluster(
        topology(zone(0, twelve), zone(1, nine), name="one-zone"),
        topology(zone(0, nine), zone(1, nine), name="two-zones", policy="restricted"),
        nodes=[node(name, {"cpu": 32, "memory": "8Gi"}) for name in ("one-zone", "two-zones")],
    )
    pod_class, profile = state.classes.of(simple_pod({"cpu": 20, "memory": "1Gi"})), default_profile()
    misses = nearest_misses(state, pod_class, profile, ClassAnswers(state).for_class(pod_class, profile))
    assert [(miss.node, miss.have) for miss in misses] == [("two-zones", 18_000), ("one-zone", 12_000)]


def refused_by_its_kubelet(*pages: str, name: str = "n1") -> NodeResourceTopology:
    """Huge pages that only an init container asks for are no part of the merge at pod scope, and fail later."""
    zones = (
        zone(number, {"cpu": 8, "memory": "16Gi", "hugepages-1Gi": ("4Gi", "4Gi", free)})
        for number, free in enumerate(pages)
    )
    return topology(*zones, name=name, scope="pod")


PAGES_FOR_INIT = pod(
    container({"cpu": 2, "memory": "2Gi"}, "app"),
    init=[container({"cpu": 1, "memory": "1Gi", "hugepages-1Gi": "4Gi"}, "init-1")],
)


def with_pages(*reports: NodeResourceTopology) -> ClusterState:
    allocatable: Amounts = {"cpu": 16, "memory": "32Gi", "hugepages-1Gi": "8Gi"}
    return cluster(*reports, nodes=[node(report.metadata.name, allocatable) for report in reports])


def test_what_the_kubelet_would_say_is_the_cause() -> None:
    state = with_pages(refused_by_its_kubelet("0", "4Gi", name="a"), refused_by_its_kubelet("0", "4Gi", name="b"))
    shortfall = decide(state, PAGES_FOR_INIT).shortfall
    assert shortfall is not None
    (cause,) = shortfall.causes
    assert cause.cause.startswith("kubelet: UnexpectedAdmissionError in container init-1 (")
    assert "which is unexpected" not in cause.cause
    assert (cause.reason, cause.nodes) == ("UnexpectedAdmissionError", ("a", "b"))


def test_nodes_whose_kubelet_would_refuse_are_misses() -> None:
    (miss,) = nearest(with_pages(refused_by_its_kubelet("0", "4Gi")), PAGES_FOR_INIT)
    assert (miss.node, miss.resource, miss.want) == ("n1", "hugepages-1Gi", 4 * GI)


def test_where_no_amount_is_missing_the_reason_says_what_is() -> None:
    attributes = {"cpuManagerPolicyOptions": "full-pcpus-only=true", "cpuManagerPolicy": "static"}
    state = cluster(topology(zone(0, {"cpu": 8, "memory": "16Gi"}), attributes=attributes))
    (miss,) = nearest(state, simple_pod({"cpu": 5, "memory": "1Gi"}))
    assert miss.reason == "SMTAlignmentError (requested 5 cpus not multiple cpus per core = 2)"
    assert miss.missing_share == 0


def causes_of(*refusals: Admission) -> list[tuple[str, int]]:
    state = cluster(*(machine(f"n{number}", 8, 8) for number in range(len(refusals))))
    waiting = state.classes.of(pod(container(EIGHT, "a"), container(EIGHT, "b")))
    answer = ClassAnswers(state).for_class(waiting, default_profile())
    found = shortfall_of(state, waiting, default_profile(), answer, list(enumerate(refusals)))
    return [(cause.cause, len(cause.nodes)) for cause in found.causes if cause.reason]


def test_equal_refusals_are_one_cause_and_messages_that_differ_are_left_out() -> None:
    locality = Admission(admitted=False, reason="TopologyAffinityError", message=LOCALITY, container="b")
    odd = [
        Admission(admitted=False, reason="SMTAlignmentError", message=f"SMT Alignment Error: {number}", container="a")
        for number in (1, 2)
    ]
    assert causes_of(locality, *odd, locality) == [
        ("kubelet: TopologyAffinityError in container b", 2),
        ("kubelet: SMTAlignmentError in container a", 2),
    ]


def test_what_could_not_be_decided_is_no_refusal_of_the_kubelets() -> None:
    assert causes_of(Admission(admitted=False, reason=TOO_MANY_ZONES, message="64 zones")) == [
        ("too many NUMA zones to be sure", 1)
    ]
