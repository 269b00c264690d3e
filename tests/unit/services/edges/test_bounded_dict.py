"""Caches that must not grow without limit."""

from __future__ import annotations

import pytest

from bayplan.services.edges.bounded_dict import BoundedDict, SizedCache


def test_the_entries_that_were_set_last_are_kept() -> None:
    kept: BoundedDict[str, int] = BoundedDict(2)
    for key in ("a", "b", "a", "c"):
        kept[key] = 1
    assert list(kept) == ["a", "c"]


@pytest.mark.parametrize(
    "sizes, kept",
    [
        pytest.param({"a": 1, "b": 1, "c": 1}, "abc", id="all fit"),
        pytest.param({"a": 1, "b": 1, "c": 1, "d": 1}, "bcd", id="too many"),
        pytest.param({"a": 6, "b": 6}, "b", id="together too large"),
        pytest.param({"a": 1, "b": 11}, "a", id="one alone too large"),
        pytest.param({"a": 2, "b": 8, "c": 8}, "c", id="several make room for one"),
    ],
)
def test_sizes_add_up_to_the_limit(sizes: dict[str, int], kept: str) -> None:
    cache: SizedCache[str, str] = SizedCache(3, 10)
    for key, size in sizes.items():
        cache.put(key, key.upper(), size)
    assert [key for key in sizes if cache.get(key) == key.upper()] == list(kept)
    assert len(cache) == len(kept)


def test_a_key_that_is_set_again_or_dropped_counts_once() -> None:
    cache: SizedCache[str, int] = SizedCache(3, 10)
    for number in range(100):
        cache.put("a", number, 5)
    cache.put("b", 0, 5)
    assert (cache.get("a"), cache.get("b")) == (99, 0)
    cache.drop("a")
    cache.drop("a")
    cache.put("c", 0, 5)
    assert (cache.get("b"), cache.get("c")) == (0, 0)
