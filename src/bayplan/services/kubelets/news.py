"""What `bayplan kubelets` tells while it runs, as data, as a line for people and as a document for programs.

`run.py` makes the news, `cli/kubelets.py` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bayplan.services.kubelets.writes import RejectedPod
from bayplan.simulate.scenario.model import Seconds


@dataclass(frozen=True, slots=True)
class Registered:
    """All nodes are there; `kinds` says how many of which machine or group."""

    nodes: int
    took: Seconds
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Ready:
    """Pods that were there have their places again, and first reports are written; None if the API server does not know the kind."""

    pods: int
    reports: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A kubelet refused a pod."""

    refusal: RejectedPod


@dataclass(frozen=True, slots=True)
class Summary:
    """What has happened since the beginning; `holding` pods are on nodes now."""

    holding: int
    admitted: int
    refused: Mapping[str, int]
    deleted: int
    reports: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something did not work and is tried again, or could not be understood."""

    problem: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Removing:
    """The end begins; an API server that does not answer is given up after `patience`."""

    nodes: int
    patience: Seconds


@dataclass(frozen=True, slots=True)
class Removed:
    """The end: how many of the nodes are gone from the API server."""

    nodes: int
    of: int


News = Registered | Ready | Refused | Summary | Trouble | Removing | Removed


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def news_line(news: News) -> str:
    """One line for people."""
    match news:
        case Registered(nodes, took, kinds):
            parts = ", ".join(f"{number} x {kind}" for kind, number in kinds.items())
            return f"{_count(nodes, 'node')} registered in {took:.1f} s: {parts}"
        case Ready(pods, written):
            no_reports = "; no reports, the API server does not know NodeResourceTopology (yet)"
            told = no_reports if written is None else f", {_count(written, 'report')} written"
            return f"ready: {_count(pods, 'pod')} on nodes{told}"
        case Refused(refusal):
            return f"refused {refusal.pod} on {refusal.node}: {refusal.reason}: {refusal.message}"
        case Summary(holding, admitted, refused, deleted, reports):
            causes = ", ".join(f"{reason} {number:,}" for reason, number in sorted(refused.items()))
            in_all = f"{sum(refused.values()):,} refused" + (f" ({causes})" if causes else "")
            return f"{_count(holding, 'pod')} on nodes; so far {admitted:,} admitted, {in_all}, {deleted:,} deleted, {_count(reports, 'report')} written"
        case Trouble(problem, times):
            return f"{problem} ({times:,} times)" if times > 1 else problem
        case Removing(nodes, patience):
            return f"removing {_count(nodes, 'node')}; gives up if the API server does not answer for {patience:.0f} s (Ctrl-C ends at once)"
        case Removed(nodes, of):
            return f"{_count(nodes, 'node')} removed" if nodes == of else f"{nodes:,} of {_count(of, 'node')} removed"


def news_document(news: News) -> dict[str, Any]:
    """The same for programs; `event` says which news it is."""
    inner = asdict(news.refusal) if isinstance(news, Refused) else asdict(news)
    return {"event": type(news).__name__.lower(), **inner}
