"""The slots of a node are as many equal pods as its kubelet admits one after another.

The virtual kubelet is the judge, on random machines with random settings and pods. With a complete report the count is
exact, and never above the truth; where the filter refuses a pod that the kubelet would take, there is no slot. A report
of amounts alone leaves things untold: `test_amounts_alone` says how often that makes a difference.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.kubelet_settings import Assumptions, Policy, Scope
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.demand import demand_of
from bayplan.engine.numa.placement import place_on
from bayplan.engine.slots.in_zones import slots_in_zones
from bayplan.engine.slots.slots import slot_bounds, slots
from bayplan.kube.wire.core_v1 import NodeAffinity, Pod
from bayplan.scheduling.answers import ClassAnswer
from bayplan.scheduling.profile import PASSES, default_profile
from bayplan.simulate.kubelet import Admission, KubeletConfiguration, Machine, VirtualKubelet
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.objects import GPU, container
from tests.builders.objects import pod as pod_of
from tests.properties.test_engine_agrees_with_itself import clusters, pods
from tests.properties.test_virtual_kubelet_agrees import configurations, machines, requests
from tests.random_clusters import scenario

MOST = 24


def class_of(request: PodRequest) -> PodClass:
    return PodClass(request, None, {}, NodeAffinity(), (), (), ())


def state_of(kubelet: VirtualKubelet, *, complete: bool) -> ClusterState:
    """The cluster of one node as its agent reports it now."""
    agent = NodeAgent("n", kubelet)
    state = ClusterState()
    state.set_node(agent.node)
    state.set_topology(agent.topology(complete=complete))
    for key, admitted in kubelet.pods.items():
        state.assume(key, 0, class_of(admitted.request), ())
    return state


def passes(state: ClusterState, pod: PodClass, row: int = 0) -> bool:
    return bool(ClassAnswer(state, pod, default_profile()).refresh().blocked[row] == PASSES)


def counted(state: ClusterState, pod: PodClass, most: int = MOST) -> list[int]:
    return [int(number) for number in slots(state, pod, Assumptions(), slice(0, len(state.names)), most)]


def admitted_in_a_row(kubelet: VirtualKubelet, request: PodRequest) -> int:
    number = 0
    while number < MOST and kubelet.admit(f"slot-{number}", request).admitted:
        number += 1
    return number


def memory_goes_unseen(configuration: KubeletConfiguration, request: PodRequest) -> bool:
    """Where memory alone is aligned for a pod as a whole and no zones are left for the sum, the kubelet tries container
    by container.
    """
    return (
        configuration.settings.scope is Scope.POD
        and configuration.settings.policy >= Policy.RESTRICTED
        and len(demand_of(request).container_steps) > 1
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_complete_report_tells_how_many_pods_the_kubelet_admits(data: st.DataObject) -> None:
    machine: Machine = data.draw(machines(), label="machine")
    configuration = data.draw(configurations(machine), label="configuration")
    kubelet = VirtualKubelet(machine, configuration)
    for number in range(data.draw(st.integers(0, 3))):
        kubelet.admit(f"before-{number}", data.draw(requests()))
    request = data.draw(requests(), label="request")
    # Of managers for pod-level resources no report tells, and a pod that asks for zero devices passes the filter
    # unseen.
    assume(not configuration.settings.pod_level_managers or request.pod_level is None)
    assume(not demand_of(request).nothing_to_align)
    state, pod = state_of(kubelet, complete=True), class_of(request)
    (count,) = counted(state, pod)
    expected = admitted_in_a_row(kubelet, request) if passes(state, pod) else 0
    assert count <= expected
    assert count == expected or memory_goes_unseen(configuration, request)


@st.composite
def pods_with_small_init_containers(draw: st.DrawFn) -> PodRequest:
    """Charts add init containers that ask for less than the pod, for a fraction of a CPU, or for just as much."""
    cpu, memory = draw(st.integers(1, 4)), 512 * draw(st.integers(1, 8))
    small = st.tuples(
        st.sampled_from(["100m", "200m", "1", str(cpu)]), st.sampled_from([64, 256, memory]), st.booleans()
    )
    init = [
        container({"cpu": share, "memory": f"{min(size, memory)}Mi"}, f"i{number}", sidecar=sidecar)
        for number, (share, size, sidecar) in enumerate(draw(st.lists(small, min_size=1, max_size=2)))
    ]
    devices = draw(st.sampled_from([{}, {GPU: 1}]))
    app = container({"cpu": str(cpu), "memory": f"{memory}Mi", **devices}, "main")
    return effective_request(pod_of(app, init=init))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_init_containers_smaller_than_the_pod_cost_no_slot(data: st.DataObject) -> None:
    machine: Machine = data.draw(machines(), label="machine")
    configuration = data.draw(configurations(machine), label="configuration")
    kubelet = VirtualKubelet(machine, configuration)
    request = data.draw(pods_with_small_init_containers(), label="request")
    state, pod = state_of(kubelet, complete=True), class_of(request)
    (count,) = counted(state, pod)
    expected = admitted_in_a_row(kubelet, request) if passes(state, pod) else 0
    assert count == expected or (count < expected and memory_goes_unseen(configuration, request))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_scheduler_that_waits_for_reports_counts_only_what_init_cannot_change(data: st.DataObject) -> None:
    """Init containers may end at any time between two admissions."""
    machine: Machine = data.draw(machines(), label="machine")
    configuration = data.draw(configurations(machine), label="configuration")
    kubelet = VirtualKubelet(machine, configuration)
    request = data.draw(st.one_of(requests(), pods_with_small_init_containers()), label="request")
    assume(not configuration.settings.pod_level_managers or request.pod_level is None)
    assume(not demand_of(request).nothing_to_align)
    state, pod = state_of(kubelet, complete=True), class_of(request)
    state.freshness.waits_for_reports = True
    (count,) = counted(state, pod) if passes(state, pod) else (0,)
    started = 0
    for number in range(count):
        assert kubelet.admit(f"slot-{number}", request).admitted
        for ending in range(started, data.draw(st.integers(started, number + 1))):
            kubelet.start(f"slot-{ending}")
            started = ending + 1


def test_amounts_alone_are_rarely_wrong() -> None:
    """Of 3,840 such counts on eight clusters 3.3 % were too high, all but 0.5 % where `full-pcpus-only` goes untold;
    0.3 % too low.
    """
    random_cluster = scenario(seed=5, pods=12)
    outcome: Counter[str] = Counter()
    for number, node in enumerate(random_cluster.nodes):
        for offset, workload in enumerate(random_cluster.workloads):
            kubelet = VirtualKubelet(node.machine, node.kubelet)
            for position in range(number % 4):
                other = random_cluster.workloads[(offset + 5 * position + 1) % len(random_cluster.workloads)]
                kubelet.admit(f"default/before-{position}", effective_request(other.template))
            state, pod = state_of(kubelet, complete=False), class_of(effective_request(workload.template))
            (count,) = counted(state, pod)
            truth = admitted_in_a_row(kubelet, pod.request) if passes(state, pod) else 0
            outcome["too low"] += count < truth
            outcome["too high"] += count > truth
            outcome["too high without options"] += count > truth and not node.kubelet.settings.cpu_options
    counts = len(random_cluster.nodes) * len(random_cluster.workloads)
    assert outcome["too low"] <= 0.02 * counts
    assert outcome["too high"] <= 0.1 * counts
    assert outcome["too high without options"] <= 0.01 * counts


@settings(max_examples=60)
@given(state=clusters(), pod=pods(), most=st.integers(0, 6))
def test_a_limit_cuts_off_and_changes_nothing_else(state: ClusterState, pod: Pod, most: int) -> None:
    pod_class = state.classes.of(pod)
    assert counted(state, pod_class, most) == [min(count, most) for count in counted(state, pod_class, 2**31 - 1)]


@settings(max_examples=150)
@given(state=clusters(), pod=pods())
def test_there_is_a_slot_where_the_pod_can_be_placed(state: ClusterState, pod: Pod) -> None:
    pod_class = state.classes.of(pod)
    for row, count in enumerate(counted(state, pod_class)):
        placement = place_on(state, row, pod_class.request, demand_of(pod_class.request), Assumptions())
        assert (count > 0) == (passes(state, pod_class, row) and placement.refusal is None)


@settings(max_examples=150)
@given(state=clusters(), pod=pods())
def test_one_node_is_counted_as_among_many(state: ClusterState, pod: Pod) -> None:
    pod_class = state.classes.of(pod)
    together = counted(state, pod_class)
    for row, count in enumerate(together):
        assert slots(state, pod_class, Assumptions(), slice(row, row + 1), MOST).tolist() == [count]
    some = np.arange(len(together))[::-2]
    assert slots(state, pod_class, Assumptions(), some, MOST).tolist() == [together[row] for row in some]


@settings(max_examples=150)
@given(state=clusters(), pod=pods())
def test_pods_that_amounts_promise_can_be_placed_one_after_another(state: ClusterState, pod: Pod) -> None:
    pod_class = state.classes.of(pod)
    certain, _ = slot_bounds(state, pod_class, Assumptions(), slice(0, len(state.names)), MOST)
    for row, count in enumerate(certain.astype(int).tolist()):
        for number in range(count):
            assert passes(state, pod_class, row)
            placement = place_on(state, row, pod_class.request, demand_of(pod_class.request), Assumptions())
            assert placement.refusal is None
            state.assume(f"{row}-{number}", row, pod_class, placement.charges, by_amounts=placement.by_amounts)


def zones_held(kubelet: VirtualKubelet, admission: Admission) -> set[int]:
    """The zones in which a pod's CPUs, memory and devices are; a device in several is where the rest of the pod is, if
    it can be.
    """
    machine = kubelet.machine
    zones_of = {device.id: set(device.zones) for listed in machine.devices.values() for device in listed}
    cpus = {machine.cpus[cpu].zone for each in admission.containers for cpu in each.cpus}
    memory = {zone for each in admission.containers for block in each.memory for zone in block.zones}
    found = cpus | memory
    names = [name for each in admission.containers for ids in each.devices.values() for name in ids]
    for zones in sorted((zones_of[name] for name in names), key=len):
        found |= set() if zones & found else zones
    return found


def units_in_a_row(kubelet: VirtualKubelet, request: PodRequest, unit: int, most: int) -> int:
    """Pods in whole units that the kubelet puts into one zone each, before it tears a unit apart."""
    shared: set[int] = set()
    for number in range(most):
        admission = kubelet.admit(f"slot-{number}", request)
        zones = zones_held(kubelet, admission)
        if not admission.admitted or len(zones) != 1 or (number % unit and zones != shared):
            return number // unit * unit
        shared = zones
    return most // unit * unit


# Half of the requests ask for nothing that is aligned, or for more than the machine has.
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.data())
def test_pods_counted_in_units_share_a_zone_on_the_kubelet(data: st.DataObject) -> None:
    machine: Machine = data.draw(machines(), label="machine")
    configuration = data.draw(configurations(machine), label="configuration")
    kubelet = VirtualKubelet(machine, configuration)
    for number in range(data.draw(st.integers(0, 3))):
        kubelet.admit(f"before-{number}", data.draw(requests()))
    request = data.draw(st.one_of(requests(), pods_with_small_init_containers()), label="request")
    assume(not configuration.settings.pod_level_managers or request.pod_level is None)
    assume(not demand_of(request).nothing_to_align)
    unit = data.draw(st.integers(1, 4), label="unit")
    state, pod = state_of(kubelet, complete=True), class_of(request)
    assume(passes(state, pod))
    normal = slots(state, pod, Assumptions(), slice(0, 1), MOST)
    (count,) = slots_in_zones(state, pod, Assumptions(), np.array([0]), normal, unit)
    expected = units_in_a_row(kubelet, request, unit, int(normal[0]))
    assert count <= expected
    assert count == expected or configuration.settings.policy is Policy.NONE
