"""A workload whose pods stand alone, as text and as a document: how many of its replicas fit, and where.

    ml/web: 3 of 5 replicas fit; 2 do not: no node has enough cpu

      node      replicas  NUMA zones
      worker-1         2  0
      worker-2         1  1

In comes a `WorkloadOutcome`; the refusals of equal pods are written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bayplan.explain.amounts import count, fit_text
from bayplan.explain.documents import API_VERSION, Document, outcome_document, pod_answer
from bayplan.explain.gangs.document import gang_document
from bayplan.explain.gangs.outcome import GangOutcome
from bayplan.explain.gangs.text import gang_text, running_lines
from bayplan.explain.numa.labels import zone_column
from bayplan.explain.placement import PodOutcome, outcome_text, outcomes_text
from bayplan.explain.pod_view import pending_for
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.visible import visible, visible_lines

LONGEST_HOSTLIST = 60


@dataclass(frozen=True, slots=True)
class WorkloadOutcome:
    """A workload: `counts` is the word for its pods, `running` have a node, `outcomes` decide about the others.

    `standing` is where the running pods are in the topology, if requested; `suspended` says why there are no pods yet.
    """

    kind: str
    name: str
    counts: str
    running: Sequence[tuple[str, str]]
    outcomes: Sequence[PodOutcome]
    standing: GangOutcome | None = None
    suspended: str = ""
    in_gangs: Sequence[str] = ()
    """Pods that wait in gangs, which have outcomes of their own."""

    @property
    def fit(self) -> int:
        """How many of the pods without a node would get one."""
        return sum(outcome.decision.placed for outcome in self.outcomes)

    @property
    def good(self) -> bool:
        """True if every pod runs or fits."""
        return self.fit == len(self.outcomes)


def work_text(
    gangs: Sequence[GangOutcome],
    workloads: Sequence[WorkloadOutcome],
    pods: Sequence[PodOutcome],
    *,
    wide: bool = False,
) -> str:
    """What `bayplan place` prints: gangs, workloads of single pods, and other pods; the first line counts them all."""
    parts = [gang_text(gang, wide=wide) for gang in gangs]
    parts += [workload_text(each, wide=wide) for each in workloads]
    parts += [outcomes_text(pods, wide=wide)] if pods or not parts else []
    return "\n\n".join([work_answer(gangs, workloads, pods), *parts] if len(parts) > 1 else parts)


def work_answer(gangs: Sequence[GangOutcome], workloads: Sequence[WorkloadOutcome], pods: Sequence[PodOutcome]) -> str:
    """The first line of that."""
    match gangs, workloads, pods:
        case [gang], [], []:
            return gang_text(gang).partition("\n")[0]
        case [], [workload], []:
            return answer(workload)
        case [], [], [pod]:
            return pod_answer(pod)
    told = [(sum(each.good for each in workloads), len(workloads), "workload")] if workloads else []
    told += [(sum(gang.good for gang in gangs), len(gangs), "gang")] if gangs else []
    noun = "other pod" if told else "pod"
    return fit_text(*told, *([(sum(pod.decision.placed for pod in pods), len(pods), noun)] if pods or not told else []))


def workload_text(outcome: WorkloadOutcome, *, wide: bool = False) -> str:
    """One workload: the answer, its pods by node, and why not where some fit nowhere."""
    lines = [answer(outcome)]
    lines += running_lines(outcome.standing, wide=wide) if outcome.standing is not None else []
    placed = [each for each in outcome.outcomes if each.decision.placed]
    if wide and placed:
        lines += ["", *outcomes_text(placed, wide=True).split("\n")]
    elif placed:
        lines += ["", *_by_node(outcome, placed)]
    for refused, number in _refused_alike(outcome):
        lines += ["", *outcome_text(refused).split("\n")]
        lines += [f"The same is true of {count(number - 1, 'more pod')}."] if number > 1 else []
    return visible_lines(lines)


def answer(outcome: WorkloadOutcome) -> str:
    """`ml/web: all 5 replicas fit: worker-[1-5]`."""
    pods, running = len(outcome.outcomes), len(outcome.running)
    every, name, word = pods + running, outcome.name, outcome.counts
    if not every:
        return f"{name}: 0 {word}: there is nothing to place"
    word = word if every > 1 else word.removesuffix("s")
    lead = f"{name}: {running} of {every} {word} {'runs' if 1 in (running, every) else 'run'}"
    if not pods:
        return f"{name}: {_all(every, word)} {'runs' if every == 1 else 'run'}: {_nodes(outcome)}"
    if outcome.good:
        fits = f"{'fits' if pods == 1 else 'fit'}: {_nodes(outcome)}"
        return f"{lead}, the other {pods} {fits}" if running else f"{name}: {_all(every, word)} {fits}"
    refused = next(each for each in outcome.outcomes if not each.decision.placed)
    why = refused.refusal.sentence if refused.refusal is not None else refused.decision.held_back
    rest = f"{pods - outcome.fit} {'does' if pods - outcome.fit == 1 else 'do'} not: {why}"
    fit = (
        f"{outcome.fit} of {pods}{' others' if running else f' {word}'} {'fits' if 1 in (outcome.fit, pods) else 'fit'}"
    )
    return f"{lead}, {fit}; {rest}" if running else f"{name}: {fit}; {rest}"


def workload_document(outcome: WorkloadOutcome) -> Document:
    """One workload for programs; its pods are among the items of the list, by their names."""
    return {
        "kind": outcome.kind,
        "workload": outcome.name,
        "fits": outcome.good,
        "answer": answer(outcome),
        "wanted": len(outcome.running) + len(outcome.outcomes),
        "running": len(outcome.running),
        "fit": outcome.fit,
        "pods": [
            *({"pod": pod, "node": node, "runs": True} for pod, node in outcome.running),
            *({"pod": each.decision.pod, "node": each.decision.node, "runs": False} for each in outcome.outcomes),
        ],
    }


def explanation_text(gangs: Sequence[GangOutcome], workload: WorkloadOutcome) -> str:
    """What `bayplan why KIND/NAME` prints: why it is suspended, and its gangs, or its pods where they stand alone."""
    told = _as_if_resumed(gangs, workload)
    if not workload.suspended:
        return told
    return f"{visible(f'{workload.kind} {workload.name} {workload.suspended}.')}\n\nIf it were resumed now: {told}"


def _as_if_resumed(gangs: Sequence[GangOutcome], workload: WorkloadOutcome) -> str:
    if not gangs:
        return workload_text(workload)
    told = [gang_text(gang, pending_for(gang.waiting_seconds) if gang.waiting_seconds else "") for gang in gangs]
    if len(told) == 1:
        return told[0]
    good = sum(gang.good for gang in gangs)
    verbs = "runs or fits" if 1 in (good, len(gangs)) else "run or fit"
    return "\n\n".join((f"{visible(workload.name)}: {good} of {count(len(gangs), 'gang')} {verbs}", *told))


def explanation(gangs: Sequence[GangOutcome], workload: WorkloadOutcome) -> Document:
    """What `bayplan why KIND/NAME -o json` prints."""
    seats = {seat.pod: seat.node for gang in gangs for seat in gang.seats}
    own = workload_document(workload)
    del own["answer"]
    return {
        "apiVersion": API_VERSION,
        **own,
        "kind": "WorkloadExplanation",
        "workloadKind": workload.kind,
        "wanted": own["wanted"] + len(workload.in_gangs),
        "fit": own["fit"] + sum(pod in seats for pod in workload.in_gangs),
        "pods": [*own["pods"], *({"pod": pod, "node": seats.get(pod), "runs": False} for pod in workload.in_gangs)],
        "fits": not workload.suspended and workload.good and all(gang.good for gang in gangs),
        "suspended": workload.suspended or None,
        "gangs": [gang_document(gang) for gang in gangs],
        "standing": None if workload.standing is None else gang_document(workload.standing),
        "items": [outcome_document(each) for each in workload.outcomes],
    }


def _all(number: int, word: str) -> str:
    return f"1 of 1 {word}" if number == 1 else f"all {number} {word}"


def _nodes(outcome: WorkloadOutcome) -> str:
    placed = [each.decision.node for each in outcome.outcomes if each.decision.node]
    return hostlist(placed or [node for _, node in outcome.running], LONGEST_HOSTLIST)


def _by_node(outcome: WorkloadOutcome, placed: Sequence[PodOutcome]) -> list[str]:
    rows: dict[tuple[str, str], int] = {}
    for each in placed:
        key = (each.decision.node or "", zone_column(each.decision.containers))
        rows[key] = rows.get(key, 0) + 1
    cells = [(node, str(number), zones) for (node, zones), number in sorted(rows.items())]
    return table(("node", outcome.counts, "NUMA zones"), cells, indent="  ", numbers=(outcome.counts,))


def _refused_alike(outcome: WorkloadOutcome) -> list[tuple[PodOutcome, int]]:
    """Refusals with the same words, each once with its number."""
    found: dict[str, list[PodOutcome]] = {}
    alike: list[PodOutcome] = []
    for each in outcome.outcomes:
        if each.decision.placed:
            continue
        # Writing a refusal takes longer than comparing it.
        if not alike or not _is_same_refusal(each, alike[-1]):
            text = outcome_text(each).partition("\n")
            alike = found.setdefault(text[0].removeprefix(each.decision.pod) + text[2], [])
        alike.append(each)
    return [(some[0], len(some)) for some in found.values()]


def _is_same_refusal(one: PodOutcome, other: PodOutcome) -> bool:
    if one.refusal is None or other.refusal is None:
        return False
    return replace(one.refusal, pod=other.refusal.pod) == other.refusal
