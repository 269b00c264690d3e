"""Volcano's score: the fewer NUMA nodes a pod needs, the better the node.

    weight * (100 - 100 * needed / most needed by any candidate)

in whole numbers: the quotient is rounded down before it is subtracted, so a third of the way down is 67 and not 66.67.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.compat.volcano.numa.machine import Cpus, Machine
from bayplan.engine.numa.scores import MOST_SCORE

DEFAULT_WEIGHT = 1


def weight_in(arguments: Mapping[str, object]) -> int:
    """The argument `weight` as Volcano reads it: a whole number of either sign; anything else counts as not given."""
    given = arguments.get("weight")
    return given if type(given) is int else DEFAULT_WEIGHT


def numa_nodes_needed(machine: Machine, cpus: Cpus) -> int:
    """On how many NUMA nodes a pod's CPUs lie; none if it got none, also where it should have got some."""
    return len({machine.numa_of(cpu) for cpu in cpus})


def scores(needed: Mapping[str, int], weight: int) -> dict[str, int]:
    """The score of each candidate by the NUMA nodes that it needs; if none needs any, all get the full score."""
    most = max(needed.values(), default=0)
    return {node: weight * (MOST_SCORE - (MOST_SCORE * count // most if most else 0)) for node, count in needed.items()}
