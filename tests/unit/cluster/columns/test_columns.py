"""Columns only store and grow: whatever was written stays where it was, and the tallies know if all nodes agree."""

from __future__ import annotations

import numpy as np
import pytest

from bayplan.cluster.columns.columns import FIRST_RESOURCES, TALLIED, Columns
from tests.builders.objects import GPU


def test_growing_in_every_direction_keeps_every_value() -> None:
    columns = Columns(rows=1, zones=1, resources=len(FIRST_RESOURCES))
    row = columns.add_row()
    columns.allocatable[0, row] = 64
    columns.zone_available[1, 0, row] = 7
    columns.zone_reported[1, row] = np.uint64(1)
    columns.put("policy", row, 3)
    for _ in range(5):
        columns.add_row()
    columns.require_zones(4)
    gpu = columns.resource(GPU)
    columns.zone_available[gpu, 3, 5] = 9
    assert columns.allocatable[0, row] == 64
    assert columns.zone_available[1, 0, row] == 7
    assert columns.zone_reported[1, row] == 1
    assert columns.policy[row] == 3
    assert columns.zone_available.sum() == 16
    assert columns.size == 6


def test_new_rows_start_with_the_kubelets_defaults() -> None:
    columns = Columns(rows=1)
    rows = [columns.add_row() for _ in range(40)]
    assert columns.max_numa_nodes[rows].tolist() == [8] * 40
    assert columns.cpu_static[rows].tolist() == [-1] * 40


def test_a_resource_keeps_its_index() -> None:
    columns = Columns(resources=4)
    first = [columns.resource(f"example.com/r{number}") for number in range(20)]
    assert [columns.resource(f"example.com/r{number}") for number in range(20)] == first
    assert [columns.resource(name) for name in FIRST_RESOURCES] == [0, 1, 2]
    assert columns.indexes(("example.com/r7", "cpu")).tolist() == [columns.resource("example.com/r7"), 0]


class TestResourcesThatNoNodeHas:
    def test_need_no_column_however_many_are_asked_for(self) -> None:
        columns = Columns()
        columns.add_row()
        before = len(columns.resource_names)
        asked = {columns.index_of(f"example.com/{number}") for number in range(1000)}
        assert asked == {columns.indexes(("example.com/any",))[0]} == {columns.of_no_node}
        assert len(columns.resource_names) == before
        assert not columns.free[columns.of_no_node].any()

    def test_have_one_as_soon_as_a_node_has_them(self) -> None:
        columns = Columns()
        row = columns.add_row()
        assert columns.indexes((GPU,)).tolist() == [columns.of_no_node]
        columns.put_allocatable(row, {GPU: 8})
        assert columns.indexes((GPU,)).tolist() == [columns.index_of(GPU)] != [columns.of_no_node]
        assert columns.free[columns.index_of(GPU), row] == 8

    def test_count_what_was_taken_before(self) -> None:
        """A pod that names its node itself can take what no node has; a plugin that brings it may come later."""
        columns = Columns()
        row = columns.add_row()
        for name, amount in (
            (GPU, 3.0),
            (GPU, 2.0),
            (GPU, -3.0),
            ("example.com/other", 1.0),
            ("example.com/other", -1.0),
        ):
            columns.take(name, row, amount)
        columns.put_allocatable(row, {GPU: 8, "example.com/other": 1})
        assert [columns.free[columns.index_of(name), row] for name in (GPU, "example.com/other")] == [6, 1]


class TestTallies:
    """`everywhere` answers for the whole cluster what would else be asked of every node."""

    @pytest.mark.parametrize("name", TALLIED)
    def test_one_value_on_all_nodes_is_known_and_two_are_not(self, name: str) -> None:
        columns = Columns()
        first, second = columns.add_row(), columns.add_row()
        columns.put(name, first, 2)
        assert columns.everywhere(name) is None
        columns.put(name, second, 2)
        assert columns.everywhere(name) == 2

    def test_writing_the_same_value_again_counts_once(self) -> None:
        columns = Columns()
        row, other = columns.add_row(), columns.add_row()
        columns.put("policy", row, 2)
        columns.put("policy", row, 2)
        columns.put("policy", other, 2)
        assert columns.everywhere("policy") == 2

    def test_a_new_row_may_disagree(self) -> None:
        columns = Columns()
        columns.put("policy", columns.add_row(), 2)
        assert columns.everywhere("policy") == 2
        columns.add_row()
        assert columns.everywhere("policy") is None

    def test_an_empty_cluster_agrees_on_nothing(self) -> None:
        assert Columns().everywhere("policy") is None

    def test_columns_filled_in_bulk_are_counted_again(self) -> None:
        columns = Columns()
        for _ in range(3):
            columns.add_row()
        columns.policy[:3] = 3
        columns.recount()
        assert columns.everywhere("policy") == 3
        columns.put("policy", 1, 0)
        assert columns.everywhere("policy") is None
