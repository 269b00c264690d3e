"""Fields of group objects that bayplan does not read: misspelt ones are remarked, with what was probably meant; known
ones are not called unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.kube.client.decoding import decoder_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import Strictness, read_objects
from bayplan.kube.resources import COSCHEDULING_POD_GROUPS as COSCHEDULING
from bayplan.kube.resources import KAI_POD_GROUPS as KAI
from bayplan.kube.resources import KUBERNETES_COMPOSITE_POD_GROUPS as COMPOSITE
from bayplan.kube.resources import KUBERNETES_POD_GROUPS as KUBERNETES
from bayplan.kube.resources import KUBERNETES_WORKLOADS, POD_GROUPS, VOLCANO_JOBS, Resource
from bayplan.kube.resources import VOLCANO_POD_GROUPS as VOLCANO


def written(resource: Resource[Any], spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "ml"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec, **more}


UNKNOWN = [
    (
        COMPOSITE,
        {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "spec.schedulingPolicy.gang.minCount: unknown field; did you mean minGroupCount?",
    ),
    (KAI, {"minMembr": 3}, "spec.minMembr: unknown field; did you mean minMember?"),
    (KAI, {"topologyConstrain": {}}, "spec.topologyConstrain: unknown field; did you mean topologyConstraint?"),
    (
        KAI,
        {"topologyConstraint": {"topologie": "network"}},
        "spec.topologyConstraint.topologie: unknown field; did you mean topology?",
    ),
    (
        KAI,
        {"subGroups": [{"name": "a"}, {"name": "b", "topologyConstraint": {"requiredLevel": "rack"}}]},
        "spec.subGroups[1].topologyConstraint.requiredLevel: unknown field; did you mean requiredTopologyLevel?",
    ),
    (VOLCANO, {"minmember": 3}, "spec.minmember: unknown field; did you mean minMember?"),
    (
        VOLCANO,
        {"networkTopology": {"mode": "hard", "highestTierAllow": 1}},
        "spec.networkTopology.highestTierAllow: unknown field; did you mean highestTierAllowed?",
    ),
    (
        VOLCANO,
        {"subGroupPolicy": [{"subGroupSize": 2, "labelSelector": {"matchLabel": {}}}]},
        "spec.subGroupPolicy[0].labelSelector.matchLabel: unknown field; did you mean matchLabels?",
    ),
    (COSCHEDULING, {"minAvailable": 3}, "spec.minAvailable: unknown field, which has no effect"),
    (
        KUBERNETES,
        {"schedulingPolicy": {"gang": {"mincount": 3}}},
        "spec.schedulingPolicy.gang.mincount: unknown field; did you mean minCount?",
    ),
    (
        KUBERNETES_WORKLOADS,
        {"podGroupTemplates": [{"name": "a", "schedulingConstraint": {}}]},
        "spec.podGroupTemplates[0].schedulingConstraint: unknown field; did you mean schedulingConstraints?",
    ),
    (
        VOLCANO_JOBS,
        {"tasks": [{"name": "a", "topologyPolcy": "restricted"}]},
        "spec.tasks[0].topologyPolcy: unknown field; did you mean topologyPolicy?",
    ),
    (VOLCANO_JOBS, {"tasks": [{"dependsOn": {"name": ["a"]}}]},
     "spec.tasks[0].dependsOn: has no effect: bayplan starts all tasks together"),
]  # fmt: skip


@pytest.mark.parametrize("resource, spec, told", UNKNOWN)
def test_an_unknown_field_is_remarked_however_deep(resource: Resource[Any], spec: dict[str, Any], told: str) -> None:
    data = json.dumps(written(resource, spec)).encode()
    decoder = decoder_of(resource)
    assert decoder.one(data).unread == (told,)
    (listed,), _, _ = decoder.page(json.dumps({"items": [written(resource, spec)]}).encode())
    line = json.dumps({"type": "ADDED", "object": written(resource, spec)}).encode()
    (change,) = decoder.lines(line + b"\n").changes
    assert listed.unread == change.object.unread == (told,)


def test_an_unknown_field_beside_the_spec_is_remarked() -> None:
    document = written(KAI, {}, sepc={"minMember": 3})
    document["metadata"]["anotations"] = {"a": "b"}
    assert decoder_of(KAI).one(json.dumps(document).encode()).unread == (
        "metadata.anotations: unknown field; did you mean annotations?",
        "sepc: unknown field; did you mean spec?",
    )


KNOWN = [
    (
        KAI,
        {
            "minMember": 2,
            "queue": "q",
            "priorityClassName": "train",
            "preemptibility": "preemptible",
            "parallelism": 2,
            "completions": 2,
            "backoffLimit": 6,
            "markUnschedulable": True,
            "schedulingBackoff": -1,
            "minSubGroup": 1,
            "subGroups": [{"name": "a", "minMember": 1, "parent": None, "topologyConstraint": {"topology": "n"}}],
        },
    ),
    (VOLCANO, {"minMember": 2, "minResources": {"cpu": 4}, "priorityClassName": "high", "queue": "default"}),
    (COSCHEDULING, {"minMember": 2, "minResources": {"cpu": 4}, "scheduleTimeoutSeconds": 10}),
    (
        KUBERNETES,
        {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"basic": {}},
            "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
            "disruptionMode": "Pod",
            "priority": 0,
        },
    ),
    (
        VOLCANO_JOBS,
        {
            "plugins": {"svc": []},
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "maxRetry": 3,
            "ttlSecondsAfterFinished": 60,
            "tasks": [{"name": "a", "replicas": 1, "policies": [], "template": {"spec": {"restartPolicy": "Never"}}}],
        },
    ),
]


@pytest.mark.parametrize("resource, spec", KNOWN)
def test_fields_that_the_owning_system_knows_are_silent(resource: Resource[Any], spec: dict[str, Any]) -> None:
    document = written(resource, spec, status={"anything": {"goes": 1}})
    document["metadata"] |= {"uid": "u", "generation": 2, "managedFields": [{"manager": "kubectl"}], "finalizers": []}
    document["metadata"]["ownerReferences"] = [{"name": "o", "blockOwnerDeletion": True}]
    assert decoder_of(resource).one(json.dumps(document).encode()).unread is None


@pytest.mark.parametrize(
    "spec, told",
    [
        ({"sise": 2}, "spec.sise: unknown field; did you mean size?"),
        ({"groups": [{"name": "a", "segments": [{"size": 1, "levle": "rack"}]}]}, "did you mean level?"),
        ({"patience": {"second": 3}}, "spec.patience.second: unknown field; did you mean seconds?"),
    ],
)
def test_bayplans_own_podgroup_is_refused_with_what_was_meant(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    document = written(POD_GROUPS, spec)
    file = tmp_path / "gang.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidObject) as caught:
        read_objects(file, Strictness.STRICT)
    assert told in str(caught.value)
    _, (broken,), _ = decoder_of(POD_GROUPS).page(json.dumps({"items": [document]}).encode())
    assert told in broken.problem
