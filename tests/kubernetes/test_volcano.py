"""Volcano's users on a real API server: their objects, annotations and configuration file, scheduled by bayplan onto
kubelets that refuse.

Volcano's controllers and its agent do not run here. Pods of a Job are created as its controller would
(`controllers.py`). Numatopologies are those of `examples/volcano`, which stay as they are while pods come, as if the
agent were slow, or are written by `bayplan agent` beside a virtual kubelet.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from bayplan.cluster.reports.kubelet_settings import Policy
from tests.builders.bodies import Json, node_body, pod_body
from tests.kubernetes.agents import agent_program
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.played_controllers import create_workload, play_controller
from tests.kubernetes.running_scheduler import running_scheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import CRDS, ROOT, create_all
from tests.unit.simulate.kubelet.nodes import guaranteed, kubelet, machine
from tests.virtual_node import VirtualNode

EXAMPLES = ROOT / "examples" / "volcano"
CLUSTER = EXAMPLES / "cluster.yaml"
CONFIG = ("--config", str(EXAMPLES / "volcano-scheduler.yaml"))
KINDS_OF_VOLCANO = sorted((Path(__file__).parent / "foreign_kinds").glob("*.volcano.sh.yaml"))
REPORT_KIND = next(file for file in CRDS if file.name.startswith("noderesourcetopologies"))
REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NUMATOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
POLICY, DECISION = "volcano.sh/numa-topology-policy", "volcano.sh/topology-decision"
ZONES, AMOUNTS = "bayplan.io/numa-zones", "bayplan.io/numa-amounts"
# Zone 0 has 3 CPUs for pods, zone 1 has 4.
SMALL_NODES = ("--machine", "pack:2 core:4 mem:32Gi", "--kubelet", "policy=single-numa-node", "--heartbeat", "0")


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One of our own: it gets definitions that other tests must not find."""
    with ControlPlane() as plane:
        for file in (*CRDS, *KINDS_OF_VOLCANO):
            plane.apply(file)
        for priority in range(1, 4):
            plane.apply(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": f"level-{priority}"},
                    "value": priority * 100,
                }
            )
        yield plane


def objects(kind: str) -> list[Json]:
    """Those of one kind in the example's cluster."""
    return [each for each in yaml.safe_load_all(CLUSTER.read_text()) if each["kind"] == kind]


def worker(name: str, namespace: str, policy: str, limits: Json, requests: Json | None = None) -> Json:
    """A pod that asks for a policy in Volcano's way; Guaranteed unless requests differ from limits."""
    body = pod_body(name, namespace, limits, scheduler="volcano")
    body["metadata"]["annotations"] = {POLICY: policy}
    body["spec"]["containers"][0]["resources"]["requests"] = requests or limits
    return body


@pytest.fixture
def numatopologies(control_plane: ControlPlane) -> Iterator[None]:
    for body in objects("Numatopology"):
        control_plane.apply(body)
    yield
    control_plane.delete(NUMATOPOLOGIES)


@pytest.fixture
def no_other_reports(control_plane: ControlPlane) -> Iterator[None]:
    """A cluster in which Numatopologies are all that is known about zones."""
    control_plane.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + REPORT_KIND.stem)
    wait_until(lambda: not control_plane.api.exists(REPORTS), "the API server has forgotten reports")
    yield
    control_plane.apply(REPORT_KIND)
    wait_until(lambda: control_plane.api.exists(REPORTS), "the API server knows reports")


def pods_in(plane: ControlPlane, namespace: str) -> dict[str, Json]:
    return {pod["metadata"]["name"]: pod for pod in plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]}


def wait_until_settled(plane: ControlPlane, namespace: str, count: int) -> dict[str, Json]:
    """So many pods run or have failed."""

    def settled() -> int:
        return sum(pod["status"]["phase"] != "Pending" for pod in pods_in(plane, namespace).values())

    wait_until(lambda: settled() == count, f"{count} pods run or have failed")
    return pods_in(plane, namespace)


def written(pod: Json, annotation: str) -> Json:
    found: Json = json.loads(pod["metadata"]["annotations"][annotation])
    return found


