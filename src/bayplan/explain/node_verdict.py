"""The verdict about one pod on one node, as a sentence or a document."""

from __future__ import annotations

from typing import Any

from bayplan.cluster.state import ClusterState
from bayplan.explain.documents import containers_document, miss_document
from bayplan.explain.numa.zones import zone_phrase
from bayplan.explain.refusal import Miss, holder_of
from bayplan.explain.why import miss_phrase
from bayplan.kube.visible import visible_lines
from bayplan.scheduling.shortfall import NodeVerdict


def node_verdict_text(state: ClusterState, pod: str, verdict: NodeVerdict) -> str:
    """`telco/upf-0 fits on telco-1, NUMA zone 0`, or why not and what is missing there."""
    if verdict.fits:
        zones = zone_phrase(verdict.containers)
        remark = f"; {verdict.remark}" if verdict.remark else ""
        return f"{pod} fits on {verdict.node}" + (f", {zones}" if zones else "") + remark
    lines = [f"{pod} does not fit on {verdict.node}: {verdict.cause}", f"  refused by {verdict.plugin}"]
    lines += [f"  {detail}" for detail in verdict.details]
    if verdict.miss is not None:
        lines.append(f"  {miss_phrase(Miss(verdict.miss, holder_of(state, verdict.miss)))}")
    return visible_lines(lines)


def node_verdict_document(state: ClusterState, pod: str, verdict: NodeVerdict) -> dict[str, Any]:
    """The same for programs."""
    miss = verdict.miss and miss_document(Miss(verdict.miss, holder_of(state, verdict.miss)))
    return {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "NodeVerdict",
        "pod": pod,
        "node": verdict.node,
        "fits": verdict.fits,
        "containers": containers_document(verdict.containers),
        "plugin": verdict.plugin or None,
        "cause": verdict.cause or None,
        "details": list(verdict.details),
        "missing": miss,
        "remark": verdict.remark or None,
    }
