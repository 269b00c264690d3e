"""Pods of workloads as recorded from the real kube-controller-manager: planned pods have their names, labels, owners
and nodes.

What is random there (generated endings) and what is hashed from Go structs (template hashes) is compared by its form;
all else is equal.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.grouping.group import GroupingSettings
from bayplan.kube.wire.core_v1 import Node, OwnerReference, Pod
from bayplan.workloads.plan import plan_of
from bayplan.workloads.planned import Around

RECORDED = json.loads((Path(__file__).parent / "recordings" / "controllers" / "workload_pods.json").read_text())
HASHES = ("pod-template-hash", "controller-revision-hash")
# A planned run of a CronJob has no Job yet, and no minute.
OF_RUN = ("controller-uid", "batch.kubernetes.io/controller-uid")
MINUTE = re.compile(r"-[0-9]{8}\b")
ENDING = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}$")

Json = dict[str, Any]


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["id"])
def test_planned_pods_are_those_of_the_controller_manager(case: Json) -> None:
    state = ClusterState()
    for node in RECORDED["nodes"]:
        state.set_node(msgspec.convert(node, Node))
    settings = GroupingSettings()
    plan = plan_of(case["workload"], Around(settings.rules, state), settings)
    ours = [_of_plan(member.pod) for member in plan.members]
    kind = case["workload"]["kind"]
    assert sorted(_comparable(pod, kind) for pod in ours) == sorted(_comparable(pod, kind) for pod in case["pods"])


def _of_plan(pod: Pod) -> Json:
    (owner,) = pod.metadata.owner_references or [OwnerReference()]
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = (required.node_selector_terms if required is not None else None) or []
    fields = [value for term in terms for field in term.match_fields or () for value in field.values or ()]
    tolerations = [
        {"key": each.key, "operator": each.operator, "effect": each.effect} for each in pod.spec.tolerations or ()
    ]
    return {
        "name": pod.metadata.name,
        "labels": dict(pod.metadata.labels or {}),
        "annotations": dict(pod.metadata.annotations or {}),
        "owner": {"kind": owner.kind, "name": owner.name},
        "tolerations": tolerations,
        "node": fields[0] if fields else None,
    }


def _comparable(pod: Json, kind: str) -> str:
    """A pod without what differs from one cluster to the next."""
    labels = {key: value for key, value in pod["labels"].items() if kind != "CronJob" or key not in OF_RUN}
    text = json.dumps({**pod, "labels": labels, "name": _without_ending(pod["name"], kind)})
    for key in HASHES:
        if value := pod["labels"].get(key):
            # A StatefulSet's revision begins with its name; a long name may have cut the hash off.
            text = text.replace(value.rpartition("-")[2], "HASH")
    found: Json = json.loads(MINUTE.sub("-MINUTE", text) if kind == "CronJob" else text)
    # Those with seconds are not the controller's: admission adds them to every pod.
    own = [each for each in found["tolerations"] if "tolerationSeconds" not in each]
    return json.dumps({**found, "tolerations": sorted(own, key=lambda each: str(each["key"]))}, sort_keys=True)


def _without_ending(name: str, kind: str) -> str:
    return name if kind == "StatefulSet" else ENDING.sub("ENDING", name)
