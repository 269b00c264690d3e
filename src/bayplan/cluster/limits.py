"""How much a node may say about itself.

A node that is broken or in the wrong hands must not take the memory and time of all others.

Every resource name is a column over all nodes and zones. So names, zones, devices and pods are limited for each object,
and names also in total. The limits are far above what machines have. What exceeds them is left out and told in an event
on the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from bayplan.cluster.pods.request import CPU, MEMORY, PODS, is_memory

# Resource names of one object: a Node's allocatable, or a report.
MOST_NAMES = 64
# A prefix of 253 characters, a slash, and 63 more, as Kubernetes allows.
LONGEST_NAME = 317
# NUMA zones of a report; the kubelet keeps them as bits of a 64-bit mask.
MOST_ZONES = 64
# Entries of `bayplan.io/devices` over all resources, pods in `bayplan.io/pods` or `podAllocations`, and attributes.
MOST_DEVICES = 4096
MOST_PODS = 2048
MOST_ATTRIBUTES = 256
# Things that are told about one report.
MOST_TOLD = 16
# Resource names of all nodes together; the code of a refusal is one byte.
MOST_NAMES_IN_ALL = 250
# Names times zones of all nodes together. At 5,000 nodes, 2,048 take about 350 MB if every node has every name, and
# little if few have them.
MOST_CELLS = 2048

# Names that count first where there are too many.
_USUAL = (CPU, MEMORY, PODS, "ephemeral-storage")
_SHOWN = 3

_Value = TypeVar("_Value")


def within_names(named: Mapping[str, _Value], *, most: int = MOST_NAMES) -> tuple[dict[str, _Value], list[str]]:
    """As many names as are read, the usual ones first, and the names that are left out."""
    if len(named) <= most and all(len(name) <= LONGEST_NAME for name in named):
        return dict(named), []
    usual = [name for name in named if name in _USUAL or is_memory(name)]
    others = [name for name in named if name not in usual]
    kept = [name for name in (*usual, *others) if len(name) <= LONGEST_NAME][:most]
    chosen = set(kept)
    return {name: named[name] for name in kept}, [name for name in named if name not in chosen]


def left_out(names: Iterable[str], limit: str) -> str:
    """The sentence about names that are not read."""
    listed = list(names)
    shown = ", ".join(name if len(name) <= LONGEST_NAME else f"{name[:40]}..." for name in listed[:_SHOWN])
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{shown}{more} left out: {limit}"


OF_ONE_OBJECT = f"at most {MOST_NAMES} resource names of up to {LONGEST_NAME} characters are read"
IN_ALL = f"all nodes together may have {MOST_NAMES_IN_ALL} resource names"
