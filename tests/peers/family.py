"""Families of cases: drawn from a seed, asked of a peer, judged by what tests/conformance has for recordings of the
same form.

A family's `problem` gets a case with the peer's answer in it, which is what a recording is. So a case that was drawn a
moment ago and one that was recorded a year ago are judged by the same lines. Some peers answer differently from one
time to the next (the order of a Go map): a case on which they differ from bayplan is asked again, and it counts as
agreed if one of the answers is bayplan's. Next: `shrinking.py` makes the first difference small.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.peers.asking import HANG, Asked, Json

TIMES = 12
"""How often a peer is asked again: an order that comes every other time is missed once in 4,000 differences."""


def _no_note(case: Json) -> str | None:
    del case
    return None


def _as_it_is(case: Json) -> Json:
    return case


class Finding(NamedTuple):
    """What came of one case."""

    problem: str | None
    """How bayplan's answer differs from the peer's; None if it does not."""
    refused: int = 0
    """Decisions in which bayplan says no and the peer yes, where this is no defect: room is wasted, and no pod lost."""


@dataclass(frozen=True, slots=True)
class Family:
    """Cases of one kind for one peer."""

    peer: str
    name: str
    op: str
    draw: Callable[[Random, str], Json]
    problem: Callable[[Json], str | None]
    derive: Callable[[Json], Json] = _as_it_is
    """Fill in what follows from the rest of a case, which has become smaller."""
    documented: Callable[[Json], str | None] = _no_note
    """Why bayplan answers differently on purpose, for a case on which it does; None is a defect of bayplan."""
    fixed_in: str | None = None
    """The version that bayplan follows: what an older one does otherwise is documented if this one answers as bayplan
    does.
    """
    size: Callable[[Json], int] = lambda _: 1
    """How many decisions a case has."""
    unit: str = "decisions"
    since: tuple[int, ...] = ()
    """The first version that has what the family is about."""
    same_cases_as: str = ""
    """The family whose cases these are: they are drawn and asked once, and judged in both ways."""
    finding: Callable[[Json], Finding] | None = None
    """Instead of `problem`, where false refusals are counted and false accepts are the problem."""

    @property
    def cases(self) -> str:
        """What its cases are called, and drawn by."""
        return self.same_cases_as or self.name


@dataclass(slots=True)
class Tally:
    """What came of the cases of a family."""

    cases: int = 0
    decisions: int = 0
    refused: int = 0
    """Decisions that bayplan refuses and the peer does not, in families where this is no difference."""
    differing: list[tuple[Json, str]] = field(default_factory=list)
    documented: Counter[str] = field(default_factory=Counter)
    crashed: Counter[str] = field(default_factory=Counter)

    @property
    def agreed(self) -> int:
        """Cases with the same answer."""
        return self.cases - len(self.differing) - self.documented.total() - self.crashed.total()


def cases_of(family: Family, version: str, seed: int, first: int = 0) -> Iterator[tuple[int, Json]]:
    """Cases without end; the same seed and number are the same case."""
    number = first
    while True:
        case = family.draw(Random(f"{seed}/{family.cases}/{number}"), version)
        yield number, {"id": f"{family.cases}-{seed}-{number}", **case}
        number += 1


def judge(family: Family, peer: Asked, case: Json, tally: Tally, fixed: Asked | None = None) -> None:
    """Ask the peer about one case, and bayplan; where they differ, the version that has fixed it."""
    judge_answer(family, peer, case, peer.ask(family.op, case), tally, fixed)


def judge_answer(
    family: Family, peer: Asked, case: Json, answer: Json, tally: Tally, fixed: Asked | None = None
) -> None:
    """The same, for what the peer has answered."""
    tally.cases += 1
    crash = crash_of(answer)
    if crash is not None:
        tally.crashed[crash] += 1
        return
    tally.decisions += family.size({**case, **answer})
    problem, refused = difference(family, peer, case, answer)
    tally.refused += refused
    if problem is None:
        return
    note = family.documented({**case, **answer}) or _fixed(family, case, fixed)
    if note is not None:
        tally.documented[note] += 1
    else:
        tally.differing.append((case, problem))


def _fixed(family: Family, case: Json, fixed: Asked | None) -> str | None:
    if fixed is None or difference(family, fixed, case, fixed.ask(family.op, case)).problem is not None:
        return None
    return f"fixed in {fixed.peer.version}, which answers as bayplan does"


def difference(family: Family, peer: Asked, case: Json, answer: Json) -> Finding:
    """How bayplan's answer differs from each that the peer gives; no problem if it is one of them."""
    first = finding_of(family, {**case, **answer})
    seen = {json.dumps(answer, sort_keys=True)}
    for _ in range(TIMES if first.problem is not None else 0):
        another = peer.ask(family.op, case)
        written = json.dumps(another, sort_keys=True)
        if crash_of(another) is None and written not in seen:
            seen.add(written)
            found = finding_of(family, {**case, **another})
            if found.problem is None:
                return found
    return first


def finding_of(family: Family, case: Json) -> Finding:
    """What the check of the family says; whatever it raises is a finding, too."""
    try:
        return family.finding(case) if family.finding is not None else Finding(family.problem(case))
    except Exception as error:  # noqa: BLE001 - a crash of bayplan's is a difference
        return Finding(f"raised {type(error).__name__}: {error}")


def crash_of(answer: Json) -> str | None:
    """Where the peer's own code crashed, that it did not come back, or that it cannot start again."""
    if answer.get(HANG):
        return "hangs"
    if "panic" in answer:
        return f"crashes in {answer.get('where') or 'unknown'}: {re.sub(r'[0-9]+', '#', answer['panic'])}"
    for step in answer.get("steps", ()):
        # A kubelet that refuses its own checkpoints, and therefore exits.
        if step.get("op") == "restart" and "error" in step.get("out", {}):
            return f"cannot start again: {step['out']['error']}"
    return None
