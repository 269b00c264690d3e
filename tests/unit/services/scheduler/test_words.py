"""The sentence about pods that wait."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.model import GangDecision
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeStatus, Pod
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.words import (
    MAX_BYTES,
    Sentences,
    gang_sentence,
)
from tests.helpers import simple_pod


def cluster_of(*cpus: int) -> Dispatcher:
    dispatcher = Dispatcher({"bayplan": default_profile()})
    for number, amount in enumerate(cpus):
        allocatable: dict[str, Any] = {"cpu": str(amount), "memory": "64Gi", "pods": "110"}
        node = Node(metadata=Metadata(name=f"n{number}"), status=NodeStatus(allocatable=allocatable))
        dispatcher.state.set_node(node)
    return dispatcher


def pod(cpus: str = "4", name: str = "a", **spec: Any) -> Pod:
    return simple_pod({"cpu": cpus, "memory": "1Gi"}, name, schedulerName="bayplan", **spec)


class TestSentences:
    def test_a_reason_that_is_known_in_words_is_said_as_it_is(self) -> None:
        assert (
            Sentences(cluster_of(8)).of(Unschedulable("ml/a", (pod(),), "waits for pods: 1 of 2"))
            == "waits for pods: 1 of 2"
        )

    def test_a_pod_without_room_is_told_what_is_missing_and_kube_schedulers_counts(self) -> None:
        text = Sentences(cluster_of(2, 2)).of(Unschedulable("ml/a", (pod("4"),)))
        assert "0/2 nodes are available" in text
        assert "2 Insufficient cpu" in text

    def test_room_that_appeared_meanwhile_is_no_contradiction(self) -> None:
        text = Sentences(cluster_of(8)).of(Unschedulable("ml/a", (pod("4"),)))
        assert text == "a place became free meanwhile; retrying"

    def test_a_pod_that_says_what_cannot_be_is_told_so(self) -> None:
        text = Sentences(cluster_of(8)).of(Unschedulable("ml/a", (pod("a lot"),)))
        assert "a lot" in text

    def test_equal_pods_are_explained_once_until_something_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        dispatcher = cluster_of(2)
        sentences = Sentences(dispatcher)
        first = sentences.of(Unschedulable("ml/a", (pod(name="a"),)))
        with monkeypatch.context() as patched:
            patched.setattr("bayplan.services.scheduler.words.schedule_one", _must_not_be_asked)
            assert sentences.of(Unschedulable("ml/b", (pod(name="b"),))) == first
        dispatcher.state.set_node(node_named("late", "2"))
        assert "0/2 nodes" in sentences.of(Unschedulable("ml/b", (pod(name="b"),)))

    @pytest.mark.parametrize("first, second", [("spread", "plain"), ("plain", "spread")])
    def test_pods_whose_neighbours_matter_are_each_a_case_of_their_own(self, first: str, second: str) -> None:
        """Equal in what they ask for: one may go nowhere because of the others, one has room."""
        dispatcher = cluster_of(8)
        spread = {
            "maxSkew": 1,
            "topologyKey": "example.com/rack",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        pods = {"spread": pod(topologySpreadConstraints=[spread]), "plain": pod(name="b")}
        sentences = Sentences(dispatcher)
        told = {kind: sentences.of(Unschedulable("ml/a", (pods[kind],))) for kind in (first, second)}
        assert "didn't match pod topology spread constraints" in told["spread"]
        assert told["plain"] == "a place became free meanwhile; retrying"

    def test_a_gang_is_told_what_its_answer_rests_on(self) -> None:
        decision = GangDecision("ml/train", Status.INFEASIBLE, "no rack has room for 8 pods")
        text = Sentences(cluster_of(2)).of(Unschedulable("gang ml/train", (pod(),), gang=decision))
        assert text == f"the gang has no place ({Status.INFEASIBLE.value}): no rack has room for 8 pods"

    def test_a_gang_in_the_style_of_another_system_is_told_whose(self) -> None:
        bound = "cannot be placed in style kueue: minimum cannot be expressed there; use style bayplan"
        decision = GangDecision("ml/train", Status.LIMIT_REACHED, bound, style="kueue")
        assert (
            Sentences(cluster_of(2)).of(Unschedulable("gang ml/train", (pod(),), gang=decision)) == f"the gang {bound}"
        )

    def test_a_gang_with_patience_left_is_told_what_it_waits_for(self) -> None:
        decision = GangDecision("ml/train", Status.FEASIBLE, "found", waits="waits for a place in one rack")
        text = Sentences(cluster_of(2)).of(Unschedulable("gang ml/train", (pod(),), gang=decision))
        assert text == "waits for a place in one rack"

    def test_no_sentence_is_longer_than_an_event_may_be_and_none_ends_in_half_a_letter(self) -> None:
        text = Sentences(cluster_of(2)).of(Unschedulable("ml/a", (pod(),), "ä" * MAX_BYTES))
        assert len(text.encode()) <= MAX_BYTES
        assert text.endswith("ä...")


def node_named(name: str, cpus: str) -> Node:
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpus, "memory": "64Gi", "pods": "110"}}}, Node
    )


def _must_not_be_asked(*arguments: object) -> Decision:
    raise AssertionError("the answer is known")


def test_what_nobody_looked_for_a_place_for_is_not_called_proven() -> None:
    cannot_judge = "pod ml/a asks for topology spread among the pods of its own gang"
    said = gang_sentence(GangDecision("ml/train", Status.INFEASIBLE, cannot_judge, problem=cannot_judge))
    assert said == f"the gang has no place: {cannot_judge}"
