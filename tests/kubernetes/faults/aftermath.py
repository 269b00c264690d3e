"""What must be true after every fault, whatever it was. One place for it, so that no test forgets a part.

no pod was bound twice           `Witness` has seen each of them on its node, and no other node is known or told of it
no gang is half bound            all of its pods have nodes, in one rack, or none has
no node is promised twice        what its pods request is not more than it has
the cache are right              columns, pods and gangs of the scheduler equal those of one that starts now
everybody is placed              who can be placed in the end is
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.decoding import Listed
from bayplan.kube.client.watch import Absent
from bayplan.services.scheduler.intake import Intake
from tests.builders.bodies import RACK
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.inside import InsideScheduler
from tests.kubernetes.faults.workload import bound
from tests.kubernetes.workloads import pods_in

GANG = "bayplan.io/pod-group"


class Sighting(NamedTuple):
    """A pod on a node."""

    name: str
    uid: str
    node: str


class Witness:
    """Watches the pods of a namespace from the side, without bayplan's client, and remembers every node that each was
    seen on.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._seen: set[Sighting] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._thread.join()

    @property
    def seen(self) -> set[Sighting]:
        """Every pod on every node that it was seen on, those that are gone included."""
        return self._seen.copy()

    def _look_on(self) -> None:
        version = ""
        while not self._over.is_set():
            try:
                version = self._watch(version) if version else self._list()
            except (ApiRefused, OSError, http.client.HTTPException, ValueError):
                version = ""  # The server is in trouble: that is what the test is about.
                self._over.wait(0.2)

    def _list(self) -> str:
        listed = self._plane.api.get(self._path, timeout=2.0)
        for item in listed["items"]:
            self._see(item)
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """One second of news; the version after it."""
        query = f"?watch=true&timeoutSeconds=1&resourceVersion={version}"
        for line in self._plane.api.get_text(self._path + query, timeout=5.0).splitlines():
            change = json.loads(line)
            if change["type"] == "ERROR":
                return ""
            self._see(change["object"])
            version = change["object"]["metadata"]["resourceVersion"]
        return version

    def _see(self, pod: Json) -> None:
        self._seen.update(sightings([pod]))


@contextmanager
def witness_of(plane: ControlPlane, namespace: str) -> Iterator[Witness]:
    """A witness for as long as the block lasts."""
    witness = Witness(plane, namespace)
    witness.start()
    try:
        yield witness
    finally:
        witness.stop()


def check_cluster(plane: ControlPlane, namespace: str, witness: Witness, *, replaced: Collection[str] = ()) -> None:
    """Everything that can be seen from outside; `replaced` are the names under which the test itself has put other
    pods.
    """
    wait_until(
        lambda: sightings(pods_in(plane, namespace)) <= witness.seen, "the witness has seen all pods that have a node"
    )
    assert bound_twice(witness.seen | told_of(plane, namespace), replaced) == {}
    assert half_bound_gangs(plane, namespace) == {}
    assert overcommitted_nodes(plane) == {}


def sightings(pods: Iterable[Json]) -> set[Sighting]:
    """Those of the pods that have a node."""
    return {
        Sighting(each["metadata"]["name"], each["metadata"]["uid"], each["spec"]["nodeName"])
        for each in pods
        if each["spec"].get("nodeName")
    }


def told_of(plane: ControlPlane, namespace: str) -> set[Sighting]:
    """Where schedulers say that they have bound pods.

    The API server keeps a pod from having two nodes, but no scheduler from believing in two.
    """
    events = plane.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return {
        Sighting(
            each["regarding"]["name"],
            each["regarding"]["uid"],
            each["note"].split(" to ")[1].split(";")[0].split(",")[0],
        )
        for each in events
        if each["reason"] == "Scheduled"
    }


def bound_twice(seen: Iterable[Sighting], replaced: Collection[str] = ()) -> dict[str, set[str]]:
    """Names of pods with more than one node.

    A pod is its name, so that one that was deleted and made anew is noticed; where tests do that, its uid.
    """
    nodes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, uid, node in seen:
        nodes[name, uid if name in replaced else ""].add(node)
    return {name: found for (name, _), found in nodes.items() if len(found) > 1}


