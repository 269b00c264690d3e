"""Everything to report about one gang, placed or not.

`cli/shared/gangs.py` collects it: the decision, the zones of its pods, and for each shape of pods the room at every
level before and after. `text.py` writes it for people, `document.py` for programs, and `explain/topology/svg.py` draws
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PodRequest
from bayplan.cluster.topology.tree import Distances, Path, Tree
from bayplan.engine.gangs.problem import Counts
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.stages import FilterStage, StageCause, StageKind, stages_of
from bayplan.explain.topology.levels import ranks_text
from bayplan.gangs.closeness import Closeness
from bayplan.gangs.model import Gang, GangDecision, LevelRoom, Seat
from bayplan.gangs.remedies import GangRemedy
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.decision import CauseCount, Shortfall
from bayplan.scheduling.profile import Profile

IN_THE_TREE = "in the tree"


@dataclass(frozen=True, slots=True)
class ShapeView:
    """Equal pods of a gang: their number, one of them, their request, and the room for such pods per level.

    `after` is empty if nothing was placed. `slots` are by position in the tree. `causes` and `stages` say which filter
    rejected how many nodes, `volumes` what is in the way of claims, `groups` which groups inside the gang they are in,
    `sentence` why not even one such pod has room.
    """

    pods: int
    example: Pod
    request: PodRequest
    described: str
    before: tuple[LevelRoom, ...]
    slots: Counts = field(compare=False)
    after: tuple[LevelRoom, ...] = ()
    causes: tuple[CauseCount, ...] = ()
    stages: tuple[FilterStage, ...] = ()
    volumes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    sentence: str = ""


@dataclass(frozen=True)
class GangOutcome:
    """One gang. `nodes` are all nodes of the cluster; `zones` are the NUMA zones of seated pods.

    `distances` are those among all members, seated or running. `running` are the places of members with a node, and
    `closeness` tells whether a running gang could be closer. `waited` is in seconds, None if unknown. `remedies` are
    changes that would help a gang without a place. `owner` is the workload of the gang, if its name differs. `gang` is
    what was decided about; None if it is incomplete.
    """

    decision: GangDecision
    topology: str
    levels: tuple[str, ...]
    nodes: int
    shapes: tuple[ShapeView, ...]
    zones: Mapping[str, tuple[ContainerZones, ...]] = field(default_factory=dict)
    running: tuple[Seat, ...] = ()
    distances: Distances | None = None
    waited: float | None = None
    remedies: tuple[GangRemedy, ...] = ()
    closeness: Closeness | None = None
    zones_unknown: tuple[str, ...] = ()
    """Nodes of seats whose NUMA zones matter and are unknown."""
    owner: str = ""
    gang: Gang | None = None

    @property
    def name(self) -> str:
        """The gang's name with its namespace."""
        return self.decision.gang

    @property
    def good(self) -> bool:
        """True if the gang runs or may start now."""
        return self.decision.placed or self.runs

    @property
    def runs(self) -> bool:
        """True if every member has a node, and all are placed as the gang requests."""
        return bool(self.running) and not self.shapes

    @property
    def title(self) -> str:
        """The title of the gang: the user's workload, else its own name."""
        return self.owner or self.name

    @property
    def waiting_seconds(self) -> int | None:
        """Whole seconds that the gang has waited; None if unknown, or if no pod waits."""
        return None if self.waited is None else int(self.waited)

    @property
    def seats(self) -> Sequence[Seat]:
        """Every pod's place, by rank."""
        return self.decision.seats


def stages_in_tree(
    tree: Tree, shortfall: Shortfall, pod: PodClass, profile: Profile
) -> tuple[tuple[CauseCount, ...], tuple[FilterStage, ...]]:
    """Which filter rejected which nodes of a tree, and the same as shrinking counts from all nodes of the cluster."""
    inside = {path[-1] for path in tree.paths[tree.node_level]}
    causes = tuple(
        structs.replace(cause, nodes=kept)
        for cause in shortfall.causes
        if (kept := tuple(node for node in cause.nodes if node in inside))
    )
    stages = tuple(stages_of(structs.replace(shortfall, nodes=tree.size, causes=causes), pod, profile))
    if not tree.outside:
        return causes, stages
    in_the_tree = StageKind(IN_THE_TREE, tree.lead, tree.when_empty)
    outside = tuple(
        StageCause(label, nodes, (f"has {tree.lead}{label}", f"have {tree.lead}{label}"))
        for label, nodes in missing_labels(tree.outside)
    )
    return causes, (FilterStage(in_the_tree, tree.size, outside), *stages)


def missing_labels(outside: Mapping[str, str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Nodes outside a tree by the missing label, or another reason of `Tree.outside`, most first."""
    lacking: dict[str, list[str]] = {}
    for node, label in outside.items():
        lacking.setdefault(label, []).append(node)
    by_number = sorted(lacking.items(), key=lambda entry: -len(entry[1]))
    return tuple((label, tuple(nodes)) for label, nodes in by_number)


@dataclass(frozen=True, slots=True)
class SeatRow:
    """Pods of one group and segment in one domain of the lowest level."""

    domain: Path
    group: str
    segment: int | None
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]


def seat_rows(seats: Sequence[Seat]) -> list[SeatRow]:
    """Seats by domain, group and segment, in the order of their first rank."""
    found: dict[tuple[Path, str, int | None], list[Seat]] = {}
    for seat in sorted(seats, key=lambda each: each.rank):
        found.setdefault((seat.path[:-1], seat.group, seat.segment), []).append(seat)
    return [
        SeatRow(domain, group, segment, tuple(seat.rank for seat in own), tuple(seat.node for seat in own))
        for (domain, group, segment), own in found.items()
    ]


# -- parties in pictures ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Party:
    """Pods of one group and segment, with the ranks on each node; nameless if the gang has neither."""

    name: str
    ranks: Mapping[str, tuple[int, ...]]

    def words(self, ranks: Sequence[int]) -> str:
        """Some of its ranks: `ranks 4-7 · workers, segment 1`."""
        numbers = f"rank{'s' if len(ranks) > 1 else ''} {ranks_text(ranks)}"
        return f"{numbers} · {self.name}" if self.name else numbers


def parties_of(seats: Sequence[Seat]) -> tuple[Party, ...]:
    """The parties of a gang, in the order of their first rank."""
    found: dict[tuple[str, int | None], dict[str, list[int]]] = {}
    for seat in sorted(seats, key=lambda each: each.rank):
        found.setdefault((seat.group, seat.segment), {}).setdefault(seat.node, []).append(seat.rank)
    return tuple(
        Party(
            ", ".join([*([group] if group else []), *([] if segment is None else [f"segment {segment}"])]),
            {node: tuple(ranks) for node, ranks in by_node.items()},
        )
        for (group, segment), by_node in found.items()
    )
