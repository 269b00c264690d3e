"""Pods that go into one rack: what bounds settle is what the whole table says."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from bayplan.engine.gangs.equal import tree_table
from bayplan.engine.gangs.equal.choice import EqualPods
from bayplan.engine.gangs.equal.equal_pods import Found, place_equal
from bayplan.engine.gangs.equal.joining import NO_WAY, joined
from bayplan.engine.gangs.objective import objective_of
from bayplan.engine.gangs.problem import WHOLE_TREE
from tests.unit.engine.gangs.small_trees import BLOCK, RACK, racks

ORDERS = [(), ("mean-distance",), ("fewest-domains", "mean-distance", "least-leftover")]


@pytest.mark.parametrize("seed", range(150))
def test_one_rack_is_chosen_as_by_the_whole_table(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    nodes = {f"b{random.randint(1, 2)}/r{rack}": random.choices(range(5), k=random.randint(1, 5)) for rack in range(6)}
    tree, slots = racks(*(f"{path}: {' '.join(map(str, here))}" for path, here in nodes.items()))
    wish = EqualPods(
        random.randint(1, 8),
        required=random.choice((WHOLE_TREE, BLOCK, RACK)),
        preferred=random.choice((None, BLOCK, RACK)),
        objective=objective_of(random.choice(ORDERS)),
    )

    def goals(found: Found) -> object:
        counts = found.counts
        if counts is None:
            return found.most
        levels = [tree.sums(counts, level) for level in range(tree.node_level + 1)]
        room = 0 if wish.target == WHOLE_TREE else int(tree.sums(slots, wish.target)[levels[wish.target] > 0].sum())
        return found.domains, room, [(int((each * each).sum()), int(np.count_nonzero(each))) for each in levels]

    quick = place_equal(tree, slots, wish)
    monkeypatch.setattr(tree_table, "_ideal_domain", lambda *_: None)
    monkeypatch.setattr(tree_table._Table, "best_in_one", lambda *_: None)
    assert goals(quick) == goals(place_equal(tree, slots, wish))


@pytest.mark.parametrize("seed", range(50))
def test_rows_are_joined_as_one_after_another(seed: int) -> None:
    random = Random(seed)
    sizes, width = [random.randint(1, 5) for _ in range(random.randint(1, 3))], random.randint(1, 7)
    inner = random.randint(1, width)
    costs = np.array([[0, *random.choices((3, 5, -4, int(NO_WAY)), k=inner - 1)] for _ in range(sum(sizes))])
    first = np.cumsum([0, *sizes[:-1]])
    made = joined(costs, first, np.array(sizes), width, all_pods=False)
    for_all = joined(costs, first, np.array(sizes), width, all_pods=True)
    for wider, (begin, size) in enumerate(zip(first.tolist(), sizes, strict=True)):
        best = [0, *[int(NO_WAY)] * (width - 1)]
        for row in costs[begin : begin + size].tolist():
            ways = [[best[n - k] + row[k] for k in range(min(n + 1, inner)) if row[k] < NO_WAY] for n in range(width)]
            best = [min((way for way in some if way < NO_WAY // 2), default=int(NO_WAY)) for some in ways]
        assert made.costs[wider].tolist() == best
        assert for_all.costs[wider].tolist() == best[-1:]
        if best[-1] < NO_WAY:
            assert sorted(for_all.shares(wider, width - 1)) == sorted(made.shares(wider, width - 1))
        for pods, cost in enumerate(best):
            if cost < NO_WAY:
                shares = list(made.shares(wider, pods))
                assert sum(share for _, share in shares) == pods
                assert sum(int(costs[begin + number, share]) for number, share in shares) == cost
