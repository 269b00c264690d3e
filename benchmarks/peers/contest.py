"""Rounds in which contestants take turns, and the lines that come of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.measure import report
from tests.peers.asking import Asked, Json

NANOSECONDS = 1e9
Turn = Callable[[], Mapping[str, Sequence[float]]]
"""One contestant's turn: seconds of each run, by what was measured."""


def in_turns(name: str, rounds: int, *turns: Turn) -> dict[str, float]:
    """Let contestants take turns; prints the median of each figure in ms, and returns them in seconds."""
    taken: dict[str, list[float]] = {}
    for _ in range(rounds):
        for turn in turns:
            for figure, seconds in turn().items():
                taken.setdefault(figure, []).extend(seconds)
    medians = {figure: median(seconds) for figure, seconds in taken.items()}
    for figure, middle in medians.items():
        report(f"peers/{name}/{figure}", middle * 1e3, "ms")
    return medians


def ratio(name: str, slower: float, faster: float) -> None:
    """How many times as long the peer takes."""
    report(f"peers/{name}", slower / faster, "times as long")


def seconds_each(run: Callable[[], object], times: int) -> list[float]:
    """CPU seconds of each of several runs."""
    taken = []
    for _ in range(times):
        before = time.process_time()
        run()
        taken.append(time.process_time() - before)
    return taken


def asked_for_times(peer: Asked, question: Json) -> Json:
    """A peer's answer to `time`; raises ValueError where its code crashed or did not come back."""
    answer = peer.ask("time", question)
    if "panic" in answer or "hang" in answer:
        raise ValueError(f"{peer.peer} did not answer: {answer}")
    return answer


def seconds_of(answer: Json, key: str) -> list[float]:
    """Nanoseconds of an answer in seconds."""
    return [each / NANOSECONDS for each in answer[key]]
