"""One decision for a whole gang, against Kueue's topology assignment and KAI's allocation.

The clusters and gangs of `benchmarks.gangs`.

Kueue takes a snapshot of its cache in each cycle, which is printed apart. Of KAI, `kai-subset` is the choice of node
sets only, and `kai` the whole allocation; the session that it opens in each cycle is not counted. bayplan decides
*cold*, about a class of pods that is new, and *changed*, after a node has got more or less room. Beside the times
stands how many racks each one uses.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang
from bayplan.gangs.scheduler import GangScheduler
from benchmarks.gangs import BLOCK, RACK, SIZES, changed, cold, gang_cluster, gang_scheduler, gangs_for
from benchmarks.measure import report
from benchmarks.peers.contest import NoAnswer, asked_for_times, in_turns, ratio, seconds_of
from benchmarks.peers.written import kai_question, kueue_question, paths_of
from tests.peers.asking import Asked, Json
from tests.peers.catalogue import NoPeer, find_peer

NAMES = (
    "required-rack-32",
    "preferred-rack-512",
    "64-groups",
    "64-segments",
    "8-unequal-groups",
    "4-leaders-and-workers",
    "16-leaders-and-workers",
)
# What KAI is asked, too: pods, and groups of pods.
NAMES_IN_KAI = ("required-rack-32", "preferred-rack-512", "64-groups", "8-unequal-groups")
LEVELS = (BLOCK, RACK)
ROUNDS = 3
RUNS = 9
# KAI takes seconds for a gang on 20,000 nodes.
PEER_RUNS = {"kueue": {640: 15, 5_000: 7, 20_000: 5, 50_000: 3}, "kai": {640: 2, 5_000: 1, 20_000: 1}}
MOST_SECONDS = 300.0


def run() -> None:
    """Print all figures of this group."""
    with ExitStack() as stack:
        kueue = stack.enter_context(Asked(find_peer("kueue"), seconds=MOST_SECONDS))
        try:
            kai = stack.enter_context(Asked(find_peer("kai"), seconds=MOST_SECONDS))
        except NoPeer as problem:
            print(f"bench peers: {problem}", flush=True)
            kai = None
        for size in SIZES:
            scheduler = gang_scheduler(gang_cluster(size))
            every = gangs_for(size)
            for name in NAMES:
                compare(f"gang/{name}/{size}", scheduler, every[name], kueue, kai if name in NAMES_IN_KAI else None)


def compare(name: str, scheduler: GangScheduler, gang: Gang, kueue: Asked, kai: Asked | None) -> None:
    """One gang on one cluster."""
    size = len(scheduler.state.names)
    answers: dict[str, Json | None] = {}
    once_changed = changed(scheduler, gang, time.process_time)

    def ask_kueue() -> Mapping[str, Sequence[float]]:
        question = {**kueue_question(scheduler.state, gang, LEVELS), "repeat": PEER_RUNS["kueue"][size]}
        answer = answers["kueue"] = asked_for_times(kueue, question)
        return {"kueue": seconds_of(answer, "assign_ns"), "kueue-snapshot": seconds_of(answer, "snapshot_ns")}

    def ask_kai() -> Mapping[str, Sequence[float]]:
        if kai is None or size not in PEER_RUNS["kai"] or answers.get("kai", True) is None:
            return {}
        question = {**kai_question(scheduler.state, gang, LEVELS), "repeat": PEER_RUNS["kai"][size]}
        try:
            answer = answers["kai"] = asked_for_times(kai, question)
        except NoAnswer as problem:
            print(f"bench peers/{name}/kai: {problem} ({MOST_SECONDS:g} s allowed)", flush=True)
            answers["kai"] = None
            return {}
        return {"kai": seconds_of(answer, "allocate_ns"), "kai-subset": seconds_of(answer, "subset_ns")}

    def decide() -> Mapping[str, Sequence[float]]:
        return {
            "bayplan-cold": [cold(scheduler, gang, time.process_time) for _ in range(RUNS)],
            "bayplan-changed": [once_changed() for _ in range(RUNS)],
        }

    medians = in_turns(name, ROUNDS, ask_kueue, decide, ask_kai, decide)
    for peer in ("kueue", "kai"):
        if peer in medians:
            ratio(f"{name}/{peer}-to-bayplan-cold", medians[peer], medians["bayplan-cold"])
    _report_racks(name, scheduler, gang, answers)


def _report_racks(name: str, scheduler: GangScheduler, gang: Gang, answers: Mapping[str, Json | None]) -> None:
    paths = paths_of(scheduler.state, LEVELS)

    def racks(nodes: Iterable[str]) -> int:
        return len({paths[node][: len(LEVELS)] for node in nodes})

    used = {"bayplan": racks(seat.node for seat in schedule_gang(scheduler, gang).seats)}
    by_kueue, by_kai = answers["kueue"], answers.get("kai")
    assert by_kueue is not None
    assigned = [each.get("assignment") for each in by_kueue["expected"].values()]
    used["kueue"] = racks(domain["values"][-1] for each in assigned if each for domain in each["domains"])
    if by_kai is not None:
        used["kai"] = racks(by_kai["nodes"].values()) if by_kai["fits"] else 0
    for contestant, number in used.items():
        report(f"peers/{name}/{contestant}-racks", number, "racks" if number else "racks: not placed")
