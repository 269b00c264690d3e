"""Groups of equal nodes: `count` machines of one text, with labels dealt out over them and one kubelet configuration.

In comes an entry of `nodes`, out go `SimulatedNode`s called `NAME-0`, `NAME-1` and so on. The machine comes from
`machine_text.py`, its kubelet from `kubelet_keys.py`; one virtual kubelet is started to see whether it would.
"""

from __future__ import annotations

from functools import partial

from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Taint
from bayplan.simulate.kubelet.configuration import CannotStart, KubeletConfiguration, TooManyZones
from bayplan.simulate.kubelet.kubelet import VirtualKubelet
from bayplan.simulate.kubelet.machine import Machine
from bayplan.simulate.scenario.kubelet_keys import KEYS as KUBELET_KEYS
from bayplan.simulate.scenario.kubelet_keys import kubelet_of
from bayplan.simulate.scenario.lines import Section, Wrong, YamlValue, items_of
from bayplan.simulate.scenario.machine_text import MachineTextError, machine_of
from bayplan.simulate.scenario.model import SimulatedNode
from bayplan.simulate.scenario.values import label, name, one_of, text, whole_number, yes_or_no

KEYS = ("name", "count", "machine", "labels", "taints", "unschedulable", "kubelet")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MOST_NODES = 100_000


def nodes_of(written: YamlValue) -> list[SimulatedNode]:
    """The nodes of one group; none if its machine cannot be built."""
    section = Section(written, KEYS)
    group = section.need("name", name, "")
    count = section.take("count", whole_number(1, MOST_NODES), 1)
    machine = section.need("machine", _machine, None)
    labels = section.entries("labels", lambda key, value: _dealt(key, value, count))
    taints = tuple(section.items("taints", _taint))
    unschedulable = section.take("unschedulable", yes_or_no, default=False)
    if machine is None:
        return []
    kubelet = _kubelet(section, machine)
    numbers = range(count)
    names = [f"{group}-{number}" for number in numbers] if section.get("count") else [group]
    return [
        SimulatedNode(
            name=names[number],
            group=group,
            machine=machine,
            kubelet=kubelet,
            labels={HOSTNAME: names[number]} | {label: values[number] for label, values in labels.items()},
            taints=taints,
            unschedulable=unschedulable,
        )
        for number in numbers
    ]


def _machine(written: YamlValue) -> Machine | None:
    try:
        return machine_of(text(written))
    except MachineTextError as error:
        raise Wrong(str(error)) from None


def _dealt(key: str, written: YamlValue, count: int) -> list[str]:
    """A label's value on each node: the same everywhere, or a list dealt out in equal consecutive shares."""
    if not isinstance(written.content, list):
        return [label(key, written)] * count
    values = items_of(written, partial(label, key))
    if not 1 <= len(values) <= count:
        raise Wrong(f"a list of {len(values)} cannot be dealt out to {count} nodes: must be 1 to {count} values")
    return [values[number * len(values) // count] for number in range(count)]


def _taint(written: YamlValue) -> Taint:
    section = Section(written, ("key", "value", "effect"))
    return Taint(
        key=section.need("key", text, ""),
        value=section.take("value", text, ""),
        effect=section.need("effect", one_of({effect: effect for effect in TAINT_EFFECTS}), ""),
    )


def _kubelet(section: Section, machine: Machine) -> KubeletConfiguration:
    """The group's kubelet, which must be one that starts on its machine."""
    faults = section.written.faults
    before = len(faults.found)
    keys = section.inner("kubelet", KUBELET_KEYS)
    kubelet = kubelet_of(keys, machine)
    if len(faults.found) == before:
        try:
            VirtualKubelet(machine, kubelet)
        except TooManyZones as error:
            keys.written.wrong(str(error))
        except CannotStart as error:
            keys.written.wrong(f"no kubelet would start: {error}")
    return kubelet
