"""What is wrong right now, each thing said once: in the log when it begins and when it is over, and as a number for Prometheus all the while.

A trouble has a *kind* (who cannot do its work: `podresources`, `api`) and a *cause* (why: `timeout`, `forbidden`). It is told when it begins, and again
when its cause or its sentence becomes one that was not told since then; repetitions, and sentences that differ in numbers alone, are only counted. Where a kind has many troubles at once (odd things that device plugins say), `hold` takes the whole
list, and each sentence in it is told once.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

logger = logging.getLogger(__name__)

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that does not work, and since when (monotonic seconds)."""

    kind: str
    cause: str
    message: str
    since: float


class Troubles:
    """The troubles of one agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current: dict[str, Trouble] = {}
        self._told: dict[str, set[tuple[str, str]]] = {}  # by kind: causes and sentences since it began
        self._held: dict[str, tuple[str, ...]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()  # (kind, cause) -> how often

    @property
    def current(self) -> Mapping[str, Trouble]:
        """What does not work now, by kind."""
        return MappingProxyType(self._current)

    def note(self, kind: str, cause: str, message: str, error: Exception | None = None) -> None:
        """It did not work; with an `error` its traceback is told too."""
        self.counts[kind, cause] += 1
        before = self._current.get(kind)
        self._current[kind] = Trouble(kind, cause, message, before.since if before else self._clock())
        told = self._told.setdefault(kind, set())
        gist = cause, _NUMBERS.sub("0", message)
        if gist not in told:
            told.add(gist)
            logger.warning(message, extra={"trouble": kind, "cause": cause}, exc_info=error)

    def over(self, kind: str) -> None:
        """It worked."""
        before = self._current.pop(kind, None)
        self._told.pop(kind, None)
        if before is not None:
            seconds = round(self._clock() - before.since, 1)
            logger.info("works again", extra={"trouble": kind, "after_seconds": seconds})

    def hold(self, kind: str, messages: Iterable[str]) -> None:
        """These are all things of one kind that are odd now; what is not among them any more is over."""
        now = tuple(dict.fromkeys(messages))
        before = self._held.get(kind, ())
        for message in now:
            if message not in before:
                self.counts[kind, kind] += 1
                logger.warning(message, extra={"trouble": kind})
        for message in before:
            if message not in now:
                logger.info("not so any more: %s", message, extra={"trouble": kind})
        self._held[kind] = now

    def numbers(self) -> dict[str, int]:
        """How many things of each kind are wrong; 0 for a kind that once was."""
        found = dict.fromkeys((kind for kind, _ in self.counts), 0)
        found |= dict.fromkeys(self._current, 1)
        return found | {kind: len(messages) for kind, messages in self._held.items()}
