"""Write the table of fields that strict reading checks files against, from what an API server serves under /openapi/v3.

    make object-fields        # after adding a newer version of Kubernetes to control_plane/versions

In: the schemas of an API server. Out: `src/bayplan/kube/validation/object_fields.json`, every type that a node, a pod,
a pod template, a built-in workload, a claim, a volume or a StorageClass is made of, as `field: type`.
`test_strict_pods.py` holds the table in the repository to the server's.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import RawApi

TABLE = Path(__file__).parents[2] / "src/bayplan/kube/validation/object_fields.json"
GROUPS = ("api/v1", "apis/apps/v1", "apis/batch/v1", "apis/storage.k8s.io/v1")
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
KINDS = ("Node", "Pod", "PodTemplateSpec", *WORKLOADS, "PersistentVolumeClaim", "PersistentVolume", "StorageClass")
# Types with a form of their own on the wire, whatever the schema says about them.
SCALARS = {
    "Quantity": "quantity",
    "Time": "time",
    "MicroTime": "time",
    "IntOrString": "int-or-string",
    "FieldsV1": "any",
}

Schema = dict[str, Any]


def served_table(api: RawApi) -> dict[str, Any]:
    """The table for the version of Kubernetes that a server runs."""
    schemas: dict[str, Schema] = {}
    for group in GROUPS:
        for name, schema in api.get(f"/openapi/v3/{group}", timeout=60)["components"]["schemas"].items():
            schemas[short_name(name)] = schema
    types: dict[str, dict[str, str]] = {}
    waiting = list(KINDS)
    while waiting:
        name = waiting.pop()
        if name not in types:
            fields = {field: type_of(schema) for field, schema in sorted(schemas[name].get("properties", {}).items())}
            types[name] = fields
            waiting += [inner for each in fields.values() if (inner := each.lstrip("[]{}")) in schemas]
    return {"kubernetes": api.get("/version")["gitVersion"], "types": dict(sorted(types.items()))}


def short_name(name: str) -> str:
    """`io.k8s.api.core.v1.PodSpec` or a reference to it as `PodSpec`."""
    return re.split(r"[./]", name)[-1]


def type_of(schema: Schema) -> str:
    """A schema as one word: a scalar, the name of a type, `[]` and `{}` for lists and maps of one."""
    reference = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), None)
    if reference:
        name = short_name(reference)
        return SCALARS.get(name, name)
    match schema.get("type"):
        case "array":
            return f"[]{type_of(schema['items'])}"
        case "object":
            return f"{{}}{type_of(schema['additionalProperties'])}" if "additionalProperties" in schema else "any"
        case "integer":
            return str(schema.get("format", "int64"))
        case kind:
            return str(kind)


def write_table() -> None:
    """Start an API server and write what it serves."""
    with ControlPlane() as plane:
        table = served_table(plane.api)
    lines = [f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in table["types"].items()]
    head = f'{{"kubernetes": {json.dumps(table["kubernetes"])}, "types": {{\n'
    TABLE.write_text(head + ",\n".join(lines) + "\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    write_table()
