"""Runs recorded behaviour of other systems against bayplan and counts, file by file, how much of it agrees.

A test names the fixture files it answers for and gets them one chunk at a time, so that workers share the load:

    @pytest.mark.fixture_files("nrt/filter_edge", "nrt/filter_random")
    def test_filter(conformance: Conformance) -> None:
        conformance.check_each(filter_problem)      # filter_problem(case) -> None if right, else what is wrong

`filter_problem` receives one entry of the file's `cases` (or one line of a `.jsonl.gz`). What stands beside `cases` in
the file is `conformance.document`. A check that raises counts as failed. A case that the fixture itself marks with
`quirk` or `upstream_limitation` is judged too, but where we differ from it, it is set aside instead of failed; no other
case ever is. `conformance.set_all_aside()` is for families that are not built yet. Where two parts of bayplan answer
for the same file, one of them gives the mark a `label`, so that its cases are counted by themselves.

The run ends with one line per file (and label), and the ids of all failures are in the file that the last line names.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pytest

from tests.summaries import gathered

Case = dict[str, Any]
CHUNKS = 8
FAILURES_FILE = Path(".pytest_cache") / "conformance-failures.txt"
MARKS_OF_DOUBT = ("quirk", "upstream_limitation")
PROPERTY = "conformance"
SUFFIXES = (".json", ".json.gz", ".jsonl.gz")
ABSENT = pytest.StashKey[list[str]]()
OWN = Path(__file__).parent / "recordings"


class NotBuiltYet(Exception):
    """Raised by a check for a case whose part of bayplan does not exist yet: the case is set aside."""


@dataclass(slots=True)
class Conformance:
    """One chunk of one fixture file; what it finds out travels to the summary in the item's properties."""

    file: str
    cases: list[Case]
    document: dict[str, Any]
    label: str = ""
    outcome: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        shown = f"{self.file} ({self.label})" if self.label else self.file
        self.outcome = {"file": shown, "passed": 0, "set_aside": 0, "failed": {}, "agreement": {}}

    def check_each(self, problem_of: Callable[[Case], str | None]) -> None:
        """Judge every case; fail at the end with all that is wrong, not at the first."""
        failed: dict[str, str] = self.outcome["failed"]
        for case in self.cases:
            try:
                problem = _problem_or_exception(problem_of, case)
            except NotBuiltYet:
                self.outcome["set_aside"] += 1
                continue
            if problem is None:
                self.outcome["passed"] += 1
            elif any(case.get(mark) for mark in MARKS_OF_DOUBT):
                self.outcome["set_aside"] += 1
            else:
                failed[case["id"]] = problem
        if failed:
            listed = "\n".join(f"{case_id}: {problem}" for case_id, problem in list(failed.items())[:20])
            pytest.fail(f"{len(failed)} of {len(self.cases)} cases of {self.file} differ\n{listed}", pytrace=False)

    def compare(self, label: str, *, accepted: bool, really: bool) -> None:
        """Count one of our verdicts against what really happened; the summary prints shares per label."""
        counts = self.outcome["agreement"].setdefault(label, [0, 0, 0])
        counts[0] += 1
        counts[1] += accepted and not really
        counts[2] += really and not accepted

    def set_all_aside(self) -> None:
        """Count the cases of a family that is not built yet, without judging any."""
        self.outcome["set_aside"] = len(self.cases)


def _problem_or_exception(problem_of: Callable[[Case], str | None], case: Case) -> str | None:
    try:
        return problem_of(case)
    except NotBuiltYet:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a check raises is a finding about that case
        return f"raised {type(error).__name__}: {error}"


