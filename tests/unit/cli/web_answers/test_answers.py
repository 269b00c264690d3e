"""What viewers with few rights learn, and what they do not."""

from __future__ import annotations

import json

import click
import pytest

from bayplan.cli.web_answers.answers import ClusterAnswers
from bayplan.cli.web_answers.scene import Scene
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.topology_levels import Topology, TopologyLevel, TopologySpec
from bayplan.kube.wire.core_v1 import Metadata
from bayplan.services.web.answers import Question, Standing, Unanswerable
from bayplan.services.web.api import _without_names
from tests.builders.bodies import Json
from tests.builders.objects import GPU, bound, node, simple_pod
from tests.unit.cli.web_answers.test_live_scene import opened

GANG = {"scheduling.x-k8s.io/pod-group": "train"}
ONLY_ML = frozenset({"ml"})


@pytest.fixture
def answers() -> ClusterAnswers:
    mine = simple_pod({"cpu": 1}, name="train-0", namespace="ml", labels=GANG)
    other = simple_pod({"cpu": 1}, name="secret-0", namespace="telco", labels=GANG)
    running = bound(simple_pod({"cpu": 1}, name="upf", namespace="telco"), to="n1")
    objects = ObjectSet(nodes=[node("n1", {"cpu": 16, "pods": 10})], pods=[mine, other, running])
    return ClusterAnswers(click.Context(click.Command("web")), Scene(objects, opened))


def test_gangs_are_counted_as_they_are_listed(answers: ClusterAnswers) -> None:
    for visible, number in ((None, 2), (ONLY_ML, 1), (frozenset[str](), 0)):
        document = answers.answer(Question("cluster", visible=visible))
        assert document["gangs"] == number, visible
    assert [each["name"] for each in answers.answer(Question("gangs"))["items"]] == ["train", "train"]


GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
PLANNED = {"key": "planned", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "asked, slots, closed",
    [
        ({}, None, ["", "planned:NoSchedule", "cordoned"]),
        ({"requests": f"{GPU}=4"}, [2, 0, 0], ["", "planned:NoSchedule", "cordoned"]),
        ({"requests": f"{GPU}=4", "tolerate": "planned"}, [2, 2, 0], ["", "", "cordoned"]),
        (
            {"requests": "cpu=8"},
            [0, 0, 0],
            [f"{GPU}=present:NoSchedule", f"{GPU}=present:NoSchedule, planned:NoSchedule", "cordoned"],
        ),
    ],
)
def test_a_map_tells_which_nodes_are_closed_to_the_pod_that_is_asked_about(
    asked: dict[str, str], slots: list[int] | None, closed: list[str]
) -> None:
    amounts = {"cpu": 8, "pods": 10, GPU: 8}
    nodes = [
        node("n1", amounts, taints=[GPU_TAINT]),
        node("n2", amounts, taints=[GPU_TAINT, PLANNED]),
        node("n3", amounts, unschedulable=True),
    ]
    answers = ClusterAnswers(click.Context(click.Command("web")), Scene(ObjectSet(nodes=nodes), opened))
    document = answers.answer(Question("map", tuple(asked.items())))
    assert document["slots"] == slots
    assert [", ".join(document["closings"][number]) for number in document["closed"]] == closed


@pytest.mark.parametrize("kind,name", [("telco", "upf"), ("pod", "telco/upf"), ("telco", "secret-0")])
def test_no_spelling_leads_from_one_namespace_into_another(answers: ClusterAnswers, kind: str, name: str) -> None:
    parameters = (("kind", kind), ("name", name), ("namespace", "ml"))
    with pytest.raises(Unanswerable) as refused:
        answers.answer(Question("why", parameters, visible=ONLY_ML))
    assert refused.value.status == 404


def test_a_refused_manifest_is_told_its_namespace_as_it_was_written(answers: ClusterAnswers) -> None:
    manifest = (
        b"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: telco}, spec: {containers: [{name: a, image: a}]}}"
    )
    with pytest.raises(Unanswerable) as refused:
        answers.answer(Question("what-if", manifest=manifest, visible=ONLY_ML))
    told = _without_names(refused.value, answers.names, ONLY_ML)
    assert (told.status, told.text) == (403, "you must not read namespace 'telco'")


