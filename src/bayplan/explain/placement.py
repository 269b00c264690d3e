"""`bayplan place` as text: where each pod goes, what else was possible, and why not if it goes nowhere.

One pod gets a sentence and a short ranking; many get a table. `documents.py` writes the same as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.explain.amounts import fit_text
from bayplan.explain.numa.labels import zone_column
from bayplan.explain.ranking import RankedNode, Ranking
from bayplan.explain.refusal import Refusal
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import common_domain, domain_lines
from bayplan.explain.why import fitting_text, held_back_text, refusal_text
from bayplan.kube.visible import visible, visible_lines
from bayplan.scheduling.decision import Decision


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """One pod's decision. A placed pod has a ranking, an unschedulable one a refusal, a held-back one neither."""

    decision: Decision
    ranking: Ranking | None = None
    refusal: Refusal | None = None


def outcomes_text(outcomes: Sequence[PodOutcome], *, wide: bool = False) -> str:
    """The answer for one pod or for many."""
    if len(outcomes) == 1:
        return outcome_text(outcomes[0], wide=wide)
    lines = [fit_text((sum(outcome.decision.placed for outcome in outcomes), len(outcomes), "pod")), ""]
    rows = [
        (
            outcome.decision.pod,
            outcome.decision.node or "-",
            zone_column(outcome.decision.containers),
            str(outcome.decision.score) if outcome.decision.placed else "",
        )
        for outcome in outcomes
    ]
    lines += table(("pod", "node", "NUMA zones", "score"), rows, indent="  ", numbers=("score",))
    for outcome in outcomes:
        if wide or not outcome.decision.placed:
            lines += ["", *outcome_text(outcome, wide=wide).split("\n")]
    return visible_lines(lines)


def outcome_text(outcome: PodOutcome, *, wide: bool = False) -> str:
    """One pod: the answer first."""
    if outcome.refusal is not None:
        return refusal_text(outcome.refusal)
    if not outcome.decision.placed:
        return visible(held_back_text(outcome.decision))
    lines = [fitting_text(outcome.decision)]
    if outcome.ranking is not None:
        lines += ["", *ranking_lines(outcome.ranking, wide=wide)]
    return visible_lines(lines)


def ranking_lines(ranking: Ranking, *, wide: bool = False) -> list[str]:
    """The candidates as a table; with `wide` a column for every plugin's score."""
    candidates = ranking.candidates
    header = ["node", "score", "NUMA zones"]
    domain = common_domain(candidate.node for candidate in candidates)
    rows = [
        [
            candidate.node.removesuffix(domain),
            str(candidate.score),
            "unknown" if candidate.zones_unknown else zone_column(candidate.containers),
        ]
        for candidate in candidates
    ]
    if wide and candidates:
        for position, given in enumerate(candidates[0].scores):
            header.append(f"{given.plugin} x{given.weight}")
            for row, candidate in zip(rows, candidates, strict=True):
                row.append(_score(candidate, position))
    lines = table(header, rows, indent="  ", numbers=[header[1], *header[3:]])
    left_out = ranking.usable - len(candidates)
    if left_out > 0:
        lines.append(f"  and {left_out} more node{'s' if left_out > 1 else ''}")
    lines += domain_lines(domain)
    return [*lines, f"  {ranking.remark}"] if ranking.remark else lines


def _score(candidate: RankedNode, position: int) -> str:
    return str(candidate.scores[position].score)
