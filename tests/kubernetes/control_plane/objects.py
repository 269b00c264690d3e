"""Objects as users write them: applied from files and dictionaries, and cleared away after a test.

In: YAML files, folders of them, or dictionaries. Out: objects on the API server. Nothing here plays the controller
manager, so a deleted namespace would wait forever to be emptied: `remove_namespace` does that work. Next:
`plane.py` and the fixtures in conftest.py.
"""

from __future__ import annotations

import http
import http.client
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.control_plane.raw_api import ApiRefused, Json, RawApi
from tests.kubernetes.control_plane.waiting import wait_until

NODES = "/api/v1/nodes"
NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CUSTOM_RESOURCES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT_ONCE = 200
MOST_CALLS = 2000
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object as the server offers it."""

    api_version: str
    name: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]

    def path(self, namespace: str | None = None) -> str:
        """The collection: of a namespace, or of the cluster."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"


def offered_kinds(api: RawApi) -> list[Kind]:
    """Every kind that the server offers now, in each of its versions."""
    return [kind for root in ("/api", "/apis") for kind in _kinds_of(api.get(root, accept=DISCOVERY))]


def _kinds_of(discovery: Json) -> Iterator[Kind]:
    for group in discovery.get("items", []):
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            api_version = f"{name}/{version['version']}" if name else version["version"]
            for resource in version.get("resources", []):
                yield Kind(
                    api_version,
                    resource["responseKind"]["kind"],
                    resource["resource"],
                    resource["scope"] == "Namespaced",
                    tuple(resource["verbs"]),
                )


def read_objects(source: Path | Mapping[str, Any]) -> list[Json]:
    """The objects in a dictionary, in a YAML file, or in the YAML files of a folder by name; lists taken apart."""
    if isinstance(source, Mapping):
        documents = [dict(source)]
    elif source.is_dir():
        return [found for file in sorted(source.glob("*.yaml")) for found in read_objects(file)]
    else:
        documents = [document for document in yaml.safe_load_all(source.read_text(encoding="utf-8")) if document]
    return [found for document in documents for found in document.get("items", [document])]


def apply(api: RawApi, written: Json, namespace: str) -> Json:
    """Create the object, or replace the one that has its name. `namespace` is for objects that name none.

    Returns when a CustomResourceDefinition is served, so that its objects can follow at once.
    """
    applied = _create_or_replace(api, written, namespace)
    if written["kind"] == "CustomResourceDefinition":
        wait_until(lambda: _is_served(api, written), f"{written['metadata']['name']} is served")
    return applied


def _create_or_replace(api: RawApi, written: Json, namespace: str) -> Json:
    api_version, name = written["apiVersion"], written["metadata"]["name"]
    kinds = [kind for kind in offered_kinds(api) if (kind.api_version, kind.name) == (api_version, written["kind"])]
    assert kinds, f"the API server offers no {written['kind']} of {api_version}"
    collection = kinds[0].path(written["metadata"].get("namespace", namespace))
    try:
        return api.post(collection, written)
    except ApiRefused as refusal:
        if refusal.status != http.HTTPStatus.CONFLICT:
            raise
    there = api.get(f"{collection}/{name}")
    metadata = {**written["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]}
    return api.put(f"{collection}/{name}", {**written, "metadata": metadata})


def _is_served(api: RawApi, definition: Json) -> bool:
    """Whether the server has taken up a CustomResourceDefinition: its objects can be listed and discovery names it."""
    group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
    versions = [f"{group}/{version['name']}" for version in definition["spec"]["versions"] if version["served"]]
    discovered = {kind.api_version for kind in offered_kinds(api) if kind.plural == plural}
    return all(version in discovered and api.answers(f"/apis/{version}/{plural}") for version in versions)


def remove_namespace(api: RawApi, namespace: str) -> None:
    """Delete a namespace with all that is in it, as the controller manager would."""
    path = f"/api/v1/namespaces/{namespace}"
    api.delete(path)
    for kind in offered_kinds(api):
        if kind.namespaced and "deletecollection" in kind.verbs:
            remove_all(api, kind.path(namespace))
    try:
        emptied = api.get(path)
        emptied["spec"]["finalizers"] = []
        api.put(f"{path}/finalize", emptied)
    except ApiRefused as refusal:
        # A real controller manager was faster.
        if refusal.status not in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
            raise


def remove_all(api: RawApi, collection: str) -> None:
    """Delete all objects of a collection, so many in a call that the API server's limit of a minute is seldom near.

    A call that reaches the limit, or whose connection the busy server closes, has deleted some: the next one deletes
    the rest.
    """
    for _ in range(MOST_CALLS):
        try:
            done = api.delete(f"{collection}?limit={AT_ONCE}", timeout=120)
        except ApiRefused as refusal:
            if refusal.status != http.HTTPStatus.GATEWAY_TIMEOUT:
                raise
            continue
        except (http.client.HTTPException, OSError):
            continue
        if not done.get("metadata", {}).get("continue"):
            return
    raise AssertionError(f"{collection} is not empty after {MOST_CALLS} calls")


def remove_nodes(api: RawApi) -> None:
    """Delete all nodes, their leases, and the cluster-wide custom objects that speak of them."""
    remove_all(api, NODES)
    remove_all(api, NODE_LEASES)
    for definition in api.get(CUSTOM_RESOURCES)["items"]:
        spec = definition["spec"]
        if spec["scope"] == "Cluster":
            served = next(version["name"] for version in spec["versions"] if version["served"])
            remove_all(api, f"/apis/{spec['group']}/{served}/{spec['names']['plural']}")


def remove_kinds(api: RawApi, names: Iterable[str]) -> None:
    """Delete CustomResourceDefinitions by name, and wait until they are gone: the API server deletes objects first."""
    paths = [f"{CUSTOM_RESOURCES}/{name}" for name in names]
    for path in paths:
        if api.exists(path):
            api.delete(path)
    wait_until(lambda: not any(map(api.exists, paths)), "the kinds are gone", timeout=60)