def given(plane: ControlPlane, pod: Json) -> dict[int, int]:
    """The CPUs that a pod's kubelet gave it in each zone, as soon as its node reports them."""
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]

    def reported() -> Json:
        attributes = {each["name"]: each["value"] for each in plane.get(f"{REPORTS}/{node}")["attributes"]}
        held: Json = json.loads(attributes["bayplan.io/pods"]).get(f"{metadata['namespace']}/{metadata['name']}", {})
        return held

    wait_until(lambda: bool(reported()), f"{node} reports {metadata['name']}")
    return {int(zone): milli // 1000 for zone, milli in reported()["cpu"].items()}


def events(plane: ControlPlane, namespace: str, reason: str) -> list[Json]:
    """Those of one reason, the oldest first."""
    found = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return sorted((each for each in found if each["reason"] == reason), key=lambda each: str(each["eventTime"]))


# -- the examples
# --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numatopologies")
def test_the_three_nodes(control_plane: ControlPlane, namespace: str) -> None:
    create_all(control_plane.kubeconfig, objects("Node"))
    pod = yaml.safe_load((EXAMPLES / "worker.yaml").read_text())
    pod["metadata"]["namespace"] = namespace
    with running_scheduler(control_plane, *CONFIG):
        control_plane.apply(pod)
        wait_until(lambda: pods_in(control_plane, namespace)["worker-0"]["spec"].get("nodeName"), "it has a node")
    bound = pods_in(control_plane, namespace)["worker-0"]
    assert bound["spec"]["nodeName"] == "node-a"
    assert bound["metadata"]["annotations"][DECISION] == '{"numa":{"0":{"cpu":"8"}}}'
    assert written(bound, ZONES) == {"tensorflow": [0]}
    assert written(bound, AMOUNTS) == {"tensorflow": {"zones": [0], "amounts": {"cpu": "8"}}}


@pytest.mark.usefixtures("numatopologies", "no_other_reports")
def test_a_job_goes_by_numatopologies_alone(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Kubelets of the example's machines; bayplan knows of them only what Volcano's agent wrote before the Job came."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"cluster: {CLUSTER}\nworkloads: [{{name: another, pod: {{resources: {{cpu: 1}}}}}}]\n")
    with virtual_nodes(control_plane, "--scenario", str(scenario)) as nodes, running_scheduler(control_plane, *CONFIG):
        play_controller(control_plane, create_workload(control_plane, EXAMPLES / "job.yaml", namespace))
        pods = wait_until_settled(control_plane, namespace, 4)
        assert nodes.told("refused") == []
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Running"}
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"node-a"}
    cpus = {name: written(pod, DECISION)["numa"] for name, pod in pods.items()}
    for index in range(3):
        (in_its_zone,) = cpus[f"training-worker-{index}"].values()
        assert in_its_zone == {"cpu": "8"}
    assert sorted(written(pod, ZONES)["tensorflow"] for pod in pods.values()) == [[0], [1], [2], [3]]


def create_job(plane: ControlPlane, namespace: str) -> None:
    """With Volcano's controllers."""
    play_controller(plane, create_workload(plane, EXAMPLES / "training-job.yaml", namespace))


def create_its_pods(plane: ControlPlane, namespace: str) -> None:
    """Without them."""
    for body in yaml.safe_load((EXAMPLES / "training-pods.yaml").read_text())["items"]:
        plane.apply({**body, "metadata": {**body["metadata"], "namespace": namespace}})


@pytest.mark.parametrize("create", [create_job, create_its_pods])
def test_a_job_with_two_policies(
    control_plane: ControlPlane, namespace: str, create: Callable[[ControlPlane, str], None]
) -> None:
    """Workers that want one zone, parameter servers that take what there is: on nodes of their policy, and as was
    decided.
    """
    scenario = ("--scenario", str(EXAMPLES / "training.yaml"))
    with virtual_nodes(control_plane, *scenario) as nodes, running_scheduler(control_plane, *CONFIG):
        create(control_plane, namespace)
        pods = wait_until_settled(control_plane, namespace, 8)
        assert nodes.told("refused") == []
        for name, pod in pods.items():
            single = "worker" in name
            assert pod["spec"]["nodeName"].startswith("strict-" if single else "loose-")
            decided = {int(zone): int(amounts["cpu"]) for zone, amounts in written(pod, DECISION)["numa"].items()}
            assert len(decided) == 1 or not single
            assert given(control_plane, pod) == decided
        (amounts,) = written(pods["training-worker-0"], AMOUNTS).values()
        assert amounts["amounts"] == {"cpu": "12", "memory": "36Gi"}


@pytest.mark.usefixtures("no_other_reports")
def test_pods_are_followed_one_by_one_through_pod_allocations(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """volcano#5500: CPUs are released while another pod is on its way to its kubelet.

    Its own stay promised, the released ones are used.
    """
    create_all(control_plane.kubeconfig, [node_body("n1", {"cpu": 7, "memory": "16Gi"})])
    single = kubelet(machine(zones=2, cores=4, threads=1), policy=Policy.SINGLE_NUMA_NODE)

    def listed() -> set[str]:
        allocations = control_plane.get(f"{NUMATOPOLOGIES}/n1")["spec"].get("podAllocations", [])
        return {each["name"] for each in allocations}

    def schedule(name: str, cpus: int) -> list[int]:
        """The zone that is decided for a new pod, which its kubelet does not know yet."""
        create_all(
            control_plane.kubeconfig,
            [worker(name, namespace, "single-numa-node", {"cpu": cpus, "memory": "1Gi"})],
        )
        wait_until(lambda: "nodeName" in pods_in(control_plane, namespace)[name]["spec"], f"{name} has a node")
        zones: list[int] = written(pods_in(control_plane, namespace)[name], ZONES)["main"]
        return zones

    def admit(node: VirtualNode, name: str, cpus: int) -> list[int]:
        """The zone that the kubelet gives; returns when the Numatopology lists the pod."""
        admission = node.admit(f"{namespace}/{name}", guaranteed({"cpu": cpus, "memory": "1Gi"}))
        assert admission.admitted
        wait_until(lambda: name in listed(), f"{name} is listed")
        return list(admission.containers[0].zones or ())

    def end(node: VirtualNode, name: str) -> None:
        node.remove(f"{namespace}/{name}")
        control_plane.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
        wait_until(lambda: name not in listed(), f"{name} is listed no longer")

    with (
        VirtualNode(tmp_path / "n1", single) as node,
        agent_program(node, control_plane.kubeconfig, "--format", "numatopology") as agent,
        running_scheduler(control_plane, *CONFIG),
    ):
        agent.wait_until_ready()
        assert schedule("old", 3) == admit(node, "old", 3) == [0]
        assert schedule("new", 4) == [1]
        end(node, "old")
        assert schedule("next", 3) == [0]
        assert admit(node, "new", 4) == [1]
        assert admit(node, "next", 3) == [0]
        end(node, "new")
        assert schedule("last", 4) == admit(node, "last", 4) == [1]
    control_plane.delete(NUMATOPOLOGIES)


# -- the order in which kubelets admit
# -----------------------------------------------------------------------------------


def in_order_of_creation(namespace: str) -> list[Json]:
    """A small pod first, then two that need what it must not take; they are more important, so
    they are decided first.
    """
    small = worker("a-notebook", namespace, "single-numa-node", {"cpu": 1, "memory": "1Gi"})
    large = [
        worker(f"worker-{number}", namespace, "single-numa-node", {"cpu": 3, "memory": "1Gi"}) for number in (0, 1)
    ]
    for body in large:
        body["spec"]["priorityClassName"] = "level-1"
    return [small, *large]


def test_a_kubelet_that_admits_in_the_order_of_creation_refuses_what_fits(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The drawback: a kubelet that was away finds all pods at once and takes them by age.

    The notebook is in the way then.
    """
    with virtual_nodes(control_plane, "--nodes", "1", *SMALL_NODES) as nodes:
        nodes.kill()
    for body in in_order_of_creation(namespace):
        body["spec"]["nodeName"] = "virtual-0"
        create_all(control_plane.kubeconfig, [body])
    with virtual_nodes(control_plane, "--nodes", "1", *SMALL_NODES):
        pods = wait_until_settled(control_plane, namespace, 3)
    assert {name: pod["status"].get("reason") for name, pod in pods.items() if pod["status"]["phase"] == "Failed"} == {
        "worker-1": "TopologyAffinityError"
    }


def test_pods_reach_a_node_in_the_order_of_decisions(control_plane: ControlPlane, namespace: str) -> None:
    with virtual_nodes(control_plane, "--nodes", "1", *SMALL_NODES) as nodes:
        for body in in_order_of_creation(namespace):
            create_all(control_plane.kubeconfig, [body])
        with running_scheduler(control_plane, *CONFIG):
            pods = wait_until_settled(control_plane, namespace, 3)
            wait_until(lambda: len(events(control_plane, namespace, "Scheduled")) == 3, "all binds are told")
        assert nodes.told("refused") == []
    binds = [event["regarding"]["name"] for event in events(control_plane, namespace, "Scheduled")]
    assert binds == ["worker-0", "worker-1", "a-notebook"]
    assert {name: written(pod, ZONES)["main"] for name, pod in pods.items()} == {
        "worker-0": [0],
        "worker-1": [1],
        "a-notebook": [1],
    }


def test_every_pod_gets_what_was_decided_for_it(control_plane: ControlPlane, namespace: str) -> None:
    """Pods of many sizes and four priorities, created in any order, all there before the scheduler; reports come too
    late to help.
    """
    chance = random.Random(8)
    bodies = []
    for number in range(40):
        size = chance.choice([1, 1, 2, 3])
        body = worker(f"p{number:02}", namespace, "single-numa-node", {"cpu": size, "memory": "1Gi"})
        if priority := chance.randrange(4):
            body["spec"]["priorityClassName"] = f"level-{priority}"
        bodies.append(body)
    with virtual_nodes(control_plane, "--nodes", "14", *SMALL_NODES, "--report-delay", "5s") as nodes:
        create_all(control_plane.kubeconfig, bodies)
        with running_scheduler(control_plane, *CONFIG):
            pods = wait_until_settled(control_plane, namespace, len(bodies))
            wait_until(lambda: len(events(control_plane, namespace, "Scheduled")) == len(bodies), "all binds are told")
        assert nodes.told("refused") == []
        on_node: dict[str, list[int]] = {}
        for event in events(control_plane, namespace, "Scheduled"):
            pod = pods[event["regarding"]["name"]]
            on_node.setdefault(pod["spec"]["nodeName"], []).append(pod["spec"]["priority"])
        assert all(priorities == sorted(priorities, reverse=True) for priorities in on_node.values())
        for pod in pods.values():
            assert list(given(control_plane, pod)) == written(pod, ZONES)["main"]


# -- what makes no sense
# -------------------------------------------------------------------------------------------------


def test_policies_without_effect_are_told_once_and_nothing_is_lost(control_plane: ControlPlane, namespace: str) -> None:
    whole: Json = {"cpu": 2, "memory": "1Gi"}
    fraction: Json = {"cpu": "1500m", "memory": "1Gi"}
    bodies = [
        worker("unknown", namespace, "numa", whole),
        worker("burstable", namespace, "single-numa-node", whole, {"cpu": 1, "memory": "1Gi"}),
        worker("fraction", namespace, "single-numa-node", fraction),
        worker("good", namespace, "single-numa-node", whole),
    ]
    with virtual_nodes(control_plane, "--nodes", "1", *SMALL_NODES), running_scheduler(control_plane, *CONFIG):
        create_all(control_plane.kubeconfig, bodies)
        pods = wait_until_settled(control_plane, namespace, 3)
        wait_until(lambda: len(events(control_plane, namespace, "NotSupported")) == 3, "three pods are told")
        wait_until(lambda: bool(events(control_plane, namespace, "FailedScheduling")), "the pod that waits is told why")
    assert {name for name, pod in pods.items() if pod["status"]["phase"] == "Running"} == {
        "burstable",
        "fraction",
        "good",
    }
    told = {each["regarding"]["name"]: each["note"] for each in events(control_plane, namespace, "NotSupported")}
    at = f'metadata.annotations["{POLICY}"]: '
    expected = "none, best-effort, restricted, single-numa-node"
    assert told["unknown"].startswith(f'{at}"numa" is no policy (expected {expected}), and no node has it')
    assert told["burstable"].startswith(f'{at}"single-numa-node" has no effect: the pod is Burstable')
    assert "container main asks for no whole number of CPUs" in told["fraction"]
    waits = {each["regarding"]["name"] for each in events(control_plane, namespace, "FailedScheduling")}
    assert waits == {"unknown"}


def test_a_job_with_an_unknown_policy_is_told_on_its_pods_and_its_group(
    control_plane: ControlPlane, namespace: str
) -> None:
    """The task's text reaches the pods as it is: each of them says what is wrong, and the group says that it waits."""
    job = create_workload(control_plane, EXAMPLES / "job.yaml", namespace)
    for task in job["spec"]["tasks"]:
        task["topologyPolicy"] = "one-numa-node"
    with virtual_nodes(control_plane, "--nodes", "4", *SMALL_NODES), running_scheduler(control_plane, *CONFIG):
        play_controller(control_plane, job)
        wait_until(lambda: len(events(control_plane, namespace, "NotSupported")) == 4, "every pod is told")
        wait_until(lambda: len(events(control_plane, namespace, "FailedScheduling")) == 5, "pods and group are told")
    assert {each["regarding"]["kind"] for each in events(control_plane, namespace, "FailedScheduling")} == {
        "Pod",
        "PodGroup",
    }
    assert not any("nodeName" in pod["spec"] for pod in pods_in(control_plane, namespace).values())
