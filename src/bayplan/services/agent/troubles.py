"""Current problems of an agent: logged when they begin and end, and counted for Prometheus.

A trouble has a *kind* (what fails: `podresources`, `api`) and a *cause* (why: `timeout`, `forbidden`). It is logged
when it begins, and again with each new cause or message; repetitions and messages that differ only in numbers are
counted. A kind with many troubles at once passes the whole list to `hold`.
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
class AgentTrouble:
    """Something that does not work, and since when (monotonic seconds)."""

    kind: str
    cause: str
    message: str
    since: float


class Troubles:
    """The troubles of one agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current: dict[str, AgentTrouble] = {}
        self._logged: dict[str, set[tuple[str, str]]] = {}  # by kind: causes and messages since it began
        self._held: dict[str, tuple[str, ...]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()  # by kind and cause

    @property
    def current(self) -> Mapping[str, AgentTrouble]:
        """Current troubles by kind."""
        return MappingProxyType(self._current)

    def note(self, kind: str, cause: str, message: str, error: Exception | None = None) -> None:
        """Record a failure; an `error` adds its traceback to the log."""
        self.counts[kind, cause] += 1
        before = self._current.get(kind)
        self._current[kind] = AgentTrouble(kind, cause, message, before.since if before else self._clock())
        logged = self._logged.setdefault(kind, set())
        gist = cause, _NUMBERS.sub("0", message)
        if gist not in logged:
            logged.add(gist)
            logger.warning(message, extra={"trouble": kind, "cause": cause}, exc_info=error)

    def over(self, kind: str) -> None:
        """Record a success."""
        before = self._current.pop(kind, None)
        self._logged.pop(kind, None)
        if before is not None:
            seconds = round(self._clock() - before.since, 1)
            logger.info("recovered", extra={"trouble": kind, "after_seconds": seconds})

    def hold(self, kind: str, messages: Iterable[str]) -> None:
        """Replace all troubles of one kind."""
        now = tuple(dict.fromkeys(messages))
        before = self._held.get(kind, ())
        for message in now:
            if message not in before:
                self.counts[kind, kind] += 1
                logger.warning(message, extra={"trouble": kind})
        for message in before:
            if message not in now:
                logger.info("resolved: %s", message, extra={"trouble": kind})
        self._held[kind] = now

    def numbers(self) -> dict[str, int]:
        """The number of current troubles by kind; 0 for past kinds."""
        found = dict.fromkeys((kind for kind, _ in self.counts), 0)
        found |= dict.fromkeys(self._current, 1)
        return found | {kind: len(messages) for kind, messages in self._held.items()}
