"""A cluster that is followed object by object looks like one that is read at once."""

from __future__ import annotations

from random import Random
from typing import Any

import click
import pytest

from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.web_answers.answers import ClusterAnswers
from bayplan.cli.web_answers.live_scene import LiveScene
from bayplan.cli.web_answers.scene import Scene
from bayplan.cluster.state import ClusterState
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.client.live import followed
from bayplan.kube.client.watch import Absent
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.meta_v1 import Change
from bayplan.scheduling.profile import default_profile
from bayplan.services.web.answers import Question
from tests.builders.objects import bound, cpu_zones, node, simple_pod, topology

CONTEXT = click.Context(click.Command("web"))
QUESTIONS = ("map", "nodes", "gangs", "waiting")
VOLATILE = ("version", "takenAt", "warnings")


def opened(objects: ObjectSet, *, owners: bool, state: ClusterState | None = None) -> ClusterSession:
    profile = default_profile()
    return ClusterSession(objects, None, {profile.name: profile}, owners=owners, state=state)


def report(name: str, free: int) -> Any:
    return topology(*cpu_zones(free, free), name=name)


class Followed:
    """A live scene and the objects that it should show."""

    def __init__(self) -> None:
        self.shown = 0
        self.scene = LiveScene(opened, self._show)
        self.kept: dict[Resource[Any], dict[str, Any]] = {NODES: {}, PODS: {}, NODE_RESOURCE_TOPOLOGIES: {}}
        for resource in followed():
            known = resource in self.kept
            self.scene.take(resource, Listed([], "1", []) if known else Absent(resource))
        self.scene.show()

    def _show(self) -> None:
        self.shown += 1

    def change(self, resource: Resource[Any], thing: Any, kind: Any = "MODIFIED") -> None:
        name = f"{thing.metadata.namespace}/{thing.metadata.name}"
        self.kept[resource].pop(name, None) if kind == "DELETED" else self.kept[resource].update({name: thing})
        self.scene.take(resource, Changes([Change(kind, thing)], []))

    def is_bound(self, pod: Pod) -> bool:
        """A pod that has a node keeps it until it is deleted."""
        known = self.kept[PODS].get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return known is not None and bool(known.spec.node_name)

    def answers(self) -> ClusterAnswers:
        self.scene.show()
        return ClusterAnswers(CONTEXT, self.scene)

    def read_at_once(self) -> ClusterAnswers:
        objects = ObjectSet(
            nodes=list(self.kept[NODES].values()),
            pods=list(self.kept[PODS].values()),
            topologies=list(self.kept[NODE_RESOURCE_TOPOLOGIES].values()),
        )
        return ClusterAnswers(CONTEXT, Scene(objects, opened))


def told(answers: ClusterAnswers, question: str) -> Any:
    document = answers.answer(Question(question))
    found = {key: value for key, value in document.items() if key not in VOLATILE}
    if question == "map":  # rows are in the order of arrival
        order = sorted(range(len(found["nodes"])), key=found["nodes"].__getitem__)
        columns = {**found["free"], **{f"{key} fragmented": value for key, value in found["fragmentation"].items()}}
        return {name: [column[at] for at in order] for name, column in columns.items()}
    return {**found, "items": sorted(found["items"], key=str)} if "items" in found else found


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_changes_ends_where_reading_everything_ends(seed: int) -> None:
    draw, cluster = Random(seed), Followed()
    names = [f"n{number}" for number in range(6)]
    for _ in range(60):
        name = draw.choice(names)
        pod: Pod = simple_pod({"cpu": draw.choice((1, 2))}, name=f"p{draw.randrange(8)}")
        match draw.randrange(6):
            case 0:
                cluster.change(NODES, node(name, {"cpu": 16, "pods": 10}))
            case 1:
                cluster.change(NODE_RESOURCE_TOPOLOGIES, report(name, draw.randrange(9)))
            case 2 if not cluster.is_bound(pod):
                cluster.change(PODS, bound(pod, to=name))
            case 3 if not cluster.is_bound(pod):
                cluster.change(PODS, pod)
            case 4:
                cluster.change(PODS, pod, "DELETED")
            case 5 if name == "n5":
                cluster.change(NODES, node(name, {"cpu": 16, "pods": 10}), "DELETED")
        if draw.random() < 0.2:
            cluster.answers().answer(Question("map"))

    for question in QUESTIONS:
        assert told(cluster.answers(), question) == told(cluster.read_at_once(), question), question


def test_a_map_asked_again_has_only_the_nodes_that_changed() -> None:
    cluster = Followed()
    for number in range(8):
        cluster.change(NODES, node(f"n{number}", {"cpu": 16, "pods": 10}))
        cluster.change(NODE_RESOURCE_TOPOLOGIES, report(f"n{number}", 8))
    whole = cluster.answers().answer(Question("map"))
    cluster.change(NODE_RESOURCE_TOPOLOGIES, report("n3", 4))

    changes = cluster.answers().answer(Question("map", (("since", whole["version"]),)))
    assert (changes["kind"], [whole["nodes"][at] for at in changes["at"]]) == ("ClusterMapChanges", ["n3"])
    assert changes["fragmentation"]["cpu"] != whole["fragmentation"]["cpu"][3:4]


def test_a_question_that_decides_leaves_the_cluster_as_it_was() -> None:
    cluster = Followed()
    cluster.change(NODES, node("n1", {"cpu": 16, "pods": 10}))
    cluster.change(PODS, simple_pod({"cpu": 2}, name="waits"))
    answers = cluster.answers()
    before = told(answers, "map")

    assert answers.answer(Question("waiting"))["kind"]
    assert told(answers, "map") == before
    assert cluster.scene.session.objects.others == []


def test_names_come_and_go_with_their_objects() -> None:
    cluster = Followed()
    cluster.change(NODES, node("n1", {"cpu": 16, "pods": 10}))
    secret = simple_pod({"cpu": 1}, name="secret", namespace="hidden")
    cluster.change(PODS, secret)
    assert cluster.answers().names.by_name["secret"] == {"hidden"}
    assert "hidden" in cluster.answers().names.namespaces

    cluster.change(PODS, secret, "DELETED")
    names = cluster.answers().names
    assert "secret" not in names.by_name
    assert "hidden" not in names.namespaces


def test_a_what_if_about_another_cluster_is_answered_as_for_a_dump() -> None:
    cluster = Followed()
    for name in ("n1", "n2"):
        cluster.change(NODES, node(name, {"cpu": 4, "pods": 10}))
    cluster.change(PODS, bound(simple_pod({"cpu": 3}, name="web"), to="n1"))
    manifest = (
        b"{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {containers: [{name: main, image: i, resources: "
    )
    manifest += b"{requests: {cpu: 3}}}]}}"
    places = {}
    for parameters in ((), (("withoutNode", "n2"),), (("addNodes", "1"), ("like", "n2"), ("withoutNode", "n2"))):
        question = Question("what-if", parameters, manifest)
        answer = cluster.answers().answer(question)
        assert {**answer, "warnings": []} == {**cluster.read_at_once().answer(question), "warnings": []}
        places[parameters] = answer["items"][0]["node"]
    assert list(places.values()) == ["n2", None, "n2-added-1"]
    assert [each["node"] for each in cluster.answers().answer(Question("nodes"))["items"]] == ["n1", "n2"]
