"""What is told, for people and for programs."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.services.kubelets.model import (
    News,
    Ready,
    Refused,
    Registered,
    RejectedPod,
    Removed,
    Removing,
    Summary,
    Trouble,
    news_document,
    news_line,
)

REFUSAL = RejectedPod(
    "telco/upf-0", "virtual-3", "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
)


@pytest.mark.parametrize(
    "news, line, document",
    [
        (
            Registered(1200, 1.24, {"core:8 mem:32Gi": 1000, "core:4 mem:8Gi": 200}),
            "1,200 nodes registered in 1.2 s: 1000 x core:8 mem:32Gi, 200 x core:4 mem:8Gi",
            {
                "event": "registered",
                "nodes": 1200,
                "took": 1.24,
                "kinds": {"core:8 mem:32Gi": 1000, "core:4 mem:8Gi": 200},
            },
        ),
        (Ready(3, 200), "ready: 3 pods on nodes, 200 reports written", {"event": "ready", "pods": 3, "reports": 200}),
        (
            Ready(0, None),
            "ready: 0 pods on nodes; no reports, the API server does not know NodeResourceTopology (yet)",
            {"event": "ready", "pods": 0, "reports": None},
        ),
        (
            Refused(REFUSAL),
            (
                "refused telco/upf-0 on virtual-3: TopologyAffinityError: Resources cannot be "
                "allocated with Topology locality"
            ),
            {
                "event": "refused",
                "pod": "telco/upf-0",
                "node": "virtual-3",
                "reason": "TopologyAffinityError",
                "message": "Resources cannot be allocated with Topology locality",
            },
        ),
        (
            Summary(90, 120, {"TopologyAffinityError": 3, "OutOfcpu": 1}, 30, 12),
            (
                "90 pods on nodes; so far 120 admitted, 4 refused (OutOfcpu 1, TopologyAffinityError 3), 30 "
                "deleted, 12 reports written"
            ),
            {
                "event": "summary",
                "holding": 90,
                "admitted": 120,
                "refused": {"TopologyAffinityError": 3, "OutOfcpu": 1},
                "deleted": 30,
                "reports": 12,
            },
        ),
        (
            Trouble("no answer", 12),
            "no answer (12 times)",
            {"event": "trouble", "problem": "no answer", "times": 12},
        ),
        (
            Removing(200, 10.0),
            "removing 200 nodes; gives up if the API server does not answer for 10 s (Ctrl-C ends at once)",
            {"event": "removing", "nodes": 200, "patience": 10.0},
        ),
        (Removed(200, 200), "200 nodes removed", {"event": "removed", "nodes": 200, "of": 200}),
        (Removed(150, 200), "150 of 200 nodes removed", {"event": "removed", "nodes": 150, "of": 200}),
    ],
)
def test_news(news: News, line: str, document: dict[str, Any]) -> None:
    assert news_line(news) == line
    assert news_document(news) == document
