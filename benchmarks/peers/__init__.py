"""bayplan beside other systems' own code: the same clusters, the same questions, in turns, in one run.

`make peers` builds the other systems; a part whose peer is not built says so and is left out. Times are medians of
each side's CPU time, of all threads of its process (a Go program's garbage collector included), taken in alternating
rounds. Quality comes with speed: what each system makes of the same random gangs, and how many pods the real kubelet
refuses.
"""

from __future__ import annotations

from benchmarks.peers import admissions, gang_quality, gangs, numa, refusals
from tests.peers.catalogue import NoPeer

PARTS = (numa.run, admissions.run, refusals.run, gang_quality.run, gangs.run)


def run() -> None:
    """Print all figures of this group."""
    for part in PARTS:
        try:
            part()
        except NoPeer as problem:
            print(f"bench peers: {problem}", flush=True)
