"""Pods in slices: together in groups, in one layer or several, and what is said when slices do not fit."""

from __future__ import annotations

import pytest

from bayplan.compat.kueue.tas import SliceLayer
from tests.unit.compat.kueue.tas.builders import BLOCK, HOST, RACK, placed, pods, racks


def layers(*pairs: tuple[str, int]) -> tuple[SliceLayer, ...]:
    return tuple(SliceLayer(level, size) for level, size in pairs)


@pytest.mark.parametrize(
    "cpus, slices, count, expected",
    [
        pytest.param({"b1/r1/x1": 3, "b1/r1/x2": 3}, [(HOST, 2)], 4, {"x1": 2, "x2": 2}, id="whole slices per host"),
        pytest.param({"b1/r1/x1": 3, "b1/r1/x2": 1}, [(RACK, 2)], 4, {"x1": 3, "x2": 1}, id="split below their level"),
        pytest.param({"b1/r1/x1": 5, "b1/r1/x2": 4}, [(HOST, 2)], 4, {"x2": 4}, id="least left over beside the slices"),
        pytest.param(
            {"b1/r1/x1": 3, "b1/r2/x2": 3, "b2/r1/x3": 2, "b2/r2/x4": 2},
            [(RACK, 2)],
            4,
            {"x3": 2, "x4": 2},
            id="of blocks with as many slices the one with least left over",
        ),
        pytest.param(
            {"b1/r1/x1": 4, "b1/r1/x2": 4, "b1/r1/x3": 8},
            [(RACK, 8), (HOST, 4)],
            8,
            {"x1": 4, "x2": 4},
            id="inside a rack by fours, the smallest hosts first",
        ),
        pytest.param(
            {"b1/r1/x1": 3, "b1/r1/x2": 3, "b1/r2/x3": 2, "b1/r2/x4": 2},
            [(RACK, 4), (HOST, 2)],
            8,
            {"x1": 2, "x2": 2, "x3": 2, "x4": 2},
            id="two layers, odd CPUs are of no use",
        ),
    ],
)
def test_required_block(
    cpus: dict[str, int], slices: list[tuple[str, int]], count: int, expected: dict[str, int]
) -> None:
    assert placed(racks(cpus), pods(count, required=BLOCK, slices=layers(*slices))) == expected


def test_slices_alone_may_be_anywhere() -> None:
    cluster = racks({"b1/r1/x1": 2, "b1/r1/x2": 1, "b2/r1/x3": 2})
    assert placed(cluster, pods(4, slices=layers((HOST, 2)))) == {"x1": 2, "x3": 2}


@pytest.mark.parametrize(
    "slices, reason",
    [
        ([(HOST, 2)], "allows to fit only 2 out of 3 slice(s)"),
        ([(HOST, 3)], "allows to fit only 1 out of 2 slice(s)"),
        ([(HOST, 6)], "doesn't allow to fit any of 1 slice(s)"),
        (
            [(RACK, 6), (HOST, 3)],
            (
                "doesn't allow to fit; 0/1 slice(s) fit on level example.com/rack; 1/2 slice(s) fit "
                "on level kubernetes.io/hostname"
            ),
        ),
    ],
)
def test_reasons_count_slices(slices: list[tuple[str, int]], reason: str) -> None:
    cluster = racks({"b1/r1/x1": 3, "b1/r1/x2": 2, "b1/r1/x3": 1})
    assert placed(cluster, pods(6, required=BLOCK, slices=layers(*slices))) == f'topology "default" {reason}'
