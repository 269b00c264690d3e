"""Bounds: what counting alone proves about a gang, before any search. Most refusals come from here.

Each part is compared with its possible domains, shape by shape and resource by resource. The other bound is the fewest
preferred domains that could hold a gang: an answer that needs no more is optimal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import place_equal
from bayplan.engine.gangs.groups.groups import capacity_rows, groups_of
from bayplan.engine.gangs.problem import WHOLE_TREE, Counts, Problem

# With more shapes, slots are not used to bound a resource: some shape has a slot nearly everywhere.
FEW_SHAPES = 64
# Groups or domains that a sentence names.
MOST_NAMED = 3


def shortage(problem: Problem) -> str:
    """Why no domain of its level holds a part, by pods of one shape or by one resource; empty if one does."""
    most: Most = {}
    by_amounts = _of_slots(problem, most) or _of_a_resource(problem, most)
    return by_amounts or _of_shapes_apart(problem) or _of_equal_groups(problem)


Most = dict[tuple[int, int, tuple[int, int], int | None], int]
"""By shape, level, home and the parts to keep apart from: the most slots of one domain."""


def _of_slots(problem: Problem, known: Most) -> str:
    for number, part in enumerate(problem.parts):
        level = part.required if part.required is not None else WHOLE_TREE
        closed, home = problem.closed(number), problem.home(number)
        for shape, wanted in problem.totals[number].items():
            key = (shape, level, home, part.apart if closed else None)
            if key not in known:
                known[key] = _most_in_one(problem, number, shape, level)
            if known[key] < wanted:
                needs = _needs(problem, number, slots_text(wanted), _owners(problem, number, shape))
                return f"{needs}, {but_gets(known[key])}"
    return ""


def _of_a_resource(problem: Problem, slots: Most) -> str:
    """The total request of several shapes that no domain has."""
    asked: set[Hashable] = set()
    for number, part in enumerate(problem.parts):
        wanted = problem.totals[number]
        key = (tuple(wanted.items()), part.required, problem.home(number), part.apart)
        if len(wanted) < 2 or key in asked:
            continue
        asked.add(key)
        level = part.required if part.required is not None else WHOLE_TREE
        where = (level, problem.home(number), part.apart if problem.closed(number) else None)
        for resource, name in enumerate(problem.resources):
            amounts = problem.amounts[:, resource]
            needed = sum(float(amounts[shape]) * count for shape, count in wanted.items())
            if any(float(amounts[shape]) * slots[shape, *where] >= needed for shape in wanted):
                continue  # the slots of one shape alone have as much
            room = np.maximum(problem.free[resource], 0.0)
            if len(wanted) <= FEW_SHAPES:
                mine = (amounts[shape] * slots_at_home(problem, number, shape) for shape in wanted)
                room = np.minimum(sum(mine), room)
            most = float(room.sum())
            if part.required is not None:
                sums = np.add.reduceat(room, problem.tree.starts[part.required])
                sums[problem.closed(number)] = 0.0
                most = float(sums.max(initial=0.0))
            if most < needed:
                needs = _needs(problem, number, f"{_amount(name, needed)} {name}")
                return f"{needs}, {but_gets(_amount(name, most) if most else 0)}"
    return ""


def _of_shapes_apart(problem: Problem) -> str:
    """Pods of several shapes that each have room in some domain of a level, but not in the same."""
    asked: set[Hashable] = set()
    for number, part in enumerate(problem.parts):
        wanted, level = problem.totals[number], part.required
        key = (tuple(wanted.items()), level, problem.home(number), part.apart)
        if level is None or len(wanted) < 2 or key in asked:
            continue
        asked.add(key)
        fit = []
        for shape, count in wanted.items():
            sums = problem.tree.sums(slots_at_home(problem, number, shape), level)
            sums[problem.closed(number)] = 0
            fit.append(sums >= count)
        if not np.logical_and.reduce(fit).any():
            told = [
                f"{_listed(_owners(problem, number, shape)) or pods_text(count)} ({_fits(problem, level, where)})"
                for (shape, count), where in zip(wanted.items(), fit, strict=True)
            ]
            return f"no {_level_name(problem, level)} holds {_listed(told)} together"
    return ""


def _fits(problem: Problem, level: int, where: NDArray[np.bool_]) -> str:
    """`fits b1`, `fits b1, b2 and 3 more`."""
    names = ["/".join(problem.tree.paths[level][domain]) for domain in np.flatnonzero(where)[: MOST_NAMED + 1]]
    more = int(where.sum()) - MOST_NAMED
    return f"fits {', '.join(names[:MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


def _listed(texts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _owners(problem: Problem, number: int, shape: int) -> Sequence[str]:
    """The groups inside a part of several shapes whose pods have one of them; empty if pods of its own have it."""
    if len(problem.totals[number]) < 2:
        return ()
    owners = [each for each, part in enumerate(problem.parts) if shape in part.pods and number in _above(problem, each)]
    names = [problem.parts[each].name for each in owners]
    return names if number not in owners and all(names) and len(names) <= MOST_NAMED else ()


def _above(problem: Problem, number: int) -> Iterator[int]:
    """A part and the parts around it."""
    while number >= 0:
        yield number
        number = problem.parts[number].parent


def _of_equal_groups(problem: Problem) -> str:
    """Why all domains together hold too few of some equal groups of several shapes, by their capacity rows."""
    alike: dict[tuple[int, tuple[tuple[int, int], ...]], list[int]] = {}
    groups = groups_of(problem)
    for group in groups.groups:
        pods = tuple(groups.own[group.part].items())
        if len(pods) > 1 and group.home is None:
            alike.setdefault((group.level, pods), []).append(group.part)
    rows = None
    for (level, pods), parts in alike.items():
        if len(parts) < 2:
            continue
        rows = rows or capacity_rows(problem)
        counts = rows.of(dict(pods))
        room = np.add.reduceat(rows.per_node[counts > 0], problem.tree.starts[level], axis=1)
        most = int((room // counts[counts > 0][:, np.newaxis]).min(axis=0).sum())
        if most < len(parts):
            first, last = problem.parts[parts[0]].name, problem.parts[parts[-1]].name
            needed = f"groups {first} to {last} need room {len(parts)} times{in_one(problem, level)}"
            return f"{needed}, but there is room only {most} times"
    return ""


def _amount(resource: str, amount: float) -> str:
    """An amount for a sentence: CPUs, GiB of memory, numbers of everything else."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return f"{amount / 2**30:.4g}Gi"
    return f"{amount:g}"


