"""Which gang a pod belongs to: the Job that a user annotates, pods that stand alone, and owners above owners."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.grouping.group import (
    GroupingSettings,
    KnownRequests,
    asks_by_itself,
    group_for,
    may_have_group,
    settings_with,
)
from bayplan.grouping.rules import Rule
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroupSpec
from bayplan.kube.wire.core_v1 import Pod
from tests.unit.grouping.workloads import (
    BLOCK,
    IN_ONE_BLOCK,
    RACK,
    Raw,
    alone,
    grouped,
    job,
    pod,
    pod_group,
    problems,
    spec_of,
    thing,
)

REQUIRED, PREFERRED = "kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement"


def test_a_job_with_topology_annotations_is_one_gang() -> None:
    annotated = job(
        {
            "kai.scheduler/topology": "network",
            "kai.scheduler/topology-required-placement": "zone",
            "kai.scheduler/topology-preferred-placement": "rack",
        },
        parallelism=8,
        completions=6,
    )
    outcome = grouped(pod({"batch.kubernetes.io/job-completion-index": "3"}), annotated)
    assert outcome.manifest == {
        "apiVersion": "bayplan.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": "train-1b4e28ba",
            "namespace": "ml",
            "annotations": {"bayplan.io/topology-kind": "kai"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1b4e28ba-2fa1-11d2"}
            ],
        },
        # In KAI's words a preferred level means the lowest common domain first.
        "spec": {
            "topology": "network",
            "required": "zone",
            "preferred": "rack",
            "size": 6,
            "objective": ["closest"],
        },
    }
    assert outcome.labels == {"bayplan.io/pod-group": "train-1b4e28ba", "bayplan.io/rank": "3"}
    assert not outcome.problems


def test_the_manifest_is_a_pod_group_that_bayplan_reads() -> None:
    outcome = grouped(pod(), job(IN_ONE_BLOCK))
    assert pod_group(outcome).spec == PodGroupSpec(topology="network", required=BLOCK, size=4)


@pytest.mark.parametrize(
    "parallelism, completions, succeeded, expected",
    [
        (4, 8, 0, {"size": 4}),
        (4, 8, 6, {"size": 4, "minimum": 2}),
        (4, None, 3, {"size": 4}),
        (None, None, 0, {"size": 1}),
        (8, 2, 0, {"size": 2}),
    ],
)
def test_a_job_waits_for_no_more_pods_than_are_left_to_complete(
    parallelism: int | None, completions: int | None, succeeded: int, expected: dict[str, int]
) -> None:
    annotated = job(IN_ONE_BLOCK, parallelism=parallelism, completions=completions) | {
        "status": {"succeeded": succeeded}
    }
    spec = spec_of(grouped(pod(), annotated))
    assert {key: spec[key] for key in ("size", "minimum") if key in spec} == expected


@pytest.mark.parametrize(
    "owners",
    [
        (),
        (job(),),
        (thing("apps/v1", "ReplicaSet", {"replicas": 3}), thing("apps/v1", "Deployment", {"replicas": 3})),
        (thing("apps/v1", "DaemonSet", {}, IN_ONE_BLOCK),),
        (thing("example.com/v1", "Unheard", {"replicas": "a lot"}),),
        (job(IN_ONE_BLOCK | {"bayplan.io/gang": "false"}),),
    ],
    ids=["no owner", "plain job", "plain deployment", "daemon", "unknown kind", "gang: false"],
)
def test_stands_alone(owners: tuple[Raw, ...]) -> None:
    outcome = grouped(pod(), *owners)
    assert alone(outcome), problems(outcome)


def test_a_gang_can_be_asked_for_without_a_topology() -> None:
    assert spec_of(grouped(pod(), job({"bayplan.io/gang": "true"}))) == {"size": 4}


def test_annotations_on_the_template_or_above_the_job_count_too() -> None:
    template = {"metadata": {"annotations": {"kai.scheduler/topology-required-placement": RACK}}}
    above = thing("batch/v1", "CronJob", {}, {"kai.scheduler/topology": "network"})
    spec = spec_of(grouped(pod(annotations=IN_ONE_BLOCK), job(template=template), above))
    assert spec == {"topology": "network", "required": RACK, "size": 4}


HOW = {
    "bayplan.io/objective": "least-leftover, closest",
    "bayplan.io/patience": "domains=2,seconds=300",
    "bayplan.io/placement": "spread",
    "bayplan.io/domain-placement": "spread",
    "bayplan.io/parallelism": "tensor=8, data=2",
}


@pytest.mark.parametrize("where", ["job", "template", "above"])
def test_objective_patience_and_placement_are_annotations_of_any_workload(where: str) -> None:
    own = (
        job(HOW) if where == "job" else job(template={"metadata": {"annotations": HOW}} if where == "template" else {})
    )
    above = thing("batch/v1", "CronJob", {}, HOW if where == "above" else {})
    member = pod(annotations=HOW) if where == "template" else pod()
    assert spec_of(grouped(member, own, above)) == {
        "size": 4,
        "objective": ["least-leftover", "closest"],
        "patience": {"domains": 2, "seconds": 300.0},
        "placement": "spread",
        "domainPlacement": "spread",
        "parallelism": [{"name": "tensor", "size": 8}, {"name": "data", "size": 2}],
    }


@pytest.mark.parametrize(
    "key, value, allowed",
    [
        (
            "objective",
            "nearest",
            (
                'is no order of goals: "nearest" must be one of fewest-domains, mean-distance, '
                "fewest-nodes, least-leftover, closest"
            ),
        ),
        ("objective", "closest,closest", 'is no order of goals: "closest" is there twice'),
        ("patience", "2", "must be such as domains=2,seconds=300"),
        ("patience", "domains=0,seconds=5", "must be such as domains=2,seconds=300"),
        ("placement", "wide", "must be one of binpack, spread"),
        ("parallelism", "tensor=0", "must be such as tensor=8,pipeline=4,data=2, at most 8 of them"),
    ],
)
def test_how_a_gang_is_placed_cannot_be_misspelt(key: str, value: str, allowed: str) -> None:
    found = problems(grouped(pod(), job({f"bayplan.io/{key}": value})))
    assert found == [f'Job ml/train: metadata.annotations["bayplan.io/{key}"]: "{value}" {allowed}']


def on_template(annotations: dict[str, str]) -> Raw:
    return {"metadata": {"annotations": annotations}}


@pytest.mark.parametrize(
    "above, on_job, template, expected",
    [
        ({REQUIRED: BLOCK}, {PREFERRED: RACK}, {}, {"required": BLOCK, "preferred": RACK, "objective": ["closest"]}),
        ({}, {REQUIRED: BLOCK}, {PREFERRED: RACK}, {"required": BLOCK, "preferred": RACK, "objective": ["closest"]}),
        ({}, {REQUIRED: BLOCK}, {REQUIRED: RACK}, {"required": RACK}),
        ({REQUIRED: BLOCK}, {REQUIRED: RACK}, {}, {"required": RACK}),
    ],
    ids=["above and on the job", "job and template", "template is nearer", "job is nearer"],
)
def test_wishes_come_together_from_all_places_and_the_nearer_one_counts(
    above: dict[str, str], on_job: dict[str, str], template: dict[str, str], expected: dict[str, str]
) -> None:
    owners = job(on_job, template=on_template(template)), thing("batch/v1", "CronJob", {}, above)
    assert spec_of(grouped(pod(), *owners)) == expected | {"size": 4}


def test_a_job_that_is_no_gang_is_none_whatever_its_template_asks_for() -> None:
    outcome = grouped(pod(), job({"bayplan.io/gang": "false"}, template=on_template(IN_ONE_BLOCK)))
    assert alone(outcome)


def test_the_group_belongs_to_the_cron_jobs_job() -> None:
    outcome = grouped(pod(), job(), thing("batch/v1", "CronJob", {}, IN_ONE_BLOCK))
    assert outcome.owner is not None
    assert outcome.owner.kind == "Job"


def test_pods_of_an_unknown_kind_follow_each_other_into_the_domain() -> None:
    outcome = grouped(pod(), thing("example.com/v1", "Unheard", {"workers": 9}, IN_ONE_BLOCK))
    assert spec_of(outcome) == {"topology": "network", "required": BLOCK, "size": 1}


def test_a_users_rule_counts_before_what_bayplan_knows() -> None:
    settings = settings_with([Rule(group="example.com", kind="Unheard", replicas="spec.workers")])
    outcome = grouped(pod(), thing("example.com/v1", "Unheard", {"workers": 9}), settings=settings)
    assert spec_of(outcome) == {"size": 9}


@pytest.mark.parametrize(
    "labels, annotations",
    [
        ({"scheduling.x-k8s.io/pod-group": "mine"}, {}),
        ({}, {"pod-group-name": "mine"}),
        ({}, {"scheduling.k8s.io/group-name": "mine"}),
        ({"kueue.x-k8s.io/pod-group-name": "mine"}, {}),
        ({"bayplan.io/pod-group": "mine"}, {}),
    ],
)
def test_a_pod_that_names_a_group_itself_is_left_there(labels: dict[str, str], annotations: dict[str, str]) -> None:
    member = pod(labels, annotations)
    assert alone(grouped(member, job(IN_ONE_BLOCK)))
    assert not may_have_group(msgspec.convert(member, Pod))


def test_a_rank_of_the_users_own_goes_before_the_controllers_index() -> None:
    member = pod({"bayplan.io/rank": "7", "batch.kubernetes.io/job-completion-index": "2"})
    assert grouped(member, job(IN_ONE_BLOCK)).labels["bayplan.io/rank"] == "7"


OFFSET = "kueue.x-k8s.io/pod-index-offset"
INDEX = "training.kubeflow.org/replica-index"


@pytest.mark.parametrize(
    "on_template, on_pod",
    [({}, {}), ({OFFSET: "1"}, {}), ({}, {OFFSET: "1"})],
    ids=["the field alone", "Kueue's annotation on the template", "Kueue's annotation on the pod"],
)
def test_indexes_that_begin_at_one(on_template: dict[str, str], on_pod: dict[str, str]) -> None:
    """An MPIJob whose launcher works too: it has index 0, and the workers begin at 1."""
    segments = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": RACK}
    template = {"metadata": {"annotations": segments | on_template}}
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 5, "template": template}}
    workload = thing("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": roles, "runLauncherAsWorker": True})
    labels = {"training.kubeflow.org/job-role": "worker"}
    outcomes = [grouped(pod(labels | {INDEX: str(index)}, on_pod), workload) for index in range(1, 6)]
    assert [each.rank for each in outcomes] == [1, 2, 3, 4, 5]
    assert [each.group for each in outcomes] == [f"worker-{segment}" for segment in (0, 0, 1, 1, 2)]


def test_an_offset_of_workers_whose_index_counts_through_leaders_too_changes_nothing() -> None:
    """Kueue writes one on the workers of a LeaderWorkerSet with a template for leaders."""
    template = {"leaderTemplate": {}, "workerTemplate": {"metadata": {"annotations": {OFFSET: "1"}}}, "size": 3}
    workload = thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template})
    lws = "leaderworkerset.sigs.k8s.io"
    labels = [{f"{lws}/group-index": "0", f"{lws}/worker-index": str(index)} for index in range(3)]
    assert [grouped(pod(each, {OFFSET: "1"}), workload).rank for each in labels] == [0, 1, 2]


def test_an_offset_that_is_no_number_is_named() -> None:
    member = pod({"batch.kubernetes.io/job-completion-index": "0"}, {OFFSET: "one"})
    assert problems(grouped(member, job(IN_ONE_BLOCK))) == [
        f'Pod ml/train-x: metadata.annotations["{OFFSET}"]: "one" must be a whole number, 0 or more'
    ]


def test_a_wrong_offset_in_a_template_is_reported_once_on_the_workload() -> None:
    workload = job(IN_ONE_BLOCK, template={"metadata": {"annotations": {OFFSET: "-1"}}})
    members = [pod({"batch.kubernetes.io/job-completion-index": str(each)}, {OFFSET: "-1"}) for each in range(4)]
    assert {tuple(problems(grouped(member, workload))) for member in members} == {
        (f'Job ml/train: spec.template.metadata.annotations["{OFFSET}"]: "-1" must be a whole number, 0 or more',)
    }


def test_too_many_pods_name_the_fields_that_say_so() -> None:
    assert problems(grouped(pod(), job(IN_ONE_BLOCK, parallelism=200_000, completions=200_000))) == [
        "Job ml/train: spec.parallelism or spec.completions: 200000 pods are too many: must be at most 100000"
    ]


TEMPLATE = {"metadata": {}, "spec": {"schedulerName": "bayplan"}}
ROLE = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
ROLES = {
    "Master": {"replicas": 1, "template": {"spec": {}}},
    "Worker": {"replicas": 1, "template": TEMPLATE},
}


@pytest.mark.parametrize(
    "members, owner",
    [
        pytest.param(
            [pod(annotations=IN_ONE_BLOCK), pod(), pod(annotations={"bayplan.io/gang": "false"})],
            job(template=TEMPLATE),
            id="some pods ask, their owner does not",
        ),
        pytest.param(
            [pod({"batch.kubernetes.io/job-completion-index": str(each)}) for each in (2, 0)],
            job(IN_ONE_BLOCK, template=TEMPLATE),
            id="ranks",
        ),
        pytest.param(
            [pod(), {**pod(), "metadata": {**pod()["metadata"], "namespace": "hpc"}}],
            job(IN_ONE_BLOCK, template=TEMPLATE),
            id="two namespaces",
        ),
        pytest.param(
            [{**pod(ROLE), "spec": {"containers": [], "schedulerName": each}} for each in ("other", "bayplan")],
            thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": ROLES}),
            id="two schedulers",
        ),
        pytest.param(
            [pod(annotations={PREFERRED: RACK}), pod()],
            thing("example.com/v1", "Unknown", {}, IN_ONE_BLOCK),
            id="a kind without a template",
        ),
    ],
)
def test_what_is_known_of_the_owners_changes_no_answer(members: list[Raw], owner: Raw) -> None:
    known: KnownRequests = {}
    for member in (*members, *reversed(members)):
        assert group_for(member, [owner], known=known) == group_for(member, [owner])


def test_a_pod_in_its_group_stays_there() -> None:
    member = pod({"bayplan.io/pod-group": "train-1b4e28ba"})
    assert grouped(member, job(IN_ONE_BLOCK)).name == "train-1b4e28ba"


def test_a_pod_may_come_as_a_wire_struct() -> None:
    member = msgspec.convert(pod({"batch.kubernetes.io/job-completion-index": "1"}), Pod)
    outcome = grouped(member, job(IN_ONE_BLOCK))  # type: ignore[arg-type]
    assert (outcome.name, outcome.rank) == ("train-1b4e28ba", 1)


JOB, DAEMON_SET = {"apiVersion": "batch/v1", "kind": "Job"}, {"apiVersion": "apps/v1", "kind": "DaemonSet"}


@pytest.mark.parametrize(
    "owners, expected",
    [
        ([JOB], True),
        ([DAEMON_SET], False),
        ([{"apiVersion": "v1", "kind": "Node"}], False),
        ([DAEMON_SET, JOB | {"controller": True}], True),
        ([JOB, DAEMON_SET | {"controller": True}], False),
    ],
)
def test_who_waits_for_the_grouper_to_look(owners: list[Raw], expected: bool) -> None:
    member = pod()
    member["metadata"]["ownerReferences"] = owners
    assert may_have_group(msgspec.convert(member, Pod)) is expected


def test_a_pod_without_owner_does_not_wait() -> None:
    member = pod()
    del member["metadata"]["ownerReferences"]
    assert not may_have_group(msgspec.convert(member, Pod))


def test_a_pod_without_owner_stands_alone_and_is_told_of_wrong_annotations() -> None:
    member = pod({}, {REQUIRED: "bad value!", "kai.scheduler/segment-siz": "4"})
    del member["metadata"]["ownerReferences"]
    assert asks_by_itself(msgspec.convert(member, Pod))
    outcome = grouped(member)
    assert alone(outcome)
    at = "Pod ml/train-x: metadata.annotations"
    assert sorted(problems(outcome)) == [
        f'{at}["kai.scheduler/segment-siz"]: is not known; did you mean kai.scheduler/segment-size?',
        f'{at}["{REQUIRED}"]: "bad value!" must be a node label, such as topology.kubernetes.io/zone',
    ]


def test_a_pod_that_is_no_pod_is_said_to_be_none() -> None:
    outcome = grouped({"metadata": {"name": "odd", "namespace": "ml"}, "spec": 7}, job(IN_ONE_BLOCK))
    assert problems(outcome) == ["object ml/odd: spec: must be a mapping, not a whole number"]


def test_a_wrong_annotation_keeps_the_pods_waiting_and_says_why() -> None:
    outcome = grouped(pod(), job({"kai.scheduler/topology-required-placment": BLOCK}))
    assert outcome.held
    assert outcome.manifest is None
    assert problems(outcome) == [
        (
            'Job ml/train: metadata.annotations["kai.scheduler/topology-required-placment"]: is not known; '
            "did you mean kai.scheduler/topology-required-placement?"
        )
    ]


def test_a_wrong_annotation_holds_only_gangs() -> None:
    outcome = grouped(pod(), job({"bayplan.io/gang": "false", "kai.scheduler/topology": "My Tree"}))
    assert alone(outcome)
    assert len(outcome.problems) == 1


def test_long_names_are_cut_but_stay_different() -> None:
    long = job(IN_ONE_BLOCK)
    long["metadata"]["name"] = "a" * 80
    name = grouped(pod(), long).name
    assert name == "a" * 54 + "-1b4e28ba"


def test_kai_mode_makes_a_group_of_each_pod_of_a_job() -> None:
    settings = GroupingSettings(mode="kai")
    outcome = grouped(pod(), job(IN_ONE_BLOCK), settings=settings)
    assert outcome.name == "pg-train-x-1b4e28ba-2fa1-11d2"
    assert outcome.annotations == {"pod-group-name": outcome.name}
    assert spec_of(outcome) == {
        "minMember": 1,
        "queue": "default-queue",
        "priorityClassName": "train",
        "topologyConstraint": {"topology": "network", "requiredTopologyLevel": BLOCK},
    }


class TestWhereEachWishStands:
    """So that a level which does not exist can be told by the annotation that names it."""

    def test_on_the_workload_above_it_and_on_a_pod_template(self) -> None:
        nightly = thing("batch/v1", "CronJob", {}, {"bayplan.io/topology": "network"})
        template = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-preferred-topology": RACK}}}
        asked_in = grouped(pod(), job({REQUIRED: BLOCK}, template=template), nightly).asked_in
        assert asked_in == {
            ("topology", "network"): 'CronJob ml/train: metadata.annotations["bayplan.io/topology"]',
            ("required", BLOCK): f'metadata.annotations["{REQUIRED}"]',
            ("preferred", RACK): 'spec.template.metadata.annotations["kueue.x-k8s.io/podset-preferred-topology"]',
        }

    def test_on_the_template_of_a_role(self) -> None:
        level = "kai.scheduler/segment-topology-required-placement"
        template = {"metadata": {"annotations": {"kai.scheduler/segment-size": "2", level: RACK}}}
        roles = {"Worker": {"replicas": 4, "template": template}}
        workload = thing("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": roles})
        member = pod({"training.kubeflow.org/replica-type": "worker", INDEX: "0"})
        where = f'spec.pytorchReplicaSpecs.Worker.template.metadata.annotations["{level}"]'
        assert grouped(member, workload).asked_in["segments", RACK] == where

    def test_of_two_levels_of_segments_that_are_one_the_required_is_meant(self) -> None:
        level = "kai.scheduler/segment-topology-{}-placement"
        segments = {level.format("preferred"): RACK, level.format("required"): RACK, "kai.scheduler/segment-size": "2"}
        asked_in = grouped(pod(), job(segments)).asked_in
        assert asked_in["segments", RACK] == f'metadata.annotations["{level.format("required")}"]'


def test_layers_that_do_not_divide_the_pods_are_told_by_their_annotation() -> None:
    key = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    layers = f'[{{"topology": "{BLOCK}", "size": 4}}, {{"topology": "{RACK}", "size": 2}}]'
    asked = {key: layers}
    workload = job(parallelism=6, completions=6, template={"metadata": {"annotations": asked}})
    assert problems(grouped(pod({}, asked), workload)) == [
        (
            f'Job ml/train: spec.template.metadata.annotations["{key}"]: size 4 of layer 1 must '
            "divide the 6 pods that there are"
        )
    ]


@pytest.mark.parametrize(
    "asked, key",
    [
        (
            {"kai.scheduler/segment-size": "16", "kai.scheduler/segment-topology-required-placement": RACK},
            "kai.scheduler/segment-size",
        ),
        (
            {"kueue.x-k8s.io/podset-slice-size": "16", "kueue.x-k8s.io/podset-slice-required-topology": RACK},
            "kueue.x-k8s.io/podset-slice-size",
        ),
    ],
)
def test_segments_larger_than_all_pods_are_one_segment_with_a_remark(asked: dict[str, str], key: str) -> None:
    outcome = grouped(pod({"batch.kubernetes.io/job-completion-index": "0"}), job(asked))
    assert problems(outcome) == [
        (
            f'Job ml/train: metadata.annotations["{key}"]: 16 is more than the 4 pods that there '
            "are: all of them are one segment"
        )
    ]
    assert not outcome.held
    assert spec_of(outcome) == {"groups": [{"name": "segment-0", "size": 4, "required": RACK, "segment": 0}]}
