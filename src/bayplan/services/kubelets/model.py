"""Data of `bayplan kubelets`: its settings, writes to the API server, and news for the user.

`layout.py` builds the nodes of the settings. `fleet.py` and `reports.py` make writes for `writer.py`; of several writes
to one object (`key`) only the newest matters. `run.py` makes news, and `cli/services/kubelets.py` prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bayplan.simulate.scenario.model import Seconds, SimulatedNode

RUNS_FOR_ANNOTATION = "bayplan.io/runs-for"
# On every object that we create; objects without it are never changed or removed.
OURS_LABEL = "bayplan.io/virtual-kubelet"

HEARTBEAT: Seconds = 10.0
SUMMARY_EVERY: Seconds = 10.0


@dataclass(frozen=True)
class KubeletsSettings:
    """Settings of a fleet of virtual kubelets.

    `report_delay` passes between a change and its report. `complete` reports have everything that bayplan reads (zones
    of pods, CPUs and devices by name), others only what node agents write today. `runs_for` ends pods without an
    annotation. A `heartbeat` of 0 writes each Lease once. With `keep`, everything stays in the cluster at the end.
    """

    nodes: tuple[SimulatedNode, ...]
    report_delay: Seconds = 0.0
    complete: bool = True
    runs_for: Seconds | None = None
    heartbeat: Seconds = HEARTBEAT
    keep: bool = False
    summary_every: Seconds = SUMMARY_EVERY
    writers: int = 64

    @property
    def kinds(self) -> Mapping[str, int]:
        """The number of nodes by group, in order."""
        return dict(Counter(node.group for node in self.nodes))


# -- writes ----------------------------------------------------------------------------------------------------------

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that a kubelet refused."""

    pod: str
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetPodStatus:
    """Write a pod's status; `refusal` if a kubelet refused it."""

    namespace: str
    name: str
    uid: str
    status: Body
    refusal: RejectedPod | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The pod."""
        return "pod", f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod whose containers have stopped, after writing its last `status`; None if it had ended before."""

    namespace: str
    name: str
    uid: str
    status: Body | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The pod."""
        return "pod", f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PublishTopology:
    """Write a node's report; `exists` if it probably has one."""

    node: str
    report: Body
    exists: bool

    @property
    def key(self) -> tuple[str, str]:
        """The report."""
        return "report", self.node


Write = SetPodStatus | DeletePod | PublishTopology


# -- news ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """All nodes are registered; `kinds` counts them by machine or group."""

    nodes: int
    took: Seconds
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """Existing pods are admitted, and reports written; None if the API server does not know the kind."""

    pods: int
    reports: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A kubelet refused a pod."""

    refusal: RejectedPod


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts since the start; `holding` pods are on nodes now."""

    holding: int
    admitted: int
    refused: Mapping[str, int]
    deleted: int
    reports: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure that is retried, or an unreadable object."""

    problem: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Removing:
    """Removal begins; an API server that does not answer is given up after `patience`."""

    nodes: int
    patience: Seconds


@dataclass(frozen=True, slots=True)
class Removed:
    """Removal ended: the number of nodes that are gone."""

    nodes: int
    of: int


News = Registered | Ready | Refused | Summary | Trouble | Removing | Removed


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def news_line(news: News) -> str:
    """The news as a line of text."""
    match news:
        case Registered(nodes, took, kinds):
            parts = ", ".join(f"{number} x {kind}" for kind, number in kinds.items())
            return f"{_count(nodes, 'node')} registered in {took:.1f} s: {parts}"
        case Ready(pods, written):
            no_reports = "; no reports, the API server does not know NodeResourceTopology (yet)"
            reports = no_reports if written is None else f", {_count(written, 'report')} written"
            return f"ready: {_count(pods, 'pod')} on nodes{reports}"
        case Refused(refusal):
            return f"refused {refusal.pod} on {refusal.node}: {refusal.reason}: {refusal.message}"
        case Summary(holding, admitted, refused, deleted, reports):
            causes = ", ".join(f"{reason} {number:,}" for reason, number in sorted(refused.items()))
            in_all = f"{sum(refused.values()):,} refused" + (f" ({causes})" if causes else "")
            so_far = f"{admitted:,} admitted, {in_all}, {deleted:,} deleted, {_count(reports, 'report')} written"
            return f"{_count(holding, 'pod')} on nodes; so far {so_far}"
        case Trouble(problem, times):
            return f"{problem} ({times:,} times)" if times > 1 else problem
        case Removing(nodes, patience):
            until = f"gives up if the API server does not answer for {patience:.0f} s (Ctrl-C ends at once)"
            return f"removing {_count(nodes, 'node')}; {until}"
        case Removed(nodes, of):
            return f"{_count(nodes, 'node')} removed" if nodes == of else f"{nodes:,} of {_count(of, 'node')} removed"


def news_document(news: News) -> dict[str, Any]:
    """The news as a document; `event` names its type."""
    inner = asdict(news.refusal) if isinstance(news, Refused) else asdict(news)
    return {"event": type(news).__name__.lower(), **inner}
