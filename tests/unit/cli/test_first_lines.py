"""The first line of every answer on small GPU clusters as real ones are: tainted, full, NotReady, of many shapes.

Every expected answer was worked out from the cluster by hand, and is checked in text and in JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders.bodies import BLOCK, RACK, Json, gang_body, list_body, topology_body
from tests.builders.gpu_clusters import GPU, GPU_TAINT, NIC, asking, cpu_machines, gpu_machine, taint
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.test_held_workloads import NO_QUOTA, condition, workload
from tests.unit.cli.test_owners import job, member
from tests.unit.cli.test_several_topologies import IN_KUEUES_WORDS, topology

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
        "no node matches its node selector and affinity (gpu.product=H100: no node has it; did you mean H100-80GB?)",
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


# -- other questions: the command, its first line, exit code, and what text and JSON both have -----------------------


def rack(prefix: str, number: int, block: str, rack: str, **more: Any) -> list[Json]:
    return machines(prefix, number, labels={BLOCK: block, RACK: rack}, **more)


NET = topology_body("network")
CPUS = [*cpu_machines(labels={BLOCK: "b0", RACK: "r0"}), NET]
NODES = [
    *cpu_machines(labels={BLOCK: "b0", RACK: "r0"}),
    *rack("a", 2, "b1", "r1"),
    *rack("b", 1, "b1", "r2", taints=BOTH),
    *rack("c", 1, "b2", "r3", ready=False),
    *rack("d", 1, "b2", "r3", cordoned=True),
]
POOL = [*NODES, NET]
KUEUE, KAI = topology("kueue", "dc", BLOCK, RACK), topology("kai", "kai-dc", BLOCK, RACK)
THREE = [*NODES, KUEUE, KAI, topology("kueue", "power", "example.com/row", RACK)]
GANG = "why podgroup/g -n ml"
JOB = "why job/train -n ml"


def gang(size: int = 3, required: str | None = BLOCK, last: int = 8, **more: Any) -> list[Json]:
    """Pods of 8 GPUs, the last one of `last`, that wait together."""
    spec = {"required": required} if required else {}
    pods = (asking(last if at == size - 1 else 8, 96, 900, name=f"g-{at}", gang="g", **more) for at in range(size))
    return [gang_body("g", "ml", size, topology="network", **spec), *pods]


def train(annotations: Json, pods: int = 2, **spec: Any) -> list[Json]:
    """A Job of pods of 4 GPUs; `spec` has further fields of it. A suspended one has no pods."""
    amounts: Json = {"cpu": 16, "memory": "64Gi", GPU: 4}
    tolerations = [{"key": GPU, "operator": "Exists"}]
    waiting = [] if spec.get("suspend") else [member("train", at, amounts) for at in range(pods)]
    for each in waiting:
        each["spec"]["tolerations"] = tolerations
    made = job("train", pods, annotations, amounts)
    made["spec"] |= spec
    made["spec"]["template"]["spec"]["tolerations"] = tolerations
    return [made, *waiting]


def with_sidecar(main: int, sidecar: int) -> Json:
    pod = asking(4, main)
    amounts = {"cpu": sidecar, "memory": "1Gi"}
    resources = {"requests": amounts, "limits": amounts}
    pod["spec"]["initContainers"] = [{"name": "proxy", "image": "i", "restartPolicy": "Always", "resources": resources}]
    return pod


NOW = "ml/new is Pending: it fits now on"
QUESTIONS = {
    "best-effort spans zones": (
        [*machines("g", 1, policy="best-effort", busy=[1, 1]), asking(4)],
        "why ml/new", 0, f"{NOW} g-0, probably NUMA zones 0-1.", ["0-1"],
    ),
    "16 GPUs in eight zones, with enough CPUs": (
        [*machines("g", 1, gpus=16, zones=8, cpus=24), asking(16, 169, 4000)],
        "why ml/new", 0, f"{NOW} g-0, NUMA zones 0-7.", ["g-0"],
    ),
    "a node without a report": (
        [*cpu_machines(), *machines("g", 1, reports=False), asking(8)],
        "why ml/new", 0, f"{NOW} g-0; NUMA zones of g-0 are unknown (no NodeResourceTopology).", ["g-0"],
    ),
    "at the border of reserved CPUs": (
        [*machines("g", 1, reserved=2), asking(4, 48)], "why ml/new", 0, f"{NOW} g-0, NUMA zone 1.", ["g-0"],
    ),
    "container scope: a sidecar in a zone of its own": (
        [*machines("g", 1, policy="single-numa-node"), with_sidecar(44, 8)],
        "why ml/new", 0, f"{NOW} g-0, NUMA zones proxy 0, main 1.", ["proxy", "main"],
    ),
    "container scope: the container that is larger than a zone is named": (
        [*machines("g", 1, policy="single-numa-node"), with_sidecar(56, 8)],
        "why ml/new", 1, "ml/new is Pending: no NUMA zone has cpu 56 for container main: the largest offers 48.",
        ["main: cpu 48 instead of 56 (1 node)"],
    ),
    "pod scope: the pod is larger than a zone": (
        [*machines("g", 1, policy="single-numa-node", scope="pod"), with_sidecar(44, 8)],
        "why ml/new", 1, "ml/new is Pending: no NUMA zone has cpu 52: the largest offers 48.",
        ["proxy: cpu 4 instead of 8 (1 node)", "main: cpu 40 instead of 44 (1 node)"],
    ),
    "a gang of which one pod fits nowhere": (
        [*CPUS, *rack("a", 3, "b1", "r1"), *gang(last=16)],
        GANG, 1, f"ml/g is Pending: g-2: no node has {GPU} 16: the largest has 8.", ["2 pods instead of 3"],
    ),
    "a gang that needs a cordoned node": (
        [*CPUS, *rack("a", 2, "b1", "r1"), *rack("c", 1, "b1", "r2", cordoned=True), *gang()],
        GANG, 1, "ml/g is Pending: the gang needs 3 slots in one block, but can get at most 2.",
        ["c-0 were uncordoned"],
    ),
    "a gang that needs a toleration": (
        [*CPUS, *rack("a", 2, "b1", "r1"), *rack("c", 1, "b1", "r2", taints=BOTH), *gang()],
        GANG, 1, "ml/g is Pending: the gang needs 3 slots in one block, but can get at most 2.",
        ["its pods tolerated sku=gpu:NoSchedule"],
    ),
    "a gang that needs both, of different nodes": (
        [*CPUS, *rack("a", 1, "b1", "r1"), *rack("c", 1, "b1", "r2", taints=BOTH),
         *rack("d", 1, "b1", "r2", cordoned=True), *gang()],
        GANG, 1, "ml/g is Pending: the gang needs 3 slots in one block, but can get at most 1.",
        ["d-0 were uncordoned and its pods tolerated sku=gpu:NoSchedule"],
    ),
    "a gang without the toleration": (
        [*CPUS, *rack("a", 3, "b1", "r1"), *gang(tolerates=())],
        GANG, 1, f"ml/g is Pending: the 3 nodes with {GPU} {TAINTED} {GPU}=present:NoSchedule.",
        [f"its pods tolerated {GPU}=present:NoSchedule"],
    ),
    "a gang whose nodes are outside of the labelled tree": (
        [*CPUS, *machines("a", 3), *gang(required=RACK)],
        GANG, 1, f"ml/g is Pending: the 3 nodes with {GPU} have no label {BLOCK}.", [f"no label {BLOCK}: a-[0-2]"],
    ),
    "three Topologies, the level is in two trees": (
        [*THREE, *train({IN_KUEUES_WORDS: RACK})],
        JOB, 1, "Job ml/train is not placed: add the annotation bayplan.io/topology: dc or power.", ["dc or power"],
    ),
    "three Topologies, the level is in one tree of Kueue's": (
        [*THREE, *train({IN_KUEUES_WORDS: BLOCK})],
        JOB, 0, "Job ml/train fits: block b1, rack r1, node a-0 (optimal)", ["a-0"],
    ),
    "Kueue and KAI of one name": (
        [*NODES, KUEUE, topology("kai", "dc", RACK),
         *train({"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": RACK}, 5)],
        JOB, 1, "Job ml/train does not fit: the gang needs 5 slots in one rack, but can get at most 4.",
        ["4 pods instead of 5"],
    ),
    "a suspended Job": (
        [*POOL, *train({"bayplan.io/gang": "true"}, suspend=True),
         workload({"conditions": [condition("QuotaReserved", False, NO_QUOTA)]})],
        JOB, 1, f"Job ml/train is suspended by Kueue: Workload ml/job-train-7c3f1: {NO_QUOTA}.", [NO_QUOTA],
    ),
    "preemption where the zones of victims are not reported": (
        [*machines("g", 1, busy=[1, 1]), asking(4, priority=100)],
        "why ml/new --preempt", 1,
        "ml/new is Pending: no node has the request in the NUMA zones that its policy allows.", ["old/g-0-0"],
    ),
    "preemption on a node of one zone": (
        [*machines("g", 1, zones=1, busy=[6]), asking(4, priority=100)],
        "why ml/new --preempt", 1, f"ml/new is Pending: no node has enough {GPU} free.", ["old/g-0-0"],
    ),
    "slots where GPU nodes are tainted": (
        POOL, "slots --requests cpu=16,memory=64Gi,gpu=4 --pods 4", 0, "1 gang of 4 pods fits, each in one rack",
        ["sku=gpu:NoSchedule", "NotReady", "cordoned", "b-0", "c-0", "d-0"],
    ),
    "slots of a pod that is too large": (
        POOL, "slots --requests gpu=16 --pods 1", 1,
        f"no such pod fits anywhere: no node has {GPU} 16: the largest has 8", [f"too small in {GPU}: a-[0-1]"],
    ),
    "topology where GPU nodes are tainted": (
        POOL, "topology -r gpu", 0, "network: 3 blocks, 4 racks, 7 nodes; 3 nodes closed",
        ["sku=gpu:NoSchedule", "NotReady", "cordoned"],
    ),
    "nodes sorted": (
        POOL, "nodes --sort-by .status", 0,
        "7 nodes: 7 with a NUMA report; 3 closed (1 NotReady, 1 cordoned, 1 tainted)",
        ["NotReady", "Ready,SchedulingDisabled", "Ready,Tainted", "sku=gpu:NoSchedule"],
    ),
    "what if nodes are drained": (
        [*POOL, asking(8, 96, 900)], "why ml/new --without-node a-0 --without-node a-1", 1,
        (f"ml/new is Pending: the 3 nodes with {GPU} are closed to it: cordoned 1, taint sku=gpu:NoSchedule 1, "
        "NotReady 1."),
        ["d-0 were uncordoned (1 node)", "c-0 were Ready (1 node)", "it tolerated sku=gpu:NoSchedule (1 node)"],
    ),
    "what if a taint is gone": (
        [*POOL, asking(8, 96, 900)], "why ml/new --without-node a-0 --without-node a-1 --without-taint sku", 0,
        f"{NOW} b-0, NUMA zones 0-1.", ["taint sku removed from 1 node"],
    ),
    "what if nodes are added": (
        [*POOL, asking(8, 96, 900)], "why ml/new --without-node a-0 --without-node a-1 --add-nodes 2 --like a-0", 0,
        f"{NOW} a-0-added-1, NUMA zones 0-1.", ["2 nodes like a-0 added"],
    ),
    "everything that waits": (
        [*cpu_machines(), *machines("g", 2, busy=[4, 4]), *machines("h", 1, taints=BOTH), asking(1, name="a"),
         asking(16, name="b"), asking(8, 95, name="c"), asking(0, 4, name="d"), asking(2, tolerates=(), name="e")],
        "why -A", 1, "4 pods wait (4 causes); 1 more fits now",
        [f"no schedulable node has enough {GPU} free", f"larger than every node: {GPU}",
         f"the 3 nodes with {GPU} {TAINTED} {GPU}=present:NoSchedule",
         "refused by kubelets with policy restricted even on an empty node"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("items, command, code, answer, facts", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question(
    bayplan: Bayplan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    items: list[Json],
    command: str,
    code: int,
    answer: str,
    facts: list[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    cluster = written(tmp_path, *items)
    text, document = (bayplan(*command.split(), *more, cluster=cluster) for more in ((), ("-o", "json")))
    assert (text.code, text.answer, text.err) == (code, answer, "")
    assert document.code == code
    assert json.loads(document.out)["answer"] == answer
    assert [fact for fact in facts if fact not in text.out or fact not in document.out] == []


def test_a_quota_refuses_a_new_pod_as_the_api_server_would(bayplan: Bayplan, tmp_path: Path) -> None:
    hard = {f"requests.{GPU}": "4"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "ml"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": {f"requests.{GPU}": "2"}},
    }
    file = written(tmp_path, asking(4), file="pod.json")
    result = bayplan("place", "-f", file, cluster=written(tmp_path, *POOL, quota))
    assert (result.code, result.answer) == (
        1,
        (
            "ml/new is not placed: it would be refused by the API server: exceeded quota: gpus, "
            f"requested: requests.{GPU}=4, used: requests.{GPU}=2, limited: requests.{GPU}=4."
        ),
    )
