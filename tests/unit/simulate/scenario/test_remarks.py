"""What an author should know about a scenario that can be used."""

from pathlib import Path

import pytest

from tests.unit.simulate.scenario.files import NODES, remarks

ZONES = "pack:2 core:8 pu:2 mem:32Gi"
ALIGNED = "topologyManagerPolicy: single-numa-node, cpuManagerPolicy: static, reservedSystemCPUs: 0"


def test_levels_that_some_nodes_lack(tmp_path: Path) -> None:
    text = f"""\
levels: [zone, rack]
nodes:
- {{name: a, count: 4, machine: {ZONES}, labels: {{zone: z1, rack: [r1, r2]}}}}
- {{name: b, count: 8, machine: {ZONES}, labels: {{zone: z1}}}}
workloads: [{{name: app, pod: {{resources: {{cpu: 1}}}}}}]
"""
    assert remarks(tmp_path, text) == [
        "x.yaml:1: levels[1]: nodes b-[0-7] have no label rack: they belong to nothing at this level"
    ]


def test_racks_of_one_name_in_several_zones_are_usual(tmp_path: Path) -> None:
    text = f"""\
levels: [zone, rack]
nodes: [{{name: a, count: 6, machine: {ZONES}, labels: {{zone: [z1, z2], rack: [r1, r2, r3]}}}}]
workloads: [{{name: app, pod: {{resources: {{cpu: 1}}}}}}]
"""
    assert remarks(tmp_path, text) == []


def test_nothing_arrives(tmp_path: Path) -> None:
    assert remarks(tmp_path, NODES) == ["x.yaml:1: nothing arrives: there are neither workloads nor a trace"]


def test_a_priority_class_without_its_number(tmp_path: Path) -> None:
    text = f"{NODES}workloads: [{{name: app, pod: {{resources: {{cpu: 1}}, priorityClassName: high}}}}]"
    assert remarks(tmp_path, text) == [
        (
            'x.yaml:2: workloads[0].pod.priorityClassName: "high" counts as priority 0: what the class means is not '
            "known "
            "here, say priority"
        )
    ]


@pytest.mark.parametrize(
    "keys, remark",
    [
        ("pod: {resources: {cpu: 1}}", None),
        ("replicas: 4, arrive: {every: 4m}, pod: {resources: {cpu: 1}}",
         "1 of the 4 pods of app would arrive after the end (lasts 600s)"),
        ("pod: {resources: {cpu: 1}, volumes: [{name: scratch, ephemeral: {}}]}",
         "the pods of app will wait: spec.volumes[].ephemeral is not supported here"),
        ("pod: {resources: {cpu: 1}, priorityClassName: system-node-critical}", None),
        ("annotations: {volcano.sh/numa-topology-policy: single-numa-node}, pod: {resources: {cpu: 1, memory: 1Gi}}",
         None),
        ("annotations: {volcano.sh/numa-topology-policy: restricted}, pod: {resources: {requests: {cpu: 1}}}",
         ('annotation volcano.sh/numa-topology-policy of the pods of app: "restricted" has no effect: the pod is '
          'Burstable, '
         "and kubelets align CPUs of Guaranteed pods only (limits equal to requests for cpu and memory)")),
        ("pod: {resources: {cpu: 1}, schedulingGates: [{name: quota}]}",
         "the pods of app will wait: scheduling gates stay closed here"),
        ("pod: {resources: {cpu: 40}}",
         "the pods of app fit nowhere, not even on an empty node: no node has cpu 40: the largest has 31"),
        ("pod: {resources: {cpu: 1, a.b/gpu: 1}}",
         "the pods of app fit nowhere, not even on an empty node: no node has a.b/gpu"),
        ("pod: {resources: {cpu: 20, memory: 20Gi, example.com/nic: 1}}",
         ("the pods of app fit nowhere, not even on an empty node: no empty node has cpu 20, memory 20Gi and "
          "example.com/nic 1 together")),
        ("pod: {resources: {cpu: 20, memory: 1Gi}}",
         "the pods of app fit nowhere, not even on an empty node: no NUMA zone has cpu 20: the largest offers 16"),
    ],
)  # fmt: skip
def test_workloads_that_will_not_fare_well(tmp_path: Path, keys: str, remark: str | None) -> None:
    text = f"""\
nodes:
- {{name: n, count: 4, machine: {ZONES}, kubelet: {{{ALIGNED}}}}}
- {{name: small, machine: core:4 mem:8Gi nic:1@machine}}
workloads: [{{name: app, {keys}}}]
"""
    assert remarks(tmp_path, text) == ([f"x.yaml:4: workloads[0]: {remark}"] if remark else [])


@pytest.mark.parametrize(
    "keys, reason",
    [
        ("pod: {resources: {cpu: 1}, nodeSelector: {pool: gpu}, tolerations: [{operator: Exists}]}", None),
        ("pod: {resources: {cpu: 1}, nodeSelector: {kubernetes.io/hostname: n-2}}", None),
        ("pod: {resources: {cpu: 1}, nodeSelector: {pool: gpu}}",
         ("the 2 nodes that match its node selector and affinity have a taint that it does not tolerate: "
          "gpu:NoSchedule")),
        ("pod: {resources: {cpu: 1}, tolerations: [{operator: Exists}], nodeName: n-9}",
         "no node has the name in its spec.nodeName"),
        ("pod: {resources: {cpu: 40}}",
         "the 2 nodes with cpu 40 have a taint that it does not tolerate: gpu:NoSchedule"),
        ("pod: {resources: {cpu: 40}, tolerations: [{key: gpu, operator: Exists}]}", None),
    ],
)  # fmt: skip
def test_workloads_that_labels_and_taints_leave_no_node(tmp_path: Path, keys: str, reason: str | None) -> None:
    text = f"""\
nodes:
- {{name: n, count: 4, machine: {ZONES}}}
- {{name: gpu, count: 2, machine: pack:2 core:32 mem:32Gi, labels: {{pool: gpu}},
   taints: [{{key: gpu, effect: NoSchedule}}]}}
- {{name: old, machine: {ZONES}, unschedulable: true}}
workloads: [{{name: app, {keys}}}]
"""
    where = "x.yaml:6: workloads[0]: the pods of app fit nowhere, not even on an empty node"
    assert remarks(tmp_path, text) == ([f"{where}: {reason}"] if reason else [])
