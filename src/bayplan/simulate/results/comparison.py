"""Several runs of one scenario side by side: the answer in one sentence, the figures, and the document for programs.

In come `Run`s, one for each scheduler that met the same pods at the same moments; `comparison_text.py` writes the
figures as a table and `page.py` as an HTML page. The last scheduler is the one that the answer is about; the others are
what it is compared with. Everything here follows from the runs alone: the same runs give the same text, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.explain.documents import API_VERSION, Document
from bayplan.simulate.results.numbers import clock, counted, number, percent
from bayplan.simulate.run import GangRun, Moment, Run, WorkloadResult
from bayplan.simulate.scenario.model import Scenario

# All refusals are counted, but only this many are worth reading.
MOST_REFUSALS = 100
# Documents round what was computed in floating point; figures are not more exact than this.
SHARE_DIGITS = 4
SECONDS_DIGITS = 3


@dataclass(frozen=True)
class Comparison:
    """The runs of one scenario in the order of comparison.

    `not_run` are schedulers that an interrupt kept from starting.
    """

    scenario: Scenario
    runs: tuple[Run, ...]
    not_run: tuple[str, ...] = ()

    @property
    def judged(self) -> Run:
        """The run that the answer is about: the last one."""
        return self.runs[-1]

    @property
    def others(self) -> tuple[Run, ...]:
        """What it is compared with."""
        return self.runs[:-1]

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted before everything had happened."""
        return self.judged.interrupted or bool(self.not_run)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the scenario's author should know, from reading it and from letting it happen, each thing once."""
        found = (*self.scenario.remarks, *(remark for run in self.runs for remark in run.remarks))
        return tuple(dict.fromkeys(found))

    @property
    def good(self) -> bool:
        """Whether every pod ran and no kubelet refused one, under the scheduler that the answer is about."""
        return not self.interrupted and ran(self.judged) == self.judged.wanted and not self.judged.refusals_in_all


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the comparison: what it is, and its value under each scheduler.

    A detail belongs to the line above.
    """

    label: str
    values: tuple[str, ...]
    detail: bool = False


def ran(run: Run) -> int:
    """Pods that a kubelet started and that were not sent back: running at the end, or finished."""
    return run.running + run.finished


def answer(comparison: Comparison) -> str:
    """The comparison in one sentence, the judged scheduler first."""
    return "; ".join((answer_about_judged(comparison), *answers_about_others(comparison)))


def answer_about_judged(comparison: Comparison) -> str:
    """`bayplan: all 912 pods ran, none refused by a kubelet`, and when it was interrupted, if it was."""
    run = comparison.judged
    parts = [f"{_wanted_that_ran(run)} ran", _refusals_phrase(run) + ("" if run.refusals_in_all else " by a kubelet")]
    parts += [f"{number(run.waiting)} waiting"] if run.waiting else []
    parts += [f"{number(run.given_up)} given up"] if run.given_up else []
    interrupted = f"interrupted at {clock(run.ended_at)}: " if comparison.interrupted else ""
    return f"{interrupted}{run.scheduler}: {', '.join(parts)}"


def answers_about_others(comparison: Comparison) -> list[str]:
    """`blind: 701 ran, 3,214 refusals` for each of the others."""
    return [f"{run.scheduler}: {number(ran(run))} ran, {_refusals_phrase(run)}" for run in comparison.others]


def figures(runs: Sequence[Run]) -> list[Figure]:
    """All lines of the comparison that say something in at least one run."""

    def figure(label: str, value: Callable[[Run], str], *, detail: bool = False) -> Figure:
        return Figure(label, tuple(value(run) for run in runs), detail)

    lines = [figure("pods that ran", lambda run: f"{number(ran(run))} of {number(run.wanted)}")]
    if any(run.finished for run in runs):
        lines.append(figure("running at the end", lambda run: number(run.running), detail=True))
        lines.append(figure("finished", lambda run: number(run.finished), detail=True))
    if any(run.arrived < run.wanted for run in runs):
        lines.append(figure("had not arrived", lambda run: number(run.wanted - run.arrived), detail=True))
    if any(run.gangs for run in runs):
        lines.append(
            figure("gangs that started whole", lambda run: f"{number(run.gangs_whole)} of {number(run.gangs)}")
        )
        lines.append(figure("only in part", lambda run: number(run.gangs_in_part), detail=True))
        lines.append(
            figure(
                "domains per gang",
                lambda run: "-" if run.domains_per_gang is None else f"{run.domains_per_gang:.2f}",
                detail=True,
            )
        )
    lines.append(figure("refused by a kubelet", lambda run: number(run.refusals_in_all)))
    lines += [
        Figure(reason, tuple(number(run.refused.get(reason, 0)) for run in runs), detail=True)
        for reason in reasons(runs)
    ]
    if any(run.evicted is not None for run in runs):
        lines.append(figure("evicted for others", lambda run: number(run.evicted or 0)))
        lines.append(figure("in vain", lambda run: number(run.evicted_in_vain), detail=True))
        if any(run.gangs for run in runs):
            lines.append(figure("gangs left below their minimum", lambda run: number(run.gangs_crippled), detail=True))
    lines.append(figure("pods created again", lambda run: number(run.retries)))
    lines.append(figure("waiting at the end", lambda run: number(run.waiting)))
    if any(run.given_up for run in runs):
        lines.append(figure("given up", lambda run: number(run.given_up)))
    lines += [
        figure("all pods started after", lambda run: "-" if run.all_running_at is None else clock(run.all_running_at)),
        figure("cpu in use, mean", lambda run: percent(run.cpu_share)),
        figure("cpu in use, peak", lambda run: percent(run.peak_cpu_share)),
        figure("memory in use, mean", lambda run: percent(run.memory_share)),
        figure("NUMA zones per pod", lambda run: "-" if run.zones_per_pod is None else f"{run.zones_per_pod:.2f}"),
        figure("distance within a pod", lambda run: "-" if run.distance is None else f"{run.distance:.1f}"),
        *(
            [figure("not in the zones decided", _not_as_decided)]
            if any(run.zones_not_as_decided for run in runs)
            else []
        ),
        figure("last event after", lambda run: clock(run.ended_at) + (" (interrupted)" if run.interrupted else "")),
    ]
    return lines


def reasons(runs: Sequence[Run]) -> list[str]:
    """The kubelets' reasons in all runs, the most frequent first."""
    total: Counter[str] = Counter()
    for run in runs:
        total.update(run.refused)
    return sorted((reason for reason in total if total[reason]), key=lambda reason: (-total[reason], reason))


