"""A gang's seats in Kueue's form: one TopologyAssignment per pod set (`kube/wire/kueue_v1beta2.py`).

For users who plan with bayplan and run with Kueue, `bayplan place -o json` shows what Kueue would write into the status
of its Workload. The lowest level is the host, for which Kueue lists host names alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from bayplan.gangs.model import Seat
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.kueue_v1beta2 import Assignment, Domain, TopologyAssignment, encoded

# Kueue's name for the only pod set of a job.
ONLY_POD_SET = "main"


def assignments_document(seats: Iterable[Seat]) -> list[dict[str, Any]]:
    """Each group's pod set and its assignment; empty if no pod has a seat."""
    by_group: dict[str, Counter[str]] = {}
    for seat in seats:
        by_group.setdefault(seat.group or ONLY_POD_SET, Counter())[seat.node] += 1
    return [
        {"podSet": group, "topologyAssignment": _document(encoded(_assignment(hosts)))}
        for group, hosts in by_group.items()
    ]


def _document(assignment: TopologyAssignment) -> dict[str, Any]:
    """The document as read from JSON, with lists, so that a reread snapshot is equal."""
    return msgspec.json.decode(msgspec.json.encode(assignment), type=dict[str, Any])


def _assignment(hosts: Counter[str]) -> Assignment:
    return Assignment((HOSTNAME,), tuple(Domain((host,), hosts[host]) for host in sorted(hosts)))