def _needs(problem: Problem, number: int, what: str, groups: Sequence[str] = ()) -> str:
    """`group a needs 3 slots in one rack`, or those of the `groups` inside it that need them."""
    part = problem.parts[number]
    level = part.required if part.required is not None else WHOLE_TREE
    where = in_one(problem, level) if part.home is None else _at_home(problem, number)
    where += " apart from those that run" if problem.closed(number) else ""
    if len(groups) > 1:
        return f"groups {_listed(groups)} need {what}{where}"
    return f"{f'group {groups[0]}' if groups else _name(problem, number)} needs {what}{where}"


def slots_text(number: int) -> str:
    """`1 slot`, `3 slots`."""
    return f"{number} slot" if number == 1 else f"{number} slots"


def pods_text(number: int) -> str:
    """`1 pod`, `3 pods`."""
    return f"{number} pod" if number == 1 else f"{number} pods"


def but_gets(most: int | str) -> str:
    """`but can get at most 8`; none if `most` is 0."""
    return f"but can get at most {most}" if most else "but can get none"


def _most_in_one(problem: Problem, number: int, shape: int, level: int) -> int:
    slots = slots_at_home(problem, number, shape)
    if level == WHOLE_TREE:
        return int(slots.sum())
    sums = problem.tree.sums(slots, level)
    sums[problem.closed(number)] = 0
    return int(sums.max(initial=0))


def slots_at_home(problem: Problem, number: int, shape: int) -> Counts:
    """The slots that a part can use: all, or those in the domain of its running members."""
    first, end = problem.home(number)
    if end - first == problem.tree.size:
        return problem.slots[shape]
    slots = np.zeros_like(problem.slots[shape])
    slots[first:end] = problem.slots[shape][first:end]
    return slots


