"""How a kubelet is configured, from its file, its flags or what it answers at configz."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.reports.kubelet_settings import KubeletSettings, Policy, Scope
from bayplan.kube.errors import InvalidObject
from bayplan.services.agent.sources.kubelet_config import KubeletSetup, from_flags, reserved_cpus_on, setup_of
from tests.unit.services.agent.nodes import GI, TWO_ZONES, machine

CONFIGURATION: dict[str, Any] = {
    "kind": "KubeletConfiguration",
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
    "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "12"},
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "align-by-socket": "false"},
    "memoryManagerPolicy": "Static",
    "reservedSystemCPUs": "0-1,8",
    "reservedMemory": [{"numaNode": 1, "limits": {"memory": "1Gi", "hugepages-2Mi": "64Mi"}}],
    "kubeReserved": {"cpu": "500m", "memory": "1Gi"},
    "systemReserved": {"cpu": "1"},
    "featureGates": {"PodLevelResourceManagers": True},
}
SETUP = KubeletSetup(
    settings=KubeletSettings(
        policy=Policy.RESTRICTED,
        scope=Scope.POD,
        max_numa_nodes=12,
        prefer_closest=True,
        cpu_static=True,
        cpu_options=frozenset({"full-pcpus-only"}),
        memory_static=True,
        pod_level_managers=True,
    ),
    reserved_cpus=frozenset({0, 1, 8}),
    reserved_cpu_milli=1500,
    reserved_memory={1: {"memory": GI, "hugepages-2Mi": 64 << 20}},
)


@pytest.mark.parametrize("document", [CONFIGURATION, {"kubeletconfig": CONFIGURATION}], ids=["file", "configz"])
def test_a_configuration_is_read_whichever_way_it_comes(document: dict[str, Any]) -> None:
    assert setup_of(document, "here") == SETUP


def test_flags_are_equivalent_to_the_file() -> None:
    flags = [
        "/usr/bin/kubelet",
        "--topology-manager-policy=restricted",
        "--topology-manager-scope",
        "pod",
        "--topology-manager-policy-options=prefer-closest-numa-nodes=true,max-allowable-numa-nodes=12",
        "--cpu-manager-policy=static",
        "--cpu-manager-policy-options=full-pcpus-only=true",
        "--memory-manager-policy=Static",
        "--reserved-cpus=0-1,8",
        "--reserved-memory=1:memory=1Gi,hugepages-2Mi=64Mi",
        "--kube-reserved=cpu=500m,memory=1Gi",
        "--system-reserved=cpu=1",
        "--feature-gates=PodLevelResourceManagers=true,Other=false",
        "--v=2",
    ]
    assert setup_of(from_flags(flags), "flags") == SETUP


def test_a_flag_overrides_the_file() -> None:
    document = {**CONFIGURATION, **from_flags(["--topology-manager-policy=none"])}
    assert setup_of(document, "here").settings.policy is Policy.NONE


def test_an_empty_configuration_aligns_nothing() -> None:
    assert setup_of({}, "here") == KubeletSetup(KubeletSettings(cpu_static=False, memory_static=False))


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            {"topologyManagerPolicy": "Restricted"},
            'topologyManagerPolicy: "Restricted": must be one of none, best-effort, restricted, single-numa-node',
        ),
        ({"cpuManagerPolicy": 1}, "cpuManagerPolicy: must be a string, not a whole number"),
        ({"memoryManagerPolicy": "static"}, 'memoryManagerPolicy: "static": must be one of None, Static'),
        (
            {"reservedSystemCPUs": "0-x"},
            'reservedSystemCPUs: "0-x": must be a list of CPU ids from 0 to 4095 such as 0-3,8',
        ),
        ({"kubeReserved": {"cpu": "lots"}}, 'kubeReserved.cpu: invalid quantity "lots": expected a number'),
        (
            {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "many"}},
            'topologyManagerPolicyOptions.max-allowable-numa-nodes: "many": must be a number from 1 to 1024',
        ),
        (
            {"cpuManagerPolicyOptions": {"full-pcpus-only": "yes"}},
            'cpuManagerPolicyOptions.full-pcpus-only: "yes": must be one of true, false',
        ),
    ],
)
def test_values_that_prevent_a_start_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        setup_of(wrong, "/etc/kubelet.yaml")
    assert str(refused.value).startswith(f"kubelet configuration (/etc/kubelet.yaml): {message}")


def test_a_flag_for_memory_must_name_a_zone() -> None:
    with pytest.raises(InvalidObject, match='"memory=1Gi": must be like 0:memory=1Gi,hugepages-2Mi=64Mi'):
        from_flags(["--reserved-memory=memory=1Gi"])


@pytest.mark.parametrize(
    "setup, cpus",
    [
        (KubeletSetup(KubeletSettings(cpu_static=True), reserved_cpus=frozenset({3})), {3}),
        (KubeletSetup(KubeletSettings(cpu_static=True), reserved_cpu_milli=1001), {0, 1}),
        (KubeletSetup(KubeletSettings(cpu_static=True)), set()),
        (KubeletSetup(KubeletSettings(cpu_static=False), reserved_cpus=frozenset({3})), set()),
    ],
    ids=["named", "counted", "none", "no static manager"],
)
def test_reserved_cpus_are_those_that_a_kubelet_keeps_back(setup: KubeletSetup, cpus: set[int]) -> None:
    assert reserved_cpus_on(TWO_ZONES, setup) == cpus


def test_reserved_cpus_are_kept_back_whatever_the_ids_of_zones() -> None:
    setup = KubeletSetup(KubeletSettings(cpu_static=True), reserved_cpu_milli=1700)
    assert reserved_cpus_on(machine({0: range(8), 72: range(8, 16)}), setup) == {0, 1}
