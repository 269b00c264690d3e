"""A gang: pods that start together or not at all, in nested groups, with the domains they must or would like to share.

This is the only representation of gangs, whatever API they come from. `dialects/` build it from what users write,
`gangs/cycle.py` places it, and `GangDecision` is the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from bayplan.cluster.pods.terms import has_terms
from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Path
from bayplan.engine.gangs.objective import USUAL, Objective
from bayplan.engine.gangs.problem import Status
from bayplan.gangs.ranks.late_ranks import Members, numbers_of
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod

# The placement style of bayplan's own search.
BAYPLAN = "bayplan"


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments of `size` pods, each inside one domain of a level (a node label). Kueue calls them slices.

    `apart` puts any two of them into different domains. Segments that are not `required` are dropped if they do not
    fit.
    """

    size: int
    level: str
    apart: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Patience:
    """Wait up to `seconds` for a place in at most `domains` preferred domains, then take what there is."""

    domains: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ParallelGroups:
    """Parallel groups of one kind, each of `pods` pods with consecutive ranks."""

    name: str
    pods: int


@dataclass(frozen=True)
class Group:
    """Pods and nested groups, all in one domain of `required`, in few of `preferred`.

    This class is wide because it holds everything that any API can say about one group:

    * `pods` wait for a place, sorted by rank. `minimum` of them must start together; None means all. `running` have
      nodes.
    * `minimum_groups` of the inner groups must start; None means all.
    * A group may itself be segment number `segment` of the group `segment_of`.
    * Groups with the same `apart` take different domains of `required`.
    * An `optional` group drops its requirement if it cannot be met.
    * `coming` are members that do not exist yet, each as a pod like the others. `absent` are inner groups with too few
      pods. The gang waits for neither, but leaves room for them if possible (`gangs/room.py`).
    """

    name: str = ""
    pods: tuple[Pod, ...] = ()
    groups: tuple[Group, ...] = ()
    required: str | None = None
    preferred: str | None = None
    minimum: int | None = None
    minimum_groups: int | None = None
    segments: tuple[Segments, ...] = ()
    running: tuple[Pod, ...] = ()
    segment: int | None = None
    segment_of: str | None = None
    apart: str | None = None
    optional: bool = False
    coming: tuple[Pod, ...] = ()
    absent: tuple[Group, ...] = ()

    @property
    def least(self) -> int:
        """The number of own pods that must start together."""
        return len(self.pods) if self.minimum is None else self.minimum

    def every_group(self) -> Sequence[Group]:
        """Return the group and all groups inside it, parents first."""
        return self._every_group

    @cached_property
    def _every_group(self) -> Sequence[Group]:
        return (self, *(each for group in self.groups for each in group.every_group()))


@dataclass(frozen=True, eq=False)
class Gang:
    """A whole gang. `topology` names the tree of its levels, in the words of a `system` its own kind; empty if it names
    none.

    * `style` selects whose rules place it: `BAYPLAN`, or another system's (`bayplan.compat`).
    * `objective` measures what the best place is. `spread` prefers many nodes, `roomiest` domains with the most room.
    * `parallelism` are the groups of a training job, innermost first.
    * `asked_in` completes the error for a node label that no node carries: where it is named, and which levels exist.
    * `field_names` are what the group object calls `required`, `preferred` and so on, if it has other words.

    Gangs compare by identity: comparing thousands of pods would cost more than placing them.
    """

    name: str
    root: Group
    topology: str = ""
    spread: bool = False
    patience: Patience | None = None
    style: str = BAYPLAN
    objective: Objective = USUAL
    roomiest: bool = False
    asked_in: str = ""
    parallelism: tuple[ParallelGroups, ...] = ()
    field_names: Mapping[str, str] = field(default_factory=dict)
    system: str = ""

    @cached_property
    def pods(self) -> list[Pod]:
        """All waiting pods, by rank."""
        return [pod for group in self.root.every_group() for pod in group.pods]

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The ranks of the waiting pods, by key, without those of running members."""
        return numbers_of([Members(group.pods, group.running, len(group.coming)) for group in self.root.every_group()])

    @property
    def levels(self) -> list[str]:
        """The levels that the gang asks for, each once."""
        asked = (
            level
            for group in self.root.every_group()
            for level in (group.required, group.preferred, *(each.level for each in group.segments))
        )
        return list(dict.fromkeys(level for level in asked if level))

    @property
    def names_levels(self) -> bool:
        """True if the gang asks for a level."""
        return bool(self.levels)

    @cached_property
    def has_started(self) -> bool:
        """True if a member has a node."""
        return any(group.running for group in self.root.every_group())

    @cached_property
    def has_pod_terms(self) -> bool:
        """True if a member has terms about other pods."""
        return any(map(has_terms, self.pods))

    @cached_property
    def duplicate_pod(self) -> str:
        """A pod that is in the gang twice; an empty string if there is none."""
        seen = Counter(pod_key(pod) for pod in self.pods)
        return next((key for key, number in seen.items() if number > 1), "")


class Seat(Struct, frozen=True, gc=False):
    """One pod's place: the node, its path in the tree, the pod's rank and the number of its segment."""

    pod: str
    group: str
    node: str
    path: Path
    rank: int
    segment: int | None = None


class LaterSeat(Struct, frozen=True, gc=False):
    """A place for a member that is still to come and will look like `pod`: its group and the node."""

    group: str
    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class LevelRoom:
    """One level: its number of domains, how many hold the whole gang, and the most pods that one of them holds.

    `best` is the path of that one; empty if none holds a pod.
    """

    level: str
    domains: int
    holding_all: int
    most: int
    best: Path


@dataclass(frozen=True)
class GangDecision:
    """Where a gang goes, or why it goes nowhere: either the whole minimum has seats, or no pod has one.

    * `bound` says what the answer rests on, `objective` how it was measured if bayplan chose.
    * `relaxed` are dropped preferences, `left_out` pods beyond the minimum.
    * `waits` is set while the gang would fit but still waits for a better place, for `patience_left` seconds.
    * `style` is the other system whose rules decided, if any.
    * `later` are places for members that are still to come.
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
    later: Sequence[LaterSeat] = ()

    @property
    def placed(self) -> bool:
        """True if the gang can start."""
        return bool(self.seats) and not self.waits


def waited_for(gang: Gang, now: float, otherwise: float | None) -> float | None:
    """Return for how many seconds a gang has waited: since its youngest waiting pod was created.

    A replacement pod is young, so its gang regains its patience. Without timestamps the gang has waited since
    `otherwise`; None if that is unknown too. Moments are in seconds since the epoch.
    """
    moments = [moment_of(pod.metadata.creation_timestamp or "") for pod in gang.pods]
    since = max((moment.timestamp() for moment in moments if moment is not None), default=otherwise)
    return None if since is None else max(0.0, now - since)


def patience_left(gang: Gang, domains: int, domains_in_use: int, waited: float) -> float:
    """Return for how many more seconds a gang waits that could have a place in `domains` preferred domains.

    Members already run in `domains_in_use` of them. Waiting is pointless once they run in more domains than it allows.
    """
    patience = gang.patience
    if patience is None or not domains_in_use <= patience.domains < domains:
        return 0.0
    return max(0.0, patience.seconds - waited)
