"""What bayplan writes on a pod, shows in `numa` and says in `why` is what the kubelet then does and the node then
reports.

Random machines, kubelets of every policy and scope, pods with init containers, sidecars, huge pages and devices. A pod
is decided, annotated and admitted by the virtual kubelet; its books and its next report are compared with every zone
and amount that the annotations name. Reports come with CPUs and devices by name or with amounts alone; the less a
report tells, the less may be claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from bayplan.cluster.pods.request import Role, is_memory
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy
from bayplan.cluster.reports.pod_zones import NUMA_ZONES, zones_on_node
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Assignment
from bayplan.explain.numa.map import numa_map
from bayplan.kube.quantity import parse
from bayplan.kube.volcano_annotations import DECISION, POLICY
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import Decision
from bayplan.services.scheduler.binding.annotations import NUMA_AMOUNTS, annotations_of
from bayplan.simulate.kubelet import Admission, ContainerAllocation, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.clusters import decide
from tests.closed_loop import any_kubelet, any_pod

NODES = 60
PODS_PER_NODE = 12
BATCHES = 4

Differs = Callable[[str, object, object], None]


@dataclass
class Tally:
    """What was compared, and what was not as it had been said."""

    pods: int = 0
    zones_claimed: int = 0
    spanning_claimed: int = 0
    differences: list[str] = field(default_factory=list)


@pytest.mark.parametrize("names", [True, False], ids=["CPUs and devices by name", "amounts alone"])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_annotations_agree_with_the_kubelet_and_its_report(batch: int, names: bool, record_property: Any) -> None:
    tally = Tally()
    for number in range(NODES):
        _live(Random(f"{batch}/{number}"), tally, names=names)
    record_property("annotated pods", tally.pods)
    assert tally.differences[:5] == [], len(tally.differences)
    assert tally.pods > 2 * NODES
    assert tally.zones_claimed > tally.pods // 3, "a claim that is never made cannot be wrong"
    assert tally.spanning_claimed > NODES // 10 or not names


def _live(random: Random, tally: Tally, *, names: bool) -> None:
    """One node on which pods come and go, each of them decided from the node's last report."""
    kubelet = any_kubelet(random)
    while not names and not _told_by_amounts(kubelet):
        kubelet = any_kubelet(random)
    agent = NodeAgent("n1", kubelet)
    state = ClusterState()
    state.set_node(agent.node)
    for number in range(PODS_PER_NODE):
        state.set_topology(agent.topology(complete=names, at=2.0 * number))
        settings = kubelet.configuration.settings
        waiting = _asking_for_policy(any_pod(random, f"p{number}"), settings.policy)
        decision = decide(state, waiting)
        if decision.placed:
            _admit(state, agent, waiting, decision, tally, at=2.0 * number + 1 if names else None)
        running_at = list(kubelet.pods)
        if running_at and random.random() < 0.4:
            gone = random.choice(running_at)
            kubelet.remove(gone)
            state.remove_pod(gone)


def _told_by_amounts(kubelet: VirtualKubelet) -> bool:
    """Plain reports count a device with two zones in both, and do not name managers and options: these are as the
    configuration assumes.
    """
    settings = kubelet.configuration.settings
    as_assumed = (
        settings.cpu_static and settings.memory_static and not settings.cpu_options and not settings.prefer_closest
    )
    in_one_zone = all(len(device.zones) < 2 for devices in kubelet.machine.devices.values() for device in devices)
    return bool(as_assumed) and in_one_zone


def _asking_for_policy(pod: Pod, policy: Policy) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, annotations={POLICY: policy.text})
    return msgspec.structs.replace(pod, metadata=metadata)