def _name(problem: Problem, number: int) -> str:
    name = problem.parts[number].name
    return f"group {name}" if name else "the gang"


def in_one(problem: Problem, level: int) -> str:
    """` in one rack`, ` on one node`; nothing for the whole tree."""
    if level == WHOLE_TREE:
        return ""
    return f" {'on' if level == problem.tree.node_level else 'in'} one {_level_name(problem, level)}"


def _level_name(problem: Problem, level: int) -> str:
    return "node" if level == problem.tree.node_level else problem.tree.levels[level]


def _at_home(problem: Problem, number: int) -> str:
    part = problem.parts[number]
    assert part.required is not None
    assert part.home is not None
    return f" in {'/'.join(problem.tree.paths[part.required][part.home])}, where members run"


def crowd(problem: Problem) -> str:
    """Parts that avoid each other inside one domain of the level at which they do; an empty text if there are none."""
    held: dict[tuple[int, int], list[int | None]] = {}
    for number, part in enumerate(problem.parts):
        is_there = part.home is not None or bool(problem.totals[number])
        if part.apart is None or part.required is None or not is_there:
            continue
        # The outermost part that requires this level or a lower one holds all inside it in one domain.
        holder = number
        outer = part.parent
        while outer >= 0:
            level = problem.parts[outer].required
            holder = outer if level is not None and level >= part.required else holder
            outer = problem.parts[outer].parent
        homes = held.setdefault((part.apart, holder), [])
        homes.append(part.home)
        # Parts that already run in the same domain stay there, but no further part may join them.
        if holder != number and len(homes) > 1 and None in homes:
            return f"segments apart from each other cannot all be{in_one(problem, part.required)}"
    return ""


def least_domains(problem: Problem) -> int:
    """A bound on preferred domains for all parts that prefer a level, each part and each shape by itself."""
    known: dict[tuple[object, ...], int] = {}
    total = 0
    for number, part in enumerate(problem.parts):
        if part.preferred is None or not problem.totals[number]:
            total += len(problem.used(number))
            continue
        pods = tuple(problem.totals[number].items())
        key = (pods, problem.required(number), problem.home(number), part.preferred, part.running_at)
        if key not in known:
            alone = [_fewest_of(problem, number, shape) for shape in problem.totals[number]]
            known[key] = max((*alone, *_fewest_by_sums(problem, number)))
        total += known[key]
    return total


def fewest_wider(problem: Problem) -> tuple[int, ...]:
    """A bound on domains per wider level, narrow ones first: one for each part that prefers a narrower level."""
    levels = range(problem.tree.node_level - 1, -1, -1)
    return tuple(
        sum(
            max(len({int(problem.tree.domain_at[level][at]) for at in part.running_at}), bool(problem.totals[number]))
            for number, part in enumerate(problem.parts)
            if level < (part.preferred or 0)
        )
        for level in levels
    )


def _fewest_of(problem: Problem, number: int, shape: int) -> int:
    """The preferred domains that a part's pods of one shape need; at least one."""
    part = problem.parts[number]
    wish = EqualPods(
        problem.totals[number][shape], problem.required(number), part.preferred, running_at=part.running_at
    )
    return max(1, place_equal(problem.tree, slots_at_home(problem, number, shape), wish).domains)


def _fewest_by_sums(problem: Problem, number: int) -> Iterator[int]:
    """A bound on preferred domains, by the total request of a part's pods, resource by resource."""
    part = problem.parts[number]
    for resource in range(problem.free.shape[0]):
        amounts = [int(amount) for amount in problem.amounts[:, resource]]
        unit = gcd(*amounts)
        pods = problem.totals[number]
        wanted = sum(amounts[shape] // unit * count for shape, count in pods.items())
        usable = sum(amounts[shape] // unit * slots_at_home(problem, number, shape) for shape in pods)
        room = np.minimum(usable, np.maximum(problem.free[resource] // unit, 0)).astype(np.int64)
        wish = EqualPods(wanted, problem.required(number), part.preferred, running_at=part.running_at)
        yield place_equal(problem.tree, room, wish).domains if wanted else 0
