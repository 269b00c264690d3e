"""New pods of `-f` as the API server would admit them: LimitRanges and ResourceQuotas of their namespaces.

Those of a running cluster are read if the user may list them. Pods that exist are judged by neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from bayplan.cli.shared.output import warn
from bayplan.cli.shared.reading import asked_live, warn_unused
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.state import pod_key
from bayplan.dialects.members import Incomplete
from bayplan.explain.amounts import count
from bayplan.gangs.model import Gang
from bayplan.kube.client import live
from bayplan.kube.errors import decoding_words
from bayplan.kube.json_text import decode
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.resources import LIMIT_RANGES, RESOURCE_QUOTAS, Resource
from bayplan.kube.wire.core_v1_limits import LimitRange, ResourceQuota
from bayplan.workloads.namespace_limits import NamespaceLimits

_Kind = TypeVar("_Kind", LimitRange, ResourceQuota)


def admit_new_pods(session: ClusterSession, work: ObjectSet) -> None:
    """Give the new pods of `-f` the defaults of their namespaces, and note in the session which would be refused."""
    there = {pod_key(pod) for pod in session.objects.pods}
    namespaces = {pod.metadata.namespace or "default" for pod in work.pods if pod_key(pod) not in there}
    if session.runs and namespaces:
        ranges, quotas, problems = asked_live(lambda access: live.read_namespace_limits(access, sorted(namespaces)))
        warn_unused(problems)
    else:
        ranges = list(_in_dump(session, LIMIT_RANGES))
        quotas = list(_in_dump(session, RESOURCE_QUOTAS))
    limits = NamespaceLimits(
        [each for each in ranges if (each.metadata.namespace or "default") in namespaces],
        [each for each in quotas if (each.metadata.namespace or "default") in namespaces],
    )
    warn(limits.remarks)
    for index, pod in enumerate(work.pods):
        key = pod_key(pod)
        if key not in there:
            work.pods[index] = limits.with_defaults(pod)
            if refusal := limits.refusal(work.pods[index]):
                session.refused[key] = f"would be refused by the API server: {refusal}"


def unless_refused(session: ClusterSession, gang: Gang | Incomplete) -> Gang | Incomplete:
    """A gang; one that lacks members because the API server would refuse them says so."""
    if isinstance(gang, Incomplete):
        return gang
    refused = [why for pod in gang.pods if (why := session.refused.get(pod_key(pod)))]
    if not refused:
        return gang
    return Incomplete(gang.name, f"{len(refused)} of its {count(len(gang.pods), 'pod')} {refused[0]}")


def _in_dump(session: ClusterSession, resource: Resource[_Kind]) -> Iterator[_Kind]:
    for each in session.objects.others:
        if (each.api_version, each.kind) == (resource.api_version, resource.kind):
            try:
                yield decode(each.document, resource.type)
            except msgspec.DecodeError as error:
                warn_unused([f"{each.kind} {each.metadata.namespace}/{each.metadata.name}: {decoding_words(error)}"])