def _admit(
    state: ClusterState, agent: NodeAgent, waiting: Pod, decision: Decision, tally: Tally, *, at: float | None
) -> None:
    """Bind, admit, report; and compare at each step. A report with names says when it was made."""
    names = at is not None
    key, kubelet = pod_key(waiting), agent.kubelet
    written = annotations_of(Assignment(waiting, decision), state)
    admission = kubelet.admit(key, state.classes.request_of(waiting))
    if not admission.admitted:
        if names:
            tally.differences.append(f"{key}: {admission.reason} {admission.message}")
        return
    settings = kubelet.configuration.settings

    def differs(what: str, said: object, found: object) -> None:
        if said != found:
            tally.differences.append(f"{key} {settings.policy.text}/{settings.scope.text} {what}: {said} is {found}")

    truth = agent.zones_by_container(key)
    claimed: dict[str, list[int]] = msgspec.json.decode(written.get(NUMA_ZONES, "{}"))
    tally.pods += 1
    tally.zones_claimed += bool(claimed)
    tally.spanning_claimed += any(len(zones) > 1 for zones in claimed.values())
    differs("zones", claimed, {name: zones for name, zones in truth.items() if name in claimed})
    if settings.policy is Policy.NONE:
        differs("policy none", claimed, {})
    elif names:
        differs("containers", sorted(claimed), sorted(truth))
    _compare_amounts(written, admission, truth, differs)
    _compare_decision(written, agent.holdings(key), truth, differs)
    kubelet.start(key)
    bound = _bound(waiting, written)
    state.set_pod(bound)
    state.set_topology(agent.topology(complete=names, at=at or 0.0))
    _compare_pictures(state, agent, bound, differs, names=names)


def _compare_amounts(
    written: dict[str, str], admission: Admission, truth: dict[str, list[int]], differs: Differs
) -> None:
    """`bayplan.io/numa-amounts` against what each container got."""
    for name, entry in msgspec.json.decode(written.get(NUMA_AMOUNTS, "{}")).items():
        differs(f"amounts of {name}: zones", entry["zones"], truth[name])
        said = {resource: _units(resource, amount) for resource, amount in entry["amounts"].items()}
        got = next(each for each in admission.containers if each.name == name)
        differs(f"amounts of {name}", said, {resource: _amount_held(got, resource) for resource in said})


def _compare_decision(
    written: dict[str, str], holdings: dict[str, dict[int, int]], truth: dict[str, list[int]], differs: Differs
) -> None:
    """`volcano.sh/topology-decision` against the node's own list, zone by zone; memory that spans zones must not be in
    it.
    """
    by_zone: dict[str, dict[str, str]] = msgspec.json.decode(written.get(DECISION, '{"numa": {}}'))["numa"]
    for zone, amounts in by_zone.items():
        for name, amount in amounts.items():
            held = holdings.get(name, {}).get(int(zone), 0)
            differs(f"decision for zone {zone}, {name}", _units(name, amount), held)
    spans = any(len(zones) > 1 for zones in truth.values())
    for name, in_zones in holdings.items() if by_zone else ():
        if not (spans and is_memory(name)):
            said = {int(zone) for zone, amounts in by_zone.items() if name in amounts}
            differs(f"decision names zones of {name}", said, {zone for zone, amount in in_zones.items() if amount})


def _compare_pictures(state: ClusterState, agent: NodeAgent, bound: Pod, differs: Differs, *, names: bool) -> None:
    """`numa` and `why` show zones by the same rule: the report first, then the annotation, then amounts."""
    key, row = pod_key(bound), state.rows["n1"]
    request = state.classes.request_of(bound)
    reported = {zone for in_zones in agent.holdings(key).values() for zone, amount in in_zones.items() if amount}
    shown = zones_on_node(bound, key, request, state.reports[row])
    running = {container.name for container in request.containers if container.role is not Role.INIT}
    said = {zone for name, zones in shown.items() for zone in zones if name in running}
    if names:
        left_by_init = {zone for name, zones in shown.items() for zone in zones if name not in running}
        differs("why", said | (left_by_init & reported), reported)
    drawn = numa_map(state, row, Assumptions())
    if drawn is not None:
        drawn_in = {zone.id for zone in drawn.zones if any(pod.key == key for pod in zone.pods)}
        # Where neither the report nor an annotation tells, amounts may: never a zone in which the pod holds nothing.
        differs("numa", drawn_in, said or drawn_in & reported)


def _amount_held(got: ContainerAllocation, resource: str) -> int:
    if resource == "cpu":
        return 1000 * len(got.cpus)
    if is_memory(resource):
        return sum(block.size for block in got.memory if block.type == resource)
    return len(got.devices.get(resource, ()))


def _units(name: str, text: str) -> int:
    amount = parse(text)
    return amount.milli() if name == "cpu" else amount.value()


def _bound(waiting: Pod, annotations: dict[str, str]) -> Pod:
    metadata = msgspec.structs.replace(
        waiting.metadata, annotations={**(waiting.metadata.annotations or {}), **annotations}
    )
    return msgspec.structs.replace(
        waiting, metadata=metadata, spec=msgspec.structs.replace(waiting.spec, node_name="n1")
    )
