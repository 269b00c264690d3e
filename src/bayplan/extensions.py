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
    """A package registers something that cannot be loaded."""


@cache
def registered(group: str) -> dict[str, EntryPoint]:
    """The entries of a group by name, not loaded yet. Raises `BrokenExtension` if two packages register one name."""
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        known = found.setdefault(entry.name, entry)
        if known.value != entry.value:
            raise BrokenExtension(f'{group}: "{entry.name}" is registered by {known.value} and by {entry.value}')
    return found


@cache
def load(group: str, name: str) -> Any:
    """An entry of a group. Raises `LookupError` if it is not registered, `BrokenExtension` if it cannot be imported."""
    entry = registered(group).get(name)
    if entry is None:
        raise LookupError(f'{group}: "{name}" is not registered')
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else "?"
        fix = "repair or uninstall the package"
        raise BrokenExtension(f'{group}: "{name}" of package {package} cannot be loaded: {error}; {fix}') from error


def compat(kind: str, name: str) -> Any:
    """The rules of another system, by what they replace and their name."""
    return load(COMPAT, f"{kind}.{name}")


def compat_names(kind: str) -> tuple[str, ...]:
    """The names of the other systems whose rules can replace something."""
    prefix = f"{kind}."
    return tuple(sorted(name.removeprefix(prefix) for name in registered(COMPAT) if name.startswith(prefix)))
