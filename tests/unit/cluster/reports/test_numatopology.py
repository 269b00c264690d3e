"""Numatopology objects as reports: what they say, what they leave out, and nonsense that is named instead of guessed
at.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.reports.numatopology import read_numatopology
from bayplan.cluster.reports.topology_report import TopologyReport
from bayplan.cluster.reports.zone_reports import ZoneAmounts
from bayplan.engine.kubelet.cpu_assignment import take
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from tests.builders.numatopologies import machine, numatopology

EIGHT = machine(2, 4)


def written(**spec: Any) -> Numatopology:
    return msgspec.convert({"metadata": {"name": "n1"}, "spec": spec}, Numatopology)


def cpus(report: TopologyReport) -> dict[int, tuple[int, int, int]]:
    """Zone id to (all, for pods, left), in whole CPUs."""
    found = {}
    for zone in report.zones:
        amounts: ZoneAmounts = zone.resources["cpu"]
        found[zone.id] = (amounts.capacity // 1000, amounts.allocatable // 1000, amounts.available // 1000)
    return found


def problems(report: TopologyReport) -> list[str]:
    return [str(problem) for problem in report.remarks]


def test_free_cpus_by_zone() -> None:
    report = read_numatopology(numatopology("n1", EIGHT, free="1-5", reserved="1"))
    assert (report.node, cpus(report)) == ("n1", {0: (4, 3, 3), 1: (4, 4, 2)})
    assert report.remarks == []


def test_reserved_cpus_are_free_in_the_object_and_not_for_pods() -> None:
    report = read_numatopology(numatopology("n1", EIGHT, reserved="1500m"))
    assert cpus(report) == {0: (4, 2, 2), 1: (4, 4, 4)}
    assert report.inventory is not None
    assert (report.inventory.free_cpus, report.inventory.reserved_cpus) == (0b11111100, 0b11)


def test_dropped_zeros_are_zeros() -> None:
    detail = {"0": {}, "1": {"core": 1}, "2": {"numa": 1, "socket": 1}, "3": {"numa": 1, "socket": 1, "core": 1}}
    report = read_numatopology(written(cpuDetail=detail, numares={"cpu": {"allocatable": "0-3"}}))
    assert cpus(report) == {0: (2, 2, 2), 1: (2, 2, 2)}


def test_core_numbers_that_repeat_in_every_socket_are_different_cores() -> None:
    report = read_numatopology(numatopology("n1", machine(2, 4, threads=2)))
    assert report.inventory is not None
    assert report.inventory.cpus.core == (0, 0, 2, 2, 4, 4, 6, 6)
    assert report.inventory.kernel_cores == (0, 0, 1, 1, 0, 0, 1, 1)
    assert report.inventory.cpus.threads_per_core == 2


def test_cpus_that_are_offline_leave_gaps() -> None:
    """With hyper-threading switched off, every other number is missing."""
    detail = {cpu: place for cpu, place in machine(2, 4, threads=2).items() if int(cpu) % 2 == 0}
    report = read_numatopology(numatopology("n1", detail))
    assert cpus(report) == {0: (2, 2, 2), 1: (2, 2, 2)}
    assert report.inventory is not None
    assert (report.inventory.cpus.count, report.inventory.cpus.threads_per_core) == (4, 1)


@pytest.mark.parametrize(
    "policies, policy, static",
    [
        ({"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"}, Policy.RESTRICTED, True),
        ({"CPUManagerPolicy": "none", "TopologyManagerPolicy": "none"}, Policy.NONE, False),
        pytest.param({"CPUManagerPolicy": "", "TopologyManagerPolicy": ""}, Policy.NONE, False, id="defaults"),
        pytest.param({}, Policy.NONE, False, id="nothing said"),
    ],
)
def test_policies(policies: dict[str, str], policy: Policy, *, static: bool) -> None:
    settings = read_numatopology(written(policies=policies)).settings
    assert (settings.policy, settings.cpu_static) == (policy, static)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9])
def test_the_kubelets_own_picker_reserves_the_same_cpus(count: int, threads: int) -> None:
    report = read_numatopology(numatopology("n1", machine(2, 8, threads=threads), reserved=str(count)))
    inventory = report.inventory
    assert inventory is not None
    assert inventory.reserved_cpus == take(inventory.cpus, frozenset(), 2**16 - 1, count)


def test_an_agent_may_name_the_reserved_cpus() -> None:
    """One in each zone, as `reservedSystemCPUs` often has it."""
    names_them = {"bayplan.io/reserved-cpus": "0,4"}
    report = read_numatopology(numatopology("n1", EIGHT, reserved="2", annotations=names_them))
    assert cpus(report) == {0: (4, 3, 3), 1: (4, 3, 3)}
    assert report.inventory is not None
    assert report.inventory.reserved_cpus == 0b10001
    assert report.remarks == []


def test_where_a_pod_holds_one_of_the_lowest_the_reserved_cpus_may_be_anywhere() -> None:
    """The kubelet was told which CPUs to reserve, and Volcano's agent does not pass that on: no
    zone may promise them.
    """
    report = read_numatopology(numatopology("n1", EIGHT, free="0,2-7", reserved="2", pods={"ml/a": "1"}))
    assert cpus(report) == {0: (4, 2, 1), 1: (4, 2, 2)}
    assert report.inventory is None, "which CPUs the kubelet hands out next is unknown"
    (problem,) = problems(report)
    assert problem == (
        "Numatopology n1: spec.resReserved.cpu: of the 2 lowest CPUs (0-1) pods hold 1, so the kubelet reserves others,"
        " and the object cannot say which: every zone is counted without 2"
    )


# -- pods ----------------------------------------------------------------------------------------------------------


def test_pods_and_what_they_hold() -> None:
    report = read_numatopology(numatopology("n1", EIGHT, free="7", pods={"ml/a": "0-3", "ml/b": "4-6"}))
    assert report.pods == {"ml/a": {"cpu": {0: 4000}}, "ml/b": {"cpu": {1: 3000}}}


def test_pods_known_by_their_uid_alone() -> None:
    """Agents that read the kubelet's state file know nothing else."""
    entries = [
        {"uid": uid, "containerAllocations": [{"name": "c", "allocations": {"cpu": "0"}}]} for uid in ("u1", "u2")
    ]
    report = read_numatopology(written(cpuDetail={"0": {}, "1": {}}, podAllocations=entries), {"u1": "ml/a"})
    assert report.pods == {"ml/a": {"cpu": {0: 1000}}}


