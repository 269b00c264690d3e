"""How many pods a manifest may stand for: each object by itself, and all objects together."""

from __future__ import annotations

import pytest

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.manifest_limits import count_pods, most_pods_of, pods_limited

SIZE = ObjectPath("PodGroup ml/train", "spec.size")


def test_every_object_has_a_limit_of_its_own() -> None:
    for name in ("a", "b"):
        assert most_pods_of(name) == 100_000
        count_pods(name, SIZE, 60_000)


@pytest.mark.parametrize(
    "pods, at_least, told",
    [
        (100_001, False, "100001 pods are too many: must be at most 100000"),
        (100_001, True, "stands for more than 100000 pods, the limit"),
    ],
    ids=["known", "not counted to the end"],
)
def test_an_object_of_too_many_pods_is_refused_with_its_field(pods: int, at_least: bool, told: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        count_pods("a", SIZE, pods, at_least=at_least)
    assert str(refused.value) == f"PodGroup ml/train: spec.size: {told}"


def test_objects_can_have_one_limit_together() -> None:
    with pods_limited(10, taken=2, advice="ask for less"):
        count_pods("a", SIZE, 5)
        assert most_pods_of("b") == 3
        with pytest.raises(InvalidObject, match="more than 10 pods together with other objects, the limit"):
            count_pods("b", SIZE, 4)
        with pytest.raises(InvalidObject, match="11 pods are too many: must be at most 10; ask for less"):
            count_pods("b", SIZE, 11)
        count_pods("b", SIZE, 3)
        assert most_pods_of("c") == 0
    assert most_pods_of("c") == 100_000


def test_an_object_that_is_read_again_counts_once() -> None:
    with pods_limited(10, advice="ask for less"):
        for pods in (8, 6, 9):
            assert most_pods_of("a") == 10
            count_pods("a", SIZE, pods)
        assert most_pods_of("b") == 1
