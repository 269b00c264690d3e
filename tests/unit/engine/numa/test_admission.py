"""The kubelet's verdict for all nodes at once, as tables of machines and pods.

Every row is asked four times: in columns together with other nodes, in columns alone, as the one node that changed, and
of the exact replay. All four must give the answer in the table.
"""

from __future__ import annotations

import pytest

from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import admit
from bayplan.engine.numa.admission import Verdict, verdicts
from bayplan.engine.numa.demand import demand_of
from bayplan.engine.numa.placement import knowledge_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from tests.builders.bodies import Json
from tests.builders.clusters import cluster, decide
from tests.builders.objects import GPU, Amounts, container, node, pod, simple_pod, topology, zone

OK, ONE_ZONE, COMMON_SET, SHORT = (
    Verdict.ADMITTED,
    Verdict.NOT_IN_ONE_ZONE,
    Verdict.NO_COMMON_SET,
    Verdict.ZONES_SHORT,
)
LARGE: Amounts = {"cpu": 1000, "memory": "1Ti", GPU: 100}
OTHERS = [
    topology(zone(0, {"cpu": 4, "memory": "1Gi", GPU: 1}), zone(3, {"cpu": 2}), name="other-1", policy="restricted"),
    topology(
        zone(0, {"cpu": 64, "memory": "512Gi"}),
        name="other-2",
        policy="best-effort",
        scope="pod",
        attributes={"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"},
    ),
]


def machine(
    *zones: Json, policy: str = "single-numa-node", scope: str = "container", **attributes: str
) -> NodeResourceTopology:
    return topology(*zones, name="machine", policy=policy, scope=scope, attributes=attributes)


def verdict_on(report: NodeResourceTopology, waiting: Pod, assume: dict[str, str] | None = None) -> Verdict:
    """The verdict on one node, after all ways of asking have been seen to agree."""
    plugin = topology_match(read_arguments({"assume": assume or {}}))
    nodes = [node(name, LARGE) for name in ("other-1", "machine", "other-2")]
    among_others = cluster(report, *OTHERS, nodes=nodes)
    alone = cluster(report, nodes=nodes[1:2])
    answers = {
        in_columns(among_others, waiting, plugin.arguments.assumptions, 1),
        in_columns(alone, waiting, plugin.arguments.assumptions, 0),
        Verdict(plugin.refusal(alone, alone.classes.of(waiting), 0)),
    }
    (verdict,) = answers
    known = knowledge_of(alone, 0, plugin.arguments.assumptions)
    assert known is not None
    assert admit(known, alone.classes.of(waiting).request).admitted is (verdict is Verdict.ADMITTED)
    return verdict


def in_columns(state: ClusterState, waiting: Pod, assumptions: Assumptions, row: int) -> Verdict:
    demand = demand_of(state.classes.of(waiting).request)
    codes = verdicts(state.columns, demand, slice(0, state.columns.size), assumptions)
    return Verdict.ADMITTED if codes is None else Verdict(int(codes[row]))


def guaranteed(cpu: float | str, memory: str = "1Gi", gpus: int = 0) -> Pod:
    amounts: dict[str, str | int | float] = {"cpu": cpu, "memory": memory}
    return simple_pod({**amounts, GPU: gpus} if gpus else amounts)


def burstable(cpu: float, gpus: int = 0) -> Pod:
    return pod(container(requests={"cpu": cpu, GPU: gpus}, limits={GPU: gpus}))


# Two zones of 8 CPUs, 16 GiB and a GPU.
TWIN = (zone(0, {"cpu": 8, "memory": "16Gi", GPU: 1}), zone(1, {"cpu": 8, "memory": "16Gi", GPU: 1}))


