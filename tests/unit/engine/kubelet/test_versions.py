"""What differs between kubelets, one story each; tests/peers asks the kubelets themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bayplan.cluster.pods.request import ContainerRequest, PodRequest, Role
from bayplan.cluster.reports.kubelet_settings import Policy
from bayplan.cluster.reports.kubelet_version import KubeletVersion
from bayplan.engine.kubelet import CpuLayout, admit
from bayplan.engine.kubelet.cpu_assignment import take
from bayplan.engine.kubelet.masks import mask_of, zones_in
from tests.unit.engine.kubelet.builders import GPU, node, pod, settings

V1_35, V1_36, V1_37 = KubeletVersion.V1_35, KubeletVersion.V1_36, KubeletVersion.V1_37


def asking(amounts: dict[str, int]) -> PodRequest:
    return pod(ContainerRequest("main", Role.APP, amounts, amounts))


@pytest.mark.parametrize("version, zones", [(V1_35, (0,)), (V1_36, (1,)), (V1_37, (1,))])
def test_best_effort_keeps_to_zones_with_devices_since_1_36(version: KubeletVersion, zones: tuple[int, ...]) -> None:
    """The GPU is in zone 1, the CPUs are free in zone 0: no zone has both, and older kubelets go where the CPUs are."""
    machine = node(
        replace(settings(Policy.BEST_EFFORT, memory_manager=False), version=version),
        taken=tuple(range(16, 32)),
        gpus=((1,),),
    )
    admission = admit(machine, asking({"cpu": 4000, GPU: 1}))
    assert admission.containers[0].zones == zones


@pytest.mark.parametrize("version, zones", [(V1_35, (0,)), (V1_36, (1,))])
def test_zero_devices_draw_to_their_zones_since_1_36(version: KubeletVersion, zones: tuple[int, ...]) -> None:
    machine = node(replace(settings(memory_manager=False), version=version), gpus=((1,),))
    assert admit(machine, asking({"cpu": 4000, GPU: 0})).containers[0].zones == zones


@pytest.mark.parametrize("version, sockets", [(V1_36, {0, 1}), (V1_37, {0})])
def test_distributed_cpus_stay_in_one_socket_since_1_37(version: KubeletVersion, sockets: set[int]) -> None:
    """Zones of two, two and five CPUs, the first two on one socket: a zone of each socket would leave the machine more
    even.
    """
    layout = CpuLayout(core=tuple(range(9)), socket=(0,) * 4 + (1,) * 5, numa=(0, 0, 1, 1, 2, 2, 2, 2, 2), l3=(0,) * 9)
    options = frozenset({"distribute-cpus-across-numa", "align-by-socket"})
    taken = take(layout, options, mask_of(range(9)), 4, version)
    assert {layout.socket[cpu] for cpu in zones_in(taken)} == sockets