def troubled(workload: WorkloadResult) -> bool:
    """Whether a workload lost pods to a kubelet, or has pods that do not run."""
    return bool(workload.refused or workload.waiting or workload.given_up)


def comparison_document(comparison: Comparison) -> Document:
    """What `bayplan simulate -o json` prints; the schema is in docs/simulate.md."""
    scenario = comparison.scenario
    return {
        "apiVersion": API_VERSION,
        "kind": "SimulationComparison",
        "answer": answer(comparison),
        "good": comparison.good,
        "judged": comparison.judged.scheduler,
        "interrupted": comparison.interrupted,
        "notRun": list(comparison.not_run),
        "remarks": list(comparison.remarks),
        "scenario": {
            "name": scenario.name,
            "seed": scenario.seed,
            "nodes": len(scenario.nodes),
            "pods": scenario.pods_wanted,
            "reportDelaySeconds": _seconds(scenario.report_delay),
        },
        "runs": [_run_document(run) for run in comparison.runs],
    }


def _run_document(run: Run) -> Document:
    return {
        "scheduler": run.scheduler,
        "interrupted": run.interrupted,
        "pods": {
            "wanted": run.wanted,
            "arrived": run.arrived,
            "running": run.running,
            "finished": run.finished,
            "waiting": run.waiting,
            "givenUp": run.given_up,
            "created": run.attempts,
            "createdAgain": run.retries,
        },
        "refused": {
            "total": run.refusals_in_all,
            "byReason": [{"reason": reason, "count": run.refused[reason]} for reason in reasons([run])],
        },
        **({} if run.evicted is None else {"evicted": _evicted_document(run)}),
        "gangs": {
            "wanted": run.gangs,
            "whole": run.gangs_whole,
            "inPart": run.gangs_in_part,
            "domainsPerGang": run.domains_per_gang,
            "each": [_gang_document(gang) for gang in run.gang_runs],
        },
        "allRunningAtSeconds": None if run.all_running_at is None else _seconds(run.all_running_at),
        "endedAtSeconds": _seconds(run.ended_at),
        "cpuShare": _share(run.cpu_share),
        "peakCpuShare": _share(run.peak_cpu_share),
        "memoryShare": _share(run.memory_share),
        "zonesPerPod": None if run.zones_per_pod is None else _share(run.zones_per_pod),
        "distance": None if run.distance is None else _share(run.distance),
        "zonesDecided": run.zones_decided,
        "zonesNotAsDecided": run.zones_not_as_decided,
        "workloads": [_workload_document(workload) for workload in run.workloads],
        "waiting": [
            {"workload": waiting.workload, "pods": waiting.pods, "reason": waiting.reason}
            for waiting in run.waiting_pods
        ],
        "firstRefusals": [
            {
                "atSeconds": _seconds(refusal.at),
                "pod": refusal.pod,
                "workload": refusal.workload,
                "node": refusal.node,
                "reason": refusal.reason,
                "message": refusal.message,
            }
            for refusal in run.refusals[:MOST_REFUSALS]
        ],
        "timeline": [_moment_document(moment) for moment in run.timeline],
    }


