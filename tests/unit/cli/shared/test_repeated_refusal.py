"""A refusal that is told again for equal pods is what each of them would be told by itself."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from bayplan.cli.shared import placing
from bayplan.cluster.pods.pod_class import PodClasses
from bayplan.cluster.volumes.needs import VolumeNeeds
from bayplan.explain.placement import PodOutcome
from bayplan.explain.repeated_refusal import RepeatedRefusal
from bayplan.kube.wire.core_v1 import Metadata, Pod, PodSpec, PodStatus, Volume
from bayplan.scheduling.decision import Decision
from tests.unit.cli.conftest import Bayplan
from tests.unit.cli.shared.test_workloads import deployment, written
from tests.unit.explain.small_clusters import cluster, guaranteed, node, outcome_of

Json = dict[str, Any]
APART = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
SPREAD = {**APART, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
SPECS: list[Json] = [
    {},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}},
    {"topologySpreadConstraints": [SPREAD]},
    {"nodeSelector": {"disk": "fast"}},
    {"schedulingGates": [{"name": "later"}]},
    {"volumes": [{"name": "scratch", "emptyDir": {}}]},
    {"volumes": [{"name": "own", "ephemeral": {"volumeClaimTemplate": CLAIM}}]},
    {"volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "missing"}}]},
]


def random_pods(draw: Random) -> list[Json]:
    """Copies of a few kinds of pods; most stand behind each other, and a cluster is full after about half of them."""
    found: list[Json] = []
    for kind in range(10):
        containers: list[Json] = []
        for number in range(draw.choice((1, 1, 2))):
            amounts = {"cpu": draw.choice(("500m", "2", "6", "14", "40")), "memory": draw.choice(("1Gi", "8Gi"))}
            resources = {"requests": amounts} | ({"limits": amounts} if draw.random() < 0.7 else {})
            containers.append({"name": f"c{number}", "image": "i", "resources": resources})
        if draw.random() < 0.2:
            containers[0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        spec = {"containers": containers, **draw.choice(SPECS)}
        label = draw.choice("ab")
        for copy in range(draw.randint(1, 6)):
            labels = {"app": label if draw.random() < 0.8 else "c"}
            metadata = {"name": f"p{kind}-{copy}", "namespace": "ml", "labels": labels}
            found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    for _ in range(draw.choice((0, 0, 5, 50))):
        one, other = draw.randrange(len(found)), draw.randrange(len(found))
        found[one], found[other] = found[other], found[one]
    return found


VOLUMES = [Volume(name="data")]
BEFORE = Pod(metadata=Metadata(name="a", namespace="ml", labels={"app": "a"}), spec=PodSpec(volumes=VOLUMES))


def like(pod: Pod = BEFORE, **metadata: Any) -> Pod:
    """The pod with another name, and with these fields of its metadata."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **{"name": "b"} | metadata))


@pytest.fixture
def refused() -> PodOutcome:
    return outcome_of(cluster(node("n1", 2)), guaranteed("a", 4))


@pytest.mark.parametrize(
    "pod, is_alike",
    [
        (like(), True),
        (like(uid="1"), False),
        (like(namespace="shop"), False),
        (like(labels={"app": "b"}), False),
        (like(annotations={"a": "b"}), False),
        (msgspec.structs.replace(like(), spec=PodSpec(volumes=VOLUMES, host_network=True)), False),
        (msgspec.structs.replace(like(), status=PodStatus(nominated_node_name="n1")), False),
    ],
)
def test_only_a_pod_that_is_equal_but_for_its_name_gets_the_same_refusal(
    refused: PodOutcome, pod: Pod, is_alike: bool
) -> None:
    repeated = RepeatedRefusal(PodClasses())
    assert repeated.for_one_like(pod) is None
    repeated.note(BEFORE, refused)
    found = repeated.for_one_like(pod)
    assert (found is not None) == is_alike
    if found is not None:
        assert (found.decision.pod, found.refusal and found.refusal.pod) == ("ml/b", "ml/b")
        assert (found.decision.shortfall, found.ranking) == (refused.decision.shortfall, None)


def test_a_pod_with_claims_is_decided_by_itself(refused: PodOutcome) -> None:
    repeated = RepeatedRefusal(PodClasses(lambda _: VolumeNeeds(in_use=("ml/data",))))
    repeated.note(BEFORE, refused)
    assert repeated.for_one_like(like()) is None


@pytest.mark.parametrize("decision", [Decision("ml/c", "n1"), Decision("ml/c", None, held_back="waits")])
def test_after_another_decision_nothing_is_told_again(refused: PodOutcome, decision: Decision) -> None:
    repeated = RepeatedRefusal(PodClasses())
    repeated.note(BEFORE, refused)
    repeated.note(like(name="c"), PodOutcome(decision))
    assert repeated.for_one_like(like()) is None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("output", ["text", "json"])
def test_answers_are_those_of_every_pod_by_itself(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, output: str
) -> None:
    file = written(tmp_path, *random_pods(Random(seed)))
    repeated = bayplan("place", "-f", file, "-o", output)
    with monkeypatch.context() as alone:
        alone.setattr(RepeatedRefusal, "for_one_like", lambda *_: None)
        assert bayplan("place", "-f", file, "-o", output) == repeated
    assert repeated.code == 1


@pytest.mark.parametrize("spec", [{}, SPECS[1], SPECS[3]], ids=["plain", "apart", "spread"])
def test_equal_pods_are_refused_once(
    bayplan: Bayplan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: Json
) -> None:
    decided: list[str] = []
    decide = placing.outcome_for

    def noted(session: Any, pod: Any, *rest: Any) -> Any:
        decided.append(pod.metadata.name)
        return decide(session, pod, *rest)

    monkeypatch.setattr(placing, "outcome_for", noted)
    work = deployment(40, cpu=20, name="a")
    work["spec"]["template"]["spec"] |= spec
    document = json.loads(bayplan("place", "-f", written(tmp_path, work), "-o", "json").out)
    placed = [item for item in document["items"] if item["node"]]
    assert len(document["items"]) == 40
    assert len({item["pod"] for item in document["items"]}) == 40
    assert len(decided) == len(placed) + 1
