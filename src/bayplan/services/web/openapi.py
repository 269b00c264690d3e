"""The routes of `/api/v1` as a table, and the OpenAPI document written from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayplan import __version__

PAGED = {"limit": "At most this many items, up to 1000.", "continue": "`metadata.continue` of the page before."}
NAMESPACE = {"namespace": "Only this namespace."}


@dataclass(frozen=True, slots=True)
class Route:
    """One question: its path, what `Answers` calls it, and the query parameters that it knows."""

    path: str
    answers: str
    summary: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    method: str = "get"
    pages: bool = False


ROUTES = (
    Route("/api/v1/cluster", "cluster", "What is shown: source, counts, Topologies, resources, warnings."),
    Route(
        "/api/v1/map",
        "map",
        "Every node as columns, in the order of a Topology: free amounts, slots, closings, fragmentation, report.",
        {
            "topology": "Name of a Topology; by default the only one.",
            "requests": "Count slots for such a pod: cpu=8,memory=64Gi.",
            "tolerate": "Taints that the pod tolerates, separated by commas: KEY[=VALUE].",
            "since": "`version` of an earlier map: only what differs from it, if that is known.",
        },
    ),
    Route(
        "/api/v1/nodes",
        "nodes",
        "What `bayplan nodes -o json` prints.",
        {"topology": "Name of a Topology.", "in": "Only nodes of this domain of it: b1/r2.", **PAGED},
        pages=True,
    ),
    Route("/api/v1/nodes/{node}", "node", "What `bayplan numa NODE -o json` prints."),
    Route(
        "/api/v1/topology",
        "topology",
        "What `bayplan topology -o json` prints.",
        {"topology": "Name of a Topology; by default the only one."},
    ),
    Route("/api/v1/waiting", "waiting", "What `bayplan why -A -o json` prints.", NAMESPACE),
    Route(
        "/api/v1/gangs",
        "gangs",
        "Every gang: its workload, status, level, age and members.",
        PAGED,
        pages=True,
    ),
    Route(
        "/api/v1/gangs/{namespace}/{name}",
        "gang",
        "One gang: the levels that it requires and prefers, and the node of every member.",
    ),
    Route(
        "/api/v1/why/{namespace}/{kind}/{name}",
        "why",
        "What `bayplan why KIND/NAME -o json` prints; with `preempt=true` as with --preempt.",
        {"preempt": "true: also which pods would be evicted."},
    ),
    Route(
        "/api/v1/search",
        "search",
        "Nodes, domains, pods and gangs whose name contains a text.",
        {"q": "The text.", **PAGED},
        pages=True,
    ),
    Route("/api/v1/simulation", "simulation", "Schedulers side by side: the time line of each as columns."),
    Route(
        "/api/v1/simulation/frames/{frame}",
        "simulation-frame",
        "Percent in use of every node under every scheduler at one point of the time line, and refusals so far.",
    ),
    Route(
        "/api/v1/simulation/refusals",
        "simulation-refusals",
        "Pods that kubelets refused, the first 1,000 of each scheduler.",
        {"scheduler": "Only this scheduler.", **PAGED},
        pages=True,
    ),
    Route(
        "/api/v1/what-if",
        "what-if",
        "Where pods of a manifest would go: what `bayplan place -o json` prints. Nothing is created.",
        {
            "withoutNode": "As if these nodes were drained, separated by commas; as with --without-node.",
            "addNodes": "As if there were so many more nodes, like the one of `like`.",
            "like": "The node that nodes of `addNodes` are like.",
            "withoutTaint": "As if no node had these taints, KEY[=VALUE][:EFFECT], separated by commas.",
            "uncordon": "As if these nodes were not cordoned, separated by commas.",
        },
        method="post",
    ),
)


def openapi_document() -> dict[str, Any]:
    """OpenAPI 3.1. Documents are described by their `kind` in the pages of the commands."""
    paths: dict[str, Any] = {
        "/api/v1/events": {
            "get": _operation(
                "Server-Sent Events: `change` whenever answers may differ.", "events", [], "text/event-stream"
            )
        }
    }
    for route in ROUTES:
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ]
        parameters += [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in route.parameters.items()
        ]
        operation = _operation(route.summary, route.answers, parameters, "application/json")
        if route.method == "post":
            manifest = {"schema": {"type": "string"}}
            operation["requestBody"] = {
                "required": True,
                "content": {"application/yaml": manifest, "application/json": manifest},
            }
        paths[route.path] = {route.method: operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "bayplan web", "version": __version__, "description": "Read-only."},
        "security": [{}, {"bearer": []}],
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }


def _operation(summary: str, name: str, parameters: list[dict[str, Any]], media: str) -> dict[str, Any]:
    problem = {"content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}}}
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": {media: {"schema": {"type": "object"}}}},
            "4XX": {"description": "`error` says what is wrong with the question.", **problem},
            "503": {"description": "Not ready, or the cluster cannot be read.", **problem},
        },
    }
