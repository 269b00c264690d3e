"""What a run has found: each failure once, with the seed that brings it again; and the budget of each step."""

from __future__ import annotations

import logging
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

BUDGET = 2.0
"""Seconds of this thread's CPU time that one step may take."""


class Disagreement(AssertionError):
    """An oracle says something else than bayplan does."""


@dataclass
class Findings:
    """Failures by what they look like, and how many objects and steps there were."""

    objects: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    seen: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    seed: str = ""
    budget: float = BUDGET

    def note(self, what: str, text: str) -> None:
        """A failure; told in full the first time."""
        self.seen[what] += 1
        if self.seen[what] == 1:
            self.told.append(f"seed {self.seed}: {what}\n{text}")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """One step: no exception leaves it, and it keeps to its budget."""
        began = time.thread_time()
        try:
            yield
        except Disagreement as error:
            self.note(f"{name}: disagreement: {str(error)[:80]}", str(error))
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.note(
                f"{name}: {type(error).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}",
                traceback.format_exc(),
            )
        took = time.thread_time() - began
        self.steps[name] += 1
        self.slowest = max(self.slowest, (took, f"{name} (seed {self.seed})"))
        if took > self.budget:
            self.note(f"{name}: over budget", f"took {took:.2f} s of CPU time; {self.budget:g} s are allowed")


class Tracebacks(logging.Handler):
    """Notes every logged exception: bayplan catches bugs that one object brings to light, and logs them."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(logging.ERROR)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            last = traceback.extract_tb(record.exc_info[2])[-1]
            what = f"logged {type(record.exc_info[1]).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"
            self._findings.note(what, f"{record.getMessage()}\n{''.join(traceback.format_exception(*record.exc_info))}")
