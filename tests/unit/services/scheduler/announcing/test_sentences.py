"""The sentence about pods that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.dispatch.actions import AnyPreemption, Bind, Stage, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.units import GangUnit, PodUnit
from bayplan.engine.gangs.problem import Status
from bayplan.engine.preemption.victims import Candidate
from bayplan.gangs.model import GangDecision
from bayplan.gangs.preemption.plan import GangPreemption
from bayplan.kube.wire.core_v1 import Metadata, Node, NodeStatus
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.announcing.sentences import (
    MAX_BYTES,
    Sentences,
    gang_sentence,
    preemption_sentence,
)
from tests.builders.services import numa_pod
from tests.builders.units import RACK, dispatcher, pod, pod_group

ALLOCATABLE = {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}


def cluster_of(*cpus: int) -> Dispatcher:
    dispatcher = Dispatcher({"bayplan": default_profile()})
    for number, amount in enumerate(cpus):
        allocatable: dict[str, Any] = {"cpu": str(amount), "memory": "64Gi", "pods": "110"}
        node = Node(metadata=Metadata(name=f"n{number}"), status=NodeStatus(allocatable=allocatable))
        dispatcher.state.set_node(node)
    return dispatcher


FEW: dict[str, Any] = {"cpu": "2", "memory": "64Gi", "pods": "110"}
WEB = Candidate("ml/web", 0, {})
PLAN = Preemption("ml/db", "n1", (WEB,), (0, 0, 0, 1))
GUARDED = Preemption("ml/db", "n1", (replace(WEB, pdbs=("ml/keep",)),), (1, 0, 0, 1))


@pytest.mark.parametrize(
    "plan, stage, said",
    [
        (None, Stage.PLANNED, ""),
        (NoPreemption("not eligible"), Stage.PLANNED, "preemption: not eligible"),
        (PLAN, Stage.PLANNED, "preemption (dry run): evicting ml/web (priority 0) would make room on n1"),
        (PLAN, Stage.CARRY_OUT, "preemption: nominated to n1, waits for ml/web (priority 0) to leave"),
        (
            GUARDED,
            Stage.PLANNED,
            "preemption: ml/web (priority 0) on n1 would have to go, but ml/keep forbids that",
        ),
        (
            GangPreemption("ml/g", (("ml/g-0", "n1"), ("ml/g-1", "n2")), (), (0, 0, 0, 0)),
            Stage.UNDER_WAY,
            "preemption: nominated to n1 and n2, waits for pods to leave",
        ),
    ],
    ids=["off", "no plan", "dry run", "carried out", "forbidden by a budget", "gang"],
)
def test_what_preemption_does_is_one_sentence(plan: AnyPreemption | None, stage: Stage, said: str) -> None:
    assert preemption_sentence(Unschedulable(PodUnit("ml/db"), (), preemption=plan, stage=stage)) == said


class TestSentences:
    def test_what_preemption_does_is_never_cut_off(self) -> None:
        refusal = Unschedulable(PodUnit("ml/a"), (numa_pod("4"),), preemption=PLAN, stage=Stage.CARRY_OUT)
        text = Sentences(cluster_of(*[2] * 3)).of(refusal)
        assert text.endswith(". preemption: nominated to n1, waits for ml/web (priority 0) to leave")
        assert "0/3 nodes are available" in text

    def test_a_given_reason_is_used_as_it_is(self) -> None:
        assert (
            Sentences(cluster_of(8)).of(Unschedulable(PodUnit("ml/a"), (numa_pod(),), "waits for pods: 1 of 2"))
            == "waits for pods: 1 of 2"
        )

    def test_a_pod_without_room_gets_the_reason_and_kube_schedulers_counts(self) -> None:
        text = Sentences(cluster_of(2, 2)).of(Unschedulable(PodUnit("ml/a"), (numa_pod("4"),)))
        assert "0/2 nodes are available" in text
        assert "2 Insufficient cpu" in text

    def test_who_keeps_the_room_that_a_pod_could_use_is_named(self) -> None:
        scheduler = dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"}, cpus=8)
        scheduler.set_group(pod_group(4, minimum=1, required=RACK), 0)
        scheduler.set_pod(pod("train-0", 4, gang="train"), 0)
        assert isinstance(scheduler.decide(0), Bind)
        said = "room on n2 is kept for ml/train: 3 members to come, until 00:05:00 UTC"
        assert f"; {said}. 0/2 nodes" in Sentences(scheduler).of(Unschedulable(PodUnit("ml/a"), (pod("a", 8),)))
        # Without the room that is kept, a pod of nine CPUs would find no place either.
        assert "kept" not in Sentences(scheduler).of(Unschedulable(PodUnit("ml/a"), (pod("a", 9),)))
        no_place = GangDecision("ml/b", Status.INFEASIBLE, "needs 2 slots")
        gang = Unschedulable(GangUnit("ml/b"), (pod("b", 8),), gang=no_place)
        assert (
            Sentences(scheduler).of(gang)
            == f"the gang has no place (infeasible): needs 2 slots; {said}; no node has enough cpu free"
        )

    def test_a_place_that_became_free_is_reported(self) -> None:
        text = Sentences(cluster_of(8)).of(Unschedulable(PodUnit("ml/a"), (numa_pod("4"),)))
        assert text == "a place became free meanwhile; retrying"

    def test_an_invalid_pod_gets_its_problem(self) -> None:
        text = Sentences(cluster_of(8)).of(Unschedulable(PodUnit("ml/a"), (numa_pod("a lot"),)))
        assert "a lot" in text

    def test_equal_pods_are_explained_once_until_something_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        dispatcher = cluster_of(2)
        sentences = Sentences(dispatcher)
        first = sentences.of(Unschedulable(PodUnit("ml/a"), (numa_pod(name="a"),)))
        with monkeypatch.context() as patched:
            patched.setattr("bayplan.services.scheduler.announcing.sentences.schedule_one", _must_not_be_asked)
            assert sentences.of(Unschedulable(PodUnit("ml/b"), (numa_pod(name="b"),))) == first
        dispatcher.state.set_node(node_named("late", "2"))
        assert "0/2 nodes" in sentences.of(Unschedulable(PodUnit("ml/b"), (numa_pod(name="b"),)))

    @pytest.mark.parametrize("first, second", [("spread", "plain"), ("plain", "spread")])
    def test_texts_about_pods_with_affinity_are_not_shared(self, first: str, second: str) -> None:
        """Equal in what they ask for: one may go nowhere because of the others, one has room."""
        dispatcher = cluster_of(8)
        spread = {
            "maxSkew": 1,
            "topologyKey": "example.com/rack",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        pods = {"spread": numa_pod(topologySpreadConstraints=[spread]), "plain": numa_pod(name="b")}
        sentences = Sentences(dispatcher)
        told = {kind: sentences.of(Unschedulable(PodUnit("ml/a"), (pods[kind],))) for kind in (first, second)}
        assert "didn't match pod topology spread constraints" in told["spread"]
        assert told["plain"] == "a place became free meanwhile; retrying"

    def test_a_gang_gets_the_basis_of_its_answer(self) -> None:
        decision = GangDecision("ml/train", Status.INFEASIBLE, "no rack has room for 8 pods")
        text = Sentences(cluster_of(8)).of(Unschedulable(GangUnit("ml/train"), (numa_pod("4"),), gang=decision))
        assert text == f"the gang has no place ({Status.INFEASIBLE.value}): no rack has room for 8 pods"

    def test_a_gang_of_which_not_even_one_pod_fits_is_told_why(self) -> None:
        decision = GangDecision("ml/train", Status.INFEASIBLE, "the gang needs 8 slots, but can get none")
        text = Sentences(cluster_of(2)).of(Unschedulable(GangUnit("ml/train"), (numa_pod("4"),), gang=decision))
        assert text.endswith("but can get none; no node has cpu 4: the largest has 2")

    def test_a_gang_is_told_which_nodes_taints_and_selectors_close_to_it(self) -> None:
        dispatcher = cluster_of(8, 8, 8)
        taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
        for name in ("n0", "n1"):
            tainted = {"metadata": {"name": name}, "spec": {"taints": [taint]}, "status": ALLOCATABLE}
            dispatcher.state.set_node(msgspec.convert(tainted, Node))
        decision = GangDecision("ml/train", Status.INFEASIBLE, "the gang needs 8 slots, but can get at most 4")
        text = Sentences(dispatcher).of(Unschedulable(GangUnit("ml/train"), (numa_pod("2"),), gang=decision))
        assert text.endswith(
            "but can get at most 4; 2 of 3 nodes are closed to its pods: 2 node(s) had untolerated taint(s) "
            "(dedicated=db:NoSchedule)"
        )

    @pytest.mark.parametrize(
        "node, told",
        [
            ("n1", "node n1, the only one that its node affinity allows, refuses it: Insufficient cpu. "),
            ("n7", "node n7, the only one that its node affinity allows, does not exist. "),
        ],
    )
    def test_a_pod_of_a_daemon_set_is_told_about_its_own_node(self, node: str, told: str) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        text = Sentences(cluster_of(8, 2, 8)).of(
            Unschedulable(PodUnit("ml/a"), (numa_pod("4", affinity={"nodeAffinity": required}),))
        )
        assert text.startswith(told)

    def test_a_pod_that_is_pinned_to_a_host_is_told_about_that_one(self) -> None:
        pinned = numa_pod("4", nodeSelector={"kubernetes.io/hostname": "n1.example.com"})
        dispatcher = cluster_of(8, 2, 8)
        labels = {"kubernetes.io/hostname": "n1.example.com"}
        dispatcher.state.set_node(Node(metadata=Metadata(name="n1", labels=labels), status=NodeStatus(allocatable=FEW)))
        text = Sentences(dispatcher).of(Unschedulable(PodUnit("ml/a"), (pinned,)))
        assert text.startswith("node n1, the only one that its node selector allows, refuses it: Insufficient cpu")

    def test_a_gang_in_another_systems_style_names_the_system(self) -> None:
        bound = "cannot be placed in style kueue: minimum cannot be expressed there; use style bayplan"
        decision = GangDecision("ml/train", Status.LIMIT_REACHED, bound, style="kueue")
        assert (
            Sentences(cluster_of(2)).of(Unschedulable(GangUnit("ml/train"), (numa_pod(),), gang=decision))
            == f"the gang {bound}"
        )

    def test_a_gang_with_patience_left_names_what_it_waits_for(self) -> None:
        decision = GangDecision("ml/train", Status.FEASIBLE, "found", waits="waits for a place in one rack")
        text = Sentences(cluster_of(2)).of(Unschedulable(GangUnit("ml/train"), (numa_pod(),), gang=decision))
        assert text == "waits for a place in one rack"

    def test_no_sentence_is_longer_than_an_event_may_be_and_none_ends_in_half_a_letter(self) -> None:
        text = Sentences(cluster_of(2)).of(Unschedulable(PodUnit("ml/a"), (numa_pod(),), "ä" * MAX_BYTES))
        assert len(text.encode()) <= MAX_BYTES
        assert text.endswith("ä...")


def node_named(name: str, cpus: str) -> Node:
    return msgspec.convert(
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpus, "memory": "64Gi", "pods": "110"}}}, Node
    )


def _must_not_be_asked(*arguments: object) -> Decision:
    raise AssertionError("the answer is known")


def test_a_gang_without_an_attempt_is_not_called_infeasible() -> None:
    cannot_judge = "pod ml/a asks for topology spread among the pods of its own gang"
    said = gang_sentence(GangDecision("ml/train", Status.INFEASIBLE, cannot_judge, problem=cannot_judge))
    assert said == f"the gang has no place: {cannot_judge}"
