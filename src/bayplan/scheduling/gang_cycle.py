"""Place a whole gang: the counterpart of `cycle.py` for pods that start together or not at all.

    classes of the gang's pods -> slots per node (what kubelets would admit) -> search in the tree -> seats in the order of ranks

`schedule_gang` changes nothing. `assume_gang` takes the seats one by one, with the zones of each pod, and gives everything back if one of
them cannot be had after all. Optional things are given up in this order: segments that are only wished for, extra members, groups
beyond the minimum. What is required is never given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import overload
from weakref import WeakKeyDictionary

import numpy as np

from bayplan.cluster.pod_class import PodClass
from bayplan.cluster.pod_request import PODS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.tree import Tree
from bayplan.engine.gangs.equal_pods import Layer
from bayplan.engine.gangs.problem import Counts, Part, Problem, Solution, Status, domains_used
from bayplan.engine.gangs.search import search
from bayplan.kube.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.class_slots import ClassSlots
from bayplan.scheduling.cycle import assume, why_not_yet
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.gang import Gang, GangDecision, Group, LevelRoom, Seat, Slices
from bayplan.scheduling.gang_checks import problem_of
from bayplan.scheduling.gang_styles import BAYPLAN, place_in_style
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.rooms import rooms_of
from bayplan.scheduling.trees import Trees

Bounds = tuple[int, int]

# Ways to leave groups out that are tried before the gang is told to wait.
MOST_CHOICES = 200


@dataclass
class GangScheduler:
    """What placing gangs needs beside the gang: the cluster, its trees, the profile and everything that is kept per class."""

    state: ClusterState
    trees: Trees
    profile: Profile
    answers: ClassAnswers

    def __post_init__(self) -> None:
        self._slots: dict[PodClass, ClassSlots] = {}
        self._outlines: WeakKeyDictionary[Gang, _Outline] = WeakKeyDictionary()

    def outline(self, gang: Gang, whole: Group, tree: Tree) -> _Outline:
        """A gang's parts and shapes; kept for gangs that ask again and have nobody running."""
        if whole is not gang.whole or any(group.running for group in whole.every_group()):
            return _outline(self.state, tree, whole)
        known = self._outlines.get(gang)
        if known is None or known.levels != tree.levels:
            known = self._outlines[gang] = _outline(self.state, tree, whole)
        return known

    def slots(self, pod: PodClass, tree: Tree, most: int) -> Counts:
        """By position in the tree, how many pods of a class each node's kubelet would admit, at most `most`."""
        known = self._slots.get(pod)
        if known is None:
            answer = self.answers.for_class(pod, self.profile)
            known = self._slots[pod] = ClassSlots(self.state, pod, self.profile, answer)
        counts, _ = known.refresh(most)
        by_position: Counts = counts[tree.rows].astype(np.int64)
        return by_position


def schedule_gang(scheduler: GangScheduler, gang: Gang, waited: float = 0.0) -> GangDecision:
    """Decide where a gang goes. The state stays as it is; `waited` is for how many seconds the gang has been waiting."""
    tree = scheduler.trees.get(gang.topology)
    wrong = problem_of(gang, tree, scheduler.trees.names)
    if wrong or tree is None:
        return GangDecision(gang.name, Status.INFEASIBLE, wrong, problem=wrong)
    if gang.style != BAYPLAN:
        return place_in_style(gang.style, scheduler.state, tree, gang, scheduler.profile, scheduler.answers)
    first: Solution | None = None
    for plan in _plans(gang):
        outline = scheduler.outline(gang, plan.whole, tree)
        if outline.held_back:
            return GangDecision(gang.name, Status.INFEASIBLE, outline.held_back, problem=outline.held_back)
        problem = _as_numbers(scheduler, tree, gang, outline)
        layers = tuple(Layer(_number(tree, each.level), each.size, each.apart) for each in plan.slices)
        solution = search(problem, layers)
        if solution.found:
            return _decision(gang, plan, outline, problem, solution, waited)
        first = first or solution
    assert first is not None
    return GangDecision(gang.name, first.status, first.bound, rooms=_rooms(scheduler, tree, gang))


