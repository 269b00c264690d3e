"""docs/formats.md and docs/schemas/: every document that is read or written, field by field, with a JSON Schema each.

Configuration: from the structs that decode it. PodGroup: from its CustomResourceDefinition. Answers of `-o json`: from
what the commands print about the examples, so that a field that comes or goes changes these files.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.cli.program import run
from bayplan.config.configuration import SchedulerConfiguration

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
CRD = ROOT / "deploy" / "crds" / "podgroups.bayplan.io.yaml"
CLUSTER, GANGS = "examples/cluster", "examples/gangs/cluster.yaml"
SHAPE = ("--requests", "cpu=16,memory=160Gi,nvidia.com/gpu=4")
ANSWERS = (
    ("place", "-f", "examples/pods", "--cluster", CLUSTER),
    ("place", "-f", "examples/pods", "--preempt", "--uncordon", "telco-3", "--cluster", CLUSTER),
    ("place", "-f", "examples/gangs/pretrain.yaml", "--cluster", GANGS),
    ("place", "-f", "examples/gangs/too-large.yaml", "--cluster", GANGS),
    ("why", "telco/upf-large", "--cluster", CLUSTER),
    ("why", "telco/upf-large", "--node", "telco-2", "--cluster", CLUSTER),
    ("why", "ml/finetune", "--cluster", GANGS),
    ("why", "-A", "--cluster", CLUSTER),
    ("why", "-A", "--without-node", "telco-1", "--cluster", CLUSTER),
    ("nodes", "--cluster", CLUSTER),
    ("numa", "telco-1", "--cluster", CLUSTER),
    ("topology", "--cluster", GANGS, *SHAPE),
    ("slots", "--pods", "8", "--cluster", GANGS, *SHAPE),
    ("simulate", "examples/scenarios/two-nodes.yaml"),
    ("doctor", "--cluster", GANGS),
)
"""Questions about the examples; each is asked with `-o json`."""

HEAD = """# Formats

Written from the code by `make reference`; do not edit.

Files that bayplan reads, and documents that it prints, field by field. Each has a JSON Schema, for editors and
scripts. Within one `apiVersion`, fields of answers are added and never renamed.

