"""Make a case on which peer and bayplan differ as small as it can be while they still do.

Leaves out elements of lists, optional parts of objects, and halves numbers, as long as the peer still answers, bayplan
still reads the case, and both still differ in the same way. Greedy, with a bound on the questions it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tests.peers.asking import Json

QUESTIONS = 1500
# Parts that may be missing, wherever they are, and objects of which any part may.
OPTIONAL = frozenset(
    [
        "init",
        "pod_req",
        "l3",
        "devices",
        "sidecar",
        "unhealthy",
        "cpu_options",
        "topology_options",
        "hp",
        "taints",
        "unschedulable",
        "nonTASPods",
        "priorUsage",
        "tolerations",
        "nodeSelector",
        "nodeAffinity",
        "podSetGroupName",
        "closest",
    ]
)
OF_PARTS = frozenset(
    [
        "req",
        "lim",
        "devices",
        "cpu_options",
        "topology_options",
        "hp",
        "labels",
        "allocatable",
        "explicit",
        "prov",
    ]
)
COUNTED = frozenset(["count", "size", "podSetSliceSize", "cpu", "memory", "pages", "number", "minAvailable"])

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
    lists = sorted((path for path in paths if path[-1:] != ("numa",) and _is_list_of_objects(_at(case, path))), key=len)
    for path in lists:
        yield from _shorter(case, path)
    for path in paths:
        here = _at(case, path)
        if isinstance(here, dict):
            of_parts = bool(path) and path[-1] in OF_PARTS
            for key in [key for key in here if of_parts or key in OPTIONAL]:
                yield _with(case, path, {name: value for name, value in here.items() if name != key})
    for path in paths:
        value = _at(case, path)
        if isinstance(value, int) and not isinstance(value, bool) and value > 1 and path[-1] in COUNTED:
            yield _with(case, path, value // 2)
            yield _with(case, path, value - 1)


def _is_list_of_objects(value: Any) -> bool:
    """Lists of numbers are columns, and belong to others."""
    return bool(value) and isinstance(value, list) and all(isinstance(each, dict) for each in value)


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
