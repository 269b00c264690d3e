"""Rounds in which contestants take turns, and the lines that come of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from benchmarks.measure import report
from tests.peers.asking import Asked, Json
from tests.peers.family import crash_of

NANOSECONDS = 1e9


class NoAnswer(Exception):
    """The peer crashed, or took longer than it may."""


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
    """A peer's answer to `time`; raises NoAnswer where its code crashed or did not come back in time."""
    answer = peer.ask("time", question)
    crash = crash_of(answer)
    if crash is not None:
        raise NoAnswer(f"{peer.peer} {crash}")
    return answer


def seconds_of(answer: Json, key: str) -> list[float]:
    """Nanoseconds of an answer in seconds."""
    return [each / NANOSECONDS for each in answer[key]]
