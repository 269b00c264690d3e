"""Workloads: who looks after the pods, what they ask for, when they come and how long they run."""

from itertools import pairwise
from pathlib import Path

import pytest

from bayplan.cluster.pods.request import QoS, effective_request
from bayplan.simulate.scenario.model import Kind, Workload
from tests.builders.objects import GI
from tests.unit.simulate.scenario.files import NODES, faults, scenario

POD = "pod: {resources: {cpu: 1, memory: 1Gi}}"


def workload(folder: Path, keys: str, seed: int = 0) -> Workload:
    return scenario(folder, f"seed: {seed}\n{NODES}workloads:\n- {{name: app, {keys}}}\n").workloads[0]


def moments(found: Workload) -> list[float]:
    return [member.arrives for member in found.members]


@pytest.mark.parametrize(
    "written, kind",
    [
        ("Pod", Kind.POD),
        ("ReplicaSet", Kind.REPLICA_SET),
        ("Deployment", Kind.REPLICA_SET),
        ("StatefulSet", Kind.REPLICA_SET),
        ("Job", Kind.JOB),
    ],
)
def test_kinds_that_create_pods(tmp_path: Path, written: str, kind: Kind) -> None:
    assert workload(tmp_path, f"kind: {written}, {POD}").kind is kind


@pytest.mark.parametrize(
    "arrive, expected",
    [
        ("{}", [0, 0, 0, 0]),
        ("10s", [10, 10, 10, 10]),
        ("{at: 10s}", [10, 10, 10, 10]),
        ("{over: 60s}", [0, 15, 30, 45]),
        ("{at: 10s, every: 2s}", [10, 12, 14, 16]),
        ("{every: 10s, batch: 3}", [0, 0, 0, 10]),
        ("{over: 60s, batch: 2}", [0, 0, 30, 30]),
    ],
)
def test_when_pods_arrive(tmp_path: Path, arrive: str, expected: list[float]) -> None:
    assert moments(workload(tmp_path, f"replicas: 4, arrive: {arrive}, {POD}")) == expected


def test_a_rate_draws_moments_whose_mean_gap_is_that_of_the_rate(tmp_path: Path) -> None:
    found = moments(workload(tmp_path, f"replicas: 2000, arrive: {{at: 10s, rate: 30/m}}, {POD}"))
    gaps = [after - before for before, after in pairwise(found)]
    assert min(gaps) >= 0
    assert found[0] > 10
    assert sum(gaps) / len(gaps) == pytest.approx(2.0, rel=0.1)


def test_chance_belongs_to_a_workload_so_that_others_do_not_change_it(tmp_path: Path) -> None:
    random = f"kind: Job, replicas: 5, arrive: {{rate: 1/s}}, runs: [1s, 10s], {POD}"
    alone = workload(tmp_path, random)
    others = f"workloads:\n- {{name: first, {random}}}\n- {{name: app, {random}}}\n"
    first, app = scenario(tmp_path, NODES + others).workloads
    assert app.members == alone.members != first.members
    more = workload(tmp_path, random.replace("replicas: 5", "replicas: 9"))
    assert more.members[:5] == alone.members


def test_pods_of_a_job_end_after_a_time_that_is_given_or_drawn(tmp_path: Path) -> None:
    assert workload(tmp_path, f"kind: Job, runs: 5m, {POD}").members[0].runs_for == 300
    assert workload(tmp_path, f"kind: Job, {POD}").members[0].runs_for is None
    drawn = [
        member.runs_for for member in workload(tmp_path, f"kind: Job, replicas: 50, runs: [2m, 10m], {POD}").members
    ]
    assert all(time is not None and 120 <= time <= 600 for time in drawn)
    assert len(set(drawn)) > 40


def test_a_short_pod_is_guaranteed(tmp_path: Path) -> None:
    found = workload(
        tmp_path, "namespace: telco, labels: {app: upf}, pod: {resources: {cpu: 8, memory: 16Gi, example.com/gpu: 1}}"
    )
    request = effective_request(found.template)
    assert request.qos is QoS.GUARANTEED
    assert request.total == {"cpu": 8000, "memory": 16 * GI, "example.com/gpu": 1}
    assert (found.namespace, found.template.metadata.labels) == ("telco", {"app": "upf"})


def test_a_short_pod_may_have_requests_and_limits_and_other_fields(tmp_path: Path) -> None:
    pod = "pod: {resources: {requests: {cpu: 500m}, limits: {memory: 1Gi}}, nodeSelector: {pool: web}}"
    found = workload(tmp_path, pod).template
    assert effective_request(found).qos is QoS.BURSTABLE
    assert found.spec.node_selector == {"pool": "web"}


def test_a_pod_spec_is_taken_as_kubernetes_has_it(tmp_path: Path) -> None:
    pod = """pod: {
      initContainers: [{name: tables, image: a, resources: {requests: {cpu: 2}}}],
      containers: [{name: app, command: [run], resources: {requests: {cpu: 1}}}, {name: log}],
      tolerations: [{operator: Exists}], resources: {requests: {cpu: 3}}}"""
    spec = workload(tmp_path, pod).template.spec
    assert [container.name for container in spec.containers or []] == ["app", "log"]
    assert spec.resources is not None
    assert spec.resources.requests == {"cpu": 3}


