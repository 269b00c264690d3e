"""Python's garbage collector, for a process in which nearly everything stays.

The collector looks for cycles, again and again, among all objects that are alive. A scheduler keeps hundreds of thousands (a report of eight zones
alone is sixty) and makes hardly any cycles: what it drops is freed at once, without the collector. With Python's own thresholds the search took a
quarter of the CPU time at 5,000 nodes, and each search of everything stopped the loop for 150 ms.

So it searches rarely from the start, and what the first lists brought is never searched again.
"""

from __future__ import annotations

import gc

# Objects more than before, until the young ones are searched; how many such searches until the middle-aged are, and then all.
THRESHOLDS = (50_000, 10, 100)


def search_rarely() -> None:
    """At the start: a list of objects that all stay is nothing to search in."""
    gc.set_threshold(*THRESHOLDS)


def keep_what_is_here() -> None:
    """Exclude existing objects from garbage collection, after the first lists; they are still freed when no longer referenced."""
    gc.freeze()
