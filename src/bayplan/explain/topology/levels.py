"""Levels and domains in few words: `rack` for example.com/rack, `block b2, 4 racks, 8 nodes` for a place.

For tables and first lines. Documents keep the full labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.topology.tree import Path
from bayplan.explain.amounts import count
from bayplan.gangs.trees import NODE


def short_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """The last part of each label, or the whole label where two would look alike; the node comes last.

    >>> short_levels(["example.com/block", "example.com/rack"])
    ('block', 'rack', 'node')
    """
    parts = [*(label.rpartition("/")[2] for label in levels), NODE]
    return tuple(part if parts.count(part) == 1 else label for part, label in zip(parts, [*levels, NODE], strict=True))


def in_short(sentence: str, levels: Sequence[str]) -> str:
    """A sentence of the search with short names for its levels."""
    for label, short in zip(levels, short_levels(levels), strict=False):
        sentence = sentence.replace(label, short)
    return sentence


def domain_name(level: str, value: str) -> str:
    """`block b2`; only the value if it contains the level, as in `block-2`."""
    return value if value.lower().startswith(level.lower()) else f"{level} {value}"


def place_phrase(levels: Sequence[str], paths: Sequence[Path]) -> str:
    """A place, given the paths of nodes: shared domains by name, the rest by number."""
    words = []
    for depth, level in enumerate(short_levels(levels), start=1):
        domains = {path[:depth] for path in paths}
        words.append(domain_name(level, paths[0][depth - 1]) if len(domains) == 1 else count(len(domains), level))
    return ", ".join(words)


def path_text(path: Path) -> str:
    """`b2/r1`: label values have no slash, so this is unambiguous."""
    return "/".join(path)


def in_one(level: str) -> str:
    """`in one rack`, `on one node`."""
    return f"on one {level}" if level == NODE else f"in one {level}"


def ranks_text(ranks: Sequence[int]) -> str:
    """`0-7,12`: ascending numbers as ranges."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
