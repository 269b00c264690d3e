"""The design documents' own blocks, as inputs of tests."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def block(name: str) -> str:
    """A block by its path in this folder, unchanged."""
    return (FOLDER / name).read_text()


def blocks() -> list[Path]:
    """All blocks."""
    return sorted(path for path in FOLDER.glob("*/*") if path.parent.name != "__pycache__")


def json_names(go: str, struct: str) -> list[str]:
    """The JSON names of the fields of a Go type, without those that are inlined."""
    found = re.search(rf"type {struct} struct \{{(.*?)\n\}}", go, flags=re.DOTALL)
    assert found, f"no type {struct}"
    return [name for name in re.findall(r'json:"(\w*)', found[1]) if name]
