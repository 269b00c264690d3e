"""Clocks: of this machine, of the leader, and of the nodes whose agents write moments into their reports.

The API server's clock is the measure. It writes the time of every change into `managedFields`, so an agent's clock can
be compared with it exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.doctor.findings import Finding, warning
from bayplan.doctor.installation import Installation
from bayplan.kube.times import moment_of

TOLERATED = 5.0  # seconds
# A report is written within about a second of its moment, later if the API server was away: only much more means a slow
# clock.
WRITTEN_WITHIN = 60.0
ADVICE = "Check time synchronisation there (chronyc tracking, timedatectl)."


def check_clocks(installation: Installation) -> Iterator[Finding]:
    """No clock differs from the API server's by seconds."""
    if installation.ahead is not None and abs(installation.ahead) > TOLERATED:
        yield warning(
            f"the clock of this machine is {_off(installation.ahead)} the API server's",
            "Ages that commands print are off by as much. Check time synchronisation here and on the API server.",
        )
    lease = installation.election.lease
    renewed = moment_of(lease.renew_time or "") if lease is not None else None
    if renewed is not None and renewed.timestamp() - installation.now > TOLERATED:
        ahead = renewed.timestamp() - installation.now
        yield warning(f"the leader's clock is {_off(ahead)} the API server's", ADVICE, installation.election.shown)
    fast, slow = [], []
    for node, report in installation.reports.items():
        if report.made_at is None:
            continue
        written = installation.written.get(node)
        latest = installation.now if written is None else written
        if report.made_at - latest > TOLERATED:
            fast.append((node, report.made_at - latest))
        elif written is not None and written - report.made_at > WRITTEN_WITHIN:
            slow.append((node, written - report.made_at))
    for nodes, word in ((fast, "ahead of"), (slow, "behind")):
        if nodes:
            most = max(seconds for _, seconds in nodes)
            yield warning(
                f"clocks of nodes are up to {most:.0f} s {word} the API server's, by the moments in their reports",
                f"{ADVICE} Reports count as stale too late or too early until then.",
                *(f"node/{node}" for node, _ in nodes),
            )


def _off(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"