@pytest.mark.parametrize(
    "written, priority",
    [
        ("", 0),
        ("priority: 100, ", 100),
        ("priority: -5, ", -5),
        ("priorityClassName: system-node-critical, ", 2_000_001_000),
        pytest.param("priorityClassName: high, priority: 7, ", 7, id="as in a pod that was copied from a cluster"),
    ],
)
def test_the_priority_of_pods(tmp_path: Path, written: str, priority: int) -> None:
    app = workload(tmp_path, f"pod: {{{written}resources: {{cpu: 1}}}}")
    assert app.template.spec.priority == priority


@pytest.mark.parametrize(
    "keys, message",
    [
        ("replicas: 2", "pod: is missing"),
        (f"kind: DaemonSet, {POD}",
         'kind: "DaemonSet" is not allowed: must be one of Pod, ReplicaSet, Deployment, StatefulSet, Job'),
        (f"replicas: 0, {POD}", "replicas: 0 is not allowed: must be 1 to 1000000"),
        (f"runs: 5m, {POD}", "runs: is for kind Job only: pods of a ReplicaSet run until the end"),
        (f"backoffLimit: 1, {POD}", "backoffLimit: is for kind Job only"),
        (f"kind: Job, runs: [5m, 2m], {POD}",
         "runs: must be one duration, or two of which the second is the longer: [2m, 10m]"),
        (f"kind: Job, runs: 0s, {POD}", 'runs: "0s" is too short'),
        (f"arrive: soon, {POD}", 'arrive: "soon" is no duration'),
        (f"arrive: {{over: 1m, every: 1s}}, {POD}",
         "arrive: has both over and every: must be one of over, every, rate"),
        (f"arrive: {{rate: fast}}, {POD}", 'arrive.rate: "fast" is no rate'),
        (f"arrive: {{delay: 5s}}, {POD}", "arrive.delay: is unknown: must be one of at, over, every, rate, batch"),
        ("pod: {}", "pod.resources: is missing"),
        ("pod: {resources: {}}", "pod.resources: is empty: must be resources and amounts, such as cpu: 8"),
        ("pod: {resources: {gpu: 1}}", "pod.resources.gpu: is no resource: must be cpu, memory"),
        ("pod: {resources: {cpu: -1}}", 'pod.resources.cpu: "-1" is negative: must be 0 or more'),
        ("pod: {resources: {cpu: 1}, toleration: []}", "pod.toleration: is unknown: did you mean tolerations?"),
        ("pod: {resources: {cpu: 1}, nodeSelector: {a: 5}}", "pod.nodeSelector: must be a string, not a whole number"),
        ("pod: {resources: {requests: {cpu: 2}, limits: {cpu: 1}}}",
         'pod.resources.requests.cpu: "2" is above the limit of "1"'),
        ("pod: {resources: {nvidia.com/gpu: 0.5}}",
         'pod.resources["nvidia.com/gpu"]: "0.5" is no whole number: nvidia.com/gpu cannot be divided'),
        ("pod: {containers: [{name: a, resources: {limits: {a.b/c: 1500m}}}]}",
         'pod.containers[0].resources.limits["a.b/c"]: "1500m" is no whole number'),
        ("pod: {containers: [{name: a}, {name: b}, {name: a}]}",
         'pod.containers[2].name: "a" is the name of another container of the pod'),
        ("pod: {containers: [{name: a}], initContainers: [{name: a}]}",
         'pod.initContainers[0].name: "a" is the name of another container'),
        ("pod: {resources: {cpu: 1}, initContainers: [{name: app}]}",
         'pod.initContainers[0].name: "app" is the name of another container'),
        ("pod: {resources: {cpu: 1}, priority: high}",
         'pod.priority: "high" is no whole number: must be -2147483648 to 2147483647'),
        ("pod: {resources: {cpu: 1}, priority: 3000000000}",
         "pod.priority: 3000000000 is not allowed: must be -2147483648 to 2147483647"),
        (f"labels: {{app: a b}}, {POD}", 'labels.app: "a b" is no value of a label'),
        ("pod: {containers: []}", "pod.containers: is empty: a pod needs at least one container"),
        ("pod: {containers: [{nam: a}]}", "pod.containers[0].nam: is unknown: did you mean name?"),
        ("pod: {containers: [{resources: {limits: {a.b/c: x}}}]}",
         'pod.containers[0].resources.limits["a.b/c"]: invalid quantity "x"'),
        ("pod: {containers: [{name: a, ports: [{hostPort: 70000}]}]}",
         "pod.containers[0].ports[0].hostPort: 70000 is not allowed"),
    ],
)  # fmt: skip
def test_workloads_that_make_no_sense(tmp_path: Path, keys: str, message: str) -> None:
    (found,) = faults(tmp_path, f"{NODES}workloads: [{{name: app, {keys}}}]")
    assert found.removeprefix("x.yaml:2: workloads[0].").startswith(message)
