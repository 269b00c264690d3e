"""What each spec came to, from the report that Ginkgo writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PASSED, SKIPPED, FAILED = "passed", "not runnable here", "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One spec: its name as Kubernetes writes it, and why it was skipped or failed."""

    spec: str
    outcome: str
    why: str
    seconds: float

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{self.outcome}: {self.spec} ({self.seconds:.0f} s){why}"


def read_outcomes(report: Path) -> list[Outcome]:
    """All specs that ran or were skipped by their own words, by name; those that a filter left out are not told."""
    suites: list[Json] = json.loads(report.read_text(encoding="utf-8"))
    return sorted((each for suite in suites for each in _outcomes(suite)), key=lambda each: each.spec)


def _outcomes(suite: Json) -> Iterator[Outcome]:
    for spec in suite["SpecReports"] or ():
        is_spec = spec["LeafNodeType"] == "It"
        failure = spec.get("Failure") or {}
        if spec["State"] == "pending" or (is_spec and spec["State"] == "skipped" and not failure):
            continue
        outcome = {"passed": PASSED, "skipped": SKIPPED}.get(spec["State"], FAILED)
        if not is_spec and outcome == PASSED:
            continue  # preparations of the suite are worth a line only where they failed
        names = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"] or spec["LeafNodeType"]]
        why = " ".join(str(failure.get("Message", "")).split())
        yield Outcome(" ".join(names), outcome, why, spec["RunTime"] / 1e9)
