"""Plans for gangs in domains that are wider than what is looked into at first."""

from __future__ import annotations

import pytest

from bayplan.cluster.state import ClusterState
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.preemption.domains import MOST_ROWS
from bayplan.gangs.preemption.plan import GangPreemption, plan_gang_preemption
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import EvictionRules, ObstacleKind, Protection
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.profile import default_profile
from tests.builders.objects import node, simple_pod

AMOUNTS = {"cpu": "4", "memory": "1Mi"}


def plan(nodes: int, *, open_from: int = 0) -> GangPreemption:
    """The plan for three pods of 4 CPUs on nodes of 4 CPUs with one pod each; pods of the first nodes must stay."""
    state = ClusterState()
    for number in range(nodes):
        state.set_node(node(f"n{number}", {"cpu": 4, "memory": "8Gi"}))
        state.set_pod(simple_pod(AMOUNTS, f"p{number}", nodeName=f"n{number}", priority=0))
    trees = Trees(state)
    trees.set("network", ())
    scheduler = GangScheduler(state, trees, default_profile(), ClassAnswers(state))
    pods = tuple(simple_pod(AMOUNTS, f"w{number}", priority=10) for number in range(3))

    def protection(pod: Pod) -> Protection | None:
        return Protection(ObstacleKind.PROTECTED) if int(pod.metadata.name.removeprefix("p")) < open_from else None

    rules = EvictionRules(protection=protection)
    found = plan_gang_preemption(scheduler, Gang("default/gang", Group(pods=pods), "network"), Freeable(state), rules)
    assert isinstance(found, GangPreemption), found
    return found


@pytest.mark.parametrize("nodes, proven", [(MOST_ROWS, True), (MOST_ROWS + 1, False)])
def test_a_plan_in_a_domain_that_was_looked_into_in_part_is_not_proven(nodes: int, proven: bool) -> None:
    found = plan(nodes)
    assert (len(found.victims), found.proven) == (3, proven)


def test_the_rest_of_a_wide_domain_is_looked_into_if_the_first_nodes_do_not_help() -> None:
    found = plan(MOST_ROWS + 3, open_from=MOST_ROWS)
    assert {each.key for each in found.victims} == {f"default/p{MOST_ROWS + number}" for number in range(3)}
