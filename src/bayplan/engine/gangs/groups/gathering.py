"""Groups closer to each other: move pods of a good placement where the mean distance gets smaller.

Two pods in one domain are two edges closer than two in different ones, at every level. So the mean distance falls as
the sum of squares of pods per domain grows, and the gain of a move is known for all pods and nodes at once. Pods of one
part move between nodes, and whole groups between domains. If none of that helps, a node is filled with pods from
several others. No move takes more preferred or wider domains, or violates a requirement or a kubelet's admission.

This is a descent: it ends when no single move helps, which need not be the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.budget import Budget
from bayplan.engine.gangs.equal.tree_table import largest_first
from bayplan.engine.gangs.groups.gathering_state import Key, Move, State, by_level, by_position
from bayplan.engine.gangs.problem import Counts, Placed, Problem

# Rounds over all pods; most placements need one or two.
MOST_ROUNDS = 8
# Domains that are tried for one group.
MOST_TRIES = 3
# Groups are put down anew in several orders if there are no more.
FEW_UNITS = 8
# Nodes beyond those beside pods of the gang that are compared.
MOST_TARGETS = 64
# Cells, pods by nodes, that are compared at once.
MOST_CELLS = 200_000
# What a microsecond compares on one level.
CELLS_PER_WORK = 100
WORK_OF_A_MOVE = 80
NO_GAIN: Counts = np.zeros(0, dtype=np.int64)


def closeness(problem: Problem, placed: Placed) -> int:
    """How close pods are, running ones included: the sum over all levels of squares of pods per domain."""
    return _sum_of_squares(problem, by_position(problem, placed))


def closeness_of(problem: Problem, counts: Counts) -> int:
    """The same by what each position has of the pods that are placed."""
    pods = counts.copy()
    np.add.at(pods, list(problem.parts[0].running_at), 1)
    return _sum_of_squares(problem, pods)


def _sum_of_squares(problem: Problem, pods: Counts) -> int:
    return sum(int((inside * inside).sum()) for inside in by_level(problem, pods))


def closest_possible(problem: Problem, spans: Sequence[tuple[int, int]]) -> list[int]:
    """For each of some domains a bound on closeness if all pods are in it.

    At each level by itself, as many pods as fit are in the largest domains. Domains are given by their first position
    and the one behind their last.
    """
    tree, running_at = problem.tree, problem.parts[0].running_at
    room = np.add.reduce([np.minimum(problem.slots[shape], count) for shape, count in problem.totals[0].items()])
    if running_at:
        np.add.at(room, list(running_at), 1)
    pods = len(running_at) + sum(problem.totals[0].values())
    levels = list(zip(tree.domain_at, by_level(problem, room), strict=True)) if spans else []
    found = []
    for first, end in spans:
        in_all, total = min(pods, int(room[first:end].sum())), 0
        for domain_at, sums in levels:
            low, high = domain_at[first], domain_at[end - 1] + 1
            if high - low == 1:
                total += in_all * in_all
                continue
            largest_first = -np.sort(-sums[low:high])
            reached = np.minimum(largest_first.cumsum(), pods)
            reached[1:] -= reached[:-1].copy()
            total += int(reached.dot(reached))
        found.append(total)
    return found


def gathered(problem: Problem, placed: Placed, budget: Budget) -> Placed:
    """The same pods with a mean distance that is no larger, as far as the budget goes."""
    budget.spend(20 + 5 * sum(map(len, placed)))
    state = State(problem, placed)
    units = _units(state)
    closest = closest_possible(problem, [(0, problem.tree.size)])[0]
    _descend(state, units, closest, budget)
    best = state
    for order in _orders(units):
        if best.closeness == closest or budget.is_spent:
            break
        # Once more from another beginning: one group after another, each as close to those before it as it can be.
        state = State(problem, placed)
        if _begin_anew(state, order, budget):
            _descend(state, units, closest, budget)
            best = max(best, state, key=lambda each: each.closeness)
    return best.placed()


def _orders(units: Sequence[_Unit]) -> list[tuple[_Unit, ...]]:
    """Orders in which units are put down: the largest first, those of narrow domains first, as they are written.

    Of many there is one.
    """
    distinct: list[_Unit] = []
    taken: set[Key] = set()
    for unit in units:
        # Parts of a group that prefer a level inside it are units, too; they come with their group.
        if taken.isdisjoint(unit.keys):
            distinct.append(unit)
            taken.update(unit.keys)
    units = distinct
    by_size = sorted(units, key=lambda unit: -unit.pods)
    orders = (by_size, sorted(by_size, key=lambda unit: -unit.level), units)
    chosen = orders if len(units) <= FEW_UNITS else orders[:1]
    return list(dict.fromkeys(map(tuple, chosen))) if len(units) > 1 else []


def _descend(state: State, units: Sequence[_Unit], closest: int, budget: Budget) -> None:
    """Move as long as that helps; nothing is closer than `closest`."""

    def is_done() -> bool:
        return state.closeness == closest or budget.is_spent

    for _ in range(MOST_ROUNDS):
        before = state.closeness
        if not is_done():
            _move_units(state, units, budget)
        if not is_done():
            _move_pods(state, budget)
        # Filling nodes takes long, and comes only if nothing before it has helped.
        if not is_done() and state.closeness == before:
            _fill_nodes(state, budget)
        if is_done() or state.closeness == before:
            return


@dataclass(frozen=True, slots=True)
class _Unit:
    """Pods of some parts that move together to another domain of a level, inside the domain of the outer group."""

    keys: tuple[Key, ...]
    level: int
    around: int
    pods: int


def _units(state: State) -> list[_Unit]:
    """Groups without others inside, and parts that prefer a level below what is required of them."""
    bound: dict[int, list[Key]] = {}
    for key in state.at:
        bound.setdefault(state.groups.bound_by[key[0]], []).append(key)
    units = [
        _Unit(tuple(bound[group.part]), group.level, group.around, sum(state.groups.own[group.part].values()))
        for group in state.groups.groups
        if group.home is None and group.apart is None and not state.groups.inside[group.part]
    ]
    for number, part in enumerate(state.problem.parts):
        around = state.groups.bound_by[number]
        if number and part.pods and part.preferred is not None and part.preferred > state.groups.level_of[around]:
            keys = tuple((number, shape) for shape in part.pods)
            units.append(_Unit(keys, part.preferred, around, sum(part.pods.values())))
    return units


# -- pods -------------------------------------------------------------------------------------------------------


def _move_pods(state: State, budget: Budget) -> None:
    """Pods of one part from a node to a better one, as long as there is any."""
    bundles = sorted((count, key, position) for key, here in state.at.items() for position, count in here.items())
    targets = _targets(state)
    chunk = max(1, MOST_CELLS // max(len(targets), 1))
    for begin in range(0, len(bundles) if len(targets) else 0, chunk):
        some = bundles[begin : begin + chunk]
        budget.spend(50 + len(some) * len(targets) * len(state.inside) / CELLS_PER_WORK)
        if budget.is_spent:
            return
        gains = _gains(state, some, targets)
        moved = False
        for index in np.flatnonzero((gains > 0).any(axis=1)).tolist():
            budget.spend(WORK_OF_A_MOVE)
            count, key, position = some[index]
            if moved:
                count = state.at[key].get(position, 0)
                gain = _gains(state, [(count, key, position)], targets)[0] if count else NO_GAIN
            else:
                gain = gains[index]
            moved |= _move_bundle(state, (count, key, position), targets, gain)


def _targets(state: State) -> NDArray[np.intp]:
    """Nodes with room that could be better: beside pods of the gang in the lowest domains, else the roomiest."""
    room = np.maximum.reduce([state.room(shape, 0, state.tree.size) for shape in state.used])
    lowest = max(state.tree.node_level - 1, 0)
    beside = (room > 0) & (state.inside[lowest][state.tree.domain_at[lowest]] > 0)
    wider = np.flatnonzero((room > 0) & (state.inside[0][state.tree.domain_at[0]] > 0) & ~beside)
    roomiest = wider[np.argsort(-room[wider], kind="stable")[:MOST_TARGETS]]
    return np.concatenate((np.flatnonzero(beside), roomiest))


def _gains(state: State, bundles: list[tuple[int, Key, int]], targets: NDArray[np.intp]) -> Counts:
    """[bundle, target]: what is gained by moving as many pods of it there as have room."""
    rooms = {shape: state.room(shape, 0, state.tree.size)[targets] for shape in {key[1] for _, key, _ in bundles}}
    positions = np.array([position for _, _, position in bundles])
    most = np.array([count for count, _, _ in bundles])[:, np.newaxis]
    share = np.minimum(np.array([rooms[key[1]] for _, key, _ in bundles]), most)
    gain: Counts = np.zeros_like(share)
    for inside, domain_at in zip(state.inside, state.tree.domain_at, strict=True):
        if len(inside) == 1:
            continue  # no move leaves the only domain of a level
        here, there = domain_at[positions][:, np.newaxis], domain_at[targets]
        gain += np.where(there == here, 0, 2 * share * (inside[there] - inside[here] + share))
    allowed = np.array([state.bounds(state.groups.bound_by[key[0]], position) for _, key, position in bundles])
    gain[(targets < allowed[:, :1]) | (targets >= allowed[:, 1:]) | (share == 0)] = 0
    gain[targets == positions[:, np.newaxis]] = 0
    return gain


def _move_bundle(state: State, bundle: tuple[int, Key, int], targets: NDArray[np.intp], gain: Counts) -> bool:
    """Move as many pods as have room to the best target that is allowed; False if there is none."""
    count, key, position = bundle
    room = state.room(key[1], 0, state.tree.size)
    for index in (-gain).argsort(kind="stable")[:MOST_TRIES].tolist():
        if gain[index] <= 0:
            return False
        best = int(targets[index])
        share = min(int(room[best]), count)
        moves: list[Move] = [(key, position, -share), (key, best, share)]
        for move in moves:
            state.shift(move)
        if state.is_allowed(moves):
            return True
        for move in moves:
            state.shift(move, -1)
    return False


def _fill_nodes(state: State, budget: Budget) -> None:
    """Nodes with much room take pods from nodes that have few, as many as make the gang closer."""
    room = np.maximum.reduce([state.room(shape, 0, state.tree.size) for shape in state.used])
    for position in np.argsort(-room, kind="stable")[:MOST_TRIES].tolist():
        if not room[position] or budget.is_spent:
            return
        budget.spend(WORK_OF_A_MOVE * (1 + len(state.at)))
        _fill(state, position)


def _fill(state: State, position: int) -> None:
    """Fill one node step by step, and stay where the gang was closest."""
    before = best = state.closeness
    moves: list[Move] = []
    kept = 0
    nodes = state.inside[-1]
    others = sorted((int(nodes[at]), key, at) for key, here in state.at.items() for at in here if at != position)
    for _, key, at in others:
        first, end = state.bounds(state.groups.bound_by[key[0]], at)
        share = min(state.at[key].get(at, 0), int(state.room(key[1], position, position + 1)[0]))
        if share and first <= position < end:
            for move in ((key, at, -share), (key, position, share)):
                moves.append(move)
                state.shift(move)
            if state.closeness > best:
                best, kept = state.closeness, len(moves)
    for move in reversed(moves[kept:]):
        state.shift(move, -1)
    if kept and (state.closeness <= before or not state.is_allowed(moves[:kept])):
        for move in reversed(moves[:kept]):
            state.shift(move, -1)


# -- groups -----------------------------------------------------------------------------------------------------


def _move_units(state: State, units: Sequence[_Unit], budget: Budget) -> None:
    """Each unit to a better domain, if there is any."""
    for unit in units:
        if budget.is_spent:
            return
        at = [(position, count) for key in unit.keys for position, count in state.at[key].items()]
        left = {state.domains[unit.level][position] for position, _ in at}
        if len(left) == len(state.tree.starts[unit.level]):
            continue  # it is in every domain of its level, so there is nowhere to move it
        enough = _with_room(state, unit, at[0][0], left)
        if not enough.any():
            continue
        before = state.closeness
        budget.spend(WORK_OF_A_MOVE)
        better = _better_domains(state, unit, enough, at, before)
        if better:
            leaving = _leave(state, unit)
            if _settle(state, unit, leaving, better, before, budget) is None:
                state.undo(leaving)


def _begin_anew(state: State, order: Sequence[_Unit], budget: Budget) -> bool:
    """Remove all units and put them back in an order; False if one has no place, or if more domains are used."""
    counts = state.counts
    leaving = {unit: _leave(state, unit) for unit in order}
    state.counts = ()
    for unit in order:
        if budget.is_spent:
            return False
        budget.spend(WORK_OF_A_MOVE)
        enough = _with_room(state, unit, leaving[unit][0][1], set())
        if _settle(state, unit, leaving[unit], _better_domains(state, unit, enough, [], -1), -1, budget) is None:
            return False
    state.counts = counts
    return state.is_allowed([])


def _leave(state: State, unit: _Unit) -> list[Move]:
    leaving = [(key, position, -count) for key in unit.keys for position, count in state.at[key].items()]
    for move in leaving:
        state.shift(move)
    return leaving


def _settle(
    state: State, unit: _Unit, moved: list[Move], domains: Sequence[int], before: int, budget: Budget
) -> list[Move] | None:
    """Put a removed unit into that of some domains with the largest closeness, if it improves; else None."""
    best: tuple[int, list[Move]] | None = None
    for domain in domains:
        budget.spend(WORK_OF_A_MOVE)
        coming = _arrivals(state, unit, *state.tree.bounds(unit.level, domain))
        if coming is None:
            continue
        if state.closeness > max(before, best[0] if best else before) and state.is_allowed([*moved, *coming]):
            best = state.closeness, coming
        state.undo(coming)
    if best is None:
        return None
    for move in best[1]:
        state.shift(move)
    return best[1]


def _better_domains(
    state: State, unit: _Unit, enough: NDArray[np.bool_], at: Sequence[tuple[int, int]], before: int
) -> list[int]:
    """The domains, of those with enough room, where a unit could be closer to the other pods, the best first.

    `at` is where its pods are now, outside these domains; they are not counted.
    """
    level, tree = unit.level, state.tree
    domains = enough.nonzero()[0]
    if not len(domains):
        return []
    # The most closeness that the pods can bring there.
    pods, closeness = unit.pods, state.closeness
    starts = tree.starts[level][domains]
    value = np.zeros(len(domains), dtype=np.int64)
    for each, inside in enumerate(state.inside):
        own: dict[int, int] = {}
        for position, count in at:
            domain = state.domains[each][position]
            own[domain] = own.get(domain, 0) + count
        closeness -= sum(count * (2 * int(inside[domain]) - count) for domain, count in own.items())
        if each <= level:
            around = tree.domain_at[each][starts]
            there = inside[around]
            for domain, count in own.items():
                there -= count * (around == domain)
        else:
            there = np.maximum.reduceat(inside[tree.domain_at[each]], tree.starts[level])[domains]
        value += pods * (2 * there + pods)
    order = (-value).argsort(kind="stable")[:MOST_TRIES]
    return [int(domains[index]) for index in order if closeness + value[index] > before]


def _with_room(state: State, unit: _Unit, position: int, left: set[int]) -> NDArray[np.bool_]:
    """The domains that have slots for a unit and that it may take, but for those that it `left`."""
    tree, level = state.tree, unit.level
    first, end = state.bounds(unit.around, position)
    low, high = int(tree.domain_at[level][first]), int(tree.domain_at[level][end - 1]) + 1
    enough = np.zeros(len(tree.starts[level]), dtype=np.bool_)
    enough[low:high] = True
    enough[list(left)] = False
    for shape, count in _wanted(state, unit).items():
        enough &= state.room_in(shape, level) >= count
    return enough


def _wanted(state: State, unit: _Unit) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for number, shape in unit.keys:
        wanted[shape] = wanted.get(shape, 0) + state.problem.parts[number].pods[shape]
    return wanted


def _arrivals(state: State, unit: _Unit, low: int, high: int) -> list[Move] | None:
    """Put the pods of a unit on the nodes between two positions; if they do not fit, place none and return None."""
    coming: list[Move] = []
    for key in unit.keys:
        room, wanted = state.room(key[1], low, high), state.problem.parts[key[0]].pods[key[1]]
        if int(room.sum()) < wanted:
            for move in coming:
                state.shift(move, -1)
            return None
        # Nodes that the gang uses already come first.
        used = state.inside[-1][low:high] > 0
        touched = np.where(used, room, 0)
        share = min(wanted, int(touched.sum()))
        counts = largest_first(touched, share) if share else np.zeros_like(room)
        if wanted > share:
            counts = counts + largest_first(np.where(used, 0, room), wanted - share)
        for at in np.flatnonzero(counts).tolist():
            coming.append((key, low + at, int(counts[at])))
            state.shift(coming[-1])
    return coming
