"""Gangs that greedy schedulers lose: small clusters with the optimum that an exhaustive search found.

Every case goes the whole way: Node objects with labels, pods with GPUs, a gang of groups, `schedule_gang`. It passes if feasibility
agrees, every required level holds in the seats, no node has more than its free amounts, and no fewer preferred domains would do.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.gangs.problem import Status
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.gang import Gang, GangDecision, Group
from bayplan.scheduling.gang_cycle import GangScheduler, schedule_gang
from bayplan.scheduling.profile import default_profile
from bayplan.scheduling.trees import Trees
from tests.helpers import node, simple_pod

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

GPU = "nvidia.com/gpu"
TOPOLOGY = "network"


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


def scheduler_of(case: Case) -> GangScheduler:
    state = ClusterState()
    for each in case["nodes"]:
        state.set_node(node(each["name"], each["free"], labels=each["labels"]))
    trees = Trees(state)
    trees.set(TOPOLOGY, tuple(case["levels"]))
    return GangScheduler(state, trees, default_profile(), ClassAnswers(state))


def gang_of(case: Case) -> Gang:
    gang = case["gang"]
    groups = tuple(
        Group(
            name=each["name"],
            pods=tuple(
                simple_pod({GPU: gpus}, f"{each['name']}-{number}") for number, gpus in enumerate(each["gpusPerPod"])
            ),
            required=each.get("required"),
            preferred=each.get("preferred"),
        )
        for each in gang["subGroups"]
    )
    whole = Group(groups=groups, required=gang.get("required"), preferred=gang.get("preferred"))
    return Gang("default/gang", whole, TOPOLOGY)


def broken_rule(case: Case, decision: GangDecision) -> str | None:
    sizes = {
        f"default/{group['name']}-{number}": gpus
        for group in case["gang"]["subGroups"]
        for number, gpus in enumerate(group["gpusPerPod"])
    }
    if sorted(seat.pod for seat in decision.seats) != sorted(sizes):
        return f"seats of {[seat.pod for seat in decision.seats]}, the gang has {list(sizes)}"
    for each in case["nodes"]:
        here = [seat.pod for seat in decision.seats if seat.node == each["name"]]
        if sum(sizes[pod] for pod in here) > each["free"][GPU] or len(here) > each["free"].get("pods", 110):
            return f"{here} do not fit on {each['name']}: {each['free']}"
    for group in (case["gang"] | {"name": None}, *case["gang"]["subGroups"]):
        used = domains(case, decision, group.get("required"), group["name"])
        if len(used) > 1:
            return f"{group['name'] or 'the gang'} requires one {group['required']}, has {used}"
    return None


def not_the_fewest(case: Case, decision: GangDecision) -> str | None:
    fewest = case["expected"].get("minDistinctPreferredDomains")
    used = domains(case, decision, case["gang"].get("preferred"))
    if fewest is None or len(used) == fewest == decision.preferred_domains:
        return None if decision.status is Status.OPTIMAL else f"not proven optimal: {decision.status}, {decision.bound}"
    return f"uses {len(used)} preferred domains (says {decision.preferred_domains}), the fewest are {fewest}"


def domains(
    case: Case, decision: GangDecision, level: str | None, group: str | None = None
) -> Counter[tuple[Any, ...]]:
    """The domains of a level, as paths of label values, that pods of a group (or of all) stand in."""
    if level is None:
        return Counter()
    above = case["levels"][: case["levels"].index(level) + 1]
    path = {each["name"]: tuple(each["labels"][label] for label in above) for each in case["nodes"]}
    return Counter(path[seat.node] for seat in decision.seats if group in (None, seat.group))
