"""Preemption against every set of victims: same feasibility, same cost.

The oracle knows nothing of columns, dry runs and searches: it adds up what is left in each zone without a set of pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product
from random import Random

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.engine.preemption.victims import Candidate, Cost, cost_of
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.preemption.plan import GangPreemption, plan_gang_preemption
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import EvictionRules, RunningGang
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption, plan_preemption
from bayplan.scheduling.profile import default_profile
from tests.builders.clusters import decide
from tests.builders.objects import simple_pod
from tests.preemption_cases import Case, amounts_of, rules_of, state_of

PODS_CASES, GANG_CASES, UNLISTED_CASES, CHUNKS = 5_000, 2_000, 600, 8
RACK = "example.com/rack"


def random_case(random: Random, *, gangs: bool) -> Case:
    """A small full cluster; every pod fits in its zone."""
    nodes: list[Case] = []
    pods: list[Case] = []
    for number in range(random.randint(1, 4 if gangs else 3)):
        policy = random.choice(("none", "single-numa-node", "single-numa-node"))
        zones = [
            {"cpu": random.choice((2, 4, 6)), "gpu": random.choice((0, 1, 2))} for _ in range(random.randint(1, 3))
        ]
        nodes.append({"name": f"n{number}", "policy": policy, "zones": zones, "rack": f"r{random.randint(0, 1)}"})
        for position, total in enumerate(zones):
            cpu, gpu = total["cpu"], total["gpu"]
            while cpu and random.random() < 0.75 and len(pods) < 8:
                taken = {"cpu": random.randint(1, cpu), "gpu": random.randint(0, gpu)}
                cpu, gpu = cpu - taken["cpu"], gpu - taken["gpu"]
                pods.append(
                    {
                        "name": f"p{len(pods)}",
                        "node": f"n{number}",
                        "zone": position,
                        **taken,
                        "priority": random.choice((-10, 0, 0, 10, 50, 100, 200)),
                        "pdb": random.choice((None, None, "a", "b")),
                        "gang": random.choice(("", "", "g", "h")) if gangs else "",
                        "leaving": random.random() < 0.1,
                    }
                )
    return {
        "nodes": nodes,
        "pods": pods,
        "pdbs": [{"name": "a", "disruptionsAllowed": random.randint(0, 2)}, {"name": "b", "disruptionsAllowed": 0}],
        "surplus": {"g": random.randint(0, 2), "h": random.randint(0, 1)},
        "preemptor": {
            "cpu": random.randint(1, 4),
            "gpu": random.randint(0, 2),
            "priority": random.choice((5, 60, 150)),
        },
        "count": random.randint(2, 5) if gangs else 1,
        "required": gangs and random.random() < 0.6,
    }


def sets_of_victims(case: Case) -> Iterator[list[Case]]:
    """Every set of pods that may go: less important, running, and of a gang either its surplus or all."""
    may_go = [pod for pod in case["pods"] if pod["priority"] < case["preemptor"]["priority"] and not pod["leaving"]]
    for chosen in chain.from_iterable(combinations(may_go, number) for number in range(len(may_go) + 1)):
        gangs = {pod["gang"] for pod in chosen if pod["gang"]}
        running = {name: [pod for pod in case["pods"] if pod["gang"] == name and not pod["leaving"]] for name in gangs}
        gone = {name: [pod for pod in chosen if pod["gang"] == name] for name in gangs}
        if all(len(gone[name]) <= surplus_of(case, name) or len(gone[name]) == len(running[name]) for name in gangs):
            yield list(chosen)


def surplus_of(case: Case, gang: str) -> int:
    running = [pod for pod in case["pods"] if pod["gang"] == gang and not pod["leaving"]]
    return min(int(case["surplus"][gang]), len(running))


def slots(case: Case, node: Case, gone: set[str]) -> int:
    """How many pods like the preemptor a node holds without some pods."""
    asked = case["preemptor"]
    left = [
        {
            kind: total[kind]
            - sum(
                pod[kind]
                for pod in case["pods"]
                if (pod["node"], pod["zone"]) == (node["name"], number) and pod["name"] not in gone
            )
            for kind in ("cpu", "gpu")
        }
        for number, total in enumerate(node["zones"])
    ]
    if node["policy"] == "none":
        left = [{kind: sum(zone[kind] for zone in left) for kind in ("cpu", "gpu")}]
    kinds = [kind for kind in ("cpu", "gpu") if asked[kind]]
    return sum(min(int(zone[kind]) // int(asked[kind]) for kind in kinds) for zone in left)


def fits(case: Case, gone: set[str]) -> bool:
    by_node = {node["name"]: slots(case, node, gone) for node in case["nodes"]}
    if not case["required"]:
        return sum(by_node.values()) >= int(case["count"])
    racks = {node["rack"] for node in case["nodes"]}
    return any(
        sum(by_node[node["name"]] for node in case["nodes"] if node["rack"] == rack) >= case["count"] for rack in racks
    )


def cheapest(case: Case) -> Cost | None:
    """The cost of the cheapest set, by trying all."""
    leaving = {pod["name"] for pod in case["pods"] if pod["leaving"]}
    allowed = {f"default/{each['name']}": each["disruptionsAllowed"] for each in case["pdbs"]}
    best: Cost | None = None
    for chosen in sets_of_victims(case):
        gone = leaving | {pod["name"] for pod in chosen}
        if fits(case, gone):
            victims = [
                Candidate(
                    f"default/{pod['name']}", pod["priority"], {}, (f"default/{pod['pdb']}",) if pod["pdb"] else ()
                )
                for pod in chosen
            ]
            cost = cost_of(victims, allowed)
            best = cost if best is None or cost < best else best
    return best


def rules_with_gangs(case: Case) -> EvictionRules:
    def gang_of(key: str) -> RunningGang | None:
        name = next(pod["gang"] for pod in case["pods"] if f"default/{pod['name']}" == key)
        if not name:
            return None
        members = tuple(f"default/{pod['name']}" for pod in case["pods"] if pod["gang"] == name)
        return RunningGang(name, members, surplus_of(case, name))

    return EvictionRules(rules_of(case).budgets, gang_of)


def cheapest_wherever_pods_are(case: Case) -> Cost | None:
    """The cost of the cheapest set that makes room on one node, wherever amounts allow its pods to be."""
    possible = {node["name"]: [*placements(case, node)] for node in case["nodes"]}
    allowed = {f"default/{each['name']}": each["disruptionsAllowed"] for each in case["pdbs"]}
    leaving = {pod["name"] for pod in case["pods"] if pod["leaving"]}

    def suffices(chosen: list[Case]) -> bool:
        gone = leaving | {pod["name"] for pod in chosen}
        return any(all(slots(each, node, gone) for each in possible[node["name"]]) for node in case["nodes"])

    costs = (
        cost_of(
            [
                Candidate(each["name"], each["priority"], {}, (f"default/{each['pdb']}",) if each["pdb"] else ())
                for each in chosen
            ],
            allowed,
        )
        for chosen in sets_of_victims(case)
        if suffices(chosen)
    )
    return min(costs, default=None)


def placements(case: Case, node: Case) -> Iterator[Case]:
    """The case with the pods of a node wherever they explain what is in use there."""

    def in_use(pods: list[Case]) -> list[tuple[int, int]]:
        at = range(len(node["zones"]))
        return [tuple(sum(pod[kind] for pod in pods if pod["zone"] == zone) for kind in ("cpu", "gpu")) for zone in at]

    here = [pod for pod in case["pods"] if pod["node"] == node["name"]]
    for zones in product(range(len(node["zones"])), repeat=len(here)):
        moved = [pod | {"zone": zone} for pod, zone in zip(here, zones, strict=True)]
        if in_use(moved) == in_use(here):
            yield case | {"pods": moved}


def gang_plan(case: Case) -> GangPreemption | NoPreemption | None:
    """What is planned for the gang of a case; None if it fits without evictions."""
    state = state_of(case)
    trees = Trees(state)
    trees.set("network", (RACK,))
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    amounts, priority = amounts_of(case["preemptor"]), case["preemptor"]["priority"]
    pods = tuple(simple_pod(amounts, f"w{number}", priority=priority) for number in range(case["count"]))
    gang = Gang("default/gang", Group(pods=pods, required=RACK if case["required"] else None), "network")
    if schedule_gang(scheduler, gang).placed:
        return None
    return plan_gang_preemption(scheduler, gang, Freeable(state), rules_with_gangs(case))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_eviction_for_a_pod_costs_less(chunk: int) -> None:
    seen: set[int | None] = set()
    for seed in range(chunk, PODS_CASES, CHUNKS):
        random = Random(seed)
        case = random_case(random, gangs=random.random() < 0.3) | {"count": 1, "required": False}
        state: ClusterState = state_of(case)
        pod = simple_pod(amounts_of(case["preemptor"]), "preemptor", priority=case["preemptor"]["priority"])
        if decide(state, pod).placed:
            continue
        plan = plan_preemption(
            state, pod, default_profile(), ClassAnswers(state), Freeable(state), rules_with_gangs(case)
        )
        expected = cheapest(case)
        found = plan.cost if isinstance(plan, Preemption) else None
        assert found == expected, f"seed {seed}: {plan}, expected {expected}"
        assert not isinstance(plan, Preemption) or plan.proven
        seen.add(None if found is None else found[3])
    assert {None, 1, 2} <= seen


def test_where_reports_list_no_pods_no_eviction_costs_less_wherever_they_are() -> None:
    seen: set[int | None] = set()
    for seed in range(UNLISTED_CASES):
        random = Random(seed)
        case = random_case(random, gangs=random.random() < 0.2) | {"count": 1, "required": False}
        if len(case["pods"]) > 6:
            continue
        state = state_of(case, lists_pods=False)
        pod = simple_pod(amounts_of(case["preemptor"]), "preemptor", priority=case["preemptor"]["priority"])
        if decide(state, pod).placed:
            continue
        plan = plan_preemption(
            state, pod, default_profile(), ClassAnswers(state), Freeable(state), rules_with_gangs(case)
        )
        expected = cheapest_wherever_pods_are(case)
        found = plan.cost if isinstance(plan, Preemption) else None
        assert found == expected, f"seed {seed}: {plan}, expected {expected}"
        seen.add(None if found is None else found[3])
    assert {None, 1, 2} <= seen


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_eviction_for_a_gang_costs_less(chunk: int) -> None:
    seen: set[int | None] = set()
    for seed in range(chunk, GANG_CASES, CHUNKS):
        case = random_case(Random(1_000_000 + seed), gangs=True)
        plan = gang_plan(case)
        if plan is None:
            continue
        expected = cheapest(case)
        found = plan.cost if isinstance(plan, GangPreemption) else None
        assert found == expected, f"seed {seed}: {plan}, expected {expected}"
        assert not isinstance(plan, GangPreemption) or plan.proven
        seen.add(None if found is None else found[3])
    assert {None, 1, 2} <= seen