@pytest.mark.parametrize(
    "waiting, single, restricted, best_effort",
    [
        pytest.param(guaranteed(8), OK, OK, OK, id="fits one zone exactly"),
        pytest.param(guaranteed(9), ONE_ZONE, COMMON_SET, OK, id="CPUs of two zones, memory of one"),
        pytest.param(guaranteed(9, "17Gi"), ONE_ZONE, OK, OK, id="CPUs and memory of two zones"),
        pytest.param(guaranteed(4, "17Gi"), ONE_ZONE, COMMON_SET, OK, id="memory of two zones, CPUs of one"),
        pytest.param(guaranteed(17), SHORT, SHORT, SHORT, id="more CPUs than all zones have"),
        pytest.param(guaranteed(4, "33Gi"), SHORT, SHORT, SHORT, id="more memory than all zones have"),
        pytest.param(guaranteed("8500m"), OK, OK, OK, id="a fraction of a CPU shares the pool"),
        pytest.param(burstable(12), OK, OK, OK, id="a Burstable pod shares the pool"),
        pytest.param(guaranteed(4, gpus=1), OK, OK, OK, id="a GPU and CPUs of one zone"),
        pytest.param(guaranteed(4, gpus=2), ONE_ZONE, COMMON_SET, OK, id="GPUs of two zones, CPUs of one"),
        pytest.param(guaranteed("500m", "17Gi", gpus=2), ONE_ZONE, OK, OK, id="GPUs and memory of two zones"),
        pytest.param(burstable(1, gpus=2), ONE_ZONE, OK, OK, id="devices align whatever the QoS class"),
        pytest.param(burstable(1, gpus=3), ONE_ZONE, COMMON_SET, OK, id="devices without a zone are counted elsewhere"),
        pytest.param(pod(container()), OK, OK, OK, id="nothing to align"),
    ],
)
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_one_container_under_every_policy(
    waiting: Pod, scope: str, single: Verdict, restricted: Verdict, best_effort: Verdict
) -> None:
    assert {
        policy: verdict_on(machine(*TWIN, policy=policy, scope=scope), waiting)
        for policy in ("single-numa-node", "restricted", "best-effort", "none")
    } == {"single-numa-node": single, "restricted": restricted, "best-effort": best_effort, "none": best_effort}


def cpus(number: int, name: str) -> Json:
    return container({"cpu": number, "memory": "1Gi"}, name)


def sidecar(number: int) -> Json:
    return container({"cpu": number, "memory": "1Gi"}, "sidecar", sidecar=True)


@pytest.mark.parametrize(
    "zone_cpus, waiting, at_container_scope, at_pod_scope",
    [
        pytest.param((8, 8), pod(cpus(6, "a"), cpus(6, "b")), OK, ONE_ZONE, id="a zone each, but not together"),
        pytest.param((8, 8), pod(cpus(4, "a"), cpus(4, "b")), OK, OK, id="both in one zone"),
        pytest.param((8, 8), pod(cpus(6, "a"), cpus(6, "b"), cpus(6, "c")), SHORT, SHORT, id="not even in sum"),
        pytest.param((8, 8, 8), pod(cpus(6, "a"), cpus(6, "b"), cpus(9, "c")), ONE_ZONE, ONE_ZONE, id="the last fails"),
        pytest.param((8, 4), pod(cpus(2, "a"), cpus(8, "b")), ONE_ZONE, ONE_ZONE, id="greed: the small one first"),
        pytest.param((8, 4), pod(cpus(8, "a"), cpus(2, "b")), OK, ONE_ZONE, id="the large one first"),
        pytest.param((8,), pod(cpus(8, "a"), init=[cpus(8, "i")]), OK, OK, id="CPUs of an init container are re-used"),
        pytest.param((8,), pod(cpus(5, "a"), init=[sidecar(4)]), SHORT, SHORT, id="CPUs of a sidecar are not"),
        pytest.param((4, 8), pod(cpus(5, "a"), init=[sidecar(4)]), OK, ONE_ZONE, id="a sidecar has a zone of its own"),
        pytest.param(
            (4, 8), pod(cpus(6, "a"), init=[cpus(4, "i")]), ONE_ZONE, OK, id="re-use ties to the init container's zone"
        ),
        pytest.param(
            (4, 8), pod(cpus(4, "a"), init=[cpus(8, "i")]), OK, OK, id="re-use of part of the init container's CPUs"
        ),
    ],
)
def test_several_containers_under_single_numa_node(
    zone_cpus: tuple[int, ...], waiting: Pod, at_container_scope: Verdict, at_pod_scope: Verdict
) -> None:
    zones = [zone(number, {"cpu": count, "memory": "64Gi"}) for number, count in enumerate(zone_cpus)]
    found = {scope: verdict_on(machine(*zones, scope=scope), waiting) for scope in ("container", "pod")}
    assert found == {"container": at_container_scope, "pod": at_pod_scope}