def assume_gang(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> list[Decision] | None:
    """Take every seat of a decision with the zones there; None, and nothing taken, if a node says no after all."""
    state, profile = scheduler.state, scheduler.profile
    pods = {pod_key(pod): pod for pod in gang.pods}
    taken: list[Decision] = []
    for seat in decision.seats:
        pod = pods[seat.pod]
        row = state.rows[seat.node]
        placement = profile.topology.place(state, state.classes.of(pod), row) if profile.topology else None
        if placement is not None and placement.refusal is not None:
            for earlier in taken:
                state.forget(earlier.pod)
            return None
        seated = Decision(seat.pod, seat.node, row)
        if placement is not None:
            seated = Decision(
                seat.pod,
                seat.node,
                row,
                containers=placement.containers,
                charges=placement.charges,
                by_amounts=placement.by_amounts,
            )
        assume(state, seated, pod)
        taken.append(seated)
    return taken


# -- what is tried, in which order -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """A gang with some wishes given up: the groups that take part, their pods, the slices that are kept."""

    whole: Group
    slices: tuple[Slices, ...]
    relaxed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def _plans(gang: Gang) -> Iterator[_Plan]:
    """From everything that is wished for down to what is required."""
    whole = gang.whole
    slices = [whole.slices]
    wished = [each for each in whole.slices if not each.required]
    if wished:
        slices.append(tuple(each for each in whole.slices if each.required))
    for kept in slices:
        relaxed = () if kept == whole.slices else (f"slices of {wished[0].size}",)
        for group, left_out in _smaller(whole):
            yield _Plan(group, kept, relaxed, left_out)


def _smaller(whole: Group) -> Iterator[tuple[Group, tuple[str, ...]]]:
    """The group whole, then with fewer extra members, then with fewer groups."""
    yield whole, ()
    extra = sum(len(group.pods) - group.least for group in whole.every_group())
    least = _with_extra(whole, 0)
    if extra:
        for share in range(extra - 1, -1, -1) if extra <= MOST_CHOICES else _halved(extra):
            smaller = _with_extra(whole, share)
            yield smaller, tuple(sorted(_names(whole) - _names(smaller)))
    if whole.minimum_groups is not None and whole.minimum_groups < len(whole.groups):
        for fewer in _with_fewer_groups(least):
            yield fewer, tuple(sorted(_names(whole) - _names(fewer)))


def _halved(extra: int) -> Iterator[int]:
    while extra:
        extra //= 2
        yield extra


def _with_extra(group: Group, share: int) -> Group:
    """The group with its minimum and so many members beyond it, the lowest ranks first."""
    kept = min(len(group.pods) - group.least, share)
    inner = []
    left = share - kept
    for each in group.groups:
        smaller = _with_extra(each, left)
        left -= sum(len(one.pods) - one.least for one in smaller.every_group())
        inner.append(smaller)
    return replace(group, pods=group.pods[: group.least + kept], minimum=group.least, groups=tuple(inner))


def _with_fewer_groups(whole: Group) -> Iterator[Group]:
    """As many groups as possible; small ones are left out last, because they are the easiest to place."""
    tried = 0
    by_size = sorted(whole.groups, key=lambda group: sum(len(one.pods) for one in group.every_group()))
    for number in range(len(whole.groups) - 1, (whole.minimum_groups or 0) - 1, -1):
        for chosen in combinations(by_size, number):
            tried += 1
            if tried > MOST_CHOICES:
                return
            yield replace(whole, groups=tuple(group for group in whole.groups if group in chosen))


def _names(group: Group) -> set[str]:
    return {pod_key(pod) for each in group.every_group() for pod in each.pods}


# -- the gang as numbers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Outline:
    """What of a gang does not depend on what is free: its parts, its shapes, and the pods of each in the order of their ranks.

    Pods of one class are one shape; those that running members bind to some positions are another.
    """

    levels: tuple[str, ...]
    groups: list[Group]
    parts: tuple[Part, ...]
    shapes: list[tuple[PodClass, Bounds | None]]
    members: list[dict[int, list[Pod]]]
    pods: int
    held_back: str


def _outline(state: ClusterState, tree: Tree, whole: Group) -> _Outline:
    shapes: dict[tuple[PodClass, Bounds | None], int] = {}
    groups = list(whole.every_group())
    parents = _parents(whole)
    members: list[dict[int, list[Pod]]] = []
    held_back = ""
    for number, group in enumerate(groups):
        pinned = _pinned(state, tree, groups, parents, number)
        own: dict[int, list[Pod]] = {}
        for pod in group.pods:
            pod_class = state.classes.of(pod)
            own.setdefault(shapes.setdefault((pod_class, pinned), len(shapes)), []).append(pod)
            reason = "" if held_back else why_not_yet(pod, pod_class)
            held_back = f"pod {pod_key(pod)} {reason}" if reason else held_back
        members.append(own)
    parts = tuple(
        Part(
            group.name,
            parents[number],
            tuple(len(members[number].get(shape, ())) for shape in range(len(shapes))),
            None if group.required is None else _number(tree, group.required),
            None if group.preferred is None else _number(tree, group.preferred),
        )
        for number, group in enumerate(groups)
    )
    pods = sum(len(group.pods) for group in groups)
    return _Outline(tree.levels, groups, parts, list(shapes), members, pods, held_back)


def _as_numbers(scheduler: GangScheduler, tree: Tree, gang: Gang, outline: _Outline) -> Problem:
    state = scheduler.state
    slots = tuple(_inside(scheduler.slots(pod, tree, outline.pods), pinned) for pod, pinned in outline.shapes)
    several = len(outline.shapes) > 1
    amounts, free = _node_sums(state, tree, [pod for pod, _ in outline.shapes]) if several else _NO_SUMS
    return Problem(tree, outline.parts, slots, amounts, free, gang.spread)


_NO_SUMS = (np.zeros((1, 0)), np.zeros((0, 0)))


def _parents(whole: Group) -> list[int]:
    parents = [-1]

    def visit(group: Group, number: int) -> None:
        for inner in group.groups:
            parents.append(number)
            visit(inner, len(parents) - 1)

    visit(whole, 0)
    return parents


def _number(tree: Tree, label: str) -> int:
    number = tree.level_number(label)
    assert number is not None, label  # gang_checks.py has made sure
    return number


def _pinned(state: ClusterState, tree: Tree, groups: list[Group], parents: list[int], number: int) -> Bounds | None:
    """The positions that a group is bound to because members of it, or of a group around it, run there already."""
    position_of = None
    found: Bounds | None = None
    while number >= 0:
        group = groups[number]
        nodes = [pod.spec.node_name for each in group.every_group() for pod in each.running]
        if group.required is not None and nodes:
            if position_of is None:
                position_of = {state.names[row]: position for position, row in enumerate(tree.rows)}
            level = _number(tree, group.required)
            at = next((position_of[node] for node in nodes if node in position_of), None)
            if at is not None:
                bounds = tree.bounds(level, int(tree.domain_at[level][at]))
                found = bounds if found is None else (max(found[0], bounds[0]), min(found[1], bounds[1]))
        number = parents[number]
    return found


def _inside(slots: Counts, bounds: Bounds | None) -> Counts:
    if bounds is None:
        return slots
    inside = np.zeros_like(slots)
    inside[bounds[0] : bounds[1]] = slots[bounds[0] : bounds[1]]
    return inside


def _node_sums(
    state: ClusterState, tree: Tree, shapes: list[PodClass]
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """What pods of each shape take of a node in sum, and what each position has, for the resources that any asks for."""
    names = sorted({name for pod in shapes for name, amount in pod.request.total.items() if amount} | {PODS})
    amounts = np.array([[float({**pod.request.total, PODS: 1}.get(name, 0)) for name in names] for pod in shapes])
    free = np.stack([state.columns.free[state.columns.resource(name)][tree.rows] for name in names])
    return amounts, free


# -- the outcome ----------------------------------------------------------------------------------------------------------


def _decision(
    gang: Gang, plan: _Plan, outline: _Outline, problem: Problem, solution: Solution, waited: float
) -> GangDecision:
    preferred = problem.parts[0].preferred
    used = domains_used(problem, solution, 0) if preferred is not None else None
    patience = gang.patience
    waits = ""
    if patience is not None and used is not None and used > patience.domains and waited < patience.seconds:
        waits = f"{used} preferred domains, waits for {patience.domains} up to {patience.seconds:g} s"
    return GangDecision(
        gang.name,
        solution.status,
        solution.bound,
        _Seats(gang, plan, outline, problem.tree, solution),
        solution.gap,
        plan.left_out,
        plan.relaxed,
        used,
        waits,
    )


class _Seats(Sequence[Seat]):
    """The seats of a decision, made when somebody looks: a gang that waits on is decided about more often than it is seated."""

    def __init__(self, gang: Gang, plan: _Plan, outline: _Outline, tree: Tree, solution: Solution) -> None:
        self._of = gang, plan, outline, tree, solution
        self._number = outline.pods

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> Seat: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Seat]: ...
    def __getitem__(self, index: int | slice) -> Seat | Sequence[Seat]:
        return self._made[index]

    @cached_property
    def _made(self) -> tuple[Seat, ...]:
        return _seats(*self._of)


def _seats(gang: Gang, plan: _Plan, outline: _Outline, tree: Tree, solution: Solution) -> tuple[Seat, ...]:
    """Pods in the order of their ranks on positions in the order of the tree: neighbours stay neighbours."""
    paths = tree.paths[tree.node_level]
    ranks = {pod_key(pod): rank for rank, pod in enumerate(gang.pods)}
    size = plan.slices[-1].size if plan.slices else None
    seats: list[Seat] = []
    for group, members, placed in zip(outline.groups, outline.members, solution.placed, strict=True):
        for shape, pods in members.items():
            spots = placed[shape]
            positions = np.repeat(spots.positions, spots.counts).tolist()
            for number, (pod, position) in enumerate(zip(pods, positions, strict=True)):
                key, path = pod_key(pod), paths[position]
                seats.append(Seat(key, group.name, path[-1], path, ranks[key], number // size if size else None))
    return tuple(sorted(seats, key=lambda seat: seat.rank))


def _rooms(scheduler: GangScheduler, tree: Tree, gang: Gang) -> tuple[LevelRoom, ...]:
    """Per level what the domains hold of a gang of equal pods; nothing for gangs of several shapes."""
    classes = {scheduler.state.classes.of(pod) for pod in gang.pods}
    if len(classes) != 1:
        return ()
    pods = len(gang.pods)
    return rooms_of(tree, scheduler.slots(classes.pop(), tree, pods), pods)
