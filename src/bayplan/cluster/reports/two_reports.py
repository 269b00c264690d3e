"""Which report counts where a node has two objects: a NodeResourceTopology and a Numatopology.

Two agents look at one kubelet, each at its own time. Mixing their reports would describe a node that never existed, so
one of the two reports counts as a whole. The first of these rules that tells them apart decides:

1. A usable report counts before an unusable one (no zones, or zones that contradict each other).
2. A live report counts before a dead one. Agents write when something changes, so age alone means little. A report is
   dead

   * if a node's use changed in the other report and this agent has said nothing for `SILENT_FOR` seconds since;
   * if it is a NodeResourceTopology with a moment (`bayplan.io/made-at`), which its agent renews every few minutes
     whatever happens, and that moment is more than `STALE_AFTER` seconds ago, or `bayplan agent-gc` has marked it;
     unless the Numatopology says that it is older still.

3. The richer one counts: more kinds of resources in its zones, then CPUs by number, then pods by name.
4. The NodeResourceTopology counts.

The current time is the arrival of the later report or, where arrival times are unknown, as in a dump, the later of the
two moments. So the second point also holds for a scheduler that has just started. `cluster/reports/desk.py` calls this
module before it hands a report over.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.cluster.reports.topology_report import TopologyReport, same_use

SILENT_FOR = 120.0
# Three heartbeats of bayplan's agent.
STALE_AFTER = 900.0

NODE_RESOURCE_TOPOLOGY = "NodeResourceTopology"
NUMATOPOLOGY = "Numatopology"


@dataclass(frozen=True, slots=True)
class Heard:
    """The last report of one kind, when it came, and when use last changed in such reports; None if it never did."""

    report: TopologyReport
    at: float | None
    changed_at: float | None


class TwoReports:
    """The last report of each kind, by node."""

    def __init__(self) -> None:
        self._heard: dict[str, dict[str, Heard]] = {}

    def heard(self, kind: str, report: TopologyReport, at: float | None) -> TopologyReport | None:
        """A report came: the one that counts now, None if that is the other one as before."""
        known = self._heard.setdefault(report.node, {})
        others = [other for other in known if other != kind]
        counted_before = self._counts(known) if others else None
        before = known.get(kind)
        changed_at = None if before is None else before.changed_at
        if before is not None and not same_use(before.report, report):
            changed_at = at
        known[kind] = Heard(report, at, changed_at)
        if not others:
            return report
        counts = self._counts(known)
        return None if counts is counted_before else counts

    def gone(self, kind: str, node: str) -> TopologyReport | None:
        """A node's object of one kind was deleted: the report of the other kind, if there is one."""
        known = self._heard.get(node, {})
        known.pop(kind, None)
        if not known:
            self._heard.pop(node, None)
            return None
        return self._counts(known)

    def _counts(self, known: dict[str, Heard]) -> TopologyReport:
        return max(known.items(), key=lambda entry: _order(entry[0], known))[1].report


def _order(kind: str, known: dict[str, Heard]) -> tuple[bool, bool, tuple[int, bool, bool], bool]:
    """How much speaks for a report: the larger, the better."""
    report = known[kind].report
    resources = {name for zone in report.zones for name in zone.resources}
    richness = (len(resources), report.inventory is not None, report.pods is not None)
    others = [heard for other, heard in known.items() if other != kind]
    dead = any(_is_silent(known[kind], other) for other in others)
    if kind == NODE_RESOURCE_TOPOLOGY:
        dead = dead or any(_is_stale(known[kind], other) for other in others)
    return report.usable and bool(report.zones), not dead, richness, kind == NODE_RESOURCE_TOPOLOGY


def _is_silent(heard: Heard, other: Heard) -> bool:
    """True if the other report shows other use since, and this one has said nothing for long."""
    if heard.at is None or other.at is None or other.changed_at is None:
        return False
    return other.changed_at > heard.at and other.at - heard.at >= SILENT_FOR


def _is_stale(heard: Heard, other: Heard) -> bool:
    """True if this report has not been renewed for long, though its agent does that, and the other one is not older."""
    made_at, others_moment = heard.report.made_at, other.report.made_at
    if made_at is None or (others_moment is not None and others_moment < made_at):
        return False
    now = max(moment for moment in (made_at, others_moment, heard.at, other.at) if moment is not None)
    return heard.report.marked_stale or now - made_at > STALE_AFTER
