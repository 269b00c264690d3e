"""`--without-node`, `--add-nodes --like`, `--without-taint`, `--uncordon`: answers about the cluster as it could be.

Three nodes with GPUs: n1 is full, n2 is cordoned and empty, n3 has a maintenance taint beside that of its GPUs.
"""

import json
from pathlib import Path

import pytest

from tests.builders.bodies import RACK, Json, gang_body, list_body, node_body, pod_body, report_body, topology_body
from tests.builders.objects import zone
from tests.unit.cli.conftest import Bayplan

GPU = "nvidia.com/gpu"
OFFERED: Json = {"cpu": 16, "memory": "64Gi", GPU: 8}
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
PLANNED = {"key": "example.com/planned", "value": "2026-05-06", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TOLERATES = [{"key": GPU, "operator": "Exists"}]


def node(name: str, *taints: Json, cordoned: bool = False) -> Json:
    body = node_body(name, OFFERED, **{RACK: f"r-{name}"})
    return {**body, "spec": {"taints": list(taints), "unschedulable": cordoned}}


def report(name: str, free: int) -> Json:
    zones = [
        zone(number, {"cpu": (8, 8, free * 2), "memory": ("32Gi", "32Gi", f"{free * 8}Gi"), GPU: (4, 4, free)})
        for number in range(2)
    ]
    return report_body(name, *zones)


def pod(name: str, gpus: int, on: str = "", owner: str = "") -> Json:
    amounts: Json = {"cpu": gpus * 2, "memory": f"{gpus * 8}Gi", GPU: gpus}
    body = pod_body(name, "ml", amounts, phase="Running" if on else "Pending", tolerations=TOLERATES)
    body["spec"] |= {"nodeName": on} if on else {}
    if owner:
        body["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner, "name": "owner"}]
    return body


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    exporter = pod_body("exporter-n1", "ml", {"cpu": "100m"}, phase="Running", nodeName="n1")
    exporter["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "exporter"}]
    items = [
        node("n1", TAINT),
        node("n2", TAINT, CORDON, cordoned=True),
        node("n3", TAINT, PLANNED),
        report("n1", 0),
        report("n2", 4),
        report("n3", 4),
        topology_body("network", RACK, "kubernetes.io/hostname"),
        pod("train-0", 4, on="n1", owner="Job"),
        pod("train-1", 4, on="n1", owner="Job"),
        exporter,
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(list_body(items)))
    return file


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(pod("new", 4)))
    return file


@pytest.mark.parametrize(
    "flags, answer, assumed",
    [
        ("", "ml/new does not fit", None),
        ("--uncordon n2", "ml/new fits: n2, NUMA zone 0", "n2 uncordoned"),
        ("--uncordon node/n2", "ml/new fits: n2, NUMA zone 0", "n2 uncordoned"),
        (
            "--without-taint example.com/planned",
            "ml/new fits: n3, NUMA zone 0",
            "taint example.com/planned removed from 1 node",
        ),
        (
            "--without-taint example.com/planned=2026-05-06:NoSchedule-",
            "ml/new fits: n3, NUMA zone 0",
            "taint example.com/planned=2026-05-06:NoSchedule removed from 1 node",
        ),
        (f"--without-taint {GPU}", "ml/new does not fit", f"taint {GPU} removed from 3 nodes"),
        ("--add-nodes 2 --like n1", "ml/new fits: n1-added-1, NUMA zone 0", "2 nodes like n1 added"),
        # Cordons and taints of the moment are not copied, others are.
        ("--add-nodes 1 --like n2", "ml/new fits: n2-added-1, NUMA zone 0", "1 node like n2 added"),
        ("--add-nodes 1 --like n3", "ml/new does not fit", "1 node like n3 added"),
        (
            "--add-nodes 1 --like n1 --without-node n1 --without-node n2",
            "ml/new fits: n1-added-1, NUMA zone 0",
            "1 node like n1 added; n[1-2] drained (2 pods wait again)",
        ),
    ],
)
def test_place_answers_for_the_cluster_as_it_could_be(
    bayplan: Bayplan, cluster: Path, asked: Path, flags: str, answer: str, assumed: str | None
) -> None:
    result = bayplan("place", "-f", asked, *flags.split(), cluster=cluster)
    assert result.answer.startswith(answer)
    second = result.out.splitlines()[1]
    assert second == f"Assuming: {assumed}" if assumed else not second.startswith("Assuming")
    document = json.loads(bayplan("place", "-f", asked, *flags.split(), "-o", "json", cluster=cluster).out)
    assert document.get("assuming") == (assumed.split("; ") if assumed else None)


@pytest.mark.parametrize(
    "flags, error",
    [
        ("--without-node n4", "there is no node 'n4' in the dump; did you mean n3 or n2 or n1?"),
        ("--uncordon n1", "--uncordon: node 'n1' is not cordoned"),
        ("--uncordon worker", "there is no node 'worker' in the dump; the dump has 3 nodes"),
        ("--add-nodes 2", "--add-nodes and --like belong together: --add-nodes 4 --like NODE"),
        ("--like n1", "--add-nodes and --like belong together: --add-nodes 4 --like NODE"),
        ("--add-nodes 0 --like n1", "0 is not in the range"),
        ("--add-nodes 2 --like n9", "there is no node 'n9'"),
        (f"--without-taint {GPU}s", f"--without-taint: no node has the taint '{GPU}s'; did you mean {GPU}?"),
        (
            f"--without-taint {GPU}=absent",
            (
                f"no node has the taint '{GPU}=absent'; taints are example.com/planned=2026-05-06:NoSchedule, "
                f"{GPU}=present:NoSchedule"
            ),
        ),
        (
            "--without-taint node.kubernetes.io/unschedulable",
            "--without-taint: node.kubernetes.io/unschedulable is the taint of a cordoned node; use --uncordon NODE",
        ),
    ],
)
def test_what_names_nothing_in_the_cluster_is_an_error(
    bayplan: Bayplan, cluster: Path, asked: Path, flags: str, error: str
) -> None:
    result = bayplan("place", "-f", asked, *flags.split(), cluster=cluster)
    assert (result.code, result.out) == (2, "")
    assert error in result.err


def test_pods_of_a_drained_node_wait_again_but_not_those_of_daemon_sets(bayplan: Bayplan, cluster: Path) -> None:
    assert bayplan("why", "-A", cluster=cluster).answer == "no pod waits, and no kubelet refused one"
    drained = bayplan("why", "-A", "--without-node", "n1", "-o", "json", cluster=cluster)
    waiting = json.loads(drained.out)
    assert [pod for cause in waiting["causes"] for pod in cause["pods"]] == ["ml/train-0", "ml/train-1"]
    assert waiting["withoutPlace"] == ["ml/train-0", "ml/train-1"]
    assert (
        waiting["answer"] == "2 of 2 pods of drained nodes have no other place: ml/train-[0-1]; 2 pods wait (1 cause)"
    )
    moved = bayplan("why", "-A", "--without-node", "n1", "--uncordon", "n2", cluster=cluster)
    assert moved.answer == "all 2 pods of drained nodes have another place; 2 fit now"
    assert bayplan("why", "ml/train-0", "--without-node", "n1", "--uncordon", "n2", cluster=cluster).answer == (
        "ml/train-0 is Pending: it fits now on n2, NUMA zone 0."
    )


def test_added_nodes_have_what_runs_on_every_node_and_the_rack_of_their_model(bayplan: Bayplan, cluster: Path) -> None:
    listed = json.loads(bayplan("nodes", "--add-nodes", "2", "--like", "n1", "-o", "json", cluster=cluster).out)
    free = {each["node"]: each["free"] for each in listed["items"]}
    assert free["n1-added-2"] == {"cpu": "15900m", "memory": "64Gi", GPU: "8"}
    tree = bayplan("topology", "network", "--add-nodes", "2", "--like", "n1", cluster=cluster)
    assert "n1, n1-added-[1-2]" in tree.out
    count = json.loads(
        bayplan(
            *("slots", "--add-nodes", 3, "--like", "n1", "--without-taint", GPU, "--pods", 1, "--level", "rack"),
            *("--requests", f"cpu=2,memory=8Gi,{GPU}=4", "--topology", "network", "-o", "json"),
            cluster=cluster,
        ).out
    )
    assert {each["path"][-1]: each["slots"] for each in count["domains"]} == {"r-n1": 6, "r-n2": 0, "r-n3": 0}


def test_gangs_are_answered_for_the_same_cluster(bayplan: Bayplan, cluster: Path, tmp_path: Path) -> None:
    gang = gang_body("pair", "ml", 2, topology="network", required="rack", pod={"spec": pod("x", 4)["spec"]})
    file = tmp_path / "gang.json"
    file.write_text(json.dumps(gang))
    assert bayplan("place", "-f", file, cluster=cluster).answer.startswith("ml/pair does not fit")
    result = bayplan("place", "-f", file, "--uncordon", "n2", cluster=cluster)
    assert result.out.splitlines()[:2] == ["ml/pair fits: rack r-n2, node n2 (optimal)", "Assuming: n2 uncordoned"]


@pytest.mark.parametrize("command", ["place", "topology"])
def test_a_picture_says_what_is_assumed(bayplan: Bayplan, cluster: Path, tmp_path: Path, command: str) -> None:
    gang = gang_body("one", "ml", 1, topology="network", pod={"spec": pod("x", 1)["spec"]})
    file = tmp_path / "gang.json"
    file.write_text(json.dumps(gang))
    about = ("-f", file) if command == "place" else ("network",)
    drawn = bayplan(command, *about, "--uncordon", "n2", "-o", "svg", cluster=cluster)
    assert "n2 uncordoned" in drawn.out
