"""Small clusters that are full, written as data: nodes with zones, running pods with zones and priorities, budgets, and
a pod that fits nowhere.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.preemption.candidates import EvictionRules
from bayplan.scheduling.preemption.freeable import Freeable
from bayplan.scheduling.preemption.plan import NoPreemption, Preemption, plan_preemption
from bayplan.scheduling.profile import default_profile
from tests.builders.clusters import cluster, decide
from tests.builders.objects import GPU, node, simple_pod, topology, zone

Case = dict[str, Any]
CPU = "cpu"


def amounts_of(written: Case) -> dict[str, str]:
    """What a pod of a case asks for; a little memory makes it Guaranteed."""
    gpus = {GPU: str(written["gpu"])} if written["gpu"] else {}
    return {CPU: str(written["cpu"]), "memory": "1Mi", **gpus}


def state_of(case: Case, *, lists_pods: bool = True) -> ClusterState:
    """The cluster of a case; reports list the pods that run in their zones, or have amounts alone."""
    reports, nodes = [], []
    by_node: dict[str, list[Case]] = {}
    for pod in case["pods"]:
        by_node.setdefault(pod["node"], []).append(pod)
    for each in case["nodes"]:
        here = by_node.get(each["name"], [])
        zones, held = [], {}
        for number, total in enumerate(each["zones"]):
            used = {kind: sum(pod[kind] for pod in here if pod["zone"] == number) for kind in ("cpu", "gpu")}
            amounts = {CPU: ("cpu", total["cpu"]), GPU: ("gpu", total["gpu"])}
            zones.append(
                zone(number, {name: (all_, all_, all_ - used[kind]) for name, (kind, all_) in amounts.items()})
            )
        for pod in here:
            held[f"default/{pod['name']}"] = {CPU: {pod["zone"]: pod["cpu"] * 1000}, GPU: {pod["zone"]: pod["gpu"]}}
        reports.append(
            topology(
                *zones,
                name=each["name"],
                policy=each["policy"],
                scope=each.get("scope", "container"),
                attributes={"bayplan.io/pods": json.dumps(held)} if lists_pods else {},
            )
        )
        sums = {CPU: sum(z["cpu"] for z in each["zones"]), GPU: sum(z["gpu"] for z in each["zones"])}
        labels = {"example.com/rack": each["rack"]} if "rack" in each else {}
        nodes.append(node(each["name"], {**sums, "memory": "64Gi"}, labels=labels))
    pods = [
        simple_pod(
            amounts_of(each),
            each["name"],
            nodeName=each["node"],
            priority=each["priority"],
            labels={"pdb": each["pdb"]} if each["pdb"] else {},
            leaving=each.get("leaving", False),
        )
        for each in case["pods"]
    ]
    return cluster(*reports, nodes=nodes, pods=pods)


def rules_of(case: Case) -> EvictionRules:
    """The disruption budgets of a case."""
    budgets = DisruptionBudgets()
    for each in case["pdbs"]:
        written = {
            "metadata": {"name": each["name"], "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"pdb": each["name"]}}},
            "status": {"disruptionsAllowed": each["disruptionsAllowed"]},
        }
        budgets.set(msgspec.convert(written, PodDisruptionBudget))
    return EvictionRules(budgets)


def answer_of(case: Case) -> Preemption | NoPreemption | None:
    """The plan for the case's preemptor; None if it fits without one."""
    state = state_of(case)
    pod = simple_pod(amounts_of(case["preemptor"]), "preemptor", priority=case["preemptor"]["priority"])
    if decide(state, pod).placed:
        return None
    before = {
        name: column.copy()
        for name, column in vars(state.columns).items()
        if hasattr(column, "copy") and hasattr(column, "shape")
    }
    plan = plan_preemption(state, pod, default_profile(), ClassAnswers(state), Freeable(state), rules_of(case))
    changed = [name for name, column in before.items() if (vars(state.columns)[name] != column).any()]
    assert not changed, f"the dry run left traces in {changed}"
    return plan


def problem_of(case: Case) -> str | None:
    """Where the answer differs from what a case expects."""
    expected, answer = case["expected"], answer_of(case)
    if (answer is None) != (expected["feasible"] and not expected["preempts"]):
        return f"fits without preemption: {answer is None}"
    if answer is None:
        return None
    if isinstance(answer, NoPreemption):
        return None if not expected["feasible"] else f"no plan: {answer}"
    if not expected["feasible"]:
        return f"evicts in vain: {answer}"
    cost = list(answer.cost)
    return None if cost == expected["cost"] and answer.proven else f"costs {cost}, expected {expected['cost']}"