def check_placed(plane: ControlPlane, namespace: str, number: int, *, within: float = 30.0) -> None:
    """In the end there are so many pods, and none waits."""
    wait_until(
        lambda: len(bound(plane, namespace)) == len(pods_in(plane, namespace)) == number,
        f"{number} pods are there and have a node",
        timeout=within,
    )


def half_bound_gangs(plane: ControlPlane, namespace: str) -> dict[str, str]:
    """Gangs some of whose pods have a node and some have not, or whose pods are in several racks."""
    gangs: dict[str, list[str]] = defaultdict(list)
    for each in pods_in(plane, namespace):
        gang = each["metadata"].get("labels", {}).get(GANG)
        if gang:
            gangs[gang].append(each["spec"].get("nodeName", ""))
    racks = {each["metadata"]["name"]: each["metadata"]["labels"].get(RACK) for each in _nodes(plane)}
    return {
        gang: f"on {nodes}"
        for gang, nodes in gangs.items()
        if any(nodes) and (not all(nodes) or len({racks.get(node) for node in nodes}) > 1)
    }


def overcommitted_nodes(plane: ControlPlane) -> dict[str, str]:
    """Nodes whose pods request more CPUs than they have."""
    used: Counter[str] = Counter()
    for each in plane.get("/api/v1/pods")["items"]:
        if each["spec"].get("nodeName") and each["status"].get("phase") not in ("Succeeded", "Failed"):
            used[each["spec"]["nodeName"]] += sum(_cpus(container) for container in each["spec"]["containers"])
    there = {each["metadata"]["name"]: int(each["status"]["allocatable"]["cpu"]) for each in _nodes(plane)}
    return {node: f"{used[node]} of {there[node]} CPUs" for node in there if used[node] > there[node]}


def _cpus(container: Json) -> int:
    return int(container["resources"]["requests"]["cpu"])


def _nodes(plane: ControlPlane) -> list[Json]:
    items: list[Json] = plane.get("/api/v1/nodes")["items"]
    return items


def check_books(scheduler: InsideScheduler, *, within: float = 15.0) -> None:
    """The scheduler knows exactly what one would know that starts now."""

    def equal() -> bool:
        known, fresh = scheduler.run(_both_books(scheduler))
        differences.clear()
        differences.update(
            {key: (known.get(key), fresh.get(key)) for key in {*known, *fresh} if known.get(key) != fresh.get(key)}
        )
        return not differences

    differences: dict[str, Any] = {}
    try:
        wait_until(equal, "the cache equal those of a scheduler that starts now", timeout=within)
    except AssertionError as problem:
        raise AssertionError(f"{problem}: known and fresh are {differences}") from None


async def _both_books(scheduler: InsideScheduler) -> tuple[dict[str, Any], dict[str, Any]]:
    service = scheduler.service
    fresh = await _one_that_starts_now(scheduler.client, service.dispatcher, service.now)
    return books_of(service.dispatcher), books_of(fresh)


async def _one_that_starts_now(client: KubeClient, like: Dispatcher, now: float) -> Dispatcher:
    fresh = Dispatcher(like.profiles)
    intake = Intake(fresh)
    for entry in intake.entries:
        news: Listed[Any] | Absent
        try:
            news = await client.list(entry.resource, field_selector=entry.field_selector)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            news = Absent(entry.resource)
        intake.take(entry.resource, news, now)
    return fresh


def books_of(dispatcher: Dispatcher) -> dict[str, Any]:
    """All that is known of nodes and pods, by their names: row numbers differ between two that know the same."""
    state, columns = dispatcher.state, dispatcher.state.columns
    cache: dict[str, Any] = {"waiting": sorted(dispatcher.waiting), "trees": dispatcher.trees.names}
    for name, row in state.rows.items():
        resources = [
            (number, resource)
            for number, resource in enumerate(columns.resource_names)
            if columns.allocatable[number, row] or columns.free[number, row]
        ]
        zones = int(columns.zone_count[row])
        cache[f"node {name}"] = {
            "allocatable": {resource: columns.allocatable[number, row] for number, resource in resources},
            "free": {resource: columns.free[number, row] for number, resource in resources},
            "in zones": {
                resource: columns.zone_available[number, :zones, row].tolist()
                for number, resource in enumerate(columns.resource_names)
                if np.any(columns.zone_total[number, :zones, row])
            },
            "topology": int(columns.topology[row]),
            "unschedulable": bool(columns.unschedulable[row]),
            "pods": state.pods_on(row),
        }
    return cache
