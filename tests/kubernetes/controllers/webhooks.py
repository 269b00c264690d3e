"""Webhooks of a controller that runs on loopback: manifests name a Service, here they name a URL and the test control
plane's authority.

In: the manifests that a controller's module ships. Out: the same objects, applied. Next: `operators.py` registers them
once their server answers.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane.objects import read_objects
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.ports import LOOPBACK

Json = dict[str, Any]


def client_config(plane: ControlPlane, port: int, path: str) -> Json:
    """Where the API server calls a webhook, and which authority vouches for it."""
    authority = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
    return {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": authority}


def register_webhooks(
    plane: ControlPlane,
    manifests: Path,
    prefix: str,
    port: int,
    *,
    kinds: Iterable[str],
    pods_with: str = "",
) -> None:
    """Register the webhooks about these kinds (plural names) under names with a prefix.

    Webhooks about pods see only those with the label `pods_with`, as the overlays that each project ships say.
    """
    for written in read_objects(manifests):
        hooks = list(_hooks(plane, written, port, frozenset(kinds), pods_with))
        if hooks:
            name = f"{prefix}-{written['metadata']['name']}"
            plane.apply({**written, "metadata": {"name": name}, "webhooks": hooks})


def _hooks(plane: ControlPlane, written: Json, port: int, kinds: frozenset[str], pods_with: str) -> Iterator[Json]:
    for hook in written["webhooks"]:
        about = {resource.partition("/")[0] for rule in hook["rules"] for resource in rule["resources"]}
        if not about <= kinds:
            continue
        path = hook["clientConfig"]["service"]["path"]
        reached = {**hook, "clientConfig": client_config(plane, port, path)}
        if about == {"pods"} and pods_with:
            reached["objectSelector"] = {"matchExpressions": [{"key": pods_with, "operator": "Exists"}]}
        yield reached


def with_conversion(plane: ControlPlane, definition: Mapping[str, Any], port: int) -> Json:
    """A CustomResourceDefinition whose versions the controller converts; as it is if it has only one version."""
    if len(definition["spec"]["versions"]) == 1:
        return dict(definition)
    webhook = {"clientConfig": client_config(plane, port, "/convert"), "conversionReviewVersions": ["v1"]}
    return {**definition, "spec": {**definition["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}