The chart's values have [a schema](../deploy/README.md#helm) as well, which Helm checks. Scenario files are described in
[scenarios.md](scenarios.md), the fields of node reports in [kubelet.md](kubelet.md).
"""


@cache
def schemas() -> dict[str, Json]:
    """By the name of the file in docs/schemas: the schema."""
    found = {"KubeSchedulerConfiguration": _configuration(), "PodGroup": _pod_group()}
    return {name: {"$schema": DRAFT, "title": name, **schema} for name, schema in {**found, **_answers()}.items()}


def schema_text(name: str) -> str:
    """The text of a file."""
    return json.dumps(schemas()[name], indent=1) + "\n"


def formats_page() -> str:
    """The page."""
    parts = [HEAD]
    titles = {
        "KubeSchedulerConfiguration": "Read by `--config`; [configuration.md](configuration.md) explains it.",
        "PodGroup": "bayplan's own CustomResourceDefinition; [gangs.md](gangs.md) explains it.",
    }
    for name, schema in schemas().items():
        printed_by = (
            titles.get(name) or f"Printed by {', '.join(f'`bayplan {each} -o json`' for each in _commands(name))}."
        )
        parts.append(f"## {name}\n\n{printed_by} [JSON Schema](schemas/{name}.json).\n")
        rows = [f"| `{path}` | {kind} | {meaning} |" for path, kind, meaning in _rows(schema, schema, "", {})]
        parts.append("\n".join(["| field | type | meaning |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _configuration() -> Json:
    _, components = msgspec.json.schema_components([SchedulerConfiguration], ref_template="#/$defs/{name}")
    return {"$ref": "#/$defs/SchedulerConfiguration", "$defs": components}


def _pod_group() -> Json:
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return {"type": "object", "properties": schema["properties"]}


def _commands(kind: str) -> list[str]:
    return list(dict.fromkeys(words[0] for words, document in _documents() if document["kind"] == kind))


@cache
def _documents() -> list[tuple[tuple[str, ...], Json]]:
    """What the commands print."""
    found: list[tuple[tuple[str, ...], Json]] = []
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for words in ANSWERS:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                run(["bayplan", *words, "-o", "json"])
            found.append((words, json.loads(out.getvalue())))
    finally:
        os.chdir(before)
    return found


def _answers() -> dict[str, Json]:
    """By kind: the schema that describes all documents of the kind."""
    found: dict[str, Json] = {}
    for _, document in _documents():
        kind = document["kind"]
        found[kind] = _united(found[kind], _observed(document)) if kind in found else _observed(document)
    return dict(sorted(found.items()))


def _observed(value: object) -> Json:
    if isinstance(value, Mapping):
        if value and all(_is_a_name(key) for key in value):
            return {"type": "object", "additionalProperties": _all_of(value.values())}
        return {"type": "object", "properties": {key: _observed(each) for key, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _all_of(value)}
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return {"type": names[type(value)]}


def _is_a_name(key: str) -> bool:
    """Of a resource, a node or a domain, not of a field."""
    return not (key.isalnum() and key[0].islower()) or key in ("cpu", "memory", "pods")


def _all_of(values: Any) -> Json:
    united: Json = {}
    for each in values:
        united = _united(united, _observed(each)) if united else _observed(each)
    return united


def _united(one: Json, other: Json) -> Json:
    """A schema that both meet."""
    if not one or not other or one == other:
        return one or other
    types = sorted(
        {*_types(one), *_types(other)} - ({"integer"} if "number" in (*_types(one), *_types(other)) else set())
    )
    found: Json = {"type": types[0] if len(types) == 1 else types}
    if "properties" in one or "properties" in other:
        mine, theirs = one.get("properties", {}), other.get("properties", {})
        found["properties"] = {key: _united(mine.get(key, {}), theirs.get(key, {})) for key in {**mine, **theirs}}
    for key in ("items", "additionalProperties"):
        if key in one or key in other:
            found[key] = _united(one.get(key, {}), other.get(key, {}))
    return found


def _types(schema: Json) -> list[str]:
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def _rows(schema: Json, whole: Json, path: str, told: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of every field, a line each. What has been told of a shared part is not repeated."""
    schema = _resolved(schema, whole)
    for name, field in schema.get("properties", {}).items():
        inner = _resolved(field, whole)
        here = f"{path}.{name}" if path else name
        default = inner.get("default", field.get("default"))
        meaning = inner.get("description", "").split("\n")[0]
        if isinstance(default, str | int | float | bool) and default != "":
            meaning = f"{meaning} Default: `{json.dumps(default)}`.".strip()
        shared = field.get("$ref", "")
        if shared in told:
            yield here, _shown(inner, whole), f"as `{told[shared]}`"
            continue
        if shared:
            told[shared] = here
        yield here, _shown(inner, whole), meaning.replace("|", "\\|")
        yield from _rows(inner, whole, here, told)
        for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
            if isinstance(inner.get(key), dict) and inner[key]:
                yield from _rows(inner[key], whole, here + mark, told)


def _resolved(schema: Json, whole: Json) -> Json:
    for each in (schema, *schema.get("anyOf", ())):
        if "$ref" in each:
            found: Json = whole["$defs"][each["$ref"].rpartition("/")[2]]
            return found
    return schema


def _shown(schema: Json, whole: Json) -> str:
    types = _types(schema) or [kind for each in schema.get("anyOf", ()) for kind in _types(each)]
    if types == ["array"]:
        return f"list of {_shown(_resolved(schema['items'], whole), whole)}" if schema.get("items") else "list"
    if types == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        inner = schema["additionalProperties"]
        return f"map to {_shown(_resolved(inner, whole), whole)}" if inner else "map"
    return " or ".join(types) or "any"
