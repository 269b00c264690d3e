"""A comparison as text: the answer, a table with one column per scheduler, the gangs of the one that is judged, then
only what went wrong, and why.

    bayplan: all 912 pods ran, none refused by a kubelet; blind: 701 ran, 3,214 refusals

      24 nodes, 912 pods, reports arrive after 5s
                                     blind     bayplan
      pods that ran             701 of 912  912 of 912
      refused by a kubelet           3,214           0
        TopologyAffinityError        3,214           0

Comes from `comparison.py` and goes to a terminal of 100 columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.explain.folding import prose
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.visible import visible_lines
from bayplan.simulate.results.comparison import Comparison, answer, figures, troubled
from bayplan.simulate.results.numbers import clock, counted, number
from bayplan.simulate.run import GangRun, Run, Waiting, WorkloadResult

INDENT = "  "
HANG = 4
# What a screen holds; the document and the page have them all.
MOST_WORKLOADS = 10
MOST_GANGS = 20
MOST_REASONS = 5
LONGEST_DOMAINS = 24

GANG_HEADER = ("gang", "arrived after", "started after", "pods", "in")
WORKLOAD_HEADER = ("workload", "kind", "wanted", "ran", "refused", "waiting", "given up")


def comparison_text(comparison: Comparison) -> str:
    """Everything that a user should read first."""
    lines = [answer(comparison), "", INDENT + facts(comparison)]
    if comparison.not_run:
        lines.append(f"{INDENT}interrupted; not run: {', '.join(comparison.not_run)}")
    lines += ["", *_figures(comparison.runs), *_gangs(comparison.judged)]
    for run in comparison.runs:
        lines += _trouble(run)
    return visible_lines(lines)


def facts(comparison: Comparison) -> str:
    """What all runs had in common."""
    scenario = comparison.scenario
    delay = (
        f"reports arrive after {clock(scenario.report_delay)}" if scenario.report_delay else "reports arrive at once"
    )
    nodes, pods = counted(len(scenario.nodes), "node"), f"{counted(scenario.pods_wanted, 'pod')} wanted"
    return ", ".join((nodes, pods, delay, f"seed {scenario.seed}"))


def _figures(runs: Sequence[Run]) -> list[str]:
    schedulers = tuple(run.scheduler for run in runs)
    rows = [((INDENT if figure.detail else "") + figure.label, *figure.values) for figure in figures(runs)]
    return table(("", *schedulers), rows, indent=INDENT, numbers=schedulers)


def _gangs(run: Run) -> list[str]:
    """When each gang could have started, when it did, and in which domains."""
    if not run.gang_runs:
        return []
    rows = [_gang_row(gang) for gang in run.gang_runs[:MOST_GANGS]]
    lines = ["", f"{run.scheduler}: {counted(len(run.gang_runs), 'gang')}"]
    lines += table(GANG_HEADER, rows, indent=INDENT, numbers=GANG_HEADER[1:4])
    lines += _more(len(run.gang_runs) - MOST_GANGS, "gang")
    relaxed = [gang for gang in run.gang_runs if gang.gave_up]
    for gang in relaxed[:MOST_REASONS]:
        lines += prose(f"{gang.name} gave up {', '.join(gang.gave_up)}", INDENT, HANG)
    return lines + _more(len(relaxed) - MOST_REASONS, "gang that gave up wishes", "gangs that gave up wishes")


def _gang_row(gang: GangRun) -> tuple[str, ...]:
    moments = ("-" if moment is None else clock(moment) for moment in (gang.arrived_at, gang.whole_at))
    where = hostlist(gang.domains, LONGEST_DOMAINS) or "-"
    return gang.name, *moments, number(gang.started), where


def _trouble(run: Run) -> list[str]:
    """The workloads of a run that lost pods or whose pods wait, and what the scheduler says about those."""
    workloads = [workload for workload in run.workloads if troubled(workload)]
    if not workloads:
        return []
    shown = sorted(workloads, key=lambda workload: (-workload.refused, -workload.waiting))[:MOST_WORKLOADS]
    lines = ["", f"{run.scheduler}: {counted(len(workloads), 'workload')} with pods refused, waiting or given up"]
    rows = [_workload_row(workload) for workload in shown]
    lines += table(WORKLOAD_HEADER, rows, indent=INDENT, numbers=WORKLOAD_HEADER[2:])
    lines += _more(len(workloads) - len(shown), "workload")
    for waiting in run.waiting_pods[:MOST_REASONS]:
        lines += _reason_lines(waiting)
    return lines + _more(len(run.waiting_pods) - MOST_REASONS, "workload that waits", "workloads that wait")


def _workload_row(workload: WorkloadResult) -> tuple[str, ...]:
    ran = workload.running + workload.finished
    amounts = (workload.wanted, ran, workload.refused, workload.waiting, workload.given_up)
    return workload.name, workload.kind, *(number(amount) for amount in amounts)


def _reason_lines(waiting: Waiting) -> list[str]:
    verb = "waits" if waiting.pods == 1 else "wait"
    return prose(f"{number(waiting.pods)} of {waiting.workload} {verb}: {waiting.reason}", INDENT, HANG)


def _more(hidden: int, one: str, many: str = "") -> list[str]:
    if hidden <= 0:
        return []
    return [f"{INDENT}and {hidden} more {one if hidden == 1 else many or f'{one}s'}"]
