"""Compare scores: bayplan's sum for each node with the stock kube-scheduler's, which it logs at verbosity 10.

Pods have no volumes and no NUMA zones; the stock scheduler looks at every node. If more than one node is feasible, the
sums of all feasible nodes must be equal, so bayplan's choice is among the stock scheduler's best.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from bayplan.scheduling.answers import NOT_USABLE
from bayplan.scheduling.cycle import schedule_one
from bayplan.scheduling.relations import answer_for
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.differential import pods as random_pods
from tests.kubernetes.differential.comparing import LOOK_EVERY, Comparison, Tally

Json = dict[str, Any]
VERBOSITY = "schedule_one=10"
SCORED = re.compile(
    r"Calculated node's final score for pod\" pod=\"(?P<pod>[^\"]+)\" node=\"(?P<node>[^\"]+)\" score=(?P<score>\d+)"
)
# The log is written a moment before the bind.
GIVE_UP = 10.0


def compare_scores(plane: ControlPlane, number: int, seed: int) -> Tally:
    """Compare so many random pods on a cluster of its own."""
    with plane.start_stock_scheduler(percentage=100, verbosity=VERBOSITY) as scheduler:
        comparison = ScoreComparison(plane, Random(seed), f"score-{seed}", scheduler.log)
        return asyncio.run(comparison.run(number))


class ScoreComparison(Comparison):
    """One cluster on which scores are compared."""

    def __init__(self, plane: ControlPlane, random: Random, name: str, log: Path) -> None:
        super().__init__(plane, random, name)
        self._log = log
        self._read = 0

    async def _compare_one(self, number: int) -> None:
        namespace = self._random.choice(self._namespaces)
        body = random_pods.scored_pod(self._random, f"p{number}", namespace, self._owners[namespace])
        asked = await self._as_stored(body)
        answer = answer_for(self._state, asked, self._state.classes.of(asked), self._profile, self._answers)
        ours = {
            self._state.names[row]: int(answer.total_score[row])
            for row in np.flatnonzero(answer.total_score != NOT_USABLE)
        }
        decision = schedule_one(self._state, asked, self._profile, self._answers)
        node, told = await self._stock(body)
        self._tally.pods += 1
        self._tally.placed += bool(node)
        wrong = ""
        if bool(node) != bool(ours) or (node and node not in ours):
            wrong = f"bayplan: {sorted(ours)}, the stock scheduler: {node or told}"
        elif len(ours) > 1:
            theirs = await self._scores_of(f"{namespace}/p{number}", len(ours))
            best = [name for name, score in theirs.items() if score == max(theirs.values())]
            self._tally.reasons["scores compared"] += 1
            self._tally.reasons["best node of several"] += len(best) < len(theirs)
            if ours != theirs:
                differ = {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}
                differ = {name: pair for name, pair in differ.items() if pair[0] != pair[1]}
                among = "among" if decision.node in best else "NOT among"
                wrong = (
                    f"(bayplan's, stock) scores {differ}; "
                    f"bayplan's {decision.node} is {among} the stock scheduler's best {best}"
                )
        if wrong:
            self._tally.differences.append(f"pod {number}: {wrong}\n{msgspec.json.encode(body).decode()}")

    async def _scores_of(self, pod: str, number: int) -> dict[str, int]:
        """The sums that the stock scheduler has logged for a pod."""
        found: dict[str, int] = {}
        end = asyncio.get_running_loop().time() + GIVE_UP
        while len(found) < number and asyncio.get_running_loop().time() < end:
            with self._log.open("rb") as log:
                log.seek(self._read)
                written = log.read()
            text = written[: written.rfind(b"\n") + 1].decode(errors="replace")
            hits = [hit for hit in SCORED.finditer(text) if hit["pod"] == pod]
            found = {hit["node"]: int(hit["score"]) for hit in hits}
            if len(found) >= number:
                self._read += len(text.encode())
                return found
            await asyncio.sleep(LOOK_EVERY)
        return found
