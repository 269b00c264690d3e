"""What admission would make of pods: priorities in dumps, in `-f` and in templates; of new pods, which it would refuse.

A PriorityClass that does not exist is an error in what a user submits, because the API server refuses it. In a dump it
is a warning, as for a cluster whose classes are not known. LimitRanges and ResourceQuotas of a running cluster are read
if the user may list them; pods that exist are judged by neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
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
from bayplan.kube.errors import InvalidObject, ObjectPath, decoding_words
from bayplan.kube.json_text import decode
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.priority_classes import PriorityClasses, specs_of
from bayplan.kube.resources import LIMIT_RANGES, RESOURCE_QUOTAS, Resource
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import LimitRange, Pod, PodSpec, ResourceQuota
from bayplan.workloads.namespace_limits import NamespaceLimits
from bayplan.workloads.plan import WorkloadPlan, admitted

CLASS_NAME = "priorityClassName"
_Kind = TypeVar("_Kind", LimitRange, ResourceQuota)


def admit_cluster(objects: ObjectSet, classes: PriorityClasses, source: str) -> list[str]:
    """Set the priorities of the pods of a dump; return what to warn of."""
    unknown = _unknown(objects.pods, classes, source)
    objects.pods = [classes.admitted(pod) for pod in objects.pods]
    objects.gangs = [classes.admitted_gang(each) for each in objects.gangs]
    return unknown


def admit_files(objects: ObjectSet, classes: PriorityClasses, source: str) -> list[str]:
    """Set the priorities of the pods of `-f`; return what to warn of.

    Raises `InvalidObject` for a class that does not exist.
    """
    written: list[tuple[Pod | PodGroup, str, PodSpec]] = [(pod, "spec", pod.spec) for pod in objects.pods]
    written += [(gang, field, spec) for gang in objects.gangs for field, spec in specs_of(gang)]
    for thing, field, spec in written if classes.complete else ():
        if problem := classes.problem(spec):
            at = ObjectPath.of(thing).child(field).child(CLASS_NAME)
            raise objects.naming_the_file(InvalidObject(at, problem), thing)
    return admit_cluster(objects, classes, source)


def admit_plan(plan: WorkloadPlan, classes: PriorityClasses, source: str, *, submitted: bool) -> WorkloadPlan:
    """Set the priorities of the pods that a workload wants, with a remark or an error about its template."""
    remarks = list(plan.remarks)
    for member in plan.members if submitted and classes.complete else ():
        problem = classes.problem(member.pod.spec) if member.is_new else ""
        if problem:
            at = ObjectPath(str(plan.about))
            raise InvalidObject(at.child(f"{member.where}.spec").child(CLASS_NAME), problem)
    remarks += _unknown((member.pod for member in plan.members if member.is_new), classes, source)
    return replace(admitted(plan, classes), remarks=tuple(remarks))


def _unknown(pods: Iterable[Pod], classes: PriorityClasses, source: str) -> list[str]:
    """One sentence per class that pods name and that is not known."""
    first: dict[str, str] = {}
    number: Counter[str] = Counter()
    for pod in pods:
        if classes.problem(pod.spec):
            name = pod.spec.priority_class_name or ""
            first.setdefault(name, pod_key(pod))
            number[name] += 1
    told = []
    for name, example in first.items():
        others = f" and {count(number[name] - 1, 'other pod')}" if number[name] > 1 else ""
        told.append(f'PriorityClass "{name}" is not in the {source}: priority 0 counts for {example}{others}')
    return told


def admit_new_pods(session: ClusterSession, work: ObjectSet) -> None:
    """Admit the pods of `-f` that the cluster does not have."""
    there = {pod_key(pod) for pod in session.objects.pods}
    new = {key: pod for pod in work.pods if (key := pod_key(pod)) not in there}
    new.update(_admitted(session, new))
    work.pods = [new.get(pod_key(pod), pod) for pod in work.pods]


def admit_missing_pods(session: ClusterSession, plan: WorkloadPlan) -> WorkloadPlan:
    """Admit the pods of a workload of the cluster that its controller has not created yet."""
    pods = _admitted(session, {pod_key(member.pod): member.pod for member in plan.members if member.is_new})
    members = (replace(member, pod=pods.get(pod_key(member.pod), member.pod)) for member in plan.members)
    return replace(plan, members=tuple(members))


def _admitted(session: ClusterSession, new: Mapping[str, Pod]) -> dict[str, Pod]:
    """New pods with the defaults of their namespaces; the session has those that would be refused."""
    namespaces = {pod.metadata.namespace or "default" for pod in new.values()}
    if session.runs and namespaces:
        ranges, quotas, problems = asked_live(lambda access: live.read_namespace_limits(access, sorted(namespaces)))
        warn_unused(problems)
    else:
        ranges = list(_in_dump(session, LIMIT_RANGES, namespaces))
        quotas = list(_in_dump(session, RESOURCE_QUOTAS, namespaces))
    limits = NamespaceLimits(ranges, quotas)
    warn(limits.remarks)
    admitted = {}
    for key, pod in new.items():
        admitted[key] = limits.with_defaults(pod)
        if refusal := limits.refusal(admitted[key]):
            session.refused[key] = f"would be refused by the API server: {refusal}"
    return admitted


def unless_refused(session: ClusterSession, gang: Gang | Incomplete) -> Gang | Incomplete:
    """A gang; one that lacks members because the API server would refuse them says so."""
    if isinstance(gang, Incomplete):
        return gang
    refused = [why for pod in gang.pods if (why := session.refused.get(pod_key(pod)))]
    if not refused:
        return gang
    return Incomplete(gang.name, f"{len(refused)} of its {count(len(gang.pods), 'pod')} {refused[0]}")


def _in_dump(session: ClusterSession, resource: Resource[_Kind], namespaces: Collection[str]) -> Iterator[_Kind]:
    for each in session.objects.others:
        namespace = each.metadata.namespace or "default"
        if (each.api_version, each.kind) != (resource.api_version, resource.kind) or namespace not in namespaces:
            continue
        try:
            yield decode(each.document, resource.type)
        except msgspec.DecodeError as error:
            warn_unused([f"{each.kind} {namespace}/{each.metadata.name}: {decoding_words(error)}"])
