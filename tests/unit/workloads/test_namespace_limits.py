"""LimitRanges and ResourceQuotas judge new pods in the words of the API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.kube.wire.core_v1 import LimitRange, Pod, ResourceQuota
from bayplan.workloads.namespace_limits import NamespaceLimits

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def pod(requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Pod:
    container = {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}
    written = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {"containers": [container], **spec}}
    return msgspec.convert(written, Pod)


def limit_range(kind: str = "Container", **item: Json) -> LimitRange:
    limits = [{"type": kind, **item}]
    return msgspec.convert({"metadata": {"name": "r", "namespace": "ml"}, "spec": {"limits": limits}}, LimitRange)


def quota(hard: Json, used: Json | None = None, **spec: Any) -> ResourceQuota:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    metadata = {"name": "team", "namespace": "ml"}
    return msgspec.convert({"metadata": metadata, "spec": {"hard": hard, **spec}, "status": status}, ResourceQuota)


def refusal(asked: Pod, *things: LimitRange | ResourceQuota) -> str:
    ranges = [each for each in things if isinstance(each, LimitRange)]
    limits = NamespaceLimits(ranges, [each for each in things if isinstance(each, ResourceQuota)])
    return limits.refusal(limits.with_defaults(asked))


@pytest.mark.parametrize(
    "asked, item, requests, limits",
    [
        (pod(), {"default": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        (pod(), {"default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "2"}),
        (pod(), {"max": {"cpu": "4"}, "min": {"memory": "1Gi"}}, {"cpu": "4", "memory": "1Gi"}, {"cpu": "4"}),
        (pod({"cpu": "1"}), {"default": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}),
        (pod(limits={"cpu": "8"}), {"defaultRequest": {"cpu": "1"}}, {"cpu": "8"}, {"cpu": "8"}),
    ],
    ids=["limit", "request", "bounds", "request is kept", "limit is the request"],
)
def test_containers_get_the_defaults_of_their_namespace(asked: Pod, item: Json, requests: Json, limits: Json) -> None:
    filled = NamespaceLimits([limit_range(**item)], []).with_defaults(asked).spec.containers
    resources = filled[0].resources if filled else None
    assert resources is not None
    assert (resources.requests, resources.limits) == (requests, limits)


@pytest.mark.parametrize(
    "asked, kind, item, said",
    [
        (
            pod(limits={"cpu": "8"}),
            "Container",
            {"max": {"cpu": "4"}},
            "maximum cpu usage per Container is 4, but limit is 8",
        ),
        (
            pod({"memory": "64Mi"}),
            "Container",
            {"min": {"memory": "1Gi"}},
            "minimum memory usage per Container is 1Gi, but request is 64Mi",
        ),
        (pod(), "Pod", {"max": {"cpu": "4"}}, "maximum cpu usage per Pod is 4.  No limit is specified"),
        (pod(), "Pod", {"min": {"cpu": "4"}}, "minimum cpu usage per Pod is 4.  No request is specified"),
        (
            pod({"cpu": "1"}, {"cpu": "4"}),
            "Container",
            {"maxLimitRequestRatio": {"cpu": "2"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ),
        (
            pod({"cpu": "8"}),
            "Container",
            {"default": {"cpu": "2"}},
            'container c: Invalid value: "8": must be less than or equal to cpu limit of 2',
        ),
        (pod({"cpu": "1"}, {"cpu": "2"}), "Container", {"max": {"cpu": "2"}, "min": {"cpu": "1"}}, ""),
        (pod(), "PersistentVolumeClaim", {"max": {"storage": "1Gi"}}, ""),
    ],
)
def test_a_limit_range_refuses_what_is_beyond_its_bounds(asked: Pod, kind: str, item: Json, said: str) -> None:
    assert refusal(asked, limit_range(kind, **item)) == said


@pytest.mark.parametrize(
    "asked, hard, used, said",
    [
        (
            pod(limits={GPU: 8}),
            {f"requests.{GPU}": "16", "pods": "50"},
            {f"requests.{GPU}": "14", "pods": "7"},
            f"exceeded quota: team, requested: requests.{GPU}=8, used: requests.{GPU}=14, limited: requests.{GPU}=16",
        ),
        (
            pod({"cpu": "1500m", "memory": "2Gi"}),
            {"cpu": "2", "requests.memory": "3Gi"},
            {"cpu": "1", "requests.memory": "2Gi"},
            (
                "exceeded quota: team, requested: cpu=1500m,requests.memory=2Gi, "
                "used: cpu=1,requests.memory=2Gi, limited: cpu=2,requests.memory=3Gi"
            ),
        ),
        (
            pod(),
            {"count/pods": "1"},
            {"count/pods": "1"},
            "exceeded quota: team, requested: count/pods=1, used: count/pods=1, limited: count/pods=1",
        ),
        (pod({"cpu": "1"}), {"limits.cpu": "8"}, None, "failed quota: team: must specify limits.cpu for: c"),
        (pod(limits={"cpu": "1"}), {"requests.cpu": "8", "limits.cpu": "8"}, None, ""),
        (pod(), {f"requests.{GPU}": "0", "configmaps": "0"}, None, ""),
        (pod(limits={GPU: 2}), {f"requests.{GPU}": "2"}, None, ""),
    ],
)
def test_a_quota_refuses_what_it_has_no_room_for(asked: Pod, hard: Json, used: Json | None, said: str) -> None:
    assert refusal(asked, quota(hard, used)) == said


@pytest.mark.parametrize(
    "asked, spec, covered",
    [
        (pod(), {"scopes": ["BestEffort"]}, True),
        (pod({"cpu": "1"}), {"scopes": ["BestEffort"]}, False),
        (pod({"cpu": "1"}), {"scopes": ["NotBestEffort"]}, True),
        (pod(activeDeadlineSeconds=60), {"scopes": ["Terminating"]}, True),
        (pod(activeDeadlineSeconds=60), {"scopes": ["NotTerminating"]}, False),
        (pod(priorityClassName="high"), {"scopes": ["PriorityClass"]}, True),
        (pod(priorityClassName="high"), {"scopeSelector": ["In", ["high"]]}, True),
        (pod(priorityClassName="low"), {"scopeSelector": ["In", ["high"]]}, False),
        (pod(priorityClassName="low"), {"scopeSelector": ["NotIn", ["high"]]}, True),
        (pod(), {"scopeSelector": ["DoesNotExist", []]}, True),
    ],
)
def test_a_quota_counts_the_pods_of_its_scopes(asked: Pod, spec: Json, *, covered: bool) -> None:
    if "scopeSelector" in spec:
        operator, values = spec["scopeSelector"]
        expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec = {"scopeSelector": {"matchExpressions": [expression]}}
    assert bool(refusal(asked, quota({"pods": "0"}, **spec))) is covered


def test_pods_that_are_admitted_count_for_the_next_ones() -> None:
    limits = NamespaceLimits([], [quota({f"requests.{GPU}": "4"})])
    assert [bool(limits.refusal(pod(limits={GPU: 2}))) for _ in range(3)] == [False, False, True]


def test_a_pod_that_is_refused_uses_nothing() -> None:
    limits = NamespaceLimits([], [quota({f"requests.{GPU}": "4"})])
    assert [bool(limits.refusal(pod(limits={GPU: many}))) for many in (8, 4)] == [True, False]


@pytest.mark.parametrize(
    "thing, remark",
    [
        (quota({"pods": "1"}, {}), "ResourceQuota ml/team: its status has no pods yet: it is not counted"),
        (quota({"pods": "1", "cpu": "2"}, {"pods": "0"}), "ResourceQuota ml/team: its status has no cpu yet"),
        (
            quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"]),
            'ResourceQuota ml/team: scope "CrossNamespacePodAffinity" is not judged: it is not counted',
        ),
        (limit_range(max={"cpu": "many"}), 'LimitRange ml/r: invalid quantity "many"'),
    ],
)
def test_what_cannot_be_judged_by_is_a_remark(thing: LimitRange | ResourceQuota, remark: str) -> None:
    is_range = isinstance(thing, LimitRange)
    limits = NamespaceLimits([thing] if is_range else [], [] if is_range else [thing])  # type: ignore[list-item]
    (told,) = limits.remarks
    assert told.startswith(remark)
    assert not limits.refusal(pod())
