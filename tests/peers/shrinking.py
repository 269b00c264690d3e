"""Make a case on which peer and bayplan differ as small as it can be while they still do.

Knows nothing about cases: it leaves out elements of lists, keys of objects and halves numbers, everywhere, as long as the peer still answers, bayplan still
reads the case, and both still differ. Greedy, with a bound on the questions it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tests.peers.asking import Json

QUESTIONS = 1500
KEPT = frozenset({"id"})

Path = tuple[str | int, ...]


def shrink(case: Json, differs: Callable[[Json], bool], questions: int = QUESTIONS) -> Json:
    """The smallest case found that still `differs`."""
    asked = 0
    found = True
    while found:
        found = False
        for smaller in _smaller(case):
            asked += 1
            if asked > questions:
                return case
            if differs(smaller):
                case, found = smaller, True
                break
    return case


def _smaller(case: Json) -> Iterator[Json]:
    """Every case that is one step smaller, the largest steps first."""
    paths = list(_paths(case, ()))
    lists = sorted((path for path in paths if isinstance(_at(case, path), list)), key=len)
    for path in lists:
        yield from _shorter(case, path)
    for path in paths:
        if isinstance(_at(case, path), dict):
            for key in [key for key in _at(case, path) if path or key not in KEPT]:
                yield _with(case, path, {name: value for name, value in _at(case, path).items() if name != key})
    for path in paths:
        value = _at(case, path)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1:
            yield _with(case, path, value // 2)
            yield _with(case, path, value - 1)


def _shorter(case: Json, path: Path) -> Iterator[Json]:
    elements = _at(case, path)
    size = len(elements) // 2
    while size:
        for start in range(0, len(elements), size):
            yield _with(case, path, elements[:start] + elements[start + size :])
        size //= 2
    if len(elements) == 1:
        yield _with(case, path, [])


def _paths(value: Any, path: Path) -> Iterator[Path]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, (*path, key))


def _at(case: Any, path: Path) -> Any:
    for key in path:
        case = case[key]
    return case


def _with(case: Json, path: Path, value: Any) -> Json:
    if not path:
        return dict(value)
    changed = deepcopy(case)
    _at(changed, path[:-1])[path[-1]] = value
    return changed
