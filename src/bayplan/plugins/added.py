"""Plugins of other packages: made by their factory, then asked through an adapter that checks every answer.

A fault of theirs is a `BrokenExtension` that names plugin, package, method and problem. Built-in plugins are asked
directly. `registry.py` is next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import MOST_SCORE, Codes, Rows, Scores, count
from bayplan.extensions import PLUGINS, BrokenExtension, PackageEntry, entry_named, load
from bayplan.plugins.base import FilterPlugin, ScorePlugin, of_one_node
from bayplan.plugins.node_resource_topology_args import ArgumentError

# What a plugin must have; `refusal` and `score` follow from the answers for many nodes.
EVERY_PLUGIN = ("name", "reads_usage")
FILTER = ("applies", "refusals", "cause")
SCORE = ("applies_score", "scores")
MOST_CODE = int(np.iinfo(np.uint8).max)
_FACTORY = "a function that takes the arguments and returns a plugin"


def build_added(name: str, arguments: dict[str, Any] | None) -> FilterPlugin | ScorePlugin:
    """The plugin that a package registers under a name. Raises `ArgumentError` as its factory does."""
    entry, factory = entry_named(PLUGINS, name), load(PLUGINS, name)
    if isinstance(factory, type):
        raise entry.wrong(f"is the class {factory.__name__}; must be {_FACTORY}")
    if not callable(factory):
        raise entry.wrong(f"is of type {type(factory).__name__}; must be {_FACTORY}")
    try:
        plugin = factory(arguments)
    except (ArgumentError, BrokenExtension):
        raise
    except Exception as error:
        raise entry.failed(getattr(factory, "__name__", "its factory"), error) from error
    if isinstance(plugin, type):
        raise entry.wrong(f"returns the class {plugin.__name__}; must return an instance of it")
    try:
        return checked(entry, plugin)
    except BrokenExtension:
        raise
    except Exception as error:
        raise entry.failed("name or reads_usage", error) from error


def checked(entry: PackageEntry, plugin: Any) -> FilterPlugin | ScorePlugin:
    """A plugin behind the adapter for what it can do. Raises `BrokenExtension` if members are missing or wrong."""
    filters, scores = (bool(_present(plugin, (*of, one))) for of, one in ((FILTER, "refusal"), (SCORE, "score")))
    needed = (*EVERY_PLUGIN, *(FILTER if filters else ()), *(SCORE if scores else ()))
    missing = [member for member in needed if not _present(plugin, (member,))]
    if not filters and not scores:
        one_of = f"{' and '.join((', '.join(FILTER[:-1]), FILTER[-1]))} to filter, or {' and '.join(SCORE)} to score"
        more = f"; and {', '.join(missing)}" if missing else ""
        raise entry.wrong(f"returns {_kind(plugin)}, which lacks {one_of}{more}")
    if missing:
        raise entry.wrong(f"returns {_kind(plugin)}, which lacks {', '.join(missing)}")
    if plugin.name != entry.name:
        raise entry.wrong(f'returns a plugin called {plugin.name!r}; its name must be "{entry.name}"')
    if not isinstance(plugin.reads_usage, bool):
        raise entry.wrong(f"returns a plugin whose reads_usage is {plugin.reads_usage!r}; must be True or False")
    adapter = _CheckedBoth if filters and scores else _CheckedFilter if filters else _CheckedScore
    own = frozenset(_present(plugin, ("refusal", "score")))
    found: FilterPlugin | ScorePlugin = adapter(plugin, entry, entry.name, plugin.reads_usage, own)
    return found


def _present(plugin: Any, members: Iterable[str]) -> list[str]:
    """Those members that a plugin has itself: what it inherits from a protocol says nothing."""
    protocols = [vars(each) for each in (FilterPlugin, ScorePlugin)]
    return [
        member
        for member in members
        if hasattr(plugin, member)
        and all(getattr(type(plugin), member, None) is not each.get(member, plugin) for each in protocols)
    ]


def _kind(plugin: object) -> str:
    return "None" if plugin is None else f"a {type(plugin).__name__}"


@dataclass(frozen=True)
class _Checked:
    """A plugin of another package; `own` are the answers for one node that it gives itself."""

    plugin: Any
    entry: PackageEntry
    name: str
    reads_usage: bool
    own: frozenset[str]

    def _ask(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self.plugin, method)(*arguments)
        except Exception as error:
            raise self.entry.failed(method, error) from error

    def _yes(self, method: str, pod: PodClass) -> bool:
        answer = self._ask(method, pod)
        if not isinstance(answer, bool | np.bool_):
            raise self.entry.failed(method, f"returned {_shown(answer)}; must be True or False")
        return bool(answer)

    def _numbers(self, method: str, found: object, size: int, kinds: str, most: int) -> NDArray[Any]:
        """An array with a whole number from 0 to `most` for each node."""
        if not isinstance(found, np.ndarray):
            raise self.entry.failed(method, f"returned {_shown(found)}; must be a NumPy array")
        if found.shape != (size,):
            raise self.entry.failed(method, f"returned an array of shape {found.shape} for {size} nodes")
        if found.dtype.kind not in kinds:
            raise self.entry.failed(method, f"returned an array of {found.dtype}; must be of integers")
        if size and not 0 <= (worst := int(found.min()) if found.min() < 0 else int(found.max())) <= most:
            raise self.entry.failed(method, f"returned {worst}; must be 0 to {most}")
        return found

    def _number(self, method: str, found: object, most: int) -> int:
        if not isinstance(found, int | np.integer | np.bool_):
            raise self.entry.failed(method, f"returned {_shown(found)}; must be a whole number")
        if not 0 <= found <= most:
            raise self.entry.failed(method, f"returned {found}; must be 0 to {most}")
        return int(found)


class _CheckedFilter(_Checked):
    """The same as a `FilterPlugin`."""

    def applies(self, pod: PodClass) -> bool:
        return self._yes("applies", pod)

    def refusals(self, state: ClusterState, pod: PodClass, rows: Rows) -> Codes | None:
        found = self._ask("refusals", state, pod, rows)
        if found is None:
            return None
        return self._numbers("refusals", found, count(rows), "iub", MOST_CODE).astype(np.uint8, copy=False)

    def refusal(self, state: ClusterState, pod: PodClass, row: int) -> int:
        if "refusal" not in self.own:
            return of_one_node(self.refusals, state, pod, row)
        return self._number("refusal", self._ask("refusal", state, pod, row), MOST_CODE)

    def cause(self, pod: PodClass, code: int) -> str:
        found = self._ask("cause", pod, code)
        if not isinstance(found, str) or not found:
            raise self.entry.failed("cause", f"returned {_shown(found)} for code {code}; must be a text")
        return found


class _CheckedScore(_Checked):
    """The same as a `ScorePlugin`."""

    def applies_score(self, pod: PodClass) -> bool:
        return self._yes("applies_score", pod)

    def scores(self, state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
        found = self._numbers("scores", self._ask("scores", state, pod, rows), count(rows), "iu", MOST_SCORE)
        return found.astype(np.int32, copy=False)

    def score(self, state: ClusterState, pod: PodClass, row: int) -> int:
        if "score" not in self.own:
            return of_one_node(self.scores, state, pod, row)
        return self._number("score", self._ask("score", state, pod, row), MOST_SCORE)


class _CheckedBoth(_CheckedFilter, _CheckedScore):
    """The same as both."""


def _shown(value: object) -> str:
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"
