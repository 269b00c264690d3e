"""One node as Volcano judges it: the gate, hints, policies, and the CPUs it would take, right and wrong ones."""

from __future__ import annotations

import pytest

from bayplan.compat.volcano.numa.machine import NO_CPUS, CpuPlace, Cpus, Machine, take_cpus
from bayplan.compat.volcano.numa.predicate import (
    GateResult,
    NodeCpus,
    NodePolicies,
    Rejection,
    cpu_hints,
    evaluate,
    gate,
    judge,
    numa_nodes_needed,
)
from bayplan.engine.kubelet.merge import Hint

# Two sockets of two cores with two threads each, numbered side by side.
EIGHT = Machine({cpu: CpuPlace(cpu // 4, cpu // 4, cpu // 2) for cpu in range(8)})
# Two sockets of ten cores; numbers of cores begin anew in the second, and second threads come last: what Linux shows on
# most servers.
FORTY = Machine({cpu: CpuPlace(cpu // 10 % 2, cpu // 10 % 2, cpu % 10) for cpu in range(40)})


def cpus(*ranges: tuple[int, int]) -> Cpus:
    return frozenset(cpu for first, last in ranges for cpu in range(first, last + 1))


class TestGate:
    ALIGNS = NodePolicies("static", "restricted")

    @pytest.mark.parametrize(
        "policy, node, outcome",
        [
            ("", None, GateResult.UNCHECKED),
            ("none", NodePolicies("none", "restricted"), GateResult.UNCHECKED),
            ("none", NodePolicies("static", "none"), GateResult.UNCHECKED),
            ("none", ALIGNS, GateResult.EVALUATE),
            ("restricted", ALIGNS, GateResult.EVALUATE),
        ],
    )
    def test_open(self, policy: str, node: NodePolicies | None, outcome: GateResult) -> None:
        assert gate(policy, node, cpus((0, 7)), guaranteed=True) == (outcome, None)

    @pytest.mark.parametrize(
        "node, free, why",
        [
            (None, cpus((0, 7)), Rejection.NO_INFO),
            (NodePolicies("none", "restricted"), cpus((0, 7)), Rejection.NOT_STATIC),
            (NodePolicies("static", "best-effort"), cpus((0, 7)), Rejection.OTHER_POLICY),
            (ALIGNS, None, Rejection.NO_SETS),
            (ALIGNS, NO_CPUS, Rejection.NO_FREE_CPUS),
        ],
    )
    def test_closed(self, node: NodePolicies | None, free: Cpus | None, why: Rejection) -> None:
        assert gate("restricted", node, free, guaranteed=True) == (GateResult.REJECT, why)
        assert gate("restricted", node, free, guaranteed=False) == (GateResult.UNCHECKED, None)


class TestHints:
    def test_small_sets_first_and_preferred_if_totals_need_no_larger_one(self) -> None:
        found = cpu_hints(NodeCpus(EIGHT), cpus((1, 7)), 4)
        assert found == [Hint(0b10, preferred=True), Hint(0b11, preferred=False)]

    def test_reserved_cpus_are_not_free(self) -> None:
        assert cpu_hints(NodeCpus(EIGHT, reserved_milli=1500), EIGHT.cpus, 8) == []

    def test_nothing_to_align(self) -> None:
        assert cpu_hints(NodeCpus(EIGHT), EIGHT.cpus, 0) is None


NARROW = {"cpu": [Hint(0b11, preferred=False), Hint(0b01, preferred=True)]}
WIDE = {"gpu": [Hint(0b11, preferred=True)]}


class TestPolicies:
    @pytest.mark.parametrize(
        "policy, merged, admitted",
        [
            ("none", Hint(None, preferred=False), True),
            ("best-effort", Hint(0b01, preferred=True), True),
            ("restricted", Hint(0b01, preferred=True), True),
            ("single-numa-node", Hint(0b11, preferred=False), False),
            ("an unknown policy", Hint(None, preferred=False), True),
        ],
    )
    def test_a_set_inside_a_wider_one_is_preferred(self, policy: str, merged: Hint, *, admitted: bool) -> None:
        """Today's kubelet would say: not preferred, because the two do not name the same zones."""
        assert judge(policy, (0, 1), [NARROW, WIDE]) == (merged, admitted)

    def test_a_resource_that_no_node_can_give(self) -> None:
        assert judge("best-effort", (0, 1), [{"cpu": []}]) == (Hint(0b11, preferred=False), True)
        assert judge("restricted", (0, 1), [{"cpu": []}]) == (Hint(0b11, preferred=False), False)


class TestPicker:
    @pytest.mark.parametrize(
        "available, count, taken",
        [
            pytest.param(cpus((0, 7)), 4, cpus((0, 3)), id="a socket"),
            pytest.param(cpus((0, 7)), 5, cpus((0, 4)), id="a socket and a thread"),
            pytest.param(cpus((1, 7)), 5, frozenset({1, 4, 5, 6, 7}), id="the socket whose number is a free CPU"),
            pytest.param(cpus((0, 7)), 0, NO_CPUS, id="nothing"),
            pytest.param(cpus((0, 2)), 4, None, id="too few"),
        ],
    )
    def test_wholes_first(self, available: Cpus, count: int, taken: Cpus | None) -> None:
        assert take_cpus(EIGHT, available, count) == taken

    def test_a_core_number_reaches_over_sockets(self) -> None:
        assert take_cpus(FORTY, FORTY.cpus, 2) == frozenset({0, 10, 20, 30})


class TestEvaluation:
    def test_containers_in_turn(self) -> None:
        found = evaluate(NodeCpus(EIGHT), "single-numa-node", EIGHT.cpus, [3000, 3000, 3000])
        assert [(sorted(each.cpus), each.admitted) for each in found.containers] == [
            ([0, 1, 2], True),
            ([4, 5, 6], True),
            ([], False),
        ]
        assert not found.admitted

    def test_fractions_and_nothing_are_admitted_and_own_nothing(self) -> None:
        found = evaluate(NodeCpus(EIGHT), "single-numa-node", EIGHT.cpus, [1500, None])
        assert (found.admitted, found.cpus) == (True, NO_CPUS)

    def test_a_starved_best_effort_node_admits_and_gives_nothing(self) -> None:
        found = evaluate(NodeCpus(EIGHT), "best-effort", cpus((0, 1)), [4000])
        assert (found.admitted, numa_nodes_needed(EIGHT, found.cpus)) == (True, 0)

    def test_issue_2892_today(self) -> None:
        """16 CPUs with 20 free on NUMA node 1."""
        found = evaluate(NodeCpus(FORTY, 1000), "single-numa-node", cpus((10, 19), (30, 39)), [16000])
        assert found.admitted
        assert numa_nodes_needed(FORTY, found.cpus) == 1
