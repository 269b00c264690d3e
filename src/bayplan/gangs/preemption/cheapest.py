"""The cheapest victims in one domain, exactly: branch and bound over what amounts alone say.

    lightest cover (a bound) -> is it a plan? -> otherwise decide one pod or one gang more, both ways

Violated budgets and the highest priority are settled first, in upstream's order; within these, the lightest set is
searched. A cover is a plan if it violates no more budgets, leaves no gang below its minimum, and the dry run of the
gang's own search confirms it. What keeps it from being one says what to branch on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bayplan.engine.budget import Budget
from bayplan.engine.preemption.covering import Bin, lightest_cover, weight_of
from bayplan.engine.preemption.victims import Candidate, Cost, GangVictims, cost_of


@dataclass(frozen=True)
class EvictionSearch:
    """What can be evicted in a domain, and what judges it."""

    bins: Sequence[Bin]
    wanted: tuple[int, ...]
    candidates: Mapping[str, Candidate]
    gangs: Mapping[str, GangVictims]
    allowed: Mapping[str, int]
    fits: Callable[[Sequence[Candidate]], bool]
    """Whether the gang fits once these have left."""
    offer: Callable[[tuple[Candidate, ...]], bool]
    """Take a set as the best plan if it suffices and costs less; True if it suffices."""
    best: Callable[[], Cost | None]
    least_highest: int
    """The priority of its most important victim, at least."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """Pods that go and pods that stay; gangs that go as a whole, and gangs that lose no more than their surplus."""

    going: frozenset[str] = frozenset()
    staying: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    limited: frozenset[str] = frozenset()


def search_domain(domain: EvictionSearch, budget: Budget) -> bool:
    """Offer the cheapest victims of a domain if they cost less than the best; True if all sets were judged.

    Raises `TooLarge` if there are too many pods in one bin or too many combinations.
    """
    everyone = {**domain.candidates, **{each.key: each for gang in domain.gangs.values() for each in gang.members}}
    covered = sum(1 for each in everyone.values() if each.pdbs)
    priorities = sorted({each.priority for each in everyone.values() if each.priority >= domain.least_highest})
    for violations in range(covered + 1):
        for highest in priorities:
            best = domain.best()
            if best is not None and (violations, highest) > best[:2]:
                return True
            search = _Search(domain, everyone, violations, highest, budget)
            search.run()
            if budget.is_spent:
                return False
            best = domain.best()
            if best is not None and (violations, highest) >= best[:2]:
                return True
    return True


@dataclass
class _Search:
    """Sets with at most so many violations and such a highest priority."""

    domain: EvictionSearch
    everyone: Mapping[str, Candidate]
    violations: int
    highest: int
    budget: Budget

    def run(self) -> None:
        """Judge all sets that can be the cheapest."""
        domain = self.domain
        start = _Branch(staying=frozenset(key for key, each in domain.candidates.items() if not self._may_go(each)))
        cannot = [
            name
            for name, gang in domain.gangs.items()
            if not gang.whole or any(not self._may_go(each) for each in gang.members)
        ]
        start = replace(start, limited=frozenset(cannot))
        waiting = [self._settled(start)]
        while waiting and not self.budget.is_spent:
            branch = waiting.pop()
            if branch is not None:
                waiting += self._look(branch)

    def _may_go(self, each: Candidate) -> bool:
        used_up = any(self.domain.allowed.get(pdb, 0) <= 0 for pdb in each.pdbs)
        return each.priority <= self.highest and not (used_up and not self.violations)

    def _look(self, branch: _Branch) -> list[_Branch | None]:
        """Judge the lightest cover of a branch; the branches that are left to look at, the more promising last."""
        domain = self.domain
        cover = lightest_cover(domain.bins, domain.wanted, self.budget, branch.going, branch.staying)
        if cover is None:
            return []
        fixed = sum(weight_of(self.everyone[key].priority) for key in branch.going)
        if not self._can_be_best(cover.weight + fixed):
            return []
        chosen = {key: self.everyone[key] for key in sorted(cover.pods | branch.going)}
        undecided = [key for key in chosen if key not in branch.going]
        for name, gang in domain.gangs.items():
            members = [key for key in chosen if chosen[key].gang == name]
            if name in branch.whole or len(members) <= gang.surplus:
                continue
            if name not in branch.limited:
                domain.offer(closed(chosen.values(), domain.gangs))
                return [
                    self._settled(replace(branch, limited=branch.limited | {name})),
                    self._with_whole(branch, name),
                ]
            return self._both_ways(branch, next(key for key in members if key in undecided))
        if cost_of(chosen.values(), domain.allowed)[0] > self.violations:
            return self._both_ways(branch, next(key for key in undecided if chosen[key].pdbs))
        if domain.offer(tuple(chosen.values())):
            if not self._can_be_best(cover.weight + fixed):
                return []
            # Its bound is too low: it has a pod with shares in several bins.
            return self._both_ways(branch, undecided[0]) if undecided else []
        free = [key for key in domain.candidates if key not in branch.going and key not in branch.staying]
        if not free or not domain.fits([self.everyone[key] for key in (*free, *branch.going)]):
            return []
        outside = [key for key in free if key not in chosen]
        return self._both_ways(branch, min(outside or free, key=lambda key: (self.everyone[key].priority, key)))

    def _can_be_best(self, weight: int) -> bool:
        best = self.domain.best()
        if best is None or (self.violations, self.highest) < best[:2]:
            return True
        return weight < (best[2] << 10) + best[3]

    # -- branches -------------------------------------------------------------------------------------------------

    def _both_ways(self, branch: _Branch, key: str) -> list[_Branch | None]:
        return [
            replace(branch, staying=branch.staying | {key}),
            self._settled(replace(branch, going=branch.going | {key})),
        ]

    def _with_whole(self, branch: _Branch, name: str) -> _Branch | None:
        members = {each.key for each in self.domain.gangs[name].members}
        if members & branch.staying:
            return None
        return self._settled(replace(branch, going=branch.going | members, whole=branch.whole | {name}))

    def _settled(self, branch: _Branch) -> _Branch | None:
        """A branch with what follows from it; None if it contradicts itself or violates too many budgets."""
        going = [self.everyone[key] for key in branch.going]
        if cost_of(going, self.domain.allowed)[0] > self.violations:
            return None
        staying = set(branch.staying)
        for name in branch.limited:
            surplus = self.domain.gangs[name].surplus
            gone = sum(each.gang == name for each in going)
            if gone > surplus:
                return None
            if gone == surplus:
                staying |= {
                    key for key, each in self.domain.candidates.items() if each.gang == name and key not in branch.going
                }
        return replace(branch, staying=frozenset(staying))


def closed(victims: Iterable[Candidate], gangs: Mapping[str, GangVictims]) -> tuple[Candidate, ...]:
    """Some victims, and with them all of a gang that would fall below its minimum.

    Those of a gang that cannot go are left out.
    """
    chosen = {each.key: each for each in victims}
    for name, gang in gangs.items():
        of_gang = [each for each in chosen.values() if each.gang == name]
        if len(of_gang) <= gang.surplus:
            continue
        if gang.whole:
            chosen |= {each.key: each for each in gang.members}
        else:
            for each in sorted(of_gang, key=lambda each: (-each.priority, each.key))[: len(of_gang) - gang.surplus]:
                del chosen[each.key]
    return tuple(chosen.values())
