"""Entry points as packages register them, without a package: `with entries_of((PLUGINS, "Name", factory))`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, EntryPoints
from types import ModuleType
from typing import Any
from unittest.mock import patch

from bayplan.dialects import registry
from bayplan.extensions import forget_entries
from bayplan.kube.resources import pod_groups

MODULE = "squad_package"
PACKAGE = "squad-pkg"


@dataclass
class _Package(Distribution):
    """The package that all entries are of."""

    def read_text(self, filename: str) -> str | None:
        return f"Name: {PACKAGE}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path


def forget() -> None:
    """Ask for entries, dialects and their kinds again."""
    forget_entries()
    for each in (registry.dialects, registry._by_struct, registry._by_name, pod_groups):
        each.cache_clear()


@contextmanager
def entries_of(*registered: tuple[str, str, Any]) -> Iterator[None]:
    """Only these entries: the group, the name, and what the package has there."""
    module, package = ModuleType(MODULE), _Package()
    listed = []
    for number, (group, name, thing) in enumerate(registered):
        setattr(module, f"thing_{number}", thing)
        entry = EntryPoint(name, f"{MODULE}:thing_{number}", group)
        vars(entry).update(dist=package)
        listed.append(entry)
    with (
        patch.object(metadata, "entry_points", lambda: EntryPoints(listed)),
        patch.dict(sys.modules, {MODULE: module}),
    ):
        forget()
        try:
            yield
        finally:
            forget()
