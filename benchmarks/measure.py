"""Median of repeated runs, printed as one line.

Only this thread's CPU time counts, so a busy machine disturbs little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

MOST_SECONDS = 1.0
FEWEST_RUNS = 7


def median_seconds(run: Callable[[], object], *, seconds: float = MOST_SECONDS) -> float:
    """Run until `seconds` have passed (at least seven times) and take the median; the first run warms up."""
    run()
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < FEWEST_RUNS or time.perf_counter() - started < seconds:
        before = time.thread_time()
        run()
        times.append(time.thread_time() - before)
    return statistics.median(times)


def report(name: str, value: float, unit: str) -> None:
    """One figure, in three significant digits."""
    print(f"bench {name}: {value:.3g} {unit}" if value < 1000 else f"bench {name}: {value:.0f} {unit}", flush=True)


def bytes_of_arrays(owner: object) -> int:
    """The memory of the arrays that an object holds."""
    return sum(value.nbytes for value in vars(owner).values() if isinstance(value, np.ndarray))


def milliseconds(name: str, run: Callable[[], object]) -> None:
    """Measure and print in milliseconds."""
    report(name, median_seconds(run) * 1e3, "ms")
