"""Priorities of pods that name a PriorityClass, as admission would set them: in dumps, in `-f`, in templates.

A class that does not exist is an error in what a user submits, because the API server refuses it. In a dump it is a
warning, as for a cluster whose classes are not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bayplan.cluster.state import pod_key
from bayplan.explain.amounts import count
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.priority_classes import PriorityClasses, specs_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.workloads.plan import WorkloadPlan, admitted

CLASS_NAME = "priorityClassName"


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
    if classes.complete:
        for pod in objects.pods:
            problem = classes.problem(pod.spec)
            if problem:
                at = ObjectPath.of(pod).child("spec").child(CLASS_NAME)
                raise objects.naming_the_file(InvalidObject(at, problem), pod)
        for gang in objects.gangs:
            for field, spec in specs_of(gang):
                problem = classes.problem(spec)
                if problem:
                    at = ObjectPath.of(gang).child(field).child(CLASS_NAME)
                    raise objects.naming_the_file(InvalidObject(at, problem), gang)
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
