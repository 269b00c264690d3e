"""Build nodes from command-line options: machines, kubelet settings, topology.

In come texts such as `pack:2 numa:2 core:16 pu:2 mem:64Gi`, `policy=single-numa-node,scope=pod` and `zone:2 rack:8`;
out go the same `SimulatedNode`s as from a scenario. Invalid text raises `LayoutError` with the option, the word and
what is allowed. docs/kubelets.md has the tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

from bayplan.cluster.pods.request import CPU, MEMORY
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Taint
from bayplan.simulate.kubelet.configuration import CannotStart, KubeletConfiguration
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.scenario.kubelet_keys import KEYS as KUBELET_KEYS
from bayplan.simulate.scenario.kubelet_keys import kubelet_of
from bayplan.simulate.scenario.lines import Faults, Section, SourcePosition, Wrong, YamlValue, suggestion
from bayplan.simulate.scenario.machine_text import SHORT_NAMES_BELONG_TO, MachineTextError, machine_of
from bayplan.simulate.scenario.model import SimulatedNode
from bayplan.simulate.scenario.nodes import MOST_NODES, TAINT_EFFECTS
from bayplan.simulate.scenario.values import label

SHORT_KUBELET_KEYS = {
    "policy": "topologyManagerPolicy",
    "scope": "topologyManagerScope",
    "cpu": "cpuManagerPolicy",
    "memory": "memoryManagerPolicy",
}
WELL_KNOWN_LEVELS = {"region": "topology.kubernetes.io/region", "zone": "topology.kubernetes.io/zone"}
# The usual settings for a NUMA-aware kubelet; `--kubelet` overrides them one by one.
USUAL_KUBELET: Mapping[str, Any] = {
    "topologyManagerPolicy": "single-numa-node",
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
}
USUALLY_RESERVED_MEMORY = 2**30
MAX_NAME = 63  # a node's name is also the value of its hostname label

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>[^=:]+)")


class LayoutError(ValueError):
    """An invalid option; the message names the option, the word and what is allowed."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes."""

    machine: str
    count: int
    kubelet: str = ""


def lay_out(
    groups: Sequence[NodeGroup],
    *,
    name_prefix: str = "virtual",
    tree: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
) -> tuple[SimulatedNode, ...]:
    """The nodes of all groups, numbered consecutively, with their topology labels."""
    in_all = sum(group.count for group in groups)
    if in_all > MOST_NODES:
        raise LayoutError(f"--nodes: {in_all} nodes are too many: must be at most {MOST_NODES}")
    longest = f"{name_prefix}-{in_all - 1}"
    if not _NODE_NAME.fullmatch(longest) or len(longest) > MAX_NAME:
        allowed = f"lower-case letters, digits, '-' and '.', at most {MAX_NAME} with the number"
        raise LayoutError(f'--name-prefix: "{name_prefix}" is not a valid name for nodes: must be {allowed}')
    places = tree_labels(tree, in_all)
    common = {key: _label("--labels", key, value) for key, value in (labels or {}).items()}
    read_taints = tuple(map(_taint, taints))
    nodes: list[SimulatedNode] = []
    for group in groups:
        machine = _machine(group.machine)
        kubelet = kubelet_from_text(group.kubelet, machine)
        for _ in range(group.count):
            name = f"{name_prefix}-{len(nodes)}"
            own = {HOSTNAME: name, **common, **places[len(nodes)]}
            nodes.append(SimulatedNode(name, group.machine, machine, kubelet, own, read_taints))
    return tuple(nodes)


def with_more(
    nodes: Sequence[SimulatedNode],
    *,
    tree: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
) -> tuple[SimulatedNode, ...]:
    """Nodes of a scenario with additional labels and taints."""
    places = tree_labels(tree, len(nodes))
    common = {key: _label("--labels", key, value) for key, value in (labels or {}).items()}
    read_taints = tuple(map(_taint, taints))
    return tuple(
        replace(node, labels={**node.labels, **common, **place}, taints=(*node.taints, *read_taints))
        for node, place in zip(nodes, places, strict=True)
    )


def tree_labels(tree: str, nodes: int) -> list[dict[str, str]]:
    """For each node its labels in a tree such as `zone:2 block:4 rack:16`: 2 zones of 4 blocks of 16 racks.

    Nodes are spread over the 128 racks in equal consecutive shares. Names of domains are unique.

    >>> tree_labels("zone:2 rack:2", 8)[5]
    {'topology.kubernetes.io/zone': 'zone-1', 'example.com/rack': 'rack-2'}
    """
    words = [_level(word) for word in tree.split()]
    named = [label_key for label_key, _, _ in words]
    if len(set(named)) < len(named):
        raise LayoutError(f'--tree: "{tree}" names a level twice')
    domains = list(accumulate((count for *_, count in words), mul))
    if domains and domains[-1] > nodes:
        raise LayoutError(f'--tree: "{tree}" has {domains[-1]} domains at its lowest level for {nodes} nodes')
    return [
        {
            label_key: f"{short}-{node * in_all // nodes}"
            for (label_key, short, _), in_all in zip(words, domains, strict=True)
        }
        for node in range(nodes)
    ]


