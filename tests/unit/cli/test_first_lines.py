"""The first line of every answer on small GPU clusters as real ones are: tainted, full, NotReady, of many shapes.

Every expected answer was worked out from the cluster by hand, and is checked in text and in JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import Json, list_body
from tests.builders.gpu_clusters import GPU, GPU_TAINT, NIC, asking, cpu_machines, gpu_machine, taint
from tests.unit.cli.conftest import Bayplan

TEAM = taint("example.com/team", "vision", "NoExecute")
SKU = taint("sku", "gpu")
BOTH = (GPU_TAINT, SKU)
TAINTED = "have a taint that it does not tolerate:"
REFUSE = "kubelets with policy restricted refuse it even on an empty node"


def machines(prefix: str, number: int, **more: Any) -> list[Json]:
    return [each for at in range(number) for each in gpu_machine(f"{prefix}-{at}", **more)]


def names(prefix: str, number: int) -> list[str]:
    return [f"{prefix}-{at}" for at in range(number)]


def written(folder: Path, *items: Json, file: str = "cluster.json") -> Path:
    path = folder / file
    path.write_text(json.dumps(list_body(items)))
    return path


# -- a pod that is refused: its first line, the nodes that matter, and what would help ------------------------------

REFUSED = {
    "the toleration is missing": (
        [*cpu_machines(), *machines("g", 3)],
        asking(2, tolerates=()),
        f"the 3 nodes with {GPU} {TAINTED} {GPU}=present:NoSchedule",
        names("g", 3),
        [f"it tolerated {GPU}=present:NoSchedule (3 nodes)"],
    ),
    "another key, value and effect": (
        [*cpu_machines(), *machines("g", 2, gpus=4, zones=1, taints=[TEAM])],
        asking(4),
        f"the 2 nodes with {GPU} {TAINTED} example.com/team=vision:NoExecute",
        names("g", 2),
        ["it tolerated example.com/team=vision:NoExecute (2 nodes)"],
    ),
    "two pools with different keys": (
        [*cpu_machines(), *machines("a", 2), *machines("b", 1, taints=[SKU])],
        asking(2, tolerates=()),
        f"the 3 nodes with {GPU} are closed to it: taint {GPU}=present:NoSchedule 2, taint sku=gpu:NoSchedule 1",
        ["a-0", "a-1", "b-0"],
        [f"it tolerated {GPU}=present:NoSchedule (2 nodes)", "it tolerated sku=gpu:NoSchedule (1 node)"],
    ),
    "the second of two taints": (
        [*cpu_machines(), *machines("g", 2, taints=BOTH)],
        asking(2),
        f"the 2 nodes with {GPU} {TAINTED} sku=gpu:NoSchedule",
        names("g", 2),
        ["it tolerated sku=gpu:NoSchedule (2 nodes)"],
    ),
    "one pool is tainted, the other full": (
        [*cpu_machines(), *machines("a", 2, taints=BOTH), *machines("b", 1, gpus=4, busy=[2, 2])],
        asking(1),
        f"no schedulable node has enough {GPU} free",
        ["a-0", "a-1", "b-0"],
        ["it tolerated sku=gpu:NoSchedule (2 nodes)"],
    ),
    "all are NotReady": (
        [*cpu_machines(), *machines("g", 2, ready=False)],
        asking(2),
        f"the 2 nodes with {GPU} are NotReady",
        names("g", 2),
        ["g-[0-1] were Ready (2 nodes)"],
    ),
    "the only one is cordoned": (
        [*cpu_machines(), *machines("g", 1, cordoned=True)],
        asking(2),
        f"the only node with {GPU} is cordoned",
        ["g-0"],
        ["g-0 were uncordoned (1 node)"],
    ),
    "NotReady, cordoned and tainted": (
        [
            *cpu_machines(),
            *machines("a", 3, taints=BOTH),
            *machines("b", 2, cordoned=True),
            *machines("c", 1, ready=False),
        ],
        asking(8, 96, 900),
        f"the 6 nodes with {GPU} are closed to it: taint sku=gpu:NoSchedule 3, cordoned 2, NotReady 1",
        ["a-0", "a-1", "a-2", "b-0", "b-1", "c-0"],
        ["it tolerated sku=gpu:NoSchedule (3 nodes)", "b-[0-1] were uncordoned (2 nodes)", "c-0 were Ready (1 node)"],
    ),
    "cordoned and full at once": (
        [*cpu_machines(), *machines("g", 1, cordoned=True, busy=[4, 4])],
        asking(2),
        f"the only node with {GPU} is cordoned",
        ["g-0"],
        [],
    ),
    "a selector that no node matches": (
        machines("g", 2, labels={"gpu.product": "H100-80GB"}),
        asking(2, nodeSelector={"gpu.product": "H100"}),
        "no node matches its node selector and affinity",
        names("g", 2),
        ["its node selector and affinity were dropped (2 nodes)"],
    ),
    "a selector that only tainted nodes match": (
        [*machines("a", 2, labels={"pool": "a"}, taints=BOTH), *machines("b", 2, labels={"pool": "b"}, busy=[1])],
        asking(2, nodeSelector={"pool": "a"}),
        f"the 2 nodes that match its node selector and affinity {TAINTED} sku=gpu:NoSchedule",
        names("a", 2),
        ["it tolerated sku=gpu:NoSchedule (2 nodes)", "its node selector and affinity were dropped (2 nodes)"],
    ),
    "a selector that only small nodes match": (
        [*machines("a", 3, gpus=4, labels={"pool": "a"}), *machines("b", 2, labels={"pool": "b"})],
        asking(8, 96, 900, nodeSelector={"pool": "a"}),
        f"the 2 nodes with {GPU} 8 do not match its node selector and affinity",
        names("b", 2),
        [f"{GPU} 4 instead of 8 (3 nodes)", "its node selector and affinity were dropped (2 nodes)"],
    ),
    "16 GPUs in two zones": (
        [*cpu_machines(), *machines("g", 2, gpus=16)],
        asking(16, 32, 600),
        f"{REFUSE}: cpu 32 needs 1 NUMA zone, memory 600Gi needs 2, {GPU} 16 needs 2",
        [],
        [
            "cpu 49 instead of 32 (2 nodes)",
            "the nodes' topologyManagerPolicy were best-effort (2 nodes)",
        ],
    ),
    "16 GPUs in four zones": (
        [*cpu_machines(), *machines("g", 2, gpus=16, zones=4)],
        asking(16, 96, 1600),
        f"{REFUSE}: cpu 96 needs 2 NUMA zones, memory 1.5Ti needs 4, {GPU} 16 needs 4",
        [],
        [
            "cpu 145 instead of 96 (2 nodes)",
            "the nodes' topologyManagerPolicy were best-effort (2 nodes)",
        ],
    ),
    "16 GPUs in eight zones": (
        machines("g", 1, gpus=16, zones=8, cpus=24),
        asking(16, 168, 4000),
        f"{REFUSE}: cpu 168 needs 7 NUMA zones, memory 3.9Ti needs 8, {GPU} 16 needs 8",
        [],
        [
            "cpu 169 instead of 168 (1 node)",
            "the nodes' topologyManagerPolicy were best-effort (1 node)",
        ],
    ),
    "16 GPUs where the largest machine has 8": (
        [*cpu_machines(), *machines("g", 2), *machines("h", 2, gpus=4)],
        asking(16),
        f"no node has {GPU} 16: the largest has 8",
        [],
        [f"{GPU} 4 instead of 16 (2 nodes)"],
    ),
    "reserved CPUs make the node one too small": (
        machines("g", 2, reserved=2),
        asking(8, 95, 900),
        "no node has cpu 95: the largest has 94",
        [],
        ["cpu 94 instead of 95 (2 nodes)"],
    ),
    "reserved CPUs leave one zone that is large enough, of which a GPU is taken": (
        machines("g", 1, reserved=2, busy=[0, 1]),
        asking(4, 47),
        "no node has the request in the NUMA zones that its policy allows",
        ["g-0"],
        ["cpu 46 instead of 47 (1 node)", "the nodes' topologyManagerPolicy were best-effort (1 node)"],
    ),
    "single-numa-node, GPU and NIC in different zones": (
        machines("g", 2, gpus=4, policy="single-numa-node", more={NIC: [2, 0], "example.com/fpga": [0, 1]}),
        asking(1, amounts={NIC: 1, "example.com/fpga": 1}),
        f"no empty NUMA zone has {NIC} 1 and example.com/fpga 1 together",
        [],
        None,
    ),
    "memory larger than a zone": (
        machines("g", 2, policy="single-numa-node", memoryManagerPolicy="Static"),
        asking(1, 8, 600),
        "no NUMA zone has memory 600Gi: the largest offers 512Gi",
        [],
        None,
    ),
    "more huge pages than a node has": (
        machines("g", 1, more={"hugepages-1Gi": [4 << 30, 4 << 30]}),
        asking(1, amounts={"hugepages-1Gi": "16Gi"}),
        "no node has hugepages-1Gi 16Gi: the largest has 8Gi",
        [],
        None,
    ),
    "huge pages that no node has": (
        machines("g", 1, more={"hugepages-1Gi": [4 << 30, 4 << 30]}),
        asking(1, amounts={"hugepages-2Mi": "16Gi"}),
        "no node has hugepages-2Mi (did you mean hugepages-1Gi?)",
        [],
        None,
    ),
    "fragmented under single-numa-node": (
        [*cpu_machines(), *machines("g", 2, policy="single-numa-node", busy=[2, 2])],
        asking(3),
        "no node has the request inside one NUMA zone",
        names("g", 2),
        [f"{GPU} 2 instead of 3 (2 nodes)", "the nodes' topologyManagerPolicy were best-effort (2 nodes)"],
    ),
    "fragmented under restricted": (
        [*cpu_machines(), *machines("g", 2, busy=[2, 2])],
        asking(3),
        "no node has the request in the NUMA zones that its policy allows",
        names("g", 2),
        [f"{GPU} 2 instead of 3 (2 nodes)", "the nodes' topologyManagerPolicy were best-effort (2 nodes)"],
    ),
}


@pytest.mark.parametrize("items, pod, answer, matter, changes", REFUSED.values(), ids=REFUSED)
def test_a_pod_that_is_refused(
    bayplan: Bayplan, tmp_path: Path, items: list[Json], pod: Json, answer: str, matter: list[str], changes: Any
) -> None:
    file = written(tmp_path, pod, file="pod.json")
    cluster = written(tmp_path, *items)
    result = bayplan("place", "-f", file, cluster=cluster)
    assert (result.code, result.answer) == (1, f"ml/new does not fit: {answer}.")
    document = json.loads(bayplan("place", "-f", file, "-o", "json", cluster=cluster).out)
    refusal = document["items"][0]["refusal"]
    assert (document["answer"], refusal["sentence"]) == (result.answer.rstrip("."), answer)
    assert refusal["matter"] == matter
    assert bool(refusal["tooLarge"]) == (not matter)
    told = [each["change"] for each in refusal["wouldScheduleIf"]]
    assert changes is None or told == changes
    assert all(each in " ".join(result.out.split()) for each in told)
    waiting = bayplan("why", "ml/new", cluster=written(tmp_path, *items, pod))
    assert (waiting.code, waiting.answer) == (1, f"ml/new is Pending: {answer}.")
