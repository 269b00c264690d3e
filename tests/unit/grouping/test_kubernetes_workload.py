"""Kubernetes' Workloads about owners of pods: a gang without any annotation, which template is for which group, and
what is wrong with them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.grouping.grouping import Grouping
from bayplan.kube.wire import k8s_scheduling_v1beta1
from tests.unit.grouping.workloads import (
    BLOCK,
    IN_ONE_BLOCK,
    RACK,
    Raw,
    alone,
    job,
    pod,
    problems,
    spec_of,
    thing,
)
from tests.unit.grouping.workloads import grouped as grouped_by_owners

BASIC: Raw = {"basic": {}}
JOB_SET = thing(
    "jobset.x-k8s.io/v1alpha2",
    "JobSet",
    {
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {}}},
            {"name": "worker", "template": {"spec": {"parallelism": 4, "completions": 4}}},
        ]
    },
)
DRIVER = pod({"jobset.sigs.k8s.io/replicatedjob-name": "driver"})


def gang_of(minimum: int) -> Raw:
    return {"gang": {"minCount": minimum}}


def template(policy: Raw, level: str = "", name: str = "all", **more: Any) -> Raw:
    constraints = {"schedulingConstraints": {"topology": [{"key": level}]}} if level else {}
    return {"name": name, "schedulingPolicy": policy, **constraints, **more}


def workload(*templates: Raw, about: Raw | None = None, name: str = "plan", **metadata: Any) -> Raw:
    """A Workload about the Job `train`."""
    reference = about or {"apiGroup": "batch", "kind": "Job", "name": "train"}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", **metadata},
        "spec": {"controllerRef": reference, "podGroupTemplates": list(templates)},
    }


def about_job_set(*templates: Raw) -> Raw:
    return workload(*templates, about={"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "train"})


def grouped(member: Raw, owners: list[Raw], *written: Raw) -> Grouping:
    """What becomes of a pod with these owners in a cluster with these Workloads."""
    workloads = KubernetesWorkloads()
    for each in written:
        workloads.put(msgspec.convert(each, k8s_scheduling_v1beta1.Workload))
    return grouped_by_owners(member, *owners, workloads=workloads)


def test_a_job_without_any_annotation_is_the_gang_that_its_workload_says() -> None:
    outcome = grouped(
        pod({"batch.kubernetes.io/job-completion-index": "3"}), [job()], workload(template(gang_of(4), RACK))
    )
    assert outcome.manifest is not None
    assert outcome.manifest["metadata"]["annotations"] == {"bayplan.io/workload": "plan"}
    assert spec_of(outcome) == {"required": RACK, "size": 4}
    assert outcome.labels == {"bayplan.io/pod-group": "train-1b4e28ba", "bayplan.io/rank": "3"}


@pytest.mark.parametrize(
    "written, owner, expected",
    [
        (template(gang_of(3), RACK), job(), {"size": 4, "minimum": 3, "required": RACK}),
        (template(gang_of(4)), job(), {"size": 4}),
        (template(BASIC, RACK), job(), {"size": 4, "minimum": 1, "required": RACK}),
        (template(gang_of(4)), job() | {"status": {"succeeded": 3}}, {"size": 4, "minimum": 1}),
        (
            template(gang_of(4), RACK),
            job({"kai.scheduler/topology-preferred-placement": BLOCK, "kai.scheduler/topology": "network"}),
            {"size": 4, "required": RACK, "preferred": BLOCK, "topology": "network", "objective": ["closest"]},
        ),
        (template(gang_of(4), BLOCK), job(IN_ONE_BLOCK), {"size": 4, "required": BLOCK, "topology": "network"}),
    ],
    ids=["some more", "no level", "basic", "nearly done", "with annotations", "the same in annotations"],
)
def test_minimum_and_level_are_those_of_the_only_template(written: Raw, owner: Raw, expected: Raw) -> None:
    assert spec_of(grouped(pod(), [owner], workload(written))) == expected


@pytest.mark.parametrize(
    "written, owner",
    [
        (workload(template(BASIC)), job()),
        (workload(template(gang_of(4), RACK)), job({"bayplan.io/gang": "false"})),
        (workload(template(gang_of(4)), about={"apiGroup": "batch", "kind": "Job", "name": "other"}), job()),
        (workload(template(gang_of(4)), about={"apiGroup": "batch.volcano.sh", "kind": "Job", "name": "train"}), job()),
        (workload(template(gang_of(4)), namespace="web"), job()),
        (about_job_set(template(BASIC)), JOB_SET),
    ],
    ids=[
        "basic, anywhere",
        "no gang",
        "another Job",
        "another's Job",
        "another namespace",
        "basic for a gang by nature",
    ],
)
def test_stands_alone(written: Raw, owner: Raw) -> None:
    outcome = grouped(DRIVER, [owner], written)
    assert alone(outcome), problems(outcome)


def test_pods_that_name_a_pod_group_of_kubernetes_are_left_alone() -> None:
    member = pod() | {"spec": {"containers": [], "schedulingGroup": {"podGroupName": "train"}}}
    assert alone(grouped(member, [job()], workload(template(gang_of(4)))))


def test_a_workload_about_an_owner_above_counts_and_one_that_is_nearer_counts_first() -> None:
    cron = thing("batch/v1", "CronJob", {})
    above = workload(
        template(gang_of(4), BLOCK), about={"apiGroup": "batch", "kind": "CronJob", "name": "train"}, name="above"
    )
    assert spec_of(grouped(pod(), [job(), cron], above))["required"] == BLOCK
    nearer = workload(template(gang_of(4), RACK))
    assert spec_of(grouped(pod(), [job(), cron], above, nearer))["required"] == RACK


def test_the_workload_of_an_unknown_kind_tells_how_many_pods_there_are() -> None:
    unheard = thing("example.com/v1", "Unheard", {})
    about = {"apiGroup": "example.com", "kind": "Unheard", "name": "train"}
    assert spec_of(grouped(pod(), [unheard], workload(template(gang_of(8), RACK), about=about))) == {
        "size": 8,
        "required": RACK,
    }


class TestGroups:
    def test_one_template_is_for_the_whole_gang_and_the_last_group_gives_way(self) -> None:
        spec = spec_of(grouped(DRIVER, [JOB_SET], about_job_set(template(gang_of(3), BLOCK))))
        assert spec == {
            "required": BLOCK,
            "groups": [{"name": "driver", "size": 1}, {"name": "worker", "size": 4, "minimum": 2}],
        }

    def test_templates_called_as_groups_are_for_those_and_each_starts_by_itself(self) -> None:
        written = about_job_set(template(BASIC, name="driver"), template(gang_of(3), RACK, name="worker"))
        assert spec_of(grouped(DRIVER, [JOB_SET], written)) == {
            "minimumGroups": 1,
            "groups": [{"name": "driver", "size": 1}, {"name": "worker", "size": 4, "minimum": 3, "required": RACK}],
        }

    def test_one_template_called_as_a_group_is_for_that_group(self) -> None:
        spec = spec_of(grouped(DRIVER, [JOB_SET], about_job_set(template(gang_of(4), RACK, name="worker"))))
        assert "required" not in spec
        assert spec["groups"] == [{"name": "driver", "size": 1}, {"name": "worker", "size": 4, "required": RACK}]

    def test_with_the_basic_policy_for_the_whole_no_pod_waits_for_others(self) -> None:
        spec = spec_of(grouped(DRIVER, [JOB_SET], about_job_set(template(BASIC, RACK))))
        assert spec == {
            "required": RACK,
            "minimumGroups": 1,
            "groups": [{"name": "driver", "size": 1}, {"name": "worker", "size": 4, "minimum": 1}],
        }


class TestTheTree:
    def test_it_may_be_named_on_the_workload(self) -> None:
        written = workload(template(gang_of(4), RACK), annotations={"bayplan.io/topology": "power"})
        assert spec_of(grouped(pod(), [job()], written))["topology"] == "power"

    def test_two_trees_are_wrong(self) -> None:
        written = workload(template(gang_of(4)), annotations={"bayplan.io/topology": "power"})
        assert problems(grouped(pod(), [job(IN_ONE_BLOCK)], written)) == [
            (
                'Workload ml/plan: metadata.annotations["bayplan.io/topology"]: "power" is another tree than "network",'
                " which annotations name; a gang is placed in one"
            )
        ]


@pytest.mark.parametrize(
    "owners, written, told",
    [
        (
            [job()],
            [workload(template(gang_of(5)))],
            (
                "plan: spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: 5 is more "
                "than the pods of Job ml/train;"
                " there are 4"
            ),
        ),
        (
            [JOB_SET],
            [about_job_set(template(gang_of(2), name="driver"))],
            (
                "plan: spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: 2 is more than "
                "the pods of group driver of"
                " JobSet ml/train; there are 1"
            ),
        ),
        (
            [job()],
            [workload(template(gang_of(1), name="a"), template(gang_of(1), name="b"))],
            (
                "plan: spec.podGroupTemplates: has 2 entries; the pods of Job ml/train are of one sort:"
                " there can be only one"
            ),
        ),
        (
            [JOB_SET],
            [about_job_set(template(gang_of(1), name="driver"), template(gang_of(1), name="wrker"))],
            'plan: spec.podGroupTemplates[1].name: "wrker" is no group of JobSet ml/train; known: driver, worker',
        ),
        (
            [job()],
            [workload(template(gang_of(4)), about={"kind": "Job", "name": "train"})],
            'plan: spec.controllerRef.apiGroup: is missing; Job ml/train is of the group "batch"',
        ),
        (
            [job()],
            [workload(template(gang_of(4))), workload(template(gang_of(4)), name="second")],
            'second: spec.controllerRef.name: "train" has a Workload already, plan; there can be only one',
        ),
        (
            [job(), JOB_SET],
            [workload(template(gang_of(4)))],
            (
                'plan: spec.controllerRef.name: "train" is a part of JobSet ml/train, whose pods are one gang;'
                " the Workload must name that"
            ),
        ),
        (
            [job()],
            [workload(template({}))],
            "plan: spec.podGroupTemplates[0].schedulingPolicy: needs one of basic and gang",
        ),
    ],
    ids=[
        "more than all",
        "more than the group",
        "two templates for a Job",
        "no such group",
        "no API group",
        "two Workloads",
        "about a part",
        "no policy",
    ],
)
def test_what_is_wrong_is_said_of_the_workload_and_the_pods_wait(
    owners: list[Raw], written: list[Raw], told: str
) -> None:
    outcome = grouped(DRIVER, owners, *written)
    assert (problems(outcome), outcome.held) == ([f"Workload ml/{told}"], True)


def test_two_levels_that_are_asked_for_both_hold() -> None:
    outcome = grouped(DRIVER, [job(IN_ONE_BLOCK)], workload(template(gang_of(3), RACK)))
    around = {"name": "everybody", "required": RACK, "size": 4, "minimum": 3}
    assert spec_of(outcome) == {"topology": "network", "required": BLOCK, "groups": [around]}


# -- pods that the Job controller put into a PodGroup of Kubernetes ----------------------------------------------------


def in_group(member: Raw) -> Raw:
    return {**member, "spec": {**member["spec"], "schedulingGroup": {"podGroupName": "train-1"}}}


def test_annotations_of_a_job_are_merged_with_the_workload_of_its_pod_group() -> None:
    outcome = grouped(in_group(DRIVER), [job(IN_ONE_BLOCK)], workload(template(gang_of(3))))
    assert spec_of(outcome) == {"topology": "network", "required": BLOCK, "size": 4, "minimum": 3}
    assert outcome.labels["bayplan.io/pod-group"] == outcome.name


def test_a_pod_group_without_annotations_counts_as_it_is() -> None:
    assert alone(grouped(in_group(DRIVER), [job()], workload(template(gang_of(3)))))


def test_annotations_without_a_workload_to_merge_them_with_hold_the_pods() -> None:
    outcome = grouped(in_group(DRIVER), [job(IN_ONE_BLOCK)])
    assert outcome.held
    (problem,) = problems(outcome)
    assert problem.startswith(
        "Job ml/train: metadata.annotations: ask for a gang, but its pods name the PodGroup train-1"
    )


def test_what_has_no_effect_is_a_remark_and_the_gang_is_placed_without_it() -> None:
    outcome = grouped(pod(), [job()], workload(template(gang_of(4), disruptionMode="PodGroup")))
    assert problems(outcome) == [
        (
            'Workload ml/plan: spec.podGroupTemplates[0].disruptionMode: "PodGroup" has no effect: members '
            "beyond the minimum can be"
            " evicted alone"
        )
    ]
    assert [problem.reason for problem in outcome.problems] == ["NotSupported"]
    assert spec_of(outcome) == {"size": 4}


IN_A_RACK: Raw = {"schedulingConstraints": {"topology": [{"key": RACK}]}}


class TestJobsThatSayHow:
    """From 1.37 on: `spec.scheduling` of a Job, from which its controller makes the Workload."""

    @pytest.mark.parametrize(
        "scheduling, annotations, expected",
        [
            ({"schedulingPolicy": gang_of(3), **IN_A_RACK}, {}, {"size": 4, "minimum": 3, "required": RACK}),
            ({"schedulingPolicy": {"gang": {}}}, {}, {"size": 4}),
            (IN_A_RACK, {}, {"size": 4, "minimum": 1, "required": RACK}),
            ({"schedulingPolicy": gang_of(4)}, IN_ONE_BLOCK, {"size": 4, "required": BLOCK, "topology": "network"}),
            (
                {"disruptionMode": {"single": {}}},
                IN_ONE_BLOCK,
                {"size": 4, "required": BLOCK, "topology": "network"},
            ),
            (
                {"schedulingPolicy": BASIC},
                IN_ONE_BLOCK,
                {"size": 4, "minimum": 1, "required": BLOCK, "topology": "network"},
            ),
        ],
        ids=["all said", "all pods by default", "level alone", "with annotations", "policy by annotations", "basic"],
    )
    def test_are_the_gangs_that_they_ask_for(self, scheduling: Raw, annotations: Raw, expected: Raw) -> None:
        assert spec_of(grouped(pod(), [job(annotations, scheduling=scheduling)])) == expected

    def test_have_a_level_beside_that_of_annotations(self) -> None:
        spec = spec_of(grouped(pod(), [job(IN_ONE_BLOCK, scheduling=IN_A_RACK)]))
        assert spec["required"] == BLOCK
        assert RACK in str(spec)

    @pytest.mark.parametrize(
        "scheduling", [{}, {"schedulingPolicy": BASIC}, {"disruptionMode": {"single": {}}}], ids=str
    )
    def test_are_no_gang_if_they_ask_for_none(self, scheduling: Raw) -> None:
        assert alone(grouped(pod(), [job(scheduling=scheduling)]))

    def test_of_other_controllers_are_not_heeded(self) -> None:
        owned = job(scheduling={"schedulingPolicy": gang_of(4)})
        owned["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "1", "controller": True}
        ]
        nightly = thing("batch/v1", "CronJob", {"jobTemplate": {"spec": owned["spec"]}})
        assert alone(grouped(pod(), [owned, nightly]))

    @pytest.mark.parametrize(
        "scheduling, expected",
        [
            ({"schedulingPolicy": gang_of(-1)}, "spec.scheduling.schedulingPolicy.gang.minCount: -1 must be 1 or more"),
            ({"schedulingPolicy": gang_of(9)}, "spec.scheduling.schedulingPolicy.gang.minCount: 9 is more than"),
            ({"schedulingPolicy": "gang"}, "spec.scheduling.schedulingPolicy: must be"),
            ({"schedulingPolicy": BASIC | gang_of(4)}, "spec.scheduling.schedulingPolicy: has both basic and gang"),
        ],
        ids=["negative", "too many", "text", "both"],
    )
    def test_are_told_what_is_wrong(self, scheduling: Raw, expected: str) -> None:
        outcome = grouped(pod(), [job(scheduling=scheduling)])
        assert outcome.held
        assert any(expected in each for each in problems(outcome)), problems(outcome)

    def test_get_a_basic_workload_by_default_which_does_not_weaken_annotations(self) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1b4e28ba", "controller": True}
        written = workload(template(BASIC), ownerReferences=[owner])
        assert spec_of(grouped(pod(), [job(IN_ONE_BLOCK)], written)) == {
            "size": 4,
            "required": BLOCK,
            "topology": "network",
        }
        assert alone(grouped(pod(), [job()], written))
        own = workload(template(gang_of(4), RACK), name="own")
        assert spec_of(grouped(pod(), [job()], written, own)) == {"size": 4, "required": RACK}
