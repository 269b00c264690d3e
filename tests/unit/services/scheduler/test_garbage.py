"""The collector searches rarely, and what is kept is still freed when nobody holds it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from bayplan.services.scheduler.garbage import THRESHOLDS, keep_what_is_here, search_rarely


class Thing:
    """Something that can be watched as it goes."""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_the_collector_searches_rarely() -> None:
    search_rarely()
    assert gc.get_threshold() == THRESHOLDS


def test_what_is_kept_is_freed_as_soon_as_nobody_holds_it() -> None:
    thing = Thing()
    seen = weakref.ref(thing)
    keep_what_is_here()
    assert gc.get_freeze_count() > 0
    del thing
    assert seen() is None
