"""When the pods of a workload come and how long they run.

In come the keys `arrive` and `runs` and a number of pods, out go their moments, all chance decided. Each workload draws
from random numbers of its own, made from the scenario's seed and the workload's name, so that adding a workload changes
no other one.
"""

from __future__ import annotations

from random import Random

from bayplan.simulate.scenario.lines import Section, Wrong, YamlValue, items_of
from bayplan.simulate.scenario.model import Seconds
from bayplan.simulate.scenario.values import duration, duration_of_at_least, rate, whole_number

PATTERNS = ("over", "every", "rate")
SHORTEST_RUN: Seconds = 0.001


def chance(seed: int, workload: str, what: str) -> Random:
    """Random numbers for one thing about one workload: always the same for the same seed and names."""
    return Random(f"{seed}/{workload}/{what}")  # noqa: S311 - repeatable on purpose


def arrivals(written: YamlValue | None, pods: int, random: Random) -> list[Seconds]:
    """A moment for each pod, in order. Without a pattern all come at once."""
    if written is None:
        return [0.0] * pods
    if isinstance(written.content, str):  # `arrive: 10s`
        return [duration(written)] * pods
    section = Section(written, ("at", *PATTERNS, "batch"))
    start = section.take("at", duration, 0.0)
    batch = section.take("batch", whole_number(1, 1_000_000), 1)
    chosen = [pattern for pattern in PATTERNS if section.get(pattern)]
    if len(chosen) > 1:
        raise Wrong(f"has both {' and '.join(chosen)}: must be one of {', '.join(PATTERNS)}")
    batches = -(-pods // batch)
    over = section.take("over", duration, 0.0)
    every = section.take("every", duration, 0.0)
    per_second = section.take("rate", rate, 0.0)
    if per_second:
        moments = _poisson(start, batches, per_second, random)
    elif over:
        moments = [start + over * number / batches for number in range(batches)]
    else:
        moments = [start + every * number for number in range(batches)]
    return [moments[number // batch] for number in range(pods)]


def run_times(written: YamlValue | None, pods: int, random: Random) -> list[Seconds | None]:
    """How long each pod runs: until the end, equally long, or uniformly between two durations."""
    if written is None:
        return [None] * pods
    if not isinstance(written.content, list):
        return [duration_of_at_least(SHORTEST_RUN)(written)] * pods
    bounds = items_of(written, duration_of_at_least(SHORTEST_RUN))
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise Wrong("must be one duration, or two of which the second is the longer: [2m, 10m]")
    # Milliseconds, so that what is printed can be written into a trace and gives the same run.
    return [round(random.uniform(*bounds), 3) for _ in range(pods)]


def _poisson(start: Seconds, count: int, per_second: float, random: Random) -> list[Seconds]:
    """Moments with exponential gaps."""
    moments = []
    now = start
    for _ in range(count):
        now += random.expovariate(per_second)
        moments.append(round(now, 3))
    return moments
