"""Which domains equal pods go to, by three of the objective's five goals, in the order that it names them.

Counting knows `fewest-domains`, `least-leftover` and `closest`; it meets the mean distance and the number of nodes only
approximately.

The room of every domain is known (`equal_pods.py`), so this is arithmetic. What makes it short: the largest distance
between two members is given by the lowest level one domain of which holds them all. So for each level the best set of
domains *inside one domain of that level* is found by the two other goals. Of these sets, from the lowest level up,
the first that is as good by the goals before `closest` wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.topology.tree import Tree
from bayplan.engine.gangs.equal.segments import SegmentedRoom, SegmentLayer, deal_segments
from bayplan.engine.gangs.equal.tight_sets import (
    TightSet,
    roomiest_of_number,
    tightest_of_any_number,
    tightest_of_number,
)
from bayplan.engine.gangs.objective import USUAL, Goal, Objective
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts

# Required domains that are looked into one by one; there is hardly ever more than one that needs as few domains as any.
MOST_CANDIDATES = 4096
# The cost of a domain with more room than any has.
MOST_ROOM = -(1 << 40)


@dataclass(frozen=True, slots=True)
class EqualPods:
    """A number of equal pods: all in one domain of `required`, in few domains of `preferred`, in segments of `layers`.

    Running members are at the positions `running_at`, one entry each; the preferred domains there cost nothing more.
    `spread` uses as many nodes as possible. `roomiest` uses as few domains, but those with the most room.
    """

    pods: int
    required: int = WHOLE_TREE
    preferred: int | None = None
    layers: tuple[SegmentLayer, ...] = ()
    spread: bool = False
    running_at: tuple[int, ...] = ()
    objective: Objective = USUAL
    roomiest: bool = False

    @property
    def target(self) -> int:
        """The level of the domains that are chosen: the preferred one, or the required one if that is as low."""
        return self.required if self.preferred is None else max(self.required, self.preferred)


@dataclass(frozen=True, slots=True)
class Choice:
    """Domains of the target level, all members inside one domain of `level`, from position `first` to `end`.

    `number` is the number of newly used preferred domains, and `room` their slots, negative if the roomiest are wanted.
    `segments` has the pods of each domain of the lowest layer above the preferred level, if there is one. `unproven`
    are goals that might be met better. `slots` breaks ties between choices of equal room in whole segments.
    """

    level: int
    first: int
    end: int
    domains: Sequence[int]
    number: int
    room: int
    segments: tuple[SegmentLayer, Sequence[tuple[int, int]]] | None = None
    unproven: frozenset[Goal] = frozenset()
    slots: int = 0

    def score(self, goals: Sequence[Goal]) -> tuple[tuple[int, ...], ...]:
        """How good it is by these goals."""
        return tuple((self.number,) if goal is Goal.FEWEST_DOMAINS else (self.room, self.slots) for goal in goals)


def choose(tree: Tree, slots: Counts, room: Sequence[Counts], wish: EqualPods) -> Choice:
    """The best domains; there is room for all pods in one required domain. Of segments, `room` has whole ones only."""
    return _Chooser(tree, slots, room, wish).best()


@dataclass
class _Chooser:
    tree: Tree
    slots: Counts
    room: Sequence[Counts]
    wish: EqualPods

    def best(self) -> Choice:
        wish = self.wish
        place = self._order.index(Goal.CLOSEST)
        before = self._order[:place]
        # Usually their number is all that counts before closeness, and known without choosing any.
        fewest = self._fewest() if before == (Goal.FEWEST_DOMAINS,) else None
        anywhere = self._best_inside(wish.required) if before and fewest is None else None
        # Spreading pods over nodes contradicts putting them on one node, so closeness ends at the level of the chosen
        # domains.
        lowest = wish.target if wish.spread else self.tree.node_level
        most = anywhere.number if Goal.FEWEST_DOMAINS in before and anywhere is not None else fewest
        for level in range(lowest, wish.required, -1):
            closer = self._best_inside(level, most)
            if closer is None or (fewest is not None and closer.number > fewest):
                continue
            if anywhere is None or closer.score(before) <= anywhere.score(before):
                return closer
        found = anywhere or self._best_inside(wish.required)
        assert found is not None  # the caller has checked that a required domain holds all pods
        return found

    @cached_property
    def _order(self) -> Objective:
        """The goals that counting knows. The lowest common domain also stands for the mean distance."""
        as_counted = (Goal.CLOSEST if goal is Goal.MEAN_DISTANCE else goal for goal in self.wish.objective)
        return tuple(dict.fromkeys(goal for goal in as_counted if goal is not Goal.FEWEST_NODES))

    @cached_property
    def _goals(self) -> Objective:
        """The goals other than closeness."""
        return tuple(goal for goal in self._order if goal is not Goal.CLOSEST)

    @cached_property
    def _used(self) -> list[int]:
        """Domains of the target level with running members; none without a preference, because they save nothing."""
        if self.wish.preferred != self.wish.target or not self.wish.running_at:
            return []
        return sorted({int(self.tree.domain_at[self.wish.target][position]) for position in self.wish.running_at})

    def _fewest(self) -> int | None:
        """The fewest new domains that any choice needs; None if that is not counted by itself."""
        wish = self.wish
        if wish.required >= wish.target or wish.layers:
            return None
        room, missing = self._unused_room()
        if missing <= 0:
            return 0
        needing = self._needing(wish.required, self._holding(wish.required), room, missing, every=False)
        return next((fewest for _, _, fewest in needing), None)

    def _unused_room(self) -> tuple[Counts, int]:
        """The room of target domains without running members, and how many pods the others leave for it."""
        used, room = self._used, self.room[self.wish.target]
        if not used:
            return room, self.wish.pods
        unused = room.copy()
        unused[used] = 0
        return unused, self.wish.pods - int(room[used].sum())

    def _best_inside(self, level: int, most: int | None = None) -> Choice | None:
        """The best choice inside one domain of a level; None if none holds all pods in at most `most` new domains."""
        wish = self.wish
        if any(layer.apart and layer.level <= level and layer.size < wish.pods for layer in wish.layers):
            return None
        around = self._holding(level)
        if not len(around):
            return None
        above = tuple(layer for layer in wish.layers if level < layer.level < wish.target)
        if wish.preferred == wish.target and above:
            return self._by_segments(level, around, above)
        if level >= wish.target:
            return self._in_one_domain(level, around)
        return self._in_several(level, around, most)

    def _holding(self, level: int) -> NDArray[np.intp]:
        """The domains of a level that hold all pods and all members that already run."""
        if level == WHOLE_TREE:
            return np.zeros(1, dtype=np.intp)
        if int(self.room[level].max(initial=0)) < self.wish.pods:
            return np.zeros(0, dtype=np.intp)
        holding = np.flatnonzero(self.room[level] >= self.wish.pods)
        if self.wish.running_at:
            at = self.tree.domain_at[level]
            first, last = at[min(self.wish.running_at)], at[max(self.wish.running_at)]
            holding = holding[holding == first] if first == last else holding[:0]
        return holding

    def _bounds(self, level: int, domain: int) -> tuple[int, int]:
        return (0, self.tree.size) if level == WHOLE_TREE else self.tree.bounds(level, domain)

    def _in_one_domain(self, level: int, around: NDArray[np.intp]) -> Choice:
        """For levels at or below the target: a domain that holds all pods, inside the tightest target domain."""
        tree, target = self.tree, self.wish.target
        if target == WHOLE_TREE:
            best = int(self._cost(self.room[level][around]).argmin()) if level != WHOLE_TREE else 0
            return Choice(level, *self._bounds(level, int(around[best])), [0], 0, 0)
        outer = tree.domain_at[target][tree.starts[level][around]]
        room = self._cost(self.room[target][outer])
        if self._used:
            room = np.where(np.isin(outer, self._used), MOST_ROOM if self.wish.roomiest else 0, room)
        slots = self._slots[outer]
        keys = [slots, room] if level == target else [self.room[level][around], slots, room]
        best = int(np.lexsort(keys)[0])
        number = int(self.wish.preferred is not None and int(outer[best]) not in self._used)
        return Choice(
            level,
            *self._bounds(level, int(around[best])),
            [int(outer[best])],
            number,
            int(room[best]),
            slots=int(slots[best]),
        )

    def _in_several(self, level: int, around: NDArray[np.intp], most: int | None) -> Choice | None:
        """The level is above the target: the best set of domains inside one of those that hold all pods."""
        target_room, missing = self._unused_room()
        if missing <= 0:
            return Choice(level, *self._bounds(level, int(around[0])), self._used, 0, 0)
        fewest_first = self._goals[0] is Goal.FEWEST_DOMAINS or self.wish.roomiest
        best_set = tightest_of_number if fewest_first else tightest_of_any_number
        if self.wish.roomiest:
            best_set = roomiest_of_number
        found: Choice | None = None
        for domain, members, fewest in self._needing(level, around, target_room, missing, every=not fewest_first):
            if most is not None and fewest > most:
                break
            choice = self._chosen(level, domain, members, best_set(target_room[members], missing, fewest))
            if found is None or choice.score(self._goals) < found.score(self._goals):
                found = choice
            if found.number == fewest and found.room == missing:
                break
        return found

    def _chosen(self, level: int, domain: int, members: NDArray[np.intp], set_: TightSet) -> Choice:
        new = members[set_.domains]
        domains = [*self._used, *sorted(new.tolist())]
        unproven = frozenset[Goal]() if set_.proven else self._from_leftover_on
        room = -set_.room if self.wish.roomiest else set_.room
        slots = int(self._slots[new].sum())
        return Choice(level, *self._bounds(level, domain), domains, len(set_), room, unproven=unproven, slots=slots)

    @cached_property
    def _slots(self) -> Counts:
        """The tie-breaker between target domains that are equal in whole segments: all their slots."""
        if not self.wish.layers:
            return np.zeros(len(self.tree.starts[self.wish.target]), dtype=np.int64)
        slots = self._cost(self.tree.sums(self.slots, self.wish.target))
        slots[self._used] = 0
        return slots

    def _cost(self, room: Counts) -> Counts:
        """The room of the chosen domain, negative if the roomiest is wanted."""
        return -room if self.wish.roomiest else room

    @cached_property
    def _from_leftover_on(self) -> frozenset[Goal]:
        """The goals that are unproven if `least-leftover` is."""
        return frozenset(self.wish.objective[self.wish.objective.index(Goal.LEAST_LEFTOVER) :])

    def _needing(
        self, level: int, around: NDArray[np.intp], room: Counts, missing: int, *, every: bool
    ) -> Iterator[tuple[int, NDArray[np.intp], int]]:
        """Domains of a level, the target domains inside each, and how many of these hold all pods; the fewest first.

        Only those that need the fewest, unless `every` is set. Domains nearer to running members come first.
        """
        starts = self.tree.starts[self.wish.target]
        if level == WHOLE_TREE:
            yield 0, self._nearest_first(np.arange(len(room))), fewest_domains(room, missing)
            return
        begins = np.searchsorted(starts, self.tree.starts[level])
        order = np.lexsort((-room, self.tree.domain_at[level][starts]))
        # Largest first, domain after domain: one running sum shows where each has reached the missing pods.
        reached = np.cumsum(room[order])
        before = np.where(begins > 0, reached[begins - 1], 0)
        needed = np.searchsorted(reached, before[around] + missing) - begins[around] + 1
        best = np.argsort(needed, kind="stable")[:MOST_CANDIDATES] if every else np.flatnonzero(needed == needed.min())
        ends = np.append(begins[1:], len(starts))
        for index in best[:MOST_CANDIDATES].tolist():
            domain = int(around[index])
            yield domain, self._nearest_first(np.arange(begins[domain], ends[domain])), int(needed[index])

    def _nearest_first(self, members: NDArray[np.intp]) -> NDArray[np.intp]:
        """Target domains near running members first; without any, those with few slots beside whole segments."""
        if not self.wish.running_at:
            return members[np.argsort(self._slots[members], kind="stable")] if self.wish.layers else members
        distances = distances_to(self.tree, self.wish.running_at)[self.tree.starts[self.wish.target]]
        return members[np.argsort(distances[members], kind="stable")]

    def _by_segments(self, level: int, around: NDArray[np.intp], above: tuple[SegmentLayer, ...]) -> Choice | None:
        """Segments wider than preferred domains: `segments.py` first decides how many each domain gets."""
        wish = self.wish
        inside = [self._bounds(level, domain) for domain in around.tolist()]
        segmented = SegmentedRoom(self.tree, self.room, above, wish.target, frozenset(self._used))
        dealt = deal_segments(segmented, inside, wish.pods)
        first, end = next(bounds for bounds in inside if bounds[0] <= dealt.first < bounds[1])
        shares = (above[-1], dealt.shares)
        return Choice(level, first, end, (), dealt.cost, 0, shares, self._from_leftover_on)


def fewest_domains(room: Counts, missing: int) -> int:
    """How many of these domains hold the missing pods, the largest first."""
    return 1 + int(np.sort(room)[::-1].cumsum().searchsorted(missing))


def distances_to(tree: Tree, running_at: Sequence[int]) -> Counts:
    """For every position the sum of its distances to these positions, in edges."""
    total = np.zeros(tree.size, dtype=np.int64)
    for domain_at in tree.domain_at:
        beside = np.bincount(domain_at[list(running_at)], minlength=int(domain_at[-1]) + 1)
        total += 2 * (len(running_at) - beside[domain_at])
    return total
