"""`make fuzz`: spoil examples and push them through everything until enough objects were tried.

    python -m tests.fuzz --objects 1000000          # from a new seed, which is printed
    python -m tests.fuzz --seed 7 --only world      # the same again

Exit code 0 if nothing was found. Each failure is told once, with the seed that brings it again; `--first N` continues
behind a run's Nth round.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random, SystemRandom

from tests.fuzz.extender_side import one_extender
from tests.fuzz.failures import BUDGET, Findings, Tracebacks
from tests.fuzz.files import one_command, one_configuration, one_scenario
from tests.fuzz.node_side import one_node
from tests.fuzz.worlds import World, honest_world

# A dispatcher lives through so many clusters: what one of them leaves behind, the next would meet.
CLUSTERS_OF_A_WORLD = 10
SECONDS_BETWEEN_NEWS = 30.0
TARGETS = ("world", "honest", "command", "configuration", "scenario", "node", "extender")
# What is slow has a turn more seldom.
TURNS = (*("world", "honest", "world", "command") * 6, "configuration", "scenario", "node", "extender")


def round_of(target: str, random: Random, findings: Findings, folder: Path) -> None:
    """One round of a target."""
    match target:
        case "world":
            world = World(random, findings)
            for _ in range(CLUSTERS_OF_A_WORLD):
                world.live_through(random)
        case "honest":
            honest_world(random, findings)
        case "command":
            one_command(random, findings, folder)
        case "configuration":
            one_configuration(random, findings, folder)
        case "scenario":
            one_scenario(random, findings, folder)
        case "node":
            one_node(random, findings)
        case "extender":
            one_extender(random, findings)


def fuzz(
    seed: int,
    objects: int,
    only: tuple[str, ...] = TURNS,
    first: int = 0,
    budget: float = BUDGET,
    *,
    aloud: bool = False,
) -> Findings:
    """Rounds of all targets in turn, until so many objects were tried."""
    findings = Findings(budget=budget)
    handler = Tracebacks(findings)
    root = logging.getLogger()
    before = root.handlers
    root.handlers = [handler]
    began = told = time.monotonic()
    number, shown = first, 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            while findings.objects < objects:
                target = only[number % len(only)]
                findings.seed = f"{seed} (--only {target} --first {number})"
                try:
                    round_of(target, Random(f"{seed} {number}"), findings, Path(folder))
                except Exception as error:  # noqa: BLE001 - a bug of the fuzzer's own
                    findings.note(f"round of {target}: {type(error).__name__}", traceback.format_exc())
                number += 1
                for each in findings.told[shown:] if aloud else ():
                    _say(f"\n{each}")
                shown = len(findings.told)
                if aloud and time.monotonic() - told > SECONDS_BETWEEN_NEWS:
                    told = time.monotonic()
                    rate = findings.objects / (told - began)
                    _say(f"{findings.objects} objects, {rate:.0f} a second, {len(findings.seen)} failures")
    finally:
        root.handlers = before
    return findings


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=None, help="draw the same again")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--objects", type=int, default=100_000, help="how many objects to try")
    parser.add_argument("--only", default="", help=f"targets, of {', '.join(TARGETS)}; all if none is named")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of CPU time that one step may take")
    given = parser.parse_args()
    seed = SystemRandom().randrange(2**32) if given.seed is None else given.seed
    _say(f"seed {seed}")
    findings = fuzz(
        seed,
        given.objects,
        tuple(given.only.split(",")) if given.only else TURNS,
        given.first,
        given.budget,
        aloud=True,
    )
    seconds, slowest = findings.slowest
    _say(
        f"\n{findings.objects} objects, {findings.steps.total()} steps, {len(findings.seen)} failures; slowest "
        f"{seconds:.2f} s: {slowest}"
    )
    _say(", ".join(f"{name} {times}" for name, times in findings.steps.most_common()))
    for what, times in findings.seen.most_common():
        _say(f"  {times} x {what}")
    return 1 if findings.seen else 0


if __name__ == "__main__":
    sys.exit(main())