@pytest.mark.parametrize(
    "wanted, verdict",
    [(13, OK), (14, OK), (15, COMMON_SET), (16, COMMON_SET), (17, OK), (28, OK), (29, SHORT)],
)
def test_restricted_refuses_what_lies_between_free_and_total_of_a_zone(wanted: int, verdict: Verdict) -> None:
    """kubernetes#132187: two zones of 16 CPUs, two reserved on each. 15 and 16 "need one zone", and none has them."""
    zones = [zone(number, {"cpu": (16, 14, 14)}) for number in (0, 1)]
    assert verdict_on(machine(*zones, policy="restricted"), guaranteed(wanted)) is verdict


def test_restricted_takes_the_smallest_number_of_zones_by_totals_not_by_what_is_free() -> None:
    """Three zones would do now, but two would do on an idle machine: refused until two of them are free."""
    busy = [zone(number, {"cpu": (8, 8, 4)}) for number in range(4)]
    assert verdict_on(machine(*busy, policy="restricted"), guaranteed(12)) is COMMON_SET
    freed = [*busy[:2], zone(2, {"cpu": 8}), zone(3, {"cpu": 8})]
    assert verdict_on(machine(*freed, policy="restricted"), guaranteed(12)) is OK


@pytest.mark.parametrize(
    "memory, single, restricted",
    [
        pytest.param("8Gi", OK, OK, id="beside the CPUs"),
        pytest.param("16Gi", ONE_ZONE, COMMON_SET, id="only where there are no CPUs"),
    ],
)
def test_a_zone_with_memory_only(memory: str, single: Verdict, restricted: Verdict) -> None:
    zones = (zone(0, {"cpu": 8, "memory": "8Gi"}), zone(1, {"memory": "64Gi"}))
    assert verdict_on(machine(*zones), guaranteed(2, memory)) is single
    assert verdict_on(machine(*zones, policy="restricted"), guaranteed(2, memory)) is restricted


def test_gaps_in_the_ids_and_any_order_of_zones_make_no_difference() -> None:
    sparse = (zone(40, {"cpu": 8, "memory": "16Gi"}), zone(2, {"cpu": 4, "memory": "16Gi"}))
    assert verdict_on(machine(*sparse), guaranteed(8)) is OK
    assert verdict_on(machine(*sparse), guaranteed(9)) is ONE_ZONE
    decision = decide(cluster(machine(*sparse)), guaranteed(8))
    assert [placed.zones for placed in decision.containers] == [(40,)]


@pytest.mark.parametrize(
    "reported, waiting",
    [
        pytest.param({GPU: 1}, guaranteed(60, "256Gi"), id="an agent that reports devices only"),
        pytest.param({"cpu": 64}, guaranteed(2, "256Gi"), id="an agent that does not report memory"),
        pytest.param({"cpu": 64, "memory": "64Gi"}, guaranteed(2, gpus=8), id="devices without topology"),
    ],
)
def test_what_no_zone_reports_is_not_aligned(reported: Amounts, waiting: Pod) -> None:
    assert verdict_on(machine(zone(0, reported), zone(1, {})), waiting) is OK