def pytest_addoption(parser: pytest.Parser) -> None:
    # pytest lists its own fixtures under this name. Here it names the recordings; pytest's list stays as --funcargs.
    group = parser.getgroup("conformance")
    cast(Any, group)._arggroup.conflict_handler = "resolve"
    group.addoption(
        "--fixtures",
        dest="recordings",
        default=None,
        help="folder of recorded behaviour (default: ../shared/fixtures if it exists, else those in the repository)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ABSENT] = []
    config.addinivalue_line(
        "markers", "fixture_files(*names): fixture files (family/name or patterns) this test checks"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "conformance" not in metafunc.fixturenames:
        return
    root = fixtures_root(metafunc.config)
    marker = metafunc.definition.get_closest_marker("fixture_files")
    asked = [name for pattern in (marker.args if marker else ()) for name in _matching(root, pattern)]
    names = [name for name in asked if _file_of(root, name) is not None]
    metafunc.config.stash[ABSENT] += [name for name in asked if name not in names]
    chunks = marker.kwargs.get("chunks", CHUNKS) if marker else CHUNKS
    label = marker.kwargs.get("label", "") if marker else ""
    parameters = [(name, index, chunks, label) for name in names for index in range(chunks)]
    metafunc.parametrize(
        "conformance", parameters, indirect=True, ids=[f"{name}-{index + 1}of{of}" for name, index, of, _ in parameters]
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Checks without any recording are left out; `test_recordings.py` names all of those in one line."""
    answered = [item for item in items if "conformance" not in getattr(item, "fixturenames", ()) or _has_file(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in answered])
    items[:] = answered


def _has_file(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and isinstance(parameters.params.get("conformance"), tuple)


def fixtures_root(config: pytest.Config) -> Path:
    """The folder given with --fixtures, else a collection beside the checkout, else the
    recordings that come with it.
    """
    given = config.getoption("recordings")
    if given:
        return Path(given)
    beside = Path(__file__).resolve().parents[3] / "shared" / "fixtures"
    return beside if beside.is_dir() else OWN


def _matching(root: Path, pattern: str) -> list[str]:
    """Fixture names for a pattern; a plain name stays even if its file is absent, so that it can be named."""
    if "*" not in pattern:
        return [pattern]
    found = [path for suffix in SUFFIXES for path in _home_of(root, pattern).glob(pattern + suffix)]
    endings = tuple(SUFFIXES)
    return sorted(f"{path.parent.name}/{_without(path.name, endings)}" for path in found)


def _without(name: str, endings: tuple[str, ...]) -> str:
    return next(name.removesuffix(ending) for ending in sorted(endings, key=len, reverse=True) if name.endswith(ending))


def _home_of(root: Path, name: str) -> Path:
    """Recordings of peers are made here, and are always those of the checkout."""
    return OWN if name.startswith("peers/") else root


@pytest.fixture
def conformance(request: pytest.FixtureRequest) -> Conformance:
    name, index, chunks, label = request.param
    root = fixtures_root(request.config)
    document, cases = _read(root, name)
    run = Conformance(name, cases[index::chunks], document, label)
    request.node.user_properties.append((PROPERTY, run.outcome))
    return run


def _file_of(root: Path, name: str) -> Path | None:
    home = _home_of(root, name)
    return next((path for path in (home / f"{name}{suffix}" for suffix in SUFFIXES) if path.exists()), None)


@lru_cache(maxsize=2)  # chunks of one file follow each other; two files at most are held at once
def _read(root: Path, name: str) -> tuple[dict[str, Any], list[Case]]:
    path = _file_of(root, name)
    assert path is not None
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.name.endswith(".jsonl.gz"):
        return {}, [json.loads(line) for line in content.splitlines()]
    document = json.loads(content)
    return document, document.pop("cases")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line per file. Runs once, in the process that gathers the reports of all workers."""
    outcomes = gathered(terminalreporter, PROPERTY)
    if not outcomes:
        return
    by_file: dict[str, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        by_file.setdefault(outcome["file"], []).append(outcome)
    failures: list[str] = []
    terminalreporter.section("conformance")
    terminalreporter.write_line(f"recordings in {fixtures_root(config)}")
    for file, parts in sorted(by_file.items()):
        passed = sum(part["passed"] for part in parts)
        set_aside = sum(part["set_aside"] for part in parts)
        failed = {case_id: problem for part in parts for case_id, problem in part["failed"].items()}
        failures += [f"{file} {case_id}: {problem}" for case_id, problem in sorted(failed.items())]
        total = passed + set_aside + len(failed)
        if not total:
            continue  # only compared, not judged
        terminalreporter.write_line(
            f"conformance {file}: {total} cases, {passed} passed, {len(failed)} failed, {set_aside} set aside"
        )
    for file, parts in sorted(by_file.items()):
        for label in sorted({label for part in parts for label in part["agreement"]}):
            counts = [part["agreement"][label] for part in parts if label in part["agreement"]]
            total, accepts, refusals = (sum(column) for column in zip(*counts, strict=True))
            terminalreporter.write_line(
                f"agreement {file} {label}: {total} admissions, "
                f"{100 - (accepts + refusals) / total * 100:.1f} % agree, "
                f"{accepts / total * 100:.1f} % false accepts, {refusals / total * 100:.1f} % false refusals"
            )
    target = config.rootpath / FAILURES_FILE
    target.unlink(missing_ok=True)
    if failures:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(failures) + "\n")
        terminalreporter.write_line(f"ids of all failures: {target}")
