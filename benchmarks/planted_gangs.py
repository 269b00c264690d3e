"""Gangs that certainly fit, on nodes that are nearly or completely full: how long one cold decision takes, and that
each is found.

16 to 256 nodes with 0 to 8 free GPUs; each group requires one rack. The tree of the cluster is built, too.
"""

from __future__ import annotations

import statistics
import time

from bayplan.gangs.cycle import schedule_gang
from bayplan.services.edges.process import freeze_gc
from benchmarks.measure import report
from tests.planted_gangs import FULL, any_size, planted
from tests.written_gangs import Case, broken_rule, gang_of, scheduler_of

SEEDS = 32


def run() -> None:
    """Print all figures of this group."""
    times = {form: [_cold(any_size(seed, form)) for seed in range(SEEDS)] for form in FULL}
    every = [seconds for some in times.values() for seconds in some]
    for form, some in times.items():
        report(f"planted-gangs/{form}/median", statistics.median(some) * 1e3, "ms")
    report("planted-gangs/median", statistics.median(every) * 1e3, "ms")
    report("planted-gangs/worst", max(every) * 1e3, "ms")
    report("planted-gangs/1024-nodes/worst", max(_cold(planted(1, form, 64, 16)) for form in FULL) * 1e3, "ms")


def _cold(case: Case) -> float:
    scheduler, gang = scheduler_of(case), gang_of(case)
    freeze_gc()  # as a scheduler does
    before = time.thread_time()
    decision = schedule_gang(scheduler, gang)
    seconds = time.thread_time() - before
    assert decision.placed, f"{case['id']}: {decision.status}, {decision.bound}"
    assert broken_rule(case, decision) is None, case["id"]
    return seconds
