"""Exclusive placement: leaders start without their followers, which are created only once their leader has a node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.members import Incomplete
from bayplan.dialects.own.members import gang_with_pods
from bayplan.dispatch.actions import Bind
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Affinity, Pod
from tests.builders.units import dispatcher, on_node, places
from tests.builders.units import pod as running_pod
from tests.unit.grouping.workloads import BLOCK, IN_ONE_BLOCK, RACK, Raw, grouped, problems, spec_of, thing
from tests.unit.grouping.workloads import pod as owned_pod

JOB_SET_KEY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS = "leaderworkerset.sigs.k8s.io"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
IN_ONE_BLOCK_BY_ITSELF = {**IN_ONE_BLOCK, f"{LWS}/exclusive-topology": RACK}


def job_set(annotations: dict[str, str], *, on_template: dict[str, str] | None = None, jobs: int = 2) -> Raw:
    template = {"metadata": {"annotations": on_template or {}}, "spec": {"parallelism": 4, "completions": 4}}
    spec = {"replicatedJobs": [{"name": "worker", "replicas": jobs, "template": template}]}
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", spec, annotations)


def pod_of_job(job: int, index: int) -> Raw:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "jobset.sigs.k8s.io/job-index": str(job),
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return owned_pod(labels)


def lws(annotations: dict[str, str], size: int = 4) -> Raw:
    spec = {"leaderWorkerTemplate": {"size": size, "workerTemplate": {}}}
    return thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations)


def pod_of_group(index: int) -> Raw:
    return owned_pod({f"{LWS}/worker-index": str(index), f"{LWS}/group-index": "0"})


def job(number: int) -> Raw:
    inside = [{"name": f"worker-{number}-leader", "size": 1}, {"name": f"worker-{number}-followers", "size": 3}]
    return {"name": f"worker-{number}", "required": RACK, "groups": inside, "minimumGroups": 1}


@pytest.mark.parametrize("annotations, on_template", [({JOB_SET_KEY: RACK}, {}), ({}, {JOB_SET_KEY: RACK})])
def test_each_job_of_a_job_set_is_a_group_that_starts_with_its_leader(
    annotations: dict[str, str], on_template: dict[str, str]
) -> None:
    workload = job_set(annotations, on_template=on_template)
    leader, follower = grouped(pod_of_job(1, 0), workload), grouped(pod_of_job(1, 3), workload)
    assert spec_of(leader) == spec_of(follower)
    assert spec_of(leader)["groups"] == [{"name": "worker", "groups": [job(0), job(1)]}]
    assert [outcome.group for outcome in (leader, follower)] == ["worker-1-leader", "worker-1-followers"]
    assert [outcome.labels["bayplan.io/rank"] for outcome in (leader, follower)] == ["4", "7"]
    assert leader.manifest is not None
    assert leader.manifest["metadata"]["annotations"] == {"bayplan.io/exclusive-topology": RACK}


def test_a_job_set_whose_nodes_are_labelled_by_hand_starts_as_a_whole() -> None:
    workload = job_set({JOB_SET_KEY: RACK, "alpha.jobset.sigs.k8s.io/node-selector": "true"})
    assert spec_of(grouped(pod_of_job(0, 0), workload))["groups"] == [{"name": "worker", "size": 8}]


def test_segments_of_exclusive_jobs_are_told_to_have_no_effect() -> None:
    segments = {"kai.scheduler/segment-size": "2", "kai.scheduler/segment-topology-required-placement": RACK}
    outcome = grouped(pod_of_job(0, 0), job_set({JOB_SET_KEY: RACK, **segments}))
    assert spec_of(outcome)["groups"][0]["groups"] == [job(0), job(1)]
    assert any("has no effect: with alpha.jobset.sigs.k8s.io/exclusive-topology" in text for text in problems(outcome))


def test_a_leader_worker_set_starts_with_its_leader_in_its_own_domain() -> None:
    outcome = grouped(pod_of_group(0), lws({f"{LWS}/exclusive-topology": RACK}))
    leader, workers = {"name": "leader", "size": 1}, {"name": "workers", "size": 3}
    assert spec_of(outcome) == {"required": RACK, "groups": [leader, workers], "minimumGroups": 1}


def test_an_exclusive_domain_inside_a_required_one_holds_both() -> None:
    outcome = grouped(pod_of_group(0), lws(IN_ONE_BLOCK_BY_ITSELF))
    (around,) = spec_of(outcome)["groups"]
    assert (spec_of(outcome)["required"], around["required"], around["minimumGroups"]) == (BLOCK, RACK, 1)
    assert [group["name"] for group in around["groups"]] == ["leader", "workers"]


# -- stories: the pods as the webhooks write them ----------------------------------------------------------------------


def webhook_pod(name: str, grouping: Any, *, key: str, rack: str = "") -> Pod:
    """A leader with the affinity that the webhook adds, or a follower that is sent to the leader's rack."""
    made = running_pod(name, 4, gang=grouping.name, group=grouping.group)
    labels = {**(made.metadata.labels or {}), JOB_KEY: key}
    same = {"labelSelector": {"matchExpressions": [{"key": JOB_KEY, "operator": "In", "values": [key]}]}}
    exists, not_in = {"key": JOB_KEY, "operator": "Exists"}, {"key": JOB_KEY, "operator": "NotIn", "values": [key]}
    others = {"labelSelector": {"matchExpressions": [exists, not_in]}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    everywhere = {"topologyKey": RACK, "namespaceSelector": {}}
    terms = {"podAffinity": {required: [same | everywhere]}, "podAntiAffinity": {required: [others | everywhere]}}
    affinity = None if rack else msgspec.convert(terms, Affinity)
    spec = msgspec.structs.replace(made.spec, affinity=affinity, node_selector={RACK: rack} if rack else None)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, labels=labels), spec=spec)