def asking(name: str, amounts: Json, **spec: object) -> Json:
    resources = {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
    }


def gang_asking(name: str, gpus: int) -> Json:
    pod = asking(name, {GPU: str(gpus)}, tolerations=[{"key": GPU, "operator": "Exists"}])
    spec = {"size": 1, "topology": "network", "pod": {"spec": pod["spec"]}}
    return {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "manifest, slots, fits",
    [
        # Of each gang what is left after it; then of pods in no gang.
        ([gang_asking("a", 4), gang_asking("b", 8)], [[1, 2, 0], [0, 0, 0], None], "2 of 2 gangs fit"),
        ([gang_asking("a", 16)], [[0, 0, 0], None], "default/a does not fit"),
        ([asking("p", {"cpu": "4"})], [[0, 0, 4]], ""),
        ([asking("p", {"cpu": "4"}, tolerations=[{"key": GPU, "operator": "Exists"}])], [[4, 4, 4]], ""),
        ([asking("p", {"cpu": "4"}), asking("q", {"cpu": "8"})], [None], ""),
    ],
)
def test_a_what_if_has_the_slots_of_the_pods_that_it_is_about(
    manifest: list[Json], slots: list[list[int] | None], fits: str
) -> None:
    rack = "example.com/rack"
    nodes = [
        *(node(name, {"cpu": 16, GPU: 8}, labels={rack: "r1"}, taints=[GPU_TAINT]) for name in ("n1", "n2")),
        node("n3", {"cpu": 16}, labels={rack: "r2"}),
    ]
    levels = [Topology(Metadata(name="network"), TopologySpec([TopologyLevel(rack)]))]
    answers = ClusterAnswers(click.Context(click.Command("web")), Scene(ObjectSet(nodes=nodes, levels=levels), opened))
    written = "\n---\n".join(json.dumps(each) for each in manifest).encode()
    document = answers.answer(Question("what-if", manifest=written))
    assert [None if room is None else room["slots"] for room in document["rooms"]] == slots
    assert document["answer"].startswith(fits)


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


def deployment(name: str, replicas: int) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def pod_group(name: str, size: int) -> Json:
    spec = {"size": size, "pod": {"resources": {"cpu": "1"}}}
    return {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def volcano_job(name: str, replicas: int) -> Json:
    spec = {"minAvailable": 1, "tasks": [{"name": "w", "replicas": replicas, "template": TEMPLATE}]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "manifest, field",
    [
        pytest.param([pod_group("a", 15), pod_group("b", 15)], "PodGroup default/b (manifest): spec.size", id="gangs"),
        pytest.param(
            [deployment("a", 15), deployment("b", 15)], "Deployment default/b (manifest:3:76): spec", id="workloads"
        ),
        pytest.param(
            [deployment("a", 15), pod_group("a", 15)], "PodGroup default/a (manifest): spec.size", id="of both kinds"
        ),
        pytest.param(
            [volcano_job("a", 15), deployment("b", 15)], "Deployment default/b (manifest:3:76): spec", id="Volcano"
        ),
    ],
)
def test_a_what_if_counts_the_pods_of_all_its_objects_together(
    monkeypatch: pytest.MonkeyPatch, answers: ClusterAnswers, manifest: list[Json], field: str
) -> None:
    """A few lines can stand for a hundred thousand pods, and others wait for their answers."""
    monkeypatch.setattr("bayplan.cli.web_answers.answers.MOST_PODS", 20)
    text = b"\n---\n".join(json.dumps(each).encode() for each in manifest)
    with pytest.raises(Unanswerable) as refused:
        answers.answer(Question("what-if", manifest=text))
    told = f"{field}: stands for more than 20 pods together with other objects, the limit; use bayplan place instead"
    assert (refused.value.status, refused.value.text) == (400, told)
    answers.answer(Question("what-if", manifest=json.dumps(manifest[0]).encode()))


def test_files_are_a_dump_and_not_live(answers: ClusterAnswers) -> None:
    assert answers.standing is Standing.DUMP
