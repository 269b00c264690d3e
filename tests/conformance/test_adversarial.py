"""Gangs that greedy schedulers lose: small clusters with the optimum that an exhaustive search found.

Every case goes the whole way: Node objects with labels, pods with GPUs, a gang of groups, `schedule_gang`. It passes if
feasibility agrees, every required level holds in the seats, no node has more than its free amounts, and no fewer
preferred domains would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bayplan.engine.gangs.problem import Status
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import GangDecision
from tests.written_gangs import GPU, broken_rule, domains, gang_of, scheduler_of

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance


@pytest.mark.fixture_files("adversarial/gang_topology", "adversarial/random_gangs", "adversarial/planted_gangs")
def test_gangs(conformance: Conformance) -> None:
    conformance.check_each(gang_problem)


@pytest.mark.fixture_files("adversarial/victim_filter", chunks=1)
def test_equal_names_under_different_parents(conformance: Conformance) -> None:
    conformance.check_each(lambda case: gang_problem(as_gang(case)))


def as_gang(case: Case) -> Case:
    """A case that only names sums of GPUs: pods of one GPU each."""
    levels = ["zone", "rack"]
    return {
        "levels": levels,
        "nodes": [
            {"name": f"n{number}", "labels": {level: each[level] for level in levels}, "free": {GPU: each["idle"]}}
            for number, each in enumerate(case["nodes"])
        ],
        "gang": {
            "subGroups": [
                {"name": f"g{number}", "required": case["required"], "gpusPerPod": [1] * gpus}
                for number, gpus in enumerate(case["subGroupGpus"])
            ]
        },
        "expected": case["expected"],
    }


def gang_problem(case: Case) -> str | None:
    expected = case["expected"]
    decision = schedule_gang(scheduler_of(case), gang_of(case))
    if decision.placed != expected["feasible"]:
        return f"placed: {decision.placed}, expected {expected['feasible']} ({decision.status}, {decision.bound})"
    if not decision.placed:
        return None if decision.status is Status.INFEASIBLE else f"no proof: {decision.status}, {decision.bound}"
    return broken_rule(case, decision) or not_the_fewest(case, decision)


def not_the_fewest(case: Case, decision: GangDecision) -> str | None:
    fewest = case["expected"].get("minDistinctPreferredDomains")
    used = domains(case, decision, case["gang"].get("preferred"))
    if fewest is None or len(used) == fewest == decision.preferred_domains:
        return None if decision.status is Status.OPTIMAL else f"not proven optimal: {decision.status}, {decision.bound}"
    return f"uses {len(used)} preferred domains (says {decision.preferred_domains}), the fewest are {fewest}"
