"""Waiting pods and pods that kubelets rejected, grouped by cause: `bayplan why -A`.

`StuckPod`s come in (`cli/shared/deciding.py`); groups go out, the most frequent first, as text and as a
document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from bayplan.explain.amounts import count
from bayplan.explain.documents import API_VERSION, Document
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import hostlist
from bayplan.kube.visible import visible_lines

LONGEST_EXAMPLES = 48
ONE_POD = "'bayplan why NAMESPACE/NAME' explains one of them."
ONE_OWNER = "'bayplan why NAMESPACE/NAME' explains a pod, 'bayplan why KIND/NAME -n NAMESPACE' a workload."


class CauseKind(Enum):
    """What keeps a pod from its node, as documents name it."""

    UNSCHEDULABLE = "Unschedulable"
    GANG = "Gang"
    HELD_BACK = "HeldBack"
    INVALID = "Invalid"
    REFUSED = "RefusedByKubelet"
    OTHER_SCHEDULER = "OtherScheduler"
    FITS = "FitsNow"


# Pods that need nothing but their turn.
ON_THE_WAY = (CauseKind.FITS, CauseKind.OTHER_SCHEDULER)


@dataclass(frozen=True, slots=True)
class StuckPod:
    """One pod and its cause. `gang` is empty for a single pod, `node` for a waiting one.

    `owner` is the workload of the gang.
    """

    pod: str
    kind: CauseKind
    cause: str
    gang: str = ""
    node: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Pods of one cause, by name."""

    kind: CauseKind
    cause: str
    pods: tuple[str, ...]
    gangs: tuple[str, ...]
    nodes: tuple[str, ...]
    titles: tuple[str, ...] = ()
    """What to call each gang (by its owner, else by its name) and each single pod."""
    owners: bool = False
    """True if a gang is called by its owner."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The causes, the most frequent first; pods that only wait for their turn are last.

    `namespace` is empty for all. `drained` are pods that wait because their nodes are assumed to be drained.
    """

    causes: tuple[Cause, ...]
    namespace: str = ""
    drained: frozenset[str] = frozenset()

    @property
    def good(self) -> bool:
        """True if waiting pods only wait for their turn, and no kubelet rejected one."""
        return all(each.kind in ON_THE_WAY for each in self.causes)

    @property
    def answer(self) -> str:
        """`12 pods wait (2 causes), 3 were refused by kubelets; 4 more fit now`.

        If nodes are assumed to be drained, first what becomes of their pods.
        """
        return "; ".join(filter(None, (self._of_drained, self._of_waiting)))

    @property
    def without_place(self) -> list[str]:
        """Pods of drained nodes that no other node takes."""
        fitting = {pod for each in self.causes if each.kind is CauseKind.FITS for pod in each.pods}
        return sorted(self.drained - fitting)

    @property
    def _of_drained(self) -> str:
        without, pods = self.without_place, len(self.drained)
        if not pods:
            return ""
        if without:
            has = "has" if len(without) == 1 else "have"
            which = f"{len(without)} of {count(pods, 'pod')} of drained nodes"
            return f"{which} {has} no other place: {hostlist(without, LONGEST_EXAMPLES)}"
        return (
            "the pod of drained nodes has another place"
            if pods == 1
            else f"all {pods} pods of drained nodes have another place"
        )

    @property
    def _of_waiting(self) -> str:
        stuck = [each for each in self.causes if each.kind not in (*ON_THE_WAY, CauseKind.REFUSED)]
        waiting = sum(len(each.pods) for each in stuck)
        words = []
        if waiting:
            verb = "waits" if waiting == 1 else "wait"
            words.append(f"{count(waiting, 'pod')} {verb} ({count(len(stuck), 'cause')})")
        refused = self._number(CauseKind.REFUSED)
        if refused:
            verb = "was" if refused == 1 else "were"
            words.append(f"{refused if waiting else count(refused, 'pod')} {verb} refused by kubelets")
        fit, elsewhere = self._number(CauseKind.FITS), self._number(CauseKind.OTHER_SCHEDULER)
        later = [f"{fit} {'more ' if words else ''}{'fits' if fit == 1 else 'fit'} now"] if fit else []
        later += [f"{elsewhere} {'waits' if elsewhere == 1 else 'wait'} for another scheduler"] if elsewhere else []
        where = f" in namespace {self.namespace}" if self.namespace else ""
        if not words and not later:
            return f"no pod waits{where}, and no kubelet refused one"
        return "; ".join(filter(None, (", ".join(words), *later))) + where

    def _number(self, kind: CauseKind) -> int:
        return sum(len(each.pods) for each in self.causes if each.kind is kind)


def overview_of(findings: Sequence[StuckPod], namespace: str = "", drained: frozenset[str] = frozenset()) -> Overview:
    """Group findings by cause."""
    grouped: dict[tuple[CauseKind, str], list[StuckPod]] = {}
    for finding in findings:
        grouped.setdefault((finding.kind, finding.cause), []).append(finding)
    causes = [
        Cause(
            kind,
            cause,
            tuple(finding.pod for finding in of_it),
            tuple(dict.fromkeys(finding.gang for finding in of_it if finding.gang)),
            tuple(dict.fromkeys(finding.node for finding in of_it if finding.node)),
            tuple(dict.fromkeys((finding.owner or finding.gang) if finding.gang else finding.pod for finding in of_it)),
            any(finding.gang and finding.owner not in ("", finding.gang) for finding in of_it),
        )
        for (kind, cause), of_it in grouped.items()
    ]
    causes.sort(key=lambda each: (each.kind in ON_THE_WAY, -len(each.pods), each.cause))
    return Overview(tuple(causes), namespace, drained & {finding.pod for finding in findings})


def overview_text(overview: Overview, *, wide: bool = False) -> str:
    """A line for each cause; `wide` has all names."""
    if not overview.causes:
        return overview.answer
    longest = 10**9 if wide else LONGEST_EXAMPLES
    rows = [
        [
            str(len(each.pods)),
            str(len(each.gangs)) if each.gangs else "",
            each.cause,
            hostlist(each.titles, longest) + (f" on {hostlist(each.nodes, longest)}" if each.nodes else ""),
        ]
        for each in overview.causes
    ]
    header = ["pods", "gangs", "cause", "which"]
    if not any(each.gangs for each in overview.causes):
        header, rows = [header[0], *header[2:]], [[row[0], *row[2:]] for row in rows]
    hint = ONE_OWNER if any(each.owners for each in overview.causes) else ONE_POD
    return visible_lines([overview.answer, "", *table(header, rows, indent="  ", numbers=header[:-2]), "", hint])


def overview_document(overview: Overview) -> Document:
    """What `bayplan why -A -o json` prints."""
    return {
        "apiVersion": API_VERSION,
        "kind": "WaitingList",
        "namespace": overview.namespace or None,
        "answer": overview.answer,
        **({"withoutPlace": overview.without_place} if overview.drained else {}),
        "causes": [
            {
                "type": each.kind.value,
                "cause": each.cause,
                "count": len(each.pods),
                "pods": list(each.pods),
                "gangs": list(each.gangs),
                "nodes": list(each.nodes),
            }
            for each in overview.causes
        ],
    }
