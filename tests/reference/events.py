"""docs/events.md: every reason of an event that a program records."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SERVICES = Path(__file__).parents[2] / "src" / "bayplan"
# What a program was doing, in events whose reason is a variable.
ACTIONS = ("Reading", "Grouping", "Releasing")
_REASON = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")

TABLE = {
    "Scheduled": ("Pod", "Normal", "bound, with the node and the NUMA zones", ""),
    "FailedScheduling": ("Pod, PodGroup", "Warning", "no place, with the causes by number of nodes",
                         "`bayplan why POD` says what would help"),
    "GangReleased": ("Pod", "Warning", "deleted, because the rest of its gang could not be bound",
                     "its controller creates it again"),
    "GangNotReleased": ("Pod", "Warning", "keeps its node although its gang cannot be completed",
                        "grant `release-role.yaml`, or delete the pods"),
    "RoomExpired": ("PodGroup", "Warning", "the room that was kept for members still to come is free for others",
                    "see why its controller does not create them, or raise `--keep-room-for`"),
    "Preempted": ("Pod", "Normal", "evicted for a more important pod or gang, with what that frees",
                  "its controller creates it again"),
    "Preempting": ("Pod", "Normal", "less important pods were evicted; nominated to a node", ""),
    "PreemptionFailed": ("Pod", "Warning",
                         ("an eviction was refused, with the reason; nothing else is evicted for this "
                         "plan"), "a PodDisruptionBudget, or grant `preemption-role.yaml`"),
    "InvalidTopology": ("Node", "Warning", "its report contradicts itself or cannot be read",
                        "correct what writes the report; `bayplan doctor`"),
    "NotSupported": ("Pod, PodGroup, owner", "Warning", "asks for something that bayplan does not do",
                     "remove the field that the event names"),
    "InvalidGroup": ("PodGroup", "Warning", "a value of the PodGroup cannot be used",
                     "correct the field that the event names"),
    "OwnerInvalid": ("owner of pods", "Warning", "an annotation or field of the workload cannot be used",
                     "correct it; the event names field and value"),
    "OwnerUnreadable": ("owner of pods", "Warning", "an owner must not be read, so it does not count",
                        "add its kind to `pod-grouper-role.yaml`"),
}  # fmt: skip

HEAD = """# Events

Written from the code by `make reference`; do not edit.

Repeated events become a series on the first one. At most 50 events a second are written.

| reason | on | type | meaning | remedy |
|---|---|---|---|---|
"""


def reasons_in_source() -> set[str]:
    """The reasons that stand as text in calls of `record(...)`, and in constants that are used as reasons."""
    found: set[str] = set()
    for file in (SERVICES / "services").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record":
                texts = [
                    each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
                texts = [
                    each for each in texts if _REASON.fullmatch(each) and each not in ("Normal", "Warning", *ACTIONS)
                ]
                found |= set(texts[:1])
    return found


def events_page() -> str:
    """The page."""
    return HEAD + "".join(f"| `{reason}` | {' | '.join(cells)} |\n" for reason, cells in TABLE.items())
