"""`make lint`: folders, files and classes that fit in a head, one meaning for each class name, and a map that is true.

A class with more than 15 attributes or 20 methods says in its docstring why ("because ..."). A public name of a class
is given once; `kube/wire` and `compat` are exempt, where classes have the names that other systems gave them. Files
and functions that ARCHITECTURE.md names exist, and so do files that docstrings name. Its journeys of a pod
and of a gang count the files that a reader needs.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "bayplan"
MOST_LINES = 500
MOST_FILES = 20
MOST_ATTRIBUTES = 15
MOST_METHODS = 20
LONGEST_JOURNEYS = {"Journey of a pod": 12, "Journey of a gang": 15}
REASON = "because"
FOREIGN_NAMES = ("kube/wire", "compat")
# The engine's kubelet and the virtual one share no code, and the agent loads neither.
TWINS = {"engine/kubelet", "simulate/kubelet", "cluster/reports", "services/agent/sources"}
TWIN_NAMES = {"Admission", "CpuLayout", "Hint", "MemoryBlock"}


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield path.relative_to(SOURCE).as_posix(), node


def attributes_of(cls: ast.ClassDef) -> set[str]:
    """The declared fields, and what methods assign to `self`."""
    targets = [each.target for each in cls.body if isinstance(each, ast.AnnAssign)]
    declared = {target.id for target in targets if isinstance(target, ast.Name)}
    assigned = {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return declared | assigned


def untrue_places() -> Iterator[str]:
    """What ARCHITECTURE.md names, as `room/file.py` or `room/file.py: function`, and nothing has."""
    files = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    for named, function in re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", (ROOT / "ARCHITECTURE.md").read_text()):
        texts = [text for file, text in files.items() if f"/bayplan/{file}".endswith(f"/{named}")]
        if not any(not function or re.search(rf"(def|class) {function}\b", text) for text in texts):
            yield f"ARCHITECTURE.md: {named}{function and f': {function}'} does not exist"


def long_journeys() -> Iterator[str]:
    """Journeys of ARCHITECTURE.md with too many files to read, or with a file that does not count although it should.

    The files to read are bold. A numbered step names no other, so that none is left out of the count.
    """
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for name, most in LONGEST_JOURNEYS.items():
        journey = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        essential = re.findall(r"\*\*`([\w/]+\.py)", journey)
        if not 0 < len(set(essential)) <= most:
            yield f"ARCHITECTURE.md: {name}: {len(set(essential))} files in bold, at most {most}"
        steps = re.findall(r"^\d+\. .*\n(?: {3}.*\n)*", journey, re.MULTILINE)
        for step in steps:
            others = set(re.findall(r"`([\w/]+\.py)", step)) - set(essential)
            yield from (f"ARCHITECTURE.md: {name}: {other} is in a step, but not in bold" for other in sorted(others))


def docstrings() -> Iterator[tuple[Path, str]]:
    """Every docstring under `src/` with its file."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, documented):
                yield path, ast.get_docstring(node) or ""


def untrue_neighbours() -> Iterator[str]:
    """What docstrings name as `file.py` or `room/file.py`, and nothing has.

    A bare name stands for a file in the same folder, in one around it or in one inside it.
    """
    files = {path for folder in (SOURCE, ROOT / "tests", ROOT / "benchmarks") for path in folder.rglob("*.py")}
    names = {f"/{path.relative_to(ROOT).as_posix()}" for path in files}
    for path, text in docstrings():
        for named in re.findall(r"`([\w/]+\.py)\b", text):
            if "/" in named:
                is_true = any(name.endswith(f"/{named}") for name in names)
            else:
                around = any(folder / named in files for folder in path.parents)
                is_true = around or any(file.name == named for file in files if path.parent in file.parents)
            if not is_true:
                yield f"{path.relative_to(SOURCE)}: its docstring names {named}, which does not exist near it"


def full_rooms() -> Iterator[str]:
    """Folders with too many modules side by side; `__init__.py` does not count."""
    modules = Counter(path.parent for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    for room, count in modules.items():
        if count > MOST_FILES:
            yield f"{room.relative_to(SOURCE)}: {count} files side by side, at most {MOST_FILES}"


def findings() -> list[str]:
    """One line for everything that is too large, every ambiguous class name, and every place that does not exist."""
    found = [*untrue_places(), *long_journeys(), *untrue_neighbours(), *full_rooms()]
    for path in SOURCE.rglob("*.py"):
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            found.append(f"{path.relative_to(SOURCE)}: {lines} lines, at most {MOST_LINES}")
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, cls in classes():
        methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in cls.body)
        attributes = len(attributes_of(cls))
        too_large = attributes > MOST_ATTRIBUTES or methods > MOST_METHODS
        if too_large and REASON not in (ast.get_docstring(cls) or ""):
            size = f"{attributes} attributes (at most {MOST_ATTRIBUTES}), {methods} methods (at most {MOST_METHODS})"
            found.append(f"{file}:{cls.lineno}: class {cls.name}: {size}; its docstring must say why")
        if not cls.name.startswith("_") and not file.startswith(FOREIGN_NAMES):
            places[cls.name].append(file)
    for name, files in places.items():
        others = [file for file in files if name not in TWIN_NAMES or file.rpartition("/")[0] not in TWINS]
        if len(files) > 1 and others:
            found.append(f"class {name} has several meanings: {', '.join(files)}")
    return sorted(found)


def main() -> int:
    """Print what was found; 1 if there is anything."""
    found = findings()
    print("\n".join(found) if found else "shape: sizes, names of classes and ARCHITECTURE.md are right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
