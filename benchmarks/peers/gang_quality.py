"""What each system makes of the same random gangs.

The cases of `tests/properties/test_never_worse.py`, asked of Kueue's and KAI's own code.

Kueue and KAI mean by "preferred" the lowest domain that holds all pods, so bayplan decides with that objective, as
for every gang that is written in their words. Means are taken over gangs that all of them place. `worse` counts gangs
that bayplan places worse than a peer: by the level that holds all pods, then by preferred domains, wider domains and
mean distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from bayplan.cluster.topology.tree import Path, distances_among
from bayplan.engine.gangs.objective import LOWEST_COMMON_DOMAIN
from bayplan.gangs.cycle import schedule_gang
from benchmarks.measure import report
from benchmarks.peers.written import WHOLE, kai_question, kueue_question, paths_of
from tests.peers.asking import Asked, Json
from tests.peers.catalogue import find_peer
from tests.properties.test_never_worse import SAME, Case, common_level, random_case

GANGS = 5_000
FIRST_SEED = 1_000_000
BAYPLAN, KUEUE, KAI = CONTESTANTS = ("bayplan", "kueue", "kai")

Placed = Mapping[str, list[Path]]
"""By group, where its pods are; the whole gang is the group "main"."""


def run(gangs: int = GANGS) -> None:
    """Print all figures of this group."""
    placed = dict.fromkeys(CONTESTANTS, 0)
    alone = dict.fromkeys(CONTESTANTS, 0)
    worse = {KUEUE: 0, KAI: 0}
    better = {KUEUE: 0, KAI: 0}
    goals: dict[str, list[tuple[float, ...]]] = {name: [] for name in CONTESTANTS}
    with Asked(find_peer(KUEUE)) as kueue, Asked(find_peer(KAI)) as kai:
        for seed in range(FIRST_SEED, FIRST_SEED + gangs):
            case = random_case(seed)
            found = {BAYPLAN: by_bayplan(case), KUEUE: by_kueue(kueue, case), KAI: by_kai(kai, case)}
            those = [name for name, groups in found.items() if groups]
            for name in those:
                placed[name] += 1
            if len(those) == 1:
                alone[those[0]] += 1
            scores = {name: score(case, groups) for name, groups in found.items() if groups}
            if len(those) == len(CONTESTANTS):
                for name, each in scores.items():
                    goals[name].append(each)
            for peer in worse:
                if peer in scores and (BAYPLAN not in scores or _exceeds(scores[BAYPLAN], scores[peer])):
                    worse[peer] += 1
                elif BAYPLAN in scores and (peer not in scores or _exceeds(scores[peer], scores[BAYPLAN])):
                    better[peer] += 1
    name = f"peers/gang-quality/{gangs}"
    for contestant in CONTESTANTS:
        report(f"{name}/{contestant}/placed", placed[contestant], "gangs")
        report(f"{name}/{contestant}/placed-by-it-alone", alone[contestant], "gangs")
        for position, what in enumerate(("preferred domains", "wider domains", "mean distance"), start=1):
            label = what.replace(" ", "-")
            report(f"{name}/{contestant}/{label}", fmean(each[position] for each in goals[contestant]), "")
    for peer, number in worse.items():
        report(f"{name}/bayplan-worse-than-{peer}", number, "gangs")
        report(f"{name}/bayplan-better-than-{peer}", better[peer], "gangs")


def score(case: Case, groups: Placed) -> tuple[float, ...]:
    """Small is good: how wide the common domain is, preferred domains, wider domains, mean distance."""
    preferred = wider = 0
    for group in case.gang.root.every_group():
        if group.preferred is not None:
            paths = groups[group.name or WHOLE]
            own = case.levels.index(group.preferred)
            preferred += len({path[: own + 1] for path in paths})
            wider += sum(len({path[: level + 1] for path in paths}) for level in range(own))
    return (-common_level(groups[WHOLE]), preferred, wider, distances_among(groups[WHOLE]).mean)


def by_bayplan(case: Case) -> Placed:
    """Groups of a decision; empty if there is no place."""
    decision = schedule_gang(case.scheduler, replace(case.gang, objective=LOWEST_COMMON_DOMAIN))
    if not decision.placed:
        return {}
    paths = paths_of(case.scheduler.state, case.levels)
    found: dict[str, list[Path]] = {WHOLE: [paths[seat.node] for seat in decision.seats]}
    for seat in decision.seats:
        if seat.group:
            found.setdefault(seat.group, []).append(paths[seat.node])
    return found


def by_kueue(kueue: Asked, case: Case) -> Placed:
    """Groups of an assignment; empty if a pod set has none."""
    paths = paths_of(case.scheduler.state, case.levels)
    outcomes: Json = kueue.ask("assign", kueue_question(case.scheduler.state, case.gang, case.levels)).get(
        "expected", {}
    )
    if not outcomes or not all(each.get("assignment") for each in outcomes.values()):
        return {}
    found = {
        name: [paths[domain["values"][-1]] for domain in each["assignment"]["domains"] for _ in range(domain["count"])]
        for name, each in outcomes.items()
    }
    return {WHOLE: [path for each in found.values() for path in each], **found}


def by_kai(kai: Asked, case: Case) -> Placed:
    """Groups of an allocation; empty if a pod has no node."""
    paths = paths_of(case.scheduler.state, case.levels)
    question = kai_question(case.scheduler.state, case.gang, case.levels)
    tasks = kai.ask("allocate", question).get("expected", {}).get("tasks", {})
    if not tasks or not all(each.get("node") for each in tasks.values()):
        return {}
    found: dict[str, list[Path]] = {}
    for task in question["jobs"][0]["tasks"]:
        found.setdefault(task["subGroup"], []).append(paths[tasks[task["name"]]["node"]])
    return {**found, WHOLE: [path for each in found.values() for path in each]}


def _exceeds(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether the first goal in which they differ is larger."""
    return next((mine > theirs for mine, theirs in zip(one, other, strict=True) if abs(mine - theirs) > SAME), False)
