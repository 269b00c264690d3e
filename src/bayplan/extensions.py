"""Extension points: what bayplan finds by name and does not import.

Packages register what they add as entry points. bayplan registers the rules of other systems (`bayplan.compat`) in the
same way, so nothing in the core imports them.

| group | an entry is |
|---|---|
| `bayplan.plugins` | `(arguments) -> plugin`: makes a filter or score plugin, by its name in a configuration |
| `bayplan.dialects` | a `Dialect`: one way of writing gangs |
| `bayplan.compat` | rules of another system, by what they replace and its name, such as `placement-style.kueue` |

`docs/extending.md` has a worked example.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint  # takes 30 ms, and few commands need it

PLUGINS = "bayplan.plugins"
DIALECTS = "bayplan.dialects"
COMPAT = "bayplan.compat"

# What rules of other systems replace: the first part of a name in `bayplan.compat`.
PLACEMENT_STYLE = "placement-style"  # the gang search: (state, tree, gang, profile, answers) -> GangDecision
FILTER_MODE = "filter-mode"  # the filter of NodeResourceTopologyMatch: a subclass of it
NUMA_AWARE = "numa-aware"  # the verdict of Volcano's plugin: a subclass of NumaAware
TOPOLOGY_CACHE = "topology-cache"  # how reports are taken in: a subclass of ReportIntake
CONFIGURATION = "configuration"  # configuration files: a module with `recognizes` and `profile_of`
GROUPING = "grouping"  # the gang of a pod's owners: (owners, settings) -> PodGroup


class BrokenExtension(Exception):
    """A package registers something that cannot be loaded, or that fails when it is used."""


@dataclass(frozen=True, slots=True)
class PackageEntry:
    """An entry of a package, as messages about it begin."""

    group: str
    name: str
    package: str

    def __str__(self) -> str:
        return f'{self.group}: "{self.name}" of package {self.package}'

    def wrong(self, problem: str) -> BrokenExtension:
        """The error about an entry that cannot be used at all."""
        return BrokenExtension(f"{self} {problem}")

    def failed(self, function: str, problem: Exception | str) -> BrokenExtension:
        """The error about one of its functions, which raised an exception or returned something else than it must."""
        if isinstance(problem, Exception):
            problem = " ".join(f"{type(problem).__name__}: {problem}".split())
        return BrokenExtension(f"{self} failed in {function}: {problem}; report it to that package")


@cache
def _all_entries() -> tuple[EntryPoint, ...]:
    """Every entry in a group whose name starts like bayplan's. Reading one group takes as long: 1.2 ms."""
    from importlib.metadata import entry_points

    found = entry_points()
    ours = sorted(group for group in found.groups if group.partition(".")[0] == "bayplan")
    return tuple(entry for group in ours for entry in found.select(group=group))


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """The entries of a group by name, not loaded yet. Raises `BrokenExtension` if two packages register one name."""
    found: dict[str, EntryPoint] = {}
    for entry in _all_entries():
        if entry.group != group:
            continue
        known = found.setdefault(entry.name, entry)
        if known.value != entry.value:
            raise BrokenExtension(f'{group}: "{entry.name}" is registered by {known.value} and by {entry.value}')
    return found


def misspelt_groups() -> Iterator[str]:
    """One sentence for each group whose name starts like bayplan's and that is never read."""
    known = (PLUGINS, DIALECTS)
    for entry in _all_entries():
        if entry.group not in (*known, COMPAT):
            close = get_close_matches(entry.group, known, n=1, cutoff=0.85)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
            yield f'{entry.group}: "{entry.name}" of package {_package(entry)} is ignored; {hint}'


def entry_named(group: str, name: str) -> PackageEntry:
    """A registered entry, for messages about it."""
    return PackageEntry(group, name, _package(registered(group)[name]))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "?"


def forget_entries() -> None:
    """Read the entries of all packages again: for tests, which change them."""
    for each in (_all_entries, registered, load):
        each.cache_clear()


@cache
def load(group: str, name: str) -> Any:
    """An entry of a group. Raises `LookupError` if it is not registered, `BrokenExtension` if it cannot be imported."""
    entry = registered(group).get(name)
    if entry is None:
        raise LookupError(f'{group}: "{name}" is not registered')
    try:
        return entry.load()
    except Exception as error:
        fix = "repair or uninstall the package"
        raise entry_named(group, name).wrong(f"cannot be loaded: {error}; {fix}") from error


def compat(kind: str, name: str) -> Any:
    """The rules of another system, by what they replace and their name."""
    return load(COMPAT, f"{kind}.{name}")


def compat_names(kind: str) -> tuple[str, ...]:
    """The names of the other systems whose rules can replace something."""
    prefix = f"{kind}."
    return tuple(sorted(name.removeprefix(prefix) for name in registered(COMPAT) if name.startswith(prefix)))
