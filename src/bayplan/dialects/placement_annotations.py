"""Annotations about how a gang is placed: on workloads, on group objects of other systems, and on Kueue's pods.

    bayplan.io/objective: fewest-domains,least-leftover      goals that come first
    bayplan.io/patience: domains=2,seconds=300               how long to wait for few preferred domains
    bayplan.io/placement: spread                             over nodes, or binpack
    bayplan.io/domain-placement: spread                      into the roomiest domains, or binpack
    bayplan.io/parallelism: tensor=8,pipeline=4,data=2       parallel groups by rank, innermost first

Each reader returns what the text says, and raises `ValueError` with what is allowed. bayplan's own PodGroup has a field
for each of them instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from bayplan.engine.gangs.objective import Goal, objective_of
from bayplan.gangs.model import Gang, Patience
from bayplan.gangs.ranks.parallelism import parallel_groups
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.wire.bayplan_v1alpha1 import PLACEMENTS, ParallelGroup, PatienceSpec

OBJECTIVE = "bayplan.io/objective"
PATIENCE = "bayplan.io/patience"
PLACEMENT = "bayplan.io/placement"
DOMAIN_PLACEMENT = "bayplan.io/domain-placement"
PARALLELISM = "bayplan.io/parallelism"
# The field of bayplan's own PodGroup for each annotation.
FIELDS = {
    OBJECTIVE: "objective",
    PATIENCE: "patience",
    PLACEMENT: "placement",
    DOMAIN_PLACEMENT: "domainPlacement",
    PARALLELISM: "parallelism",
}
MOST_PARALLEL_GROUPS = 8
SPREAD = "spread"
_PATIENCE = re.compile(r"domains=([1-9][0-9]{0,5}),seconds=([0-9]{1,9}(?:\.[0-9]{1,3})?)")
_NEGATIVE_SECONDS = re.compile(r"seconds=(-[0-9.]+)")
_OTHER_SEPARATOR = re.compile(r"[a-z][ ;|/][a-z]")
_PARALLEL_GROUP = re.compile(r"\s*([A-Za-z][-A-Za-z0-9]{0,62})\s*=\s*([1-9][0-9]{0,5})\s*")


def objective_in(text: str) -> tuple[str, ...]:
    """`closest,least-leftover`: goals by name, in order."""
    names = tuple(name.strip() for name in text.split(","))
    if _OTHER_SEPARATOR.search(text):
        raise ValueError(f"must have commas between goals; goals are {', '.join(goal.value for goal in Goal)}")
    try:
        objective_of(names)
    except ValueError as wrong:
        raise ValueError(f"is no order of goals: {wrong}") from None
    return names


def patience_in(text: str) -> PatienceSpec:
    """`domains=2,seconds=300`."""
    seconds = _NEGATIVE_SECONDS.search(text)
    if seconds is not None:
        raise ValueError(f"has seconds {seconds[1]}; must be 0 or more")
    found = _PATIENCE.fullmatch(text)
    if found is None:
        raise ValueError("must be such as domains=2,seconds=300")
    return PatienceSpec(domains=int(found[1]), seconds=float(found[2]))


def placement_in(text: str) -> str:
    """`spread` or `binpack`."""
    if text not in PLACEMENTS:
        raise ValueError(f"must be one of {', '.join(PLACEMENTS)}")
    return text


def parallelism_in(text: str) -> tuple[ParallelGroup, ...]:
    """`tensor=8,pipeline=4`: names and sizes of parallel groups."""
    found = [_PARALLEL_GROUP.fullmatch(each) for each in text.split(",")]
    groups = tuple(ParallelGroup(name=each[1], size=int(each[2])) for each in found if each is not None)
    if len(groups) < len(found) or len(groups) > MOST_PARALLEL_GROUPS:
        raise ValueError(f"must be such as tensor=8,pipeline=4,data=2, at most {MOST_PARALLEL_GROUPS} of them")
    names = [each.name for each in groups]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"must name {twice} once")
    return groups


def as_annotated(gang: Gang, annotations: Mapping[str, str], at: ObjectPath) -> Gang:
    """The gang placed as the annotations `at` say. Raises `InvalidObject` if one of them is invalid."""
    for key in FIELDS:
        text = annotations.get(key)
        if text is None:
            continue
        try:
            gang = _with(gang, key, text)
        except InvalidObject as wrong:
            raise InvalidObject(at.key(key), f'"{text}" {wrong.problem}') from None
        except ValueError as wrong:
            raise InvalidObject(at.key(key), f'"{text}" {wrong}') from None
    return gang


def _with(gang: Gang, key: str, text: str) -> Gang:
    if key == OBJECTIVE:
        return replace(gang, objective=objective_of(objective_in(text)))
    if key == PATIENCE:
        patience = patience_in(text)
        return replace(gang, patience=Patience(patience.domains, patience.seconds))
    if key == PLACEMENT:
        return replace(gang, spread=placement_in(text) == SPREAD)
    if key == DOMAIN_PLACEMENT:
        return replace(gang, roomiest=placement_in(text) == SPREAD)
    groups, root = parallelism_in(text), gang.root
    if root.groups:
        raise ValueError("is for a gang without groups inside")
    if root.running:
        return gang  # ranks are taken
    pods = len(root.pods) + len(root.coming)
    return replace(gang, parallelism=parallel_groups(groups, pods, ObjectPath("")))