def _evicted_document(run: Run) -> Document:
    return {"total": run.evicted, "inVain": run.evicted_in_vain, "gangsBelowMinimum": run.gangs_crippled}


def _gang_document(gang: GangRun) -> Document:
    return {
        "name": gang.name,
        "workload": gang.workload,
        "arrivedAtSeconds": None if gang.arrived_at is None else _seconds(gang.arrived_at),
        "wholeAtSeconds": None if gang.whole_at is None else _seconds(gang.whole_at),
        "podsStarted": gang.started,
        "level": gang.level,
        "domains": list(gang.domains),
        "gaveUp": list(gang.gave_up),
    }


def _workload_document(workload: WorkloadResult) -> Document:
    return {
        "name": workload.name,
        "kind": workload.kind,
        "wanted": workload.wanted,
        "running": workload.running,
        "finished": workload.finished,
        "waiting": workload.waiting,
        "givenUp": workload.given_up,
        "refused": workload.refused,
    }


def _moment_document(moment: Moment) -> Document:
    return {
        "atSeconds": _seconds(moment.at),
        "running": moment.running,
        "waiting": moment.waiting,
        "refused": moment.refused,
        "finished": moment.finished,
        "cpuShare": _share(moment.cpu_share),
        "memoryShare": _share(moment.memory_share),
    }


def _wanted_that_ran(run: Run) -> str:
    pods = "pod" if run.wanted == 1 else "pods"
    if run.wanted > 1 and ran(run) == run.wanted:
        return f"all {number(run.wanted)} {pods}"
    return f"{number(ran(run))} of {number(run.wanted)} {pods}"


def _not_as_decided(run: Run) -> str:
    return f"{number(run.zones_not_as_decided)} of {number(run.zones_decided)}" if run.zones_decided else "-"


def _refusals_phrase(run: Run) -> str:
    return counted(run.refusals_in_all, "refusal") if run.refusals_in_all else "none refused"


def _seconds(seconds: float) -> float:
    return round(seconds, SECONDS_DIGITS)


def _share(share: float) -> float:
    return round(share, SHARE_DIGITS)