def kubelet_from_text(text: str, machine: Machine) -> KubeletConfiguration:
    """A kubelet from `policy=restricted,scope=pod,reservedSystemCPUs=0,32`, with defaults from `USUAL_KUBELET`.

    Keys are those of a scenario's `kubelet`, or their short names. A dot selects a nested key, and
    `reservedMemory=0:1Gi,1:1Gi` is per zone. By default, the first core and 1Gi of the first zone are reserved:
    static managers do not start without a reservation.
    """
    keys: dict[str, Any] = {**USUAL_KUBELET, **_kubelet_keys(text)}
    _add_reservations(keys, machine)
    faults = Faults()
    written = _written(keys, SourcePosition(Path("--kubelet"), 1), faults)
    kubelet = kubelet_of(Section(written, KUBELET_KEYS), machine)
    for place, problem in faults.found:
        raise LayoutError(f"--kubelet: {place.key}: {problem}" if place.key else f"--kubelet: {problem}")
    try:
        VirtualKubelet(machine, kubelet)
    except CannotStart as error:
        raise LayoutError(f"--kubelet: no kubelet would start: {error}") from None
    return kubelet


def _kubelet_keys(text: str) -> dict[str, Any]:
    """The given keys, nested at dots. A part without `=` belongs to the value before it: `0,32`."""
    values: dict[str, str] = {}
    last = ""
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals and not last:
            raise LayoutError(f'--kubelet: "{part}" is not understood: must be KEY=VALUE, such as policy=restricted')
        if not equals:
            values[last] += f",{part}"
            continue
        last = SHORT_KUBELET_KEYS.get(key.strip(), key.strip())
        if last in values:
            raise LayoutError(f"--kubelet: {last} is given twice")
        if last.partition(".")[0] not in KUBELET_KEYS:
            known = (*SHORT_KUBELET_KEYS, *KUBELET_KEYS)
            raise LayoutError(f'--kubelet: "{key.strip()}" is unknown{suggestion(key.strip(), known)}')
        values[last] = value.strip()
    keys: dict[str, Any] = {}
    for name, value in values.items():
        outer, dot, inner = name.partition(".")
        if dot:
            keys.setdefault(outer, {})[inner] = value
        else:
            keys[outer] = _reserved_memory(value) if outer == "reservedMemory" else value
    return keys


def _reserved_memory(text: str) -> list[dict[str, Any]]:
    """Parse `0:1Gi,1:1Gi`, the reserved memory by zone."""
    entries = []
    for part in text.split(","):
        zone, colon, amount = part.partition(":")
        if not colon:
            raise LayoutError(
                f'--kubelet: reservedMemory: "{part}" is not understood: must be ZONE:AMOUNT, such as 0:1Gi'
            )
        entries.append({"numaNode": zone.strip(), "limits": {"memory": amount.strip()}})
    return entries


def _add_reservations(keys: dict[str, Any], machine: Machine) -> None:
    """Add the usual minimum where nothing is reserved: static managers need it."""
    given = [keys[key] for key in ("kubeReserved", "systemReserved") if isinstance(keys.get(key), dict)]
    if keys["cpuManagerPolicy"] == "static" and "reservedSystemCPUs" not in keys and not _any_has(given, CPU):
        first_core = [str(cpu) for cpu, place in enumerate(machine.cpus) if place.core == machine.cpus[0].core]
        keys["reservedSystemCPUs"] = ",".join(first_core)
    if keys["memoryManagerPolicy"] == "Static" and "reservedMemory" not in keys and not _any_has(given, MEMORY):
        zone = machine.zones[0]
        amount = min(USUALLY_RESERVED_MEMORY, (zone.memory - sum(zone.huge_pages.values())) // 2)
        keys["reservedMemory"] = [{"numaNode": str(zone.id), "limits": {"memory": str(amount)}}]


def _any_has(reservations: Sequence[Mapping[str, str]], resource: str) -> bool:
    return any(resource in each for each in reservations)


def _written(value: Any, place: SourcePosition, faults: Faults) -> YamlValue:
    """A value of the command line as a value of a file."""
    if isinstance(value, dict):
        return YamlValue(
            place, faults, {key: _written(each, place.child(key, 1), faults) for key, each in value.items()}
        )
    if isinstance(value, list):
        return YamlValue(
            place, faults, [_written(each, place.item(index, 1), faults) for index, each in enumerate(value)]
        )
    return YamlValue(place, faults, value, value)


def _machine(text: str) -> Machine:
    try:
        return machine_of(text)
    except MachineTextError as error:
        raise LayoutError(f"--machine: {error}") from None


def _level(word: str) -> tuple[str, str, int]:
    """Parse `rack:16` into label, prefix of its values, and count in each wider domain."""
    name, colon, count = word.rpartition(":")
    if not colon or not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= MOST_NODES:
        raise LayoutError(f'--tree: "{word}" is not understood: must be LEVEL:COUNT, such as rack:16')
    key = WELL_KNOWN_LEVELS.get(name) or (name if "/" in name else f"{SHORT_NAMES_BELONG_TO}/{name}")
    short = name.rpartition("/")[2]
    _label("--tree", key, f"{short}-{MOST_NODES}")
    return key, short, int(count)


def _label(option: str, key: str, value: str) -> str:
    try:
        return label(key, YamlValue(SourcePosition(Path(option), 1), Faults(), value, value))
    except Wrong as error:
        raise LayoutError(f"{option}: {key}: {error}") from None


def _taint(text: str) -> Taint:
    """Parse `KEY=VALUE:EFFECT` or `KEY:EFFECT`, as kubectl does."""
    match = _TAINT.fullmatch(text)
    if match is None or match["effect"] not in TAINT_EFFECTS:
        effects = ", ".join(TAINT_EFFECTS)
        raise LayoutError(f'--taint: "{text}" is not understood: must be KEY=VALUE:EFFECT, the effect one of {effects}')
    key, value = match["key"], match["value"] or ""
    _label("--taint", key, value)
    return Taint(key=key, value=value, effect=match["effect"])