@pytest.mark.parametrize(
    "free, listed", [pytest.param("0-7", {}, id="idle"), pytest.param("4-7", None, id="an agent that lists no pods")]
)
def test_no_list_of_pods(free: str, listed: object) -> None:
    assert read_numatopology(numatopology("n1", EIGHT, free=free)).pods == listed


def test_the_moment_of_the_report() -> None:
    report = read_numatopology(numatopology("n1", EIGHT, annotations={"timestamp": "1760000000"}))
    assert report.made_at == 1_760_000_000.0


# -- nonsense ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec, problem",
    [
        pytest.param(
            {"cpuDetail": {"0": {}, "one": {"core": 1}}},
            'spec.cpuDetail["one"]: is no CPU number from 0 to 4095: CPU ignored',
            id="a name",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}, "-1": {}}},
            'spec.cpuDetail["-1"]: is no CPU number from 0 to 4095: CPU ignored',
            id="negative",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}, "1": {"numa": 64}}},
            'spec.cpuDetail["1"]: numa 64, socket 0, core 0 makes no sense; NUMA ids are 0 to 63: CPU ignored',
            id="a zone beyond the kubelet's",
        ),
        pytest.param({}, "spec.cpuDetail: holds no CPU: nothing can be aligned", id="nothing"),
        pytest.param(
            {"cpuDetail": {"0": {}}, "numares": {"cpu": {"allocatable": "0-3"}}},
            "spec.numares.cpu.allocatable: CPUs 1-3 are not in cpuDetail: ignored",
            id="free CPUs that do not exist",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}}, "numares": {"cpu": {"allocatable": "0,x"}}},
            'spec.numares.cpu.allocatable: "0,x" is ignored: expected a list of CPU ids from 0 to 4095 such as 0-3,8',
            id="no list",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}, "1": {"core": 1}}, "numares": {"cpu": {"allocatable": "0-1", "capacity": 3}}},
            "spec.numares.cpu.capacity: 3 is ignored: cpuDetail has 2 CPUs",
            id="another number of CPUs",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}}, "resReserved": {"cpu": "1500m"}},
            "spec.resReserved.cpu: 2 CPUs are more than the 1 in cpuDetail: none is left",
            id="more is reserved than there is",
        ),
        pytest.param(
            {
                "cpuDetail": {"0": {}},
                "podAllocations": [{"uid": "u1", "containerAllocations": [{"allocations": {"cpu": "x"}}]}],
            },
            'spec.podAllocations[0].containerAllocations[0].allocations.cpu: "x" is ignored:'
            " expected a list of CPU ids from 0 to 4095 such as 0-3,8",
            id="no list, of an unknown pod",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}}, "policies": {"TopologyManagerPolicy": "strict"}},
            'spec.policies.TopologyManagerPolicy: "strict" is not known: the node is judged as single-numa-node'
            " (assume.topologyManagerPolicy); expected none, best-effort, restricted, single-numa-node",
            id="no policy",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}}, "policies": {"CPUManagerPolicy": "dynamic"}},
            'spec.policies.CPUManagerPolicy: "dynamic" is ignored: expected none, static',
            id="no CPU Manager policy",
        ),
        pytest.param(
            {"cpuDetail": {"0": {}}, "policies": {"CPUManagerPolicy": "static"}},
            "spec.resReserved: no CPU is reserved, but a kubelet with static CPU Manager always reserves some:"
            " it may refuse what looks free",
            id="nothing reserved",
        ),
    ],
)
def test_nonsense_is_named(spec: dict[str, Any], problem: str) -> None:
    assert f"Numatopology n1: {problem}" in problems(read_numatopology(written(**spec)))


def test_a_reservation_that_is_no_quantity_counts_as_none() -> None:
    report = read_numatopology(numatopology("n1", EIGHT, reserved="a lot"))
    assert cpus(report) == {0: (4, 4, 4), 1: (4, 4, 4)}
    assert any("spec.resReserved.cpu" in problem and "taken as none" in problem for problem in problems(report))


def test_a_cpu_of_an_unreadable_number_is_not_cpu_0() -> None:
    report = read_numatopology(written(cpuDetail={"4": {"numa": 1}, "x": {}}, numares={"cpu": {"allocatable": "0,4"}}))
    assert cpus(report) == {1: (1, 1, 1)}
