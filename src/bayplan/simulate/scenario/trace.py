"""Arrivals from a recording: a CSV file with a header, or JSON lines, one pod each.

    time,name,runtime,cpu,memory,nvidia.com/gpu
    0s,train,10m,16,128Gi,2

In comes the file that `trace` names, out go workloads: lines of one name are the members of one workload and must ask
for the same. Columns that are no key are resources; an empty cell or 0 asks for nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bayplan.cluster.pods.request import is_memory
from bayplan.kube.documents import not_utf_8, read_bytes
from bayplan.kube.errors import InvalidObject, field_and_problem
from bayplan.kube.json_text import decode, json_words
from bayplan.simulate.scenario.arrivals import SHORTEST_RUN
from bayplan.simulate.scenario.lines import Faults, ScenarioError, Section, SourcePosition, Wrong, YamlValue, suggestion
from bayplan.simulate.scenario.model import Kind, ScenarioPod, Seconds, Workload
from bayplan.simulate.scenario.pods import template_of
from bayplan.simulate.scenario.values import duration, duration_of_at_least, name, one_of
from bayplan.simulate.scenario.workloads import KINDS

COLUMNS = ("time", "name", "namespace", "kind", "runtime")
RESOURCES = ("cpu", "memory", "ephemeral-storage")
JSON_LINES = (".jsonl", ".ndjson")
DIFFERING = "differs from what the first line of this name says: must be the same, or another name"


def read_trace(path: Path, faults: Faults) -> list[Workload]:
    """The workloads of a trace.

    A file without a single line that can be read raises `Wrong`, one that is no CSV `ScenarioError`.
    """
    rows = _json_rows if path.suffix in JSON_LINES else _csv_rows
    faults_before = len(faults.found)
    first_of_name: dict[str, Section] = {}
    members: dict[str, list[ScenarioPod]] = {}
    for row in rows(path, faults):
        arrival = Section(row, [*COLUMNS, *_resources_of(row)])
        own_name = arrival.need("name", name, "")
        at = arrival.need("time", duration, 0.0)
        runs_for = arrival.take("runtime", _runtime, None)
        first = first_of_name.setdefault(own_name, arrival)
        if first is not arrival:
            _check_same(first, arrival)
        members.setdefault(own_name, []).append(ScenarioPod(at, runs_for))
    if not members and len(faults.found) == faults_before:
        raise Wrong(f"{path} has no line below its header: must have one for each pod")
    workloads = [_workload(own_name, first, members[own_name]) for own_name, first in first_of_name.items()]
    return [workload for workload in workloads if workload is not None]


def _runtime(written: YamlValue) -> Seconds | None:
    return duration_of_at_least(SHORTEST_RUN)(written)


def _workload(own_name: str, first: Section, members: list[ScenarioPod]) -> Workload | None:
    """A pod that ends belongs to a job unless the trace says otherwise."""
    kind = first.take("kind", one_of(KINDS), Kind.JOB if members[0].runs_for is not None else Kind.POD)
    if kind is not Kind.JOB and any(member.runs_for is not None for member in members):
        first.written.at("kind").wrong(f"{kind.value} cannot have a runtime: only pods of a Job end")
    namespace = first.take("namespace", name, "default")
    row = first.written
    cells = {resource: first.get(resource) for resource in _resources_of(row)}
    asked = {resource: cell for resource, cell in cells.items() if cell is not None}
    if not asked:
        row.wrong("asks for nothing: must have a value for cpu, memory or another resource")
        return None
    spec = {"resources": YamlValue(row.place, row.faults, asked)}
    template = template_of(YamlValue(row.place, row.faults, spec), own_name, namespace, {})
    if template is None:
        return None
    return Workload(own_name, kind, template, tuple(sorted(members, key=lambda member: member.arrives)))


def _check_same(first: Section, arrival: Section) -> None:
    names = dict.fromkeys(["namespace", "kind", *_resources_of(first.written), *_resources_of(arrival.written)])
    for column in names:
        before, now = first.get(column), arrival.get(column)
        if (before.content if before else None) != (now.content if now else None):
            (now or arrival.written).wrong(DIFFERING if now else f"{column} {DIFFERING}")


def _resources_of(row: YamlValue) -> list[str]:
    columns = row.content if isinstance(row.content, dict) else {}
    return [column for column in columns if _is_resource(column)]


def _is_resource(column: str) -> bool:
    return column in RESOURCES or is_memory(column) or "/" in column


def _csv_rows(path: Path, faults: Faults) -> Iterator[YamlValue]:
    lines = csv.reader(_text_of(path).splitlines(), skipinitialspace=True)
    try:
        header = [column.strip() for column in next(lines)]
        if not _header_is_good(header, SourcePosition(path, 1), faults):
            return
        for cells in lines:
            place = SourcePosition(path, lines.line_num)
            if len(cells) == len(header):
                yield _row(place, faults, {column: cell.strip() for column, cell in zip(header, cells, strict=True)})
            elif cells:
                faults.add(place, f"has {len(cells)} values: must be {len(header)}, as in the first line")
    except csv.Error as error:
        raise ScenarioError(f"{path}:{lines.line_num}: is not CSV: {error}") from None


def _header_is_good(header: list[str], place: SourcePosition, faults: Faults) -> bool:
    before = len(faults.found)
    for column in dict.fromkeys(header):
        if column not in COLUMNS and not _is_resource(column):
            problem = f"is no column{suggestion(column, (*COLUMNS, *RESOURCES))}"
            faults.add(place.child(column or "(no name)", place.line), problem)
        elif header.count(column) > 1:
            faults.add(place.child(column, place.line), "appears twice")
    return len(faults.found) == before


def _json_rows(path: Path, faults: Faults) -> Iterator[YamlValue]:
    for number, line in enumerate(_text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        place = SourcePosition(path, number)
        try:
            cells = decode(line, dict[str, str | int | float | None])
        except msgspec.DecodeError as error:
            said = (
                json_words(error)
                if not isinstance(error, msgspec.ValidationError)
                else ": ".join(filter(None, field_and_problem(error)))
            )
            faults.add(place, f"is no JSON object of texts and numbers: {said}")
            continue
        yield _row(place, faults, {key: "" if value is None else str(value) for key, value in cells.items()})


def _row(place: SourcePosition, faults: Faults, cells: dict[str, str]) -> YamlValue:
    """One line as a mapping of column to text; what asks for nothing is absent."""
    entries = {
        column: YamlValue(place.child(column, place.line), faults, cell or None, cell or None)
        for column, cell in cells.items()
        if not (cell == "0" and column not in COLUMNS)
    }
    return YamlValue(place, faults, entries)


def _text_of(path: Path) -> str:
    try:
        found = read_bytes(path).decode("utf-8-sig")
    except InvalidObject as error:
        raise Wrong(f"{path} {error.problem}") from None
    except UnicodeDecodeError as error:
        raise Wrong(str(not_utf_8(error.object, path)).removeprefix("file ")) from None
    if not found.strip():
        raise Wrong(f"{path} is empty")
    return found
