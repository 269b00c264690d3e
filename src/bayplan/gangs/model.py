"""A gang: pods that start together or not at all, in groups inside groups, with the domains they must or would like to share.

This is the scheduler's only representation of gangs, no matter which API they come from. Readers build it from what users write
(`dialects/`, `dialects/own/reader.py`), `gangs/cycle.py` finds a place for it, and the `GangDecision` here is the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import Struct

from bayplan.cluster.pods.terms import has_terms
from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Path
from bayplan.engine.gangs.objective import USUAL, Objective
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.ranks.late_ranks import Members, numbers_of
from bayplan.kube.wire.core_v1 import Pod

# The placement style that is bayplan's own search.
BAYPLAN = "bayplan"


@dataclass(frozen=True, slots=True)
class Slices:
    """Segments: slices of so many pods, each inside one domain of a level (a label).

    `apart` keeps any two of them in different domains; one that is not `required` is given up if it cannot be had.
    """

    size: int
    level: str
    apart: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Patience:
    """Wait up to so many seconds for a place in no more than so many preferred domains; then take what there is."""

    domains: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ParallelGroups:
    """Parallel groups of one kind, each of so many pods with neighbouring ranks."""

    name: str
    pods: int


@dataclass(frozen=True)
class Group:
    """Pods of its own and groups inside, all in one domain of `required`, in few of `preferred`.

    `pods` are sorted by rank. Of them `minimum` must start together, the others may join; None means all. Of the inner groups,
    `minimum_groups` must start; None means all. `running` are members that already have a node.

    A group may itself be the `segment` of that number of the group called `segment_of`. Groups with the same `apart` take different domains
    of `required`. The requirement of a `wished` group is given up if it cannot be met.

    `coming` are members that are not there yet, each as a pod like those that are. `absent` are inner groups with too few pods to start.
    The gang does not wait for either, but the others go where these will have room, if possible (`gangs/room.py`).
    """

    name: str = ""
    pods: tuple[Pod, ...] = ()
    groups: tuple[Group, ...] = ()
    required: str | None = None
    preferred: str | None = None
    minimum: int | None = None
    minimum_groups: int | None = None
    slices: tuple[Slices, ...] = ()
    running: tuple[Pod, ...] = ()
    segment: int | None = None
    segment_of: str | None = None
    apart: str | None = None
    wished: bool = False
    coming: tuple[Pod, ...] = ()
    absent: tuple[Group, ...] = ()

    @property
    def least(self) -> int:
        """How many of its own pods must start together."""
        return len(self.pods) if self.minimum is None else self.minimum

    def every_group(self) -> Iterator[Group]:
        """The group and all groups inside it, parents first."""
        yield self
        for group in self.groups:
            yield from group.every_group()


@dataclass(frozen=True, eq=False)
class Gang:
    """A whole gang. `topology` names the tree its levels belong to; empty if it asks for no level.

    `style` says whose rules place it: `BAYPLAN`, or another system's (`bayplan.compat`); `objective` what the best place is measured by.
    `parallelism` are the groups of a training job, innermost first. `spread` is about nodes, as many as there are; `roomiest` about domains, those with the most room. `asked_in` is where a node label is named that is a level of no
    Topology, and which levels there are: for the case that no node carries it.

    Two gangs are never equal, whatever they hold: comparing thousands of pods would cost more than placing them.
    """

    name: str
    whole: Group
    topology: str = ""
    spread: bool = False
    patience: Patience | None = None
    style: str = BAYPLAN
    objective: Objective = USUAL
    roomiest: bool = False
    asked_in: str = ""
    parallelism: tuple[ParallelGroups, ...] = ()

    @cached_property
    def pods(self) -> list[Pod]:
        """All pods that wait for a place, in the order of their ranks."""
        return [pod for group in self.whole.every_group() for pod in group.pods]

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The numbers of the pods that wait, by their indices; those that members which run have got are taken."""
        return numbers_of([Members(group.pods, group.running, len(group.coming)) for group in self.whole.every_group()])

    @property
    def levels(self) -> list[str]:
        """The levels that the gang asks for, each once."""
        asked = (
            level
            for group in self.whole.every_group()
            for level in (group.required, group.preferred, *(each.level for each in group.slices))
        )
        return list(dict.fromkeys(level for level in asked if level))

    @property
    def names_levels(self) -> bool:
        """True if the gang asks for any level of a tree."""
        return bool(self.levels)

    @cached_property
    def speaks_of_neighbours(self) -> bool:
        """True if a member says anything about other pods."""
        return any(map(has_terms, self.pods))

    @cached_property
    def doubled_pod(self) -> str:
        """A pod that is in the gang twice; an empty text if none is."""
        seen = Counter(pod_key(pod) for pod in self.pods)
        return next((key for key, number in seen.items() if number > 1), "")


class Seat(Struct, frozen=True, gc=False):
    """One pod's place: the node, its path in the tree, the pod's rank in the gang and the number of its segment."""

    pod: str
    group: str
    node: str
    path: Path
    rank: int
    segment: int | None = None


@dataclass(frozen=True, slots=True)
class LevelRoom:
    """Of one level: how many domains there are, how many hold the whole gang, and the most pods that one of them holds."""

    level: str
    domains: int
    holding_all: int
    most: int
    best: Path


@dataclass(frozen=True)
class GangDecision:
    """Where a gang goes, or why it goes nowhere. Always all or nothing: either the whole minimum has seats, or no pod has one.

    `bound` says what the answer is based on, `objective` how it was measured, if that was bayplan's choice. `relaxed` are preferences that
    were given up. `waits` is set while the gang would fit but has patience left for a better place, for that many seconds. `style` is the
    other system whose rules placed it, or failed to.
    """

    gang: str
    status: Status
    bound: str
    seats: Sequence[Seat] = ()
    gap: int = 0
    left_out: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    preferred_domains: int | None = None
    waits: str = ""
    patience_left: float = 0.0
    problem: str = ""
    objective: Objective = ()
    style: str = ""
    parallelism: tuple[ParallelGroups, ...] = ()

    @property
    def placed(self) -> bool:
        """True if the gang may start."""
        return bool(self.seats) and not self.waits
