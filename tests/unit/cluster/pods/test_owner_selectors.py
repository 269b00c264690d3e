"""The selector that kube-scheduler deduces for default spread constraints."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.pods.owner_selectors import OwnerSelectors
from bayplan.kube.wire.apps_v1 import ReplicaSet, StatefulSet
from bayplan.kube.wire.core_v1 import Pod, ReplicationController, Service
from tests.builders.bodies import Json

OWNERS = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet, "ReplicationController": ReplicationController}


def owned(kind: str = "", name: str = "web", api_version: str = "apps/v1", **labels: str) -> Pod:
    owners = [{"apiVersion": api_version, "kind": kind, "name": name, "controller": True}] if kind else []
    metadata = {"name": "p", "namespace": "shop", "labels": labels, "ownerReferences": owners}
    return msgspec.convert({"metadata": metadata, "spec": {}}, Pod)


def service(name: str, selector: Json | None, namespace: str = "shop") -> Service:
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}, Service
    )


def selectors() -> OwnerSelectors:
    found = OwnerSelectors()
    for name, selector in (("front", {"app": "web"}), ("blue", {"color": "blue"}), ("none", None)):
        found.set(service(name, selector))
    found.set(service("elsewhere", {"app": "web", "of": "others"}, "other"))
    metadata = {"name": "web", "namespace": "shop"}
    by_labels = {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "web", "hash": "1"}}}}
    found.set(msgspec.convert(by_labels, ReplicaSet))
    expressions = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    found.set(msgspec.convert({"metadata": metadata, "spec": {"selector": expressions}}, StatefulSet))
    found.set(msgspec.convert({"metadata": metadata, "spec": {"selector": {"app": "rc"}}}, ReplicationController))
    return found


@pytest.mark.parametrize(
    "pod, selector",
    [
        (owned(), "all pods"),
        (owned(app="web"), "app=web"),
        (owned(app="web", color="blue"), "app=web,color=blue"),
        (owned("ReplicaSet", app="web"), "app=web,hash=1"),
        (owned("StatefulSet", color="blue"), "app,color=blue"),
        (owned("ReplicationController", api_version="v1"), "app=rc"),
        (owned("ReplicaSet", "unknown"), "all pods"),
        (owned("Job", api_version="batch/v1"), "all pods"),
    ],
    ids=[
        "nothing",
        "a Service",
        "two Services",
        "ReplicaSet",
        "StatefulSet",
        "ReplicationController",
        "unknown",
        "a Job",
    ],
)
def test_services_and_the_controller_select_together(pod: Pod, selector: str) -> None:
    assert str(selectors().of(pod)) == selector


def test_objects_that_are_gone_or_changed_select_no_more() -> None:
    found = selectors()
    found.set(service("front", {"app": "other"}))
    found.remove(Service, "shop/blue")
    found.remove(ReplicaSet, "shop/web")
    assert str(found.of(owned("ReplicaSet", app="web", color="blue"))) == "all pods"
