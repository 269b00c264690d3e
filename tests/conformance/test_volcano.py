"""Volcano's NUMA-aware scheduling as recorded: hints, policies, the CPU picker, the gate, the books and the score.

Each check rebuilds what was recorded, asks `compat/volcano/numa` (what `compatibility: volcano` answers with) and
compares everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bayplan.cluster.reports.inventory import cpu_set
from bayplan.compat.volcano.numa.machine import CpuPlace, Machine
from bayplan.compat.volcano.numa.predicate import (
    ContainerResult,
    GateResult,
    NodeCpus,
    NodePolicies,
    allocate,
    cpu_hints,
    evaluate,
    gate,
    judge,
    numa_nodes_needed,
    whole_cpus,
)
from bayplan.engine.kubelet.masks import mask_of, zones_in
from bayplan.engine.kubelet.merge import Hint
from bayplan.engine.numa.least_numa import relative_width_scores
from bayplan.kube.quantity import parse
from bayplan.kube.volcano_annotations import (
    DECISION,
    decision_annotations,
    policy_annotations,
    policy_in,
)
from tests.builders.volcano_decisions import decision_in
from tests.conformance.volcano_accounting import (
    NodeBooks,
    PodId,
    Sets,
    allocated,
    clear_unassigned,
    is_listed,
    note_unassigned,
    released,
)

if TYPE_CHECKING:
    from tests.conformance.conftest import Case, Conformance

Json = dict[str, Any]


@pytest.mark.fixture_files("volcano/policy_merge", chunks=1)
def test_merge(conformance: Conformance) -> None:
    conformance.check_each(merge_problem)


def merge_problem(case: Case) -> str | None:
    asked = case["inputs"]
    providers = [
        {name: None if hints is None else [hint_of(each) for each in hints] for name, hints in (provider or {}).items()}
        for provider in asked["provider_hints"]
    ]
    merged, admitted = judge(asked["policy"], asked["numa_nodes"], providers)
    extra = case.get("expected_extra") or {}
    return differs((written(merged), admitted), (case["expected"], extra.get("admit", admitted)))


@pytest.mark.fixture_files("volcano/cpu_hints", chunks=1)
def test_cpu_hints(conformance: Conformance) -> None:
    conformance.check_each(cpu_hints_problem)


def cpu_hints_problem(case: Case) -> str | None:
    asked = case["inputs"]
    hints = cpu_hints(node_of(asked, asked["cpu_detail"]), frozenset(asked["allocatable_cpus"]), count_of(asked))
    found = None if hints is None else {"cpu": [written(each) for each in hints]}
    return differs(found, case["expected"]["hints"])


@pytest.mark.fixture_files("volcano/cpu_allocate", chunks=1)
def test_cpu_allocate(conformance: Conformance) -> None:
    conformance.check_each(cpu_allocate_problem)


def cpu_allocate_problem(case: Case) -> str | None:
    asked = case["inputs"]
    node = node_of(asked, asked["cpu_detail"])
    cpus = allocate(node, frozenset(asked["allocatable_cpus"]), count_of(asked), hint_of(asked["best_hint"]))
    return differs(sorted(cpus), case["expected"]["cpus"])


@pytest.mark.fixture_files("volcano/pipeline_derived", chunks=1)
def test_whole_predicate(conformance: Conformance) -> None:
    machines = conformance.document["machines"]
    conformance.check_each(lambda case: predicate_problem(case, machines))


def predicate_problem(case: Case, machines: Json) -> str | None:
    asked = case["inputs"]
    node = node_of(asked, machines[asked["machine"]])
    requests = [None if text is None else parse(text).milli() for text in asked["container_cpu_requests"]]
    result = evaluate(node, asked["node_policy"], frozenset(asked["allocatable_cpus"]), requests)
    found: Json = {
        "admit": result.admitted,
        "containers": [container_in_words(index, each) for index, each in enumerate(result.containers)],
    }
    if result.admitted:
        found["assigned_cpus"] = sorted(result.cpus)
        found["numa_nodes_needed"] = numa_nodes_needed(node.machine, result.cpus)
    return differs(found, case["expected"])


def container_in_words(index: int, result: ContainerResult) -> Json:
    found: Json = {
        "name": f"c{index}",
        "hints": None if result.hints is None else [written(each) for each in result.hints],
        "best_hint": written(result.best),
        "admit": result.admitted,
    }
    return {**found, "cpus": sorted(result.cpus)} if result.admitted else found


@pytest.mark.fixture_files("volcano/policy_gate_derived", chunks=1)
def test_gate(conformance: Conformance) -> None:
    conformance.check_each(gate_problem)


def gate_problem(case: Case) -> str | None:
    asked, node = case["inputs"], case["inputs"]["node"]
    policies = NodePolicies(node["CPUManagerPolicy"], node["TopologyManagerPolicy"]) if node["numa_info"] else None
    free = frozenset({0}) if node["allocatable_cpus_nonempty"] else frozenset()
    guaranteed = asked["pod_qos"] == "Guaranteed"
    task_policy = asked["task_policy"] or ""
    outcome, rejection = gate(task_policy, policies, free, guaranteed=guaranteed)
    found = {
        "outcome": outcome.value,
        "reason": rejection and rejection.words(task_policy, node["TopologyManagerPolicy"]),
        "policy_evaluated": policies.topology_manager if policies and outcome is GateResult.EVALUATE else None,
    }
    return differs(found, {key: case["expected"][key] for key in found})


@pytest.mark.fixture_files("volcano/score_derived", chunks=1)
def test_score(conformance: Conformance) -> None:
    conformance.check_each(score_problem)


def score_problem(case: Case) -> str | None:
    asked, expected = case["inputs"], case["expected"]
    needed, given = asked["numa_nodes_needed"], asked["arguments"].get("weight")
    # Volcano ignores a weight that is not an integer.
    weight = given if type(given) is int else 1
    scores = relative_width_scores(np.array(list(needed.values()), dtype=np.int64), weight) if needed else ()
    found = dict(zip(needed, map(int, scores), strict=True))
    best = sorted(node for node, score in found.items() if score == max(found.values()))
    return differs((found, best), (expected["code_score"], sorted(expected["best_by_code"])))


@pytest.mark.fixture_files("volcano/res_sets_derived", chunks=1)
def test_sets(conformance: Conformance) -> None:
    conformance.check_each(sets_problem)


def sets_problem(case: Case) -> str | None:
    sets = sets_of(case["inputs"]["node_sets"])
    for step in case["inputs"]["ops"]:
        for verb, taken in step.items():
            change = {"allocate": allocated, "release": released}[verb]
            sets = change(sets, sets_of(taken))
    return differs({name: sorted(ids) for name, ids in sets.items()}, case["expected"]["node_sets"])


@pytest.mark.fixture_files("volcano/numa_state", chunks=1)
def test_books_of_a_node(conformance: Conformance) -> None:
    conformance.check_each(books_problem)


def books_problem(case: Case) -> str | None:
    asked, expected = case["inputs"], case["expected"]
    match asked["op"]:
        case "refresh":
            books = books_of(asked)
            view = books.refresh()
            if view is None:
                return None if not expected.get("scheduler_allocatable_cpu") else f"found no view, expected {expected}"
            left = [pod._asdict() for pod in books.unassigned]
            free = sorted(view["cpu"])
            return differs((free, left), (expected["scheduler_allocatable_cpu"], expected["unassigned"]))
        case "check_pod_assigned":
            listed = listed_in(asked.get("pod_allocations"))
            return differs(is_listed(PodId(**asked["pod"]), listed), expected["assigned"])
        case "pod_meta_text_round_trip":
            pod = PodId(**asked["pod"])
            found = {"json": pod._asdict(), "round_trip": PodId.of_text(pod.text()) == pod}
            return differs(found, expected)
        case round_trip if "round_trip" in round_trip:
            written = asked["pods"] if "pods" in asked else [each["pod"] for each in asked["map"]]
            pods = [PodId(**each) for each in written]
            return differs([PodId.of_text(pod.text()) for pod in pods], pods)
        case copying if "clone" in copying or "copy" in copying:
            return None if _copy_is_kept_apart(books_of(asked)) else "a copy changes with its original"
    return f"no test answers for op {asked['op']}"


def _copy_is_kept_apart(books: NodeBooks) -> bool:
    """`clone` and its likes: the copy says the same, and a change of one is none of the other."""
    copy = books.copy()
    same = (copy.free, tuple(copy.listed), copy.unassigned) == (books.free, tuple(books.listed), books.unassigned)
    copy.unassigned[PodId("uid-new", "new", "ns")] = {"cpu": frozenset({9})}
    copy.free = {}
    return same and PodId("uid-new", "new", "ns") not in books.unassigned and books.free != {}


@pytest.mark.fixture_files("volcano/unassigned_pods", chunks=1)
def test_books_of_all_nodes(conformance: Conformance) -> None:
    conformance.check_each(unassigned_problem)


def unassigned_problem(case: Case) -> str | None:
    asked, expected = case["inputs"], case["expected"]
    if asked["op"] == "add":
        nodes = {name: NodeBooks() for name in asked["nodes"]}
        for call in asked["calls"] or ():
            by_node: dict[str, dict[PodId, Sets]] = {}
            for entry in call:
                by_node.setdefault(entry["node"], {})[PodId(**entry["pod"])] = {"cpu": cpus_in(entry["cpus"])}
            note_unassigned(nodes, by_node)
        found = {name: sorted(books.unassigned) for name, books in nodes.items() if books.unassigned}
        if "initialised" in expected:
            return differs((list(found), None), (expected["initialised"], expected["error"]))
        recorded = expected["unassigned_pods"] if "unassigned_pods" in expected else expected["unassigned"]
        wanted = {
            name: sorted(
                PodId(**{key: each.get("pod", each)[key] for key in ("uid", "name", "namespace")}) for each in pods
            )
            for name, pods in recorded.items()
            if pods
        }
        # Nodes that are gone are passed over, so there is never an error to tell.
        return differs((found, None), (wanted, expected["error"]))
    nodes = {
        name: NodeBooks(unassigned={named(each["pod"]): {"cpu": cpus_in(each["cpus"])} for each in pods})
        for name, pods in dict(asked["nodes"]).items()
    }
    if "clear_task" in asked:
        clear_unassigned(nodes, named(asked["clear_task"]["pod"]), asked["clear_task"]["node"])
    else:
        told = asked["clear_pod"]
        chosen = told.get("job_task_node")
        clear_unassigned(nodes, named(told["pod"]), told["spec_node"] if chosen is None else chosen)
    return differs({name: len(nodes[name].unassigned) for name in expected.get("count", {})}, expected.get("count", {}))


@pytest.mark.fixture_files("volcano/topology_decision_derived", chunks=1)
def test_annotations(conformance: Conformance) -> None:
    conformance.check_each(annotations_problem)


def annotations_problem(case: Case) -> str | None:
    asked, expected = case["inputs"], case["expected"]
    match asked["op"]:
        case "read":
            res_map = {str(numa): amounts for numa, amounts in decision_in(asked["annotations"]).items()}
            read = {"policy": policy_in(asked["annotations"]), "res_map": res_map}
            return differs(read, {key: expected[key] for key in read})
        case "job_task_to_pod":
            return differs(policy_annotations(asked["topologyPolicy"]), expected["annotations"])
    decided = {int(numa): amounts for numa, amounts in (asked.get("res_map") or {}).items()}
    found = {**(asked.get("annotations") or {}), **decision_annotations(decided)}
    if "annotations" in expected:
        return differs(found, expected["annotations"])
    return differs(found.get(DECISION), expected["annotation"])


# -- what was recorded, as our own data ----------------------------------------------------------------------------


def differs(found: object, expected: object) -> str | None:
    return None if found == expected else f"found {found}, expected {expected}"


def hint_of(recorded: Json) -> Hint:
    affinity = recorded["affinity"]
    return Hint(None if affinity is None else mask_of(affinity), recorded["preferred"])


def written(hint: Hint) -> Json:
    return {"affinity": None if hint.mask is None else list(zones_in(hint.mask)), "preferred": hint.preferred}


def node_of(asked: Json, detail: Json) -> NodeCpus:
    places = {
        int(cpu): CpuPlace(place.get("numa", 0), place.get("socket", 0), place.get("core", 0))
        for cpu, place in detail.items()
    }
    reserved = asked.get("reserved_cpu")
    return NodeCpus(Machine(places), None if reserved is None else parse(reserved).milli())


def count_of(asked: Json) -> int:
    text = asked["container_cpu_request"]
    return whole_cpus(None if text is None else parse(text).milli())


def sets_of(recorded: Json) -> Sets:
    return {name: frozenset(ids) for name, ids in recorded.items()}


def cpus_in(text: str) -> frozenset[int]:
    return frozenset(zones_in(cpu_set(text)))


def named(text: str) -> PodId:
    """A pod of which only `namespace/name` is recorded."""
    namespace, _, name = text.partition("/")
    return PodId(text, name, namespace)


def books_of(asked: Json) -> NodeBooks:
    info = asked.get("numa_info")
    if info is None:
        return NodeBooks()
    about_resources = {
        name: about for name, about in info.items() if isinstance(about, dict) and "allocatable" in about
    }
    free = {name: frozenset(about["allocatable"]) for name, about in about_resources.items()}
    unassigned = {PodId(**each["pod"]): sets_of(each["sets"]) for each in asked.get("unassigned") or ()}
    return NodeBooks(free, listed_in(info.get("pod_allocations")), unassigned)


def listed_in(recorded: list[Json] | None) -> list[PodId]:
    return [PodId(*(each.get(field, "") for field in PodId._fields)) for each in recorded or ()]
