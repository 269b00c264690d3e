"""Examples that come with bayplan: in a wheel they are part of the package, in a checkout they lie beside `src/`."""

from __future__ import annotations

from pathlib import Path

import bayplan


def examples_folder() -> Path:
    """The folder of the examples."""
    inside = Path(bayplan.__file__).parent / "examples"
    return inside if inside.is_dir() else Path(bayplan.__file__).parents[2] / "examples"


def scenario_file(name: str) -> Path | None:
    """The scenario that comes with bayplan under a name such as `demo`; None if there is none."""
    return _scenarios().get(name)


def scenario_names() -> list[str]:
    """The scenarios that come with bayplan."""
    return list(_scenarios())


def _scenarios() -> dict[str, Path]:
    return {file.stem: file for file in sorted((examples_folder() / "scenarios").glob("*.yaml"))}
