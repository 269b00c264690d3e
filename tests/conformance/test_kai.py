"""KAI-Scheduler as recorded: sub-group trees, node sets of its topology plugin, and whole runs, node by node.

Two placements answer for the runs: the style `kai`, which has to give the very same nodes, and bayplan's own search,
which has to place the same jobs and keep them at least as close together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bayplan.compat.kai.scheduler.model import Node, Topology
from bayplan.compat.kai.scheduler.rounds import Action, RoundResult, run_round
from bayplan.compat.kai.scheduler.subset_nodes import Asker, subset_nodes
from bayplan.compat.kai.scheduler.tree import ROOT, Domain, TopologyTree
from bayplan.kube.wire.kai_scheduling_v2alpha2 import (
    PodGroupSpec,
    SubGroup,
    SubGroupSet,
    sub_group_tree,
)
from tests.builders.kai_webhook import sub_groups_problem
from tests.conformance.kai_cases import (
    RecordedRun,
    domain_problem,
    job_of,
    node_of,
    placement_problem,
    recorded_run,
    recorded_scenario,
    scenario_problem,
    sub_group_set,
)
from tests.conformance.own_search import placed_by_bayplan

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

RUNS = ("kai/action_allocate_topology", "kai/integration_allocate_topology", "kai/consolidation_topology")


# -- the style kai ----------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files(*RUNS, label="style kai")
def test_places_every_task_on_the_same_node(conformance: Conformance) -> None:
    conformance.check_each(run_problem)


def run_problem(case: Case) -> str | None:
    run = recorded_run(case)
    if not run.in_rounds:
        outcome = run_round(run.cluster, [Action(name) for name in run.actions])
        return placement_problem(run, outcome.statuses, outcome.nodes)
    cluster = run.cluster
    for number in range(run.rounds + run.rounds_after):
        outcome = run_round(cluster)
        cluster = outcome.next_cluster
        if number + 1 >= run.rounds:
            tasks = [task for job in cluster.jobs for task in job.tasks]
            statuses = {task.name: task.status for task in tasks}
            nodes = {task.name: task.node for task in tasks}
            problem = placement_problem(run, statuses, nodes) or refusal_problem(run, outcome)
            if problem:
                return f"after round {number + 1}: {problem}"
    return None


def refusal_problem(run: RecordedRun, outcome: RoundResult) -> str | None:
    for name, recorded in run.jobs.items():
        message = recorded.get("errorMessage", "")
        if message and not any(why in message for why in outcome.refused.get(name, ())):
            return f"{name}: refused for {outcome.refused.get(name)}, recorded {message!r}"
    return None


@pytest.mark.fixture_files("kai/scenarios", label="style kai")
def test_end_to_end_scenarios(conformance: Conformance) -> None:
    conformance.check_each(kai_scenario_problem)


def kai_scenario_problem(case: Case) -> str | None:
    cluster = recorded_scenario(case)
    return scenario_problem(case, cluster, run_round(cluster).nodes)


# -- bayplan's own search ---------------------------------------------------------------------------------------------


@pytest.mark.fixture_files(*RUNS, label="bayplan")
def test_own_search_keeps_jobs_as_close_together(conformance: Conformance) -> None:
    conformance.check_each(own_search_problem)


def own_search_problem(case: Case) -> str | None:
    run = recorded_run(case)
    return domain_problem(run, placed_by_bayplan(run.cluster, may_move="consolidation" in run.actions))


@pytest.mark.fixture_files("kai/scenarios", label="bayplan")
def test_own_search_in_end_to_end_scenarios(conformance: Conformance) -> None:
    conformance.check_each(own_scenario_problem)


def own_scenario_problem(case: Case) -> str | None:
    cluster = recorded_scenario(case)
    return scenario_problem(case, cluster, placed_by_bayplan(cluster, may_move=False))


# -- sub-groups -------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("kai/subgroup_tree")
def test_builds_the_tree_of_sub_groups(conformance: Conformance) -> None:
    conformance.check_each(tree_problem)


def tree_problem(case: Case) -> str | None:
    got = sub_group_tree(msgspec.convert(case["podGroupSpec"], PodGroupSpec))
    expected = case["expected"]
    if "errorContains" in expected:
        return None if isinstance(got, str) and expected["errorContains"] in got else f"got {got}"
    recorded = unordered(sub_group_set(expected["root"]))
    return None if isinstance(got, SubGroupSet) and unordered(got) == recorded else f"got {got}, recorded {recorded}"


def unordered(tree: SubGroupSet) -> tuple[Any, ...]:
    return tree.name, tree.constraint, frozenset(map(unordered, tree.sub_groups)), frozenset(tree.pod_sets)


@pytest.mark.fixture_files("kai/subgroup_validation")
def test_turns_down_sub_groups_like_the_webhook(conformance: Conformance) -> None:
    conformance.check_each(validation_problem)


def validation_problem(case: Case) -> str | None:
    got = sub_groups_problem(msgspec.convert(case["subGroups"] or [], list[SubGroup]))
    expected = case["expected"].get("error")
    return None if got == expected else f"got {got!r}, recorded {expected!r}"


# -- node sets --------------------------------------------------------------------------------------------------------


@pytest.mark.fixture_files("kai/plugin_subset_nodes")
def test_tries_the_same_node_set_first(conformance: Conformance) -> None:
    conformance.check_each(subset_problem)


def subset_problem(case: Case) -> str | None:
    nodes = tuple(node_of(node) for node in case["nodes"])
    job = job_of(case["job"], nodes)
    active_on = frozenset(task.node for task in job.tasks if task.node)
    asker = Asker(job.namespace, job.name, job.tree.name, job.tree.constraint, active_on)
    free = {node.name: node.idle for node in nodes}
    waiting = [task for task in job.tasks if not task.node]
    got = subset_nodes(asker, waiting, nodes, hand_built_trees(case, nodes), free.__getitem__)
    expected = case["expected"]
    first = sorted(node.name for node in got.sets[0]) if got.sets else None
    problem = got.problems[0] if got.problems else None
    recorded = expected.get("error") or expected.get("jobFitErrorFirstMessage")
    if not expected:
        # An early return: all nodes are tried, and there is nothing to tell.
        expected = {"firstNodeSubset": sorted(free)}
    if first == expected.get("firstNodeSubset") and problem == recorded:
        return None
    return f"got {first} {problem}, recorded {expected}"


def hand_built_trees(case: Case, nodes: tuple[Node, ...]) -> dict[str, TopologyTree]:
    """Domains as written down in the case, where the root may be another name of the only zone.

    A node belongs to the domain that the case gives it, and to all above that one.
    """
    recorded = case["topologyTree"]
    if recorded is None or "domainsByLevel" not in recorded:
        return {}
    known: dict[tuple[str, str], Domain] = {}

    def domain_of(written: dict[str, Any]) -> Domain:
        domain = known.setdefault((written["level"], written["id"]), Domain(written["id"], written["level"]))
        domain.children |= {child["id"]: domain_of(child) for child in written.get("children") or ()}
        return domain

    domains: dict[str, dict[str, Domain]] = {ROOT: {}, **{level: {} for level in recorded["levels"]}}
    for level, by_id in recorded["domainsByLevel"].items():
        for key, written in by_id.items():
            here, named = (ROOT, ROOT) if level == "root" else (level, key)
            domains[here][named] = domain_of(written)
    for node in nodes:
        home: str | None = case["nodesToDomains"].get(node.name)
        while home is not None:
            for (_, name), domain in known.items():
                if name == home:
                    domain.nodes[node.name] = node
            home = (case["domainParent"] or {}).get(home)
    topology = Topology(recorded["name"], tuple(recorded["levels"]))
    return {topology.name: TopologyTree(topology, domains)}
