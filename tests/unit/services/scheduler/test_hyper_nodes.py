"""HyperNodes in watch events: a gang that asks for tiers waits until they form a tree; other pods do not."""

from __future__ import annotations

from typing import Any

from bayplan.cluster.topology.hyper_nodes import HYPER_NODES as TREE
from bayplan.dispatch.actions import Action, Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.watch import Absent
from bayplan.kube.resources import HYPER_NODES, NODES, PODS, VOLCANO_POD_GROUPS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup
from bayplan.scheduling.profile import default_profile
from bayplan.services.scheduler.intake import Intake
from tests.builders.gangs import group_object
from tests.builders.hyper_nodes import hyper_node, inside, pattern
from tests.builders.services import deleted, listed, watched_node, watched_pod

SWITCHES = (hyper_node("s0", 1, pattern("^n[01]$")), hyper_node("s1", 1, pattern("^n[23]$")))
SPINE = hyper_node("spine", 2, inside("s0"), inside("s1"))
SECOND_PARENT = hyper_node("zoo", 2, inside("s0"))


def cluster(*hyper_nodes: Any) -> tuple[Intake, Dispatcher]:
    """Four nodes of 4 CPUs; a gang of two that must share a tier 1, and a pod that stands alone."""
    dispatcher = Dispatcher({"bayplan": default_profile()})
    intake = Intake(dispatcher)
    intake.take(NODES, listed(*(watched_node(f"n{number}", cpus="4") for number in range(4))), 0)
    intake.take(HYPER_NODES, listed(*hyper_nodes), 0)
    asked = {"minMember": 2, "networkTopology": {"highestTierAllowed": 1}}
    intake.take(VOLCANO_POD_GROUPS, listed(group_object(PodGroup, asked, "train", uid="g")), 0)
    intake.take(PODS, listed(member("train-0", "train"), member("train-1", "train"), watched_pod("alone", cpus="3")), 0)
    return intake, dispatcher


def member(name: str, gang: str) -> Pod:
    return watched_pod(name, cpus="3", annotations={"scheduling.k8s.io/group-name": gang})


def decided(dispatcher: Dispatcher, now: float) -> list[Action]:
    found = []
    while (action := dispatcher.decide(now)) is not None:
        found.append(action)
    return found


def nodes_of(action: Action) -> set[str]:
    assert isinstance(action, Bind)
    return {each.node for each in action.assignments}


def test_the_gang_stays_at_one_switch() -> None:
    _, dispatcher = cluster(*SWITCHES, SPINE)
    gang = next(
        action for action in decided(dispatcher, 1) if isinstance(action, Bind) and len(action.assignments) == 2
    )
    assert nodes_of(gang) in ({"n0", "n1"}, {"n2", "n3"})


def test_while_they_are_no_tree_it_waits_with_that_sentence_and_others_go_on() -> None:
    intake, dispatcher = cluster(*SWITCHES, SPINE, SECOND_PARENT)
    refused, alone = sorted(decided(dispatcher, 1), key=lambda action: isinstance(action, Bind))
    assert isinstance(refused, Unschedulable)
    assert "HyperNode zoo: spec.members[0].selector.exactMatch.name" in refused.reason
    assert len(nodes_of(alone)) == 1
    intake.take(HYPER_NODES, deleted(SECOND_PARENT), 2)
    (gang,) = decided(dispatcher, 30)
    assert len(nodes_of(gang)) == 2


def test_without_the_kind_tiers_are_levels_of_a_topology() -> None:
    intake, dispatcher = cluster(*SWITCHES, SPINE)
    intake.take(HYPER_NODES, Absent(HYPER_NODES), 1)
    assert dispatcher.trees.get(TREE) is None
    refused = next(action for action in decided(dispatcher, 1) if isinstance(action, Unschedulable))
    assert refused.reason.endswith(
        "tiers are levels of a Topology; the cluster has no Topology whose levels they could be"
    )
