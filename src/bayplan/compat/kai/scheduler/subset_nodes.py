"""Which sets of nodes KAI tries for a sub-group, in which order: the heart of its topology plugin.

In come a sub-group's constraint, its tasks and the nodes that the sub-group above it was given; out come node sets, the
first to be tried first, and scores that pull tasks into few domains of the preferred level. `allocate.py` tries them.

1. The narrowest domain that holds all given nodes is counted, with everything below it (`tree.py`).
2. If it does not hold the tasks, that is all.
3. Its children are ordered, the fullest first, down to the preferred level (or the required one, if none is preferred).
4. Every domain that holds the tasks is a candidate, on the levels from the preferred up to the required one, or up to
   the root. If pods of the sub-group run already, only domains below a required domain that has one of them.
5. The narrowest level comes first, left to right; of each domain only nodes that were given.

Known defects, which a user of KAI meets here too: a level wider than the domain of step 1 was never counted, so it
never fits; domains with dots in their names may be one (`tree.py`); tasks of different sizes are all taken to be as
large as the largest; and with more than ten preferred domains some share a score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.compat.kai.scheduler.model import CPU, GPU, Node, Task
from bayplan.compat.kai.scheduler.tree import (
    ROOT,
    Capacity,
    Domain,
    FreeOf,
    Orders,
    TopologyTree,
    fill,
    fullest_first,
    in_topology,
    level_domains,
    lowest_common_domain,
    reverse_level_order,
)
from bayplan.kube.wire.kai_scheduling_v2alpha2 import DEFAULT_POD_SET, TopologyConstraint

TOPOLOGY_SCORE = 10_000.0
SCORE_STEPS = 10
# How KAI calls resources in its messages, in this order; others come last, under their own names.
_RESOURCE_TEXT = {GPU: "GPUs", CPU: "CPU cores", "memory": "memory"}
_RESOURCE_ORDER = {name: place for place, name in enumerate(_RESOURCE_TEXT)}


@dataclass(frozen=True, slots=True)
class Asker:
    """A sub-group of a job that needs nodes, its constraint, and the nodes where its pods already run."""

    namespace: str
    job: str
    sub_group: str
    constraint: TopologyConstraint | None
    active_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeSets:
    """Node sets to try one after another.

    `scores` is None without a preferred level; without sets, `problems` say why.
    """

    sets: tuple[tuple[Node, ...], ...]
    scores: Mapping[str, float] | None = None
    problems: tuple[str, ...] = field(default=())


def subset_nodes(
    asker: Asker, tasks: Sequence[Task], nodes: Sequence[Node], trees: Mapping[str, TopologyTree], free_of: FreeOf
) -> NodeSets:
    """Node sets for the tasks of a sub-group, out of the nodes given to the sub-group above it."""
    constraint = asker.constraint
    if constraint is None or not constraint.topology:
        return NodeSets((tuple(nodes),))
    tree = trees.get(constraint.topology)
    if tree is None:
        return NodeSets((), problems=(f"Requested topology {constraint.topology} does not exist",))
    if not tasks:
        return NodeSets((tuple(nodes),))

    levels = tree.topology.levels
    level, domain_id = lowest_common_domain(nodes, levels, constraint.preferred)
    common = tree.domains[level].get(domain_id)
    if common is None:
        return NodeSets((), problems=(f"domain not found for node set in topology {tree.topology.name}",))
    capacity = fill(common, tasks, free_of)
    if not capacity.holds_all(common):
        where = "the cluster" if common.id == ROOT else common.id
        return NodeSets((), problems=(_unsatisfied(asker, f": not enough resources in {where} to allocate the job"),))

    orders = fullest_first(common, capacity, constraint.preferred or constraint.required)
    scores = node_scores(common, constraint.preferred, orders) if constraint.preferred else None
    searched = relevant_levels(asker.sub_group, constraint, tree)
    if isinstance(searched, str):
        return NodeSets((), scores, (searched,))
    candidates = _candidates(asker, tree, searched)
    chosen = {domain for domain in candidates if capacity.holds_all(domain)}
    if not chosen:
        return NodeSets(
            (), scores, _why_none(asker, [each for each in candidates if each.level == searched[-1]], capacity)
        )
    given = {node.name for node in nodes if in_topology(node, levels)}
    return NodeSets(
        tuple(
            tuple(node for name, node in domain.nodes.items() if name in given)
            for domain in reverse_level_order(tree.root, orders)
            if domain in chosen
        ),
        scores,
    )


def relevant_levels(sub_group: str, constraint: TopologyConstraint, tree: TopologyTree) -> list[str] | str:
    """Levels to look for domains on, the narrowest first, or what is wrong with the constraint."""
    name = tree.topology.name
    if not constraint.required and not constraint.preferred:
        return f"no topology constraints were found for subgroup {sub_group}, with topology name {name}"
    who = "workload" if sub_group == DEFAULT_POD_SET else f"sub-group {sub_group}"
    upwards = [*reversed(tree.topology.levels), ROOT]
    for kind, level in (("required", constraint.required), ("preferred", constraint.preferred)):
        reach = upwards[: upwards.index(constraint.required) + 1] if constraint.required in upwards else upwards
        if level and level not in reach:
            return (
                f"topology constraint error: {who} specified '{level}' as the {kind} topology constraint level, "
                f"but the topology tree '{name}' does not contain a level with this name"
            )
    first = upwards.index(constraint.preferred or constraint.required)
    last = upwards.index(constraint.required or ROOT)
    return upwards[first : last + 1]


def node_scores(domain: Domain, preferred_level: str, orders: Orders) -> dict[str, float]:
    """Scores that fill one preferred domain after another: the emptiest highest, in at most ten steps."""
    ordered = list(level_domains(domain, preferred_level, orders))
    return {
        name: math.floor((place + 1) / len(ordered) * SCORE_STEPS) * TOPOLOGY_SCORE
        for place, each in enumerate(ordered)
        for name in each.nodes
    }


def _candidates(asker: Asker, tree: TopologyTree, levels: Collection[str]) -> list[Domain]:
    constraint = asker.constraint
    if constraint is None or not constraint.required or not asker.active_on:
        return [domain for level in levels for domain in tree.domains[level].values()]
    homes = [domain for domain in tree.domains[constraint.required].values() if asker.active_on & domain.nodes.keys()]
    return [domain for level in levels for home in homes for domain in level_domains(home, level, {})]


def _why_none(asker: Asker, widest: Sequence[Domain], capacity: Capacity) -> tuple[str, ...]:
    """What each domain of the widest level lacks, and that none was left."""
    reasons: list[str] = []
    for domain in widest:
        if domain in capacity.pods:
            have = capacity.pods[domain]
            reasons.append(f"node-group {domain.id} can allocate only {have} of {capacity.tasks} required pods")
        else:
            free = capacity.free.get(domain, {})
            lacking = [name for name, amount in capacity.wanted.items() if amount > free.get(name, 0)]
            order = sorted(lacking, key=lambda name: (_RESOURCE_ORDER.get(name, len(_RESOURCE_ORDER)), name))
            reasons += [
                f"node-group(s) didn't have enough resources: {_RESOURCE_TEXT.get(name, name)}" for name in order
            ]
    return (*reasons, _unsatisfied(asker, ""))


def _unsatisfied(asker: Asker, because: str) -> str:
    constraint = asker.constraint or TopologyConstraint("")
    named = asker.sub_group and asker.sub_group != DEFAULT_POD_SET
    who = f"job <{asker.namespace}/{asker.job}>" + (f", subgroup {asker.sub_group}" if named else "")
    return f"topology {constraint.topology}, requirement {constraint.required} couldn't be satisfied for {who}{because}"