@pytest.mark.parametrize(
    "attributes, assume, verdict",
    [
        pytest.param({}, {}, ONE_ZONE, id="unknown: static is assumed"),
        pytest.param({}, {"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}, OK, id="unknown: none assumed"),
        pytest.param({}, {"cpuManagerPolicy": "none"}, ONE_ZONE, id="memory alone still decides"),
        pytest.param({"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"}, {}, OK, id="the node says none"),
        pytest.param({"cpuManagerPolicy": "none"}, {}, ONE_ZONE, id="the node says none about CPUs"),
        pytest.param(
            {"cpuManagerPolicy": "static"},
            {"cpuManagerPolicy": "none", "memoryManagerPolicy": "None"},
            ONE_ZONE,
            id="the node says static, whatever is assumed",
        ),
    ],
)
def test_managers_that_are_off_align_nothing(
    attributes: dict[str, str], assume: dict[str, str], verdict: Verdict
) -> None:
    """9 CPUs and 17 GiB on zones of 8 CPUs and 16 GiB: each manager alone would refuse."""
    assert verdict_on(machine(*TWIN, **attributes), guaranteed(9, "17Gi"), assume) is verdict


@pytest.mark.parametrize(
    "free_in_zone_0, groups, verdict",
    [
        pytest.param("16Gi", "Ignore", OK, id="idle"),
        pytest.param("16Gi", "Strict", OK, id="idle, strict"),
        pytest.param("15Gi", "Ignore", OK, id="in use, by an unknown pod: believed to be open"),
        pytest.param("15Gi", "Strict", COMMON_SET, id="in use, strict: closed to memory that spans zones"),
    ],
)
def test_strict_memory_groups_close_zones_in_use(free_in_zone_0: str, groups: str, verdict: Verdict) -> None:
    zones = (zone(0, {"memory": ("16Gi", "16Gi", free_in_zone_0)}), zone(1, {"memory": "16Gi"}))
    state = cluster(machine(*zones, policy="restricted"), nodes=[node("machine", LARGE)])
    assumptions = read_arguments({"assume": {"memoryGroups": groups}}).assumptions
    assert in_columns(state, guaranteed("500m", "20Gi"), assumptions, 0) is verdict


class TestManyZones:
    @pytest.mark.parametrize("zones", [9, 16, 64])
    @pytest.mark.parametrize(
        "wanted, single, restricted",
        [(2, OK, OK), (3, ONE_ZONE, OK), (9, ONE_ZONE, OK)],
    )
    def test_more_zones_than_tables_hold(self, zones: int, wanted: int, single: Verdict, restricted: Verdict) -> None:
        wide = [zone(number, {"cpu": 2}) for number in range(zones)]
        found = {
            policy: in_columns(cluster(machine(*wide, policy=policy)), guaranteed(wanted), Assumptions(), 0)
            for policy in ("single-numa-node", "restricted", "best-effort")
        }
        assert found == {"single-numa-node": single, "restricted": restricted, "best-effort": OK}

    def test_a_search_that_would_never_end_is_given_up_as_a_refusal(self) -> None:
        """CPUs lie in even zones, GPUs in odd ones, so no 20 zones out of 64 hold 20 of each."""
        zones = [zone(number, {"cpu": 1 - number % 2, GPU: number % 2}) for number in range(64)]
        state = cluster(machine(*zones, policy="restricted"))
        assert in_columns(state, guaranteed(20, gpus=20), Assumptions(), 0) is COMMON_SET


class TestDataThatCannotBeUsed:
    def test_contradicting_zones(self) -> None:
        state = cluster(machine(zone(0, {"cpu": 8}), zone(0, {"cpu": 8})))
        assert in_columns(state, guaranteed(2), Assumptions(), 0) is Verdict.DATA_INVALID

    def test_stale_data(self) -> None:
        state = cluster(machine(*TWIN))
        state.set_fresh("machine", fresh=False)
        assert in_columns(state, guaranteed(2), Assumptions(), 0) is Verdict.DATA_STALE

    def test_stale_data_does_not_matter_to_a_pod_without_needs(self) -> None:
        state = cluster(machine(*TWIN))
        state.set_fresh("machine", fresh=False)
        assert in_columns(state, burstable(2), Assumptions(), 0) is OK

    def test_a_node_without_a_report_aligns_nothing(self) -> None:
        assert in_columns(cluster(nodes=[node("bare", LARGE)]), guaranteed(900), Assumptions(), 0) is OK

    def test_a_report_without_zones_is_no_harm_where_the_kubelet_ignores_zones(self) -> None:
        state = cluster(topology(name="machine", policy="best-effort"), nodes=[node("machine", LARGE)])
        assert in_columns(state, guaranteed(900), Assumptions(), 0) is OK
        assert decide(state, guaranteed(900)).placed

    @pytest.mark.parametrize("policy", ["restricted", "single-numa-node", "strictest"])
    def test_without_zones_the_kubelets_answer_is_unknown(self, policy: str) -> None:
        state = cluster(topology(name="machine", policy=policy), nodes=[node("machine", LARGE)])
        assert in_columns(state, guaranteed(2), Assumptions(), 0) is Verdict.DATA_INVALID
        assert in_columns(state, burstable(2), Assumptions(), 0) is OK
