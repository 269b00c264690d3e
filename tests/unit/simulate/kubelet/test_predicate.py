"""The node-level check: which shortage is named, and in which words."""

from __future__ import annotations

import pytest

from bayplan.simulate.kubelet.answer import AdmissionError
from bayplan.simulate.kubelet.predicate import Shortage, first_shortage
from tests.builders.objects import GI, GPU
from tests.unit.simulate.kubelet.nodes import guaranteed

ALLOCATABLE = {"cpu": 4000, "memory": 8 * GI, "pods": 2, GPU: 1}


@pytest.mark.parametrize(
    "used, asked, expected",
    [
        ({}, {"cpu": 4, "memory": "8Gi", GPU: 1}, None),
        ({"cpu": 3000}, {"cpu": 2}, Shortage("cpu", 2000, 3000, 4000)),
        ({}, {"cpu": 5, "memory": "9Gi"}, Shortage("cpu", 5000, 0, 4000)),  # cpu is named before memory
        ({"pods": 2}, {"cpu": 5}, Shortage("pods", 1, 2, 2)),  # and pods before everything
        ({GPU: 1}, {GPU: 1}, Shortage(GPU, 1, 1, 1)),
        ({GPU: 1}, {GPU: 0}, None),
        ({}, {"example.com/unknown": 5}, None),  # someone else may provide it
        ({}, {"hugepages-1Gi": "1Gi"}, Shortage("hugepages-1Gi", GI, 0, 0)),
    ],
)
def test_the_shortage_that_is_named(
    used: dict[str, int], asked: dict[str, str | int], expected: Shortage | None
) -> None:
    assert first_shortage(ALLOCATABLE, used, guaranteed(asked)) == expected


def test_the_words() -> None:
    with pytest.raises(AdmissionError) as refusal:
        Shortage("cpu", 2000, 3000, 4000).refuse()
    assert refusal.value.reason == "OutOfcpu"
    assert refusal.value.message == "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"
