"""Gangs of GPU pods written as plain documents, as recordings have them: into a cluster and a gang, and whether a
decision keeps their rules.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bayplan.cluster.state import ClusterState
from bayplan.gangs.model import Gang, GangDecision, Group
from bayplan.gangs.scheduler import GangScheduler
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import node, simple_pod

Case = dict[str, Any]
GPU = "nvidia.com/gpu"
TOPOLOGY = "network"


def scheduler_of(case: Case) -> GangScheduler:
    state = ClusterState()
    for each in case["nodes"]:
        state.set_node(node(each["name"], each["free"], labels=each["labels"]))
    return gang_scheduler(state, *case["levels"], tree=TOPOLOGY)


def gang_of(case: Case) -> Gang:
    gang = case["gang"]
    groups = tuple(
        Group(
            name=each["name"],
            pods=tuple(
                simple_pod({GPU: gpus}, f"{each['name']}-{number}") for number, gpus in enumerate(each["gpusPerPod"])
            ),
            required=each.get("required"),
            preferred=each.get("preferred"),
        )
        for each in gang["subGroups"]
    )
    root = Group(groups=groups, required=gang.get("required"), preferred=gang.get("preferred"))
    return Gang("default/gang", root, TOPOLOGY)


def broken_rule(case: Case, decision: GangDecision) -> str | None:
    sizes = {
        f"default/{group['name']}-{number}": gpus
        for group in case["gang"]["subGroups"]
        for number, gpus in enumerate(group["gpusPerPod"])
    }
    if sorted(seat.pod for seat in decision.seats) != sorted(sizes):
        return f"seats of {[seat.pod for seat in decision.seats]}, the gang has {list(sizes)}"
    for each in case["nodes"]:
        here = [seat.pod for seat in decision.seats if seat.node == each["name"]]
        if sum(sizes[pod] for pod in here) > each["free"][GPU] or len(here) > each["free"].get("pods", 110):
            return f"{here} do not fit on {each['name']}: {each['free']}"
    for group in (case["gang"] | {"name": None}, *case["gang"]["subGroups"]):
        used = domains(case, decision, group.get("required"), group["name"])
        if len(used) > 1:
            return f"{group['name'] or 'the gang'} requires one {group['required']}, has {used}"
    return None


def domains(
    case: Case, decision: GangDecision, level: str | None, group: str | None = None
) -> Counter[tuple[Any, ...]]:
    """The domains of a level, as paths of label values, that pods of a group (or of all) stand in."""
    if level is None:
        return Counter()
    above = case["levels"][: case["levels"].index(level) + 1]
    path = {each["name"]: tuple(each["labels"][label] for label in above) for each in case["nodes"]}
    return Counter(path[seat.node] for seat in decision.seats if group in (None, seat.group))
