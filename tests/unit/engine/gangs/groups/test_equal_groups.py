"""Which gangs of groups are slices of equal pods."""

from __future__ import annotations

import pytest
from msgspec import structs

from bayplan.engine.gangs.equal.segments import SegmentLayer
from bayplan.engine.gangs.groups.equal_groups import segment_layers_of
from bayplan.engine.gangs.problem import Part
from tests.unit.engine.gangs.small_trees import BLOCK, NODE, RACK, equal_pods, gang, group, racks

LINES = ("b1/r1: 8 8", "b1/r2: 8 8", "b2/r1: 8 8")


def groups(number: int, pods: int, required: int | None, parent: int = 0) -> list[Part]:
    return [group(f"g{parent}-{each}", pods, required, parent) for each in range(number)]


@pytest.mark.parametrize(
    "parts, layers",
    [
        pytest.param([gang(), *groups(3, 4, RACK)], (SegmentLayer(RACK, 4),), id="equal groups"),
        pytest.param(
            [gang(0, BLOCK, RACK), *groups(3, 4, RACK)], (SegmentLayer(RACK, 4),), id="in a domain of the gang"
        ),
        pytest.param(
            [gang(), *groups(2, 0, BLOCK), *groups(2, 3, RACK, 1), *groups(2, 3, RACK, 2)],
            (SegmentLayer(BLOCK, 6), SegmentLayer(RACK, 3)),
            id="groups inside groups",
        ),
        pytest.param(
            [gang(), *groups(2, 0, RACK), *groups(1, 1, None, 1), *groups(1, 1, None, 2)],
            (SegmentLayer(RACK, 1),),
            id="parts that ask for nothing",
        ),
        pytest.param([gang(0, RACK), *groups(2, 4, BLOCK)], (), id="wider than what is around them"),
        pytest.param(
            [gang(), *(structs.replace(each, apart=0) for each in groups(2, 4, RACK))],
            (SegmentLayer(RACK, 4, apart=True),),
            id="apart from each other",
        ),
        pytest.param([gang(), *groups(2, 4, RACK), *groups(1, 5, RACK)], None, id="of another size"),
        pytest.param([gang(), *groups(2, 4, RACK), *groups(1, 4, NODE)], None, id="of another level"),
        pytest.param([gang(2), *groups(2, 4, RACK)], None, id="beside pods of the gang's own"),
        pytest.param(
            [gang(), *(structs.replace(each, preferred=NODE) for each in groups(2, 4, RACK))], None, id="that prefer"
        ),
        pytest.param(
            [gang(), structs.replace(groups(1, 4, RACK)[0], home=0, running_at=(0,))], None, id="where members run"
        ),
        pytest.param(
            [gang(0, RACK), *(structs.replace(each, apart=0) for each in groups(2, 4, BLOCK))],
            None,
            id="apart inside one domain",
        ),
    ],
)
def test_equal_groups_are_slices(parts: list[Part], layers: tuple[SegmentLayer, ...] | None) -> None:
    assert segment_layers_of(equal_pods(*racks(*LINES), *parts)) == layers