def test_leaders_go_where_their_followers_have_room_and_these_follow_together() -> None:
    # Nodes take two pods. Racks r1 and r3 have room for a Job of four pods, r0 and r2 have not.
    racks = {"n0": "r0", "n1": "r1", "n2": "r1", "n3": "r2", "n4": "r3", "n5": "r3"}
    workload = job_set({JOB_SET_KEY: RACK})
    scheduler = dispatcher(*racks, racks=racks)
    made = grouped(pod_of_job(0, 0), workload)
    scheduler.set_group(msgspec.convert(made.manifest, PodGroup), 0)

    leaders = {
        number: webhook_pod(f"l{number}", grouped(pod_of_job(number, 0), workload), key=f"k{number}")
        for number in (0, 1)
    }
    for leader in leaders.values():
        scheduler.set_pod(leader, 0)
    action = scheduler.decide(0)
    assert isinstance(action, Bind)
    found = {key: racks[node] for key, node in places(action).items()}
    assert sorted(found.values()) == ["r1", "r3"]
    for number, leader in leaders.items():
        scheduler.set_pod(on_node(leader, places(action)[f"ml/l{number}"]), 1)
    scheduler.bound(action, 1)
    scheduler.decide(1)

    follows = grouped(pod_of_job(0, 1), workload)
    followers = [webhook_pod(f"f{index}", follows, key="k0", rack=found["ml/l0"]) for index in (1, 2, 3)]
    for follower in followers[:2]:
        scheduler.set_pod(follower, 2)
    assert not [action for action in (scheduler.decide(2), scheduler.decide(2)) if isinstance(action, Bind)]
    scheduler.set_pod(followers[2], 3)
    assert {racks[node] for node in places(scheduler.decide(3)).values()} == {found["ml/l0"]}


def test_a_gang_of_leaders_alone_is_not_incomplete() -> None:
    workload = lws({f"{LWS}/exclusive-topology": RACK})
    leader = grouped(pod_of_group(0), workload)
    gang = gang_with_pods(
        msgspec.convert(leader.manifest, PodGroup), [running_pod("leader", gang=leader.name, group=leader.group)]
    )
    assert not isinstance(gang, Incomplete)
