"""The text of a `FailedScheduling` event or a `PodScheduled=False` condition: the answer and the smallest change.

The form is kube-scheduler's:

    0/512 nodes are available: 162 Insufficient hugepages-1Gi, 350 no single NUMA zone holds the request.
    Would schedule now if: cpu 22 instead of 24 (3 nodes).

An event holds 1 KB; further sentences are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.scheduling.decision import Shortfall

LONGEST = 1024


def event_text(shortfall: Shortfall, changes: Sequence[str] = (), longest: int = LONGEST) -> str:
    """One paragraph of at most `longest` bytes."""
    if not shortfall.nodes:
        return "no nodes available to schedule pods"
    # Most frequent first: the least important is cut off.
    causes = [
        f"{len(cause.nodes)} {cause.cause}" + (f" ({cause.details[0]})" if cause.details else "")
        for cause in sorted(shortfall.causes, key=lambda cause: (-len(cause.nodes), cause.cause))
    ]
    hint = f" Would schedule now if: {changes[0]}." if changes else ""
    lead = f"0/{shortfall.nodes} nodes are available: "
    shown = len(causes)
    while True:
        left_out = len(causes) - shown
        rest = f", and {left_out} more cause{'s' if left_out > 1 else ''}" if left_out else ""
        text = f"{lead}{', '.join(causes[:shown])}{rest}.{hint}"
        if len(text.encode()) <= longest or shown <= 1:
            return _cut(text, longest)
        shown -= 1


def _cut(text: str, longest: int) -> str:
    raw = text.encode()
    return text if len(raw) <= longest else raw[: longest - 3].decode(errors="ignore") + "..."
