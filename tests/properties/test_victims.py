"""The cheapest victims on one node, against every set of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from random import Random

import pytest

from bayplan.engine.budget import Budget
from bayplan.engine.preemption.victims import Candidate, Cell, Cost, GangVictims, cheapest_victims, cost_of

CASES = 3_000
CHUNKS = 4
CPU, GPU = "cpu", "gpu"


def by_all_sets(
    candidates: list[Candidate],
    alternatives: list[dict[Cell, int]],
    allowed: Mapping[str, int],
    gangs: Mapping[str, GangVictims],
) -> Cost | None:
    best: Cost | None = None
    for number in range(1, len(candidates) + 1):
        for chosen in combinations(candidates, number):
            pods = {each.key: each for each in chosen}
            for name, gang in gangs.items():
                if sum(each.gang == name for each in chosen) > gang.surplus:
                    pods |= {each.key: each for each in gang.members}
            freed = {
                cell: sum(each.frees.get(cell, 0) for each in pods.values()) for needs in alternatives for cell in needs
            }
            if any(all(freed[cell] >= amount for cell, amount in needs.items()) for needs in alternatives):
                cost = cost_of(pods.values(), allowed)
                best = cost if best is None or cost < best else best
    return best


def random_case(
    random: Random,
) -> tuple[list[Candidate], list[dict[Cell, int]], dict[str, int], dict[str, GangVictims]]:
    zones = random.randint(1, 3)
    candidates = []
    for number in range(random.randint(1, 8)):
        zone = random.randrange(zones)
        cpu, gpu = random.choice((1, 1, 2, 4)), random.choice((0, 0, 1, 2))
        frees: dict[Cell, int] = {(CPU, zone): cpu, (CPU, None): cpu, (GPU, zone): gpu, (GPU, None): gpu}
        pdbs = tuple(name for name in ("a", "b") if random.random() < 0.25)
        gang = random.choice(("", "", "g", "h"))
        candidates.append(Candidate(f"p{number}", random.choice((-5, 0, 0, 10, 50)), frees, pdbs, gang))
    gangs = {}
    for name in ("g", "h"):
        here = [each for each in candidates if each.gang == name]
        elsewhere = [
            Candidate(f"{name}-{n}", random.choice((0, 10, 90)), {}, (), name) for n in range(random.randint(0, 2))
        ]
        members = (*here, *elsewhere)
        gangs[name] = GangVictims(random.randint(0, len(members)), members)
    asked = {CPU: random.randint(1, 6), GPU: random.randint(0, 3)}
    free = {(name, zone): random.randint(0, 2) for name in asked for zone in range(zones)}
    alternatives = []
    for zone in range(zones):
        needs: dict[Cell, int] = {}
        for name, amount in asked.items():
            for cell, there in (
                ((name, zone), free[name, zone]),
                ((name, None), sum(free[name, z] for z in range(zones))),
            ):
                if amount > there:
                    needs[cell] = amount - there
        alternatives.append(needs)
    return candidates, alternatives, {"a": random.randint(0, 2), "b": random.randint(0, 1)}, gangs


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_set_of_victims_costs_less(chunk: int) -> None:
    for seed in range(chunk, CASES, CHUNKS):
        candidates, alternatives, allowed, gangs = random_case(Random(seed))
        if not all(alternatives):
            continue  # it fits as it is

        def admits(keys: frozenset[str], case: int = seed) -> bool:
            pods, needed, _, groups = random_case(Random(case))
            everyone = {each.key: each for each in (*pods, *(m for gang in groups.values() for m in gang.members))}
            return any(
                all(sum(everyone[key].frees.get(cell, 0) for key in keys) >= amount for cell, amount in needs.items())
                for needs in needed
            )

        found = cheapest_victims(candidates, alternatives, admits, allowed, Budget(), gangs)
        assert (found.cost if found else None) == by_all_sets(candidates, alternatives, allowed, gangs), seed
