"""Volcano's objects and rules for any input: no object makes the state fall over, and where only CPUs of one container
count, Volcano and the kubelet agree.
"""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, KubeletSettings
from bayplan.cluster.state import ClusterState
from bayplan.compat.volcano.numa.machine import CpuPlace, Machine
from bayplan.compat.volcano.numa.predicate import ALIGNING_POLICIES, NodeCpus, evaluate
from bayplan.engine.kubelet import NodeKnowledge, admit
from bayplan.engine.kubelet.masks import mask_of
from bayplan.engine.kubelet.node import CpuLayout
from bayplan.kube.wire.volcano_nodeinfo_v1alpha1 import Numatopology
from tests.builders.clusters import decide
from tests.builders.numatopologies import numa_aware_profile, policy_pod
from tests.builders.objects import node

PROFILES = [numa_aware_profile(compatibility=rules) for rules in ("kubelet", "volcano")]

NUMBERS = st.integers(-2, 5) | st.sampled_from([63, 64, 2**31, 2**63 - 1])
TEXTS = st.text(max_size=6) | st.sampled_from(
    ["0", "0-3", "3-0", "1,,2", "0-99999", "\u0661", " 1", "+1", "none", "static"]
)
CPU_DETAIL = st.dictionaries(
    TEXTS | st.integers(0, 9).map(str),
    st.fixed_dictionaries({}, optional={"numa": NUMBERS, "socket": NUMBERS, "core": NUMBERS}),
    max_size=10,
)
PODS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "uid": TEXTS,
            "name": TEXTS,
            "namespace": TEXTS,
            "containerAllocations": st.lists(
                st.fixed_dictionaries({"allocations": st.dictionaries(TEXTS, TEXTS)}), max_size=2
            )
            | st.just([{"name": "c", "allocations": {"cpu": "0-1"}}]),
        },
    ),
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "policies": st.dictionaries(
            st.sampled_from(["CPUManagerPolicy", "TopologyManagerPolicy", "Other"]),
            TEXTS | st.sampled_from(["restricted", "single-numa-node"]),
        ),
        "resReserved": st.dictionaries(st.just("cpu"), TEXTS | st.sampled_from(["1", "1500m", "1e30", "-1"])),
        "numares": st.dictionaries(st.just("cpu"), st.fixed_dictionaries({"allocatable": TEXTS, "capacity": NUMBERS})),
        "cpuDetail": CPU_DETAIL,
        "podAllocations": PODS,
    },
)


@given(SPECS, st.dictionaries(st.just("timestamp"), TEXTS))
def test_any_numatopology_is_taken_in_and_counts_right(spec: object, annotations: dict[str, str]) -> None:
    topology = msgspec.convert({"metadata": {"name": "n1", "annotations": annotations}, "spec": spec}, Numatopology)
    state = ClusterState()
    state.set_node(node("n1", {"cpu": 8, "memory": "8Gi"}))
    state.set_numatopology(topology)
    report = state.reports[state.rows["n1"]]
    assert report is not None
    for zone in report.zones:
        cpu = zone.resources["cpu"]
        assert 0 <= cpu.available <= cpu.allocatable <= cpu.capacity
    for profile in PROFILES:
        decision = decide(state, policy_pod("restricted", 2), profile)
        assert decision.placed or decision.shortfall is not None


@st.composite
def machines(draw: st.DrawFn) -> dict[int, CpuPlace]:
    """A socket per zone, cores numbered through the machine, threads of a core side by side: where Volcano's picker
    makes no mistakes.
    """
    zones, cores, threads = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.sampled_from([1, 2]))
    per_zone = cores * threads
    return {cpu: CpuPlace(cpu // per_zone, cpu // per_zone, cpu // threads) for cpu in range(zones * per_zone)}


@given(machines(), st.data())
def test_volcano_and_the_kubelet_admit_the_same_single_container(
    places: dict[int, CpuPlace], data: st.DataObject
) -> None:
    free = data.draw(st.frozensets(st.sampled_from(sorted(places))))
    count = data.draw(st.integers(1, len(places)))
    policy = data.draw(st.sampled_from(ALIGNING_POLICIES[1:]))
    by_volcano = evaluate(NodeCpus(Machine(places)), policy, free, [count * 1000])
    layout = CpuLayout(
        core=tuple(place.core for place in places.values()),
        socket=tuple(place.socket for place in places.values()),
        numa=tuple(place.numa for place in places.values()),
        l3=tuple(place.numa for place in places.values()),
    )
    settings = KubeletSettings(policy=POLICY_BY_TEXT[policy], cpu_static=True, memory_static=False)
    known = NodeKnowledge(tuple(sorted(layout.by_zone)), settings, layout, sum(1 << cpu for cpu in free))
    by_kubelet = admit(known, effective_request(policy_pod(None, count)))
    assert by_volcano.admitted is by_kubelet.admitted
    if by_volcano.admitted and by_kubelet.containers[0].zones is not None:
        assert by_volcano.containers[0].best.mask == mask_of(by_kubelet.containers[0].zones)
