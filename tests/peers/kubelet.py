"""Families of the kubelet: merges of hints, and whole nodes on which pods come, start and go.

A node is judged three times: by the exact replay (`engine/kubelet`), which is told the node's true state before each
pod; by the virtual kubelet (`simulate/kubelet`), which is told nothing but the steps; and through a report as bayplan's
agent writes it, which is what its scheduler sees. A virtual kubelet is never started again, so nodes whose kubelet is
are judged in the two other ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.conformance import test_kubelet, test_virtual_kubelet
from tests.conformance.conftest import Conformance
from tests.conformance.test_kubelet_as_seen import WITH_INVENTORY, verdicts
from tests.peers import kubelet_machines
from tests.peers.asking import Json
from tests.peers.family import Family, Finding
from tests.peers.kubelet_pods import steps

PODS = 9


def draw_node(random: Random, version: str) -> Json:
    """A node with its default feature gates."""
    return _node(random, version, pod_level=0.03, gates={})


def draw_pod_level(random: Random, version: str) -> Json:
    """A node whose managers serve pods with resources of their own."""
    return _node(random, version, pod_level=0.6, gates={"PodLevelResourceManagers": True})


def draw_restarts(random: Random, version: str) -> Json:
    """A node whose kubelet is started again now and then: it restores its checkpoints and admits its pods anew."""
    return _node(random, version, pod_level=0.03, gates={}, restarts=True)


def _node(random: Random, version: str, *, pod_level: float, gates: dict[str, bool], restarts: bool = False) -> Json:
    machine = kubelet_machines.machine(random)
    kubelet = kubelet_machines.configuration(random, machine)
    if gates:
        kubelet["feature_gates"] = gates
    found = steps(random, machine, kubelet, PODS, pod_level=pod_level, restarts=restarts)
    return {"version": version, "machine": machine, "kubelet": kubelet, "steps": found}


def draw_merge(random: Random, version: str) -> Json:
    """Hints of up to three providers, sensible and not."""
    number = random.choice((1, 2, 2, 3, 4, 4, 5, 8))
    zones = list(range(number)) if random.random() < 0.8 else sorted(random.sample(range(3 * number), number))
    case: Json = {
        "version": version,
        "numa": zones,
        "policy": random.choice(("none", "best-effort", "restricted", "single-numa-node")),
    }
    if zones == list(range(number)) and random.random() < 0.4:
        case["closest"] = True
        case["dist"] = [[10 if row == column else random.randint(11, 40) for column in zones] for row in zones]
    case["prov"] = [_provider(random, zones) for _ in range(random.choice((1, 2, 3, 3)))]
    return case


def _provider(random: Random, zones: list[int]) -> Json | None:
    if random.random() < 0.1:
        return random.choice((None, {}))
    return {f"r{index}": _hints(random, zones) for index in range(random.choice((1, 1, 2)))}


def _hints(random: Random, zones: list[int]) -> list[list[int | None]] | None:
    kind = random.random()
    if kind < 0.08:
        return None
    if kind < 0.14:
        return []
    hints: list[list[int | None]] = []
    for _ in range(random.choice((1, 2, 3, 6, 12))):
        mask = sum(1 << zone for zone in random.sample(zones, random.randint(1, len(zones))))
        hints.append([None if random.random() < 0.03 else mask, int(random.random() < 0.5)])
    return hints


# -- judging ----------------------------------------------------------------------------------------------------------


def replay_problem(case: Json) -> str | None:
    """Every pod, with the node's true state known."""
    return test_kubelet.sequence_problem(_admitted_only(case), Conformance("", [], {}))


def virtual_problem(case: Json) -> str | None:
    """Every step, with nothing known but the steps before."""
    return test_virtual_kubelet.sequence_problem(_admitted_only(case))


def seen_problem(case: Json) -> str | None:
    """No pod is sent to a kubelet that refuses it."""
    return seen_finding(case).problem


def seen_finding(case: Json) -> Finding:
    """Pods that are sent to a kubelet that refuses them are a problem; refusals of what it would admit are counted."""
    pairs = verdicts(_admitted_only(case), WITH_INVENTORY)
    wrong = [index for index, (ours, theirs) in enumerate(pairs) if ours and not theirs]
    problem = f"accepted, and refused by the kubelet: admissions {wrong}" if wrong else None
    return Finding(problem, sum(theirs and not ours for ours, theirs in pairs))


def _admitted_only(case: Json) -> Json:
    """Without steps about pods that are not on the node."""
    on_node: set[str] = set()
    kept = []
    for step in case["steps"]:
        if step["op"] == "admit":
            if step["out"]["admit"]:
                on_node.add(step["pod"]["name"])
        elif "name" in step:
            if step["name"] not in on_node:
                continue
            if step["op"] == "remove":
                on_node.discard(step["name"])
        elif step["op"] == "restart":
            on_node -= set(step["out"]["refused"])
        kept.append(step)
    return {**case, "steps": kept}


def admissions(case: Json) -> int:
    """How many pods a case has."""
    return sum(step["op"] == "admit" for step in case["steps"])


def _merge_problem(case: Json) -> str | None:
    return test_kubelet.merge_problem(case) or test_virtual_kubelet.merge_problem(case)


def _all_problems(case: Json) -> str | None:
    replayed = replay_problem(case)
    if replayed is not None:
        return f"replay: {replayed}"
    if any(step["op"] == "restart" for step in case["steps"]):
        return None  # what managers make of their checkpoints only a report tells
    virtual = virtual_problem(case)
    return None if virtual is None else f"virtual kubelet: {virtual}"


def _of_nodes(name: str, draw: Callable[[Random, str], Json], since: tuple[int, ...] = ()) -> tuple[Family, Family]:
    """Nodes judged with full knowledge, and the same nodes as a scheduler sees them."""
    exact = Family("kubelet", name, "node", draw, _all_problems, size=admissions, unit="admissions", since=since)
    seen = replace(exact, name=f"{name}-as-seen", problem=seen_problem, finding=seen_finding, same_cases_as=name)
    return exact, seen


FAMILIES = (
    Family("kubelet", "merge", "merge", draw_merge, _merge_problem),
    *_of_nodes("node", draw_node),
    *_of_nodes("restart", draw_restarts),
    *_of_nodes("pod-level", draw_pod_level, since=(1, 36)),
)
