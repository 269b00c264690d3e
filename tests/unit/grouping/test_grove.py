"""Grove's PodGangs: asked for by name, and read into groups inside groups."""

from __future__ import annotations

import pytest

from bayplan.grouping.group import GroupingSettings, group_for
from bayplan.grouping.grouping import Grouping, Lookup
from tests.unit.grouping.workloads import Raw, pod, problems, spec_of, thing

MEMBER = pod({"grove.io/podgang": "train"}, name="decode-0")
QUESTION = Lookup("scheduler.grove.io/v1alpha1", "PodGang", "ml", "train")
CLIQUE_SET = thing("grove.io/v1alpha1", "PodCliqueSet", {})


def pod_group(name: str, minimum: int, *pods: str, **more: object) -> Raw:
    return {
        "name": name,
        "minReplicas": minimum,
        "podReferences": [{"namespace": "ml", "name": each} for each in pods],
    } | more


def pack(**levels: str) -> Raw:
    return {"topologyConstraint": {"packConstraint": levels}}


def pod_gang(*groups: Raw, **spec: object) -> Raw:
    topology = {"grove.io/topology-name": "network"}
    return thing("scheduler.grove.io/v1alpha1", "PodGang", {"podgroups": list(groups)} | spec, topology)


def outcome_of(gang: Raw | None, mode: str = "bayplan") -> Grouping:
    settings = GroupingSettings(mode="kai" if mode == "kai" else "bayplan")
    outcome = group_for(MEMBER, [CLIQUE_SET], settings, {QUESTION: [] if gang is None else [gang]})
    assert isinstance(outcome, Grouping)
    return outcome


def test_the_gang_is_asked_for() -> None:
    assert group_for(MEMBER, [CLIQUE_SET]) == QUESTION


def test_configurations_are_groups_around_pod_groups() -> None:
    gang = pod_gang(
        pod_group("prefill", 2, "prefill-0", "prefill-1", "prefill-2"),
        pod_group("decode", 1, "decode-0", **pack(required="rack")),
        pod_group("router", 1, "router-0"),
        **pack(required="block", preferred="rack"),
        topologyConstraintGroupConfigs=[
            {"name": "model", "podGroupNames": ["prefill", "decode"]} | pack(preferred="rack")
        ],
    )
    outcome = outcome_of(gang)
    assert outcome.labels == {"bayplan.io/pod-group": "train-1b4e28ba", "bayplan.io/group": "decode"}
    assert spec_of(outcome) == {
        "topology": "network",
        "required": "block",
        "preferred": "rack",
        "groups": [
            {
                "name": "model",
                "preferred": "rack",
                "groups": [
                    {"name": "prefill", "size": 3, "minimum": 2},
                    {"name": "decode", "size": 1, "required": "rack"},
                ],
            },
            {"name": "router", "size": 1},
        ],
    }


@pytest.mark.parametrize(
    "gang, expected",
    [
        (None, 'Pod ml/decode-0: metadata.labels["grove.io/podgang"]: "train" does not exist in the pod\'s namespace'),
        (pod_gang(pod_group("decode", 0)), "PodGang ml/train: spec.podgroups[0].minReplicas: 0 must be 1 or more"),
        (pod_gang({"name": "decode"}), "PodGang ml/train: spec.podgroups[0].minReplicas: is missing"),
        (
            pod_gang(pod_group("prefill", 1, "prefill-0")),
            'Pod ml/decode-0: metadata.name: "decode-0" is listed by no pod group of its PodGang; known: prefill',
        ),
    ],
)
def test_what_cannot_be(gang: Raw | None, expected: str) -> None:
    outcome = outcome_of(gang)
    assert problems(outcome) == [expected]
    assert outcome.held


def test_kai_lists_parents_before_children() -> None:
    gang = pod_gang(
        pod_group("decode", 2, "decode-0", "decode-1"),
        topologyConstraintGroupConfigs=[{"name": "model", "podGroupNames": ["decode"]}],
    )
    outcome = outcome_of(gang, "kai")
    assert spec_of(outcome)["subGroups"] == [
        {"name": "model", "minMember": 0},
        {"name": "decode", "minMember": 2, "parent": "model"},
    ]
    assert outcome.labels == {"kai.scheduler/subgroup-name": "decode"}
