"""Pods of Job, CronJob and JobSet, with completion indexes and the Jobs in between."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from bayplan.gangs.ranks.ranks import COMPLETION_INDEX, JOB_INDEX
from bayplan.grouping.raw import RawObject, Reference, WrongValue, annotations_of, labels_of, list_at, map_at
from bayplan.workloads.planned import (
    Around,
    PlannedPod,
    Template,
    count_at,
    exclusive,
    generated,
    indexes_in,
    name_of,
    owned,
    pod_from,
    template_at,
    word_at,
)

JOB = ("batch/v1", "Job")
INDEXED = "Indexed"
JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
CONTROLLER_UIDS = ("batch.kubernetes.io/controller-uid", "controller-uid")
JOB_SET = "jobset.sigs.k8s.io"
JOB_KEY = f"{JOB_SET}/job-key"
EXCLUSIVE = f"alpha.{JOB_SET}/exclusive-topology"
NODE_SELECTOR = f"alpha.{JOB_SET}/node-selector"
_DEFAULT_GROUP = "default"
_LONGEST_GENERATED = 58


def job(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """`train-0-x7k2p` for an Indexed Job, else `train-x7k2p`: those still to come, up to the parallelism."""
    return _pods_of_job(thing, template_at(thing, "spec.template"), "spec", ())


def cron_job(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """One run. The real suffix is the scheduled minute; a planned run has zeros."""
    where = "spec.jobTemplate.spec"
    template = template_at(thing, f"{where}.template")
    made = map_at(thing, ("spec", "jobTemplate"))
    run = owned(thing, *JOB, f"{name_of(thing)}-00000000", map_at(made, ("spec",)), labels_of(made))
    run["metadata"]["annotations"] = dict(annotations_of(made))
    return _pods_of_job(run, template, where, (thing,))


def _pods_of_job(
    thing: RawObject, template: Template, where: str, above: Sequence[RawObject], *, indexed: bool = False
) -> Iterator[PlannedPod]:
    """The pods of a Job at the path `where` of the workload; `indexed` is its default completion mode."""
    about = Reference.of(thing)
    labels = dict.fromkeys(JOB_NAMES, about.name) | dict.fromkeys(CONTROLLER_UIDS, about.uid)
    template = template.with_labels({key: value for key, value in labels.items() if value})
    indexes = _wanted(thing, where)
    if word_at(thing, "spec.completionMode", INDEXED if indexed else "") != INDEXED:
        for number in range(len(indexes)):
            yield pod_from(template, generated(f"{about.name}-", number), [thing, *above])
        return
    for index in indexes:
        mark = {COMPLETION_INDEX: str(index)}
        tail = f"-{index}-"
        name = generated(f"{about.name[: _LONGEST_GENERATED - len(tail)]}{tail}", index)
        yield pod_from(template, name, [thing, *above], mark, mark)


def _wanted(thing: RawObject, where: str) -> list[int]:
    """The indexes of the pods that run next, without finished ones."""

    def number(field: str, otherwise: int) -> int:
        return count_at(thing, f"spec.{field}", otherwise, where=f"{where}.{field}")

    parallelism = number("parallelism", 1)
    completions = number("completions", -1)
    if completions < 0:
        return list(range(parallelism))
    done = indexes_in(word_at(thing, "status.completedIndexes")) | indexes_in(word_at(thing, "status.failedIndexes"))
    if not done:
        left = completions - count_at(thing, "status.succeeded", 0)
        return list(range(max(min(parallelism, left), 0)))
    return [index for index in range(completions) if index not in done][:parallelism]


def job_set(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """Jobs `tune-worker-0`, pods `tune-worker-0-3-x7k2p`; exclusive placement is the affinity of JobSet's webhook."""
    replicated = _replicated_jobs(thing)
    for number, entry in enumerate(replicated):
        where = f"spec.replicatedJobs[{number}].template.spec"
        template = template_at(entry, "template.spec.template", f"{where}.template")
        for index in range(_replicas(entry, number)):
            marks = _job_set_marks(thing, replicated, number, index)
            name = f"{name_of(thing)}-{entry['name']}-{index}"
            between = owned(thing, *JOB, name, map_at(entry, ("template", "spec")), marks)
            own = _placed_exclusively(thing, entry, template.with_labels(marks), marks[JOB_KEY], name)
            annotated = Template(own.labels, {**own.annotations, **marks}, own.spec, own.where)
            yield from _pods_of_job(between, annotated, where, (thing,), indexed=True)


def _replicated_jobs(thing: RawObject) -> list[RawObject]:
    found = list_at(thing, ("spec", "replicatedJobs"))
    for number, entry in enumerate(found):
        if not isinstance(entry, dict):
            raise WrongValue(f"spec.replicatedJobs[{number}]", entry, "must be a map")
        if not word_at(entry, "name"):
            raise WrongValue(f"spec.replicatedJobs[{number}].name", None, "is missing")
    return found


def _replicas(entry: RawObject, number: int) -> int:
    return count_at(entry, "replicas", 1, where=f"spec.replicatedJobs[{number}].replicas")


def _job_set_marks(thing: RawObject, replicated: list[RawObject], number: int, index: int) -> dict[str, str]:
    """Labels, also as annotations, of each Job and its pods."""
    about = Reference.of(thing)
    sizes = [_replicas(each, position) for position, each in enumerate(replicated)]
    groups = [word_at(each, "groupName", _DEFAULT_GROUP) for each in replicated]
    group, name = groups[number], str(replicated[number]["name"])
    in_group = [size if own == group else 0 for size, own in zip(sizes, groups, strict=True)]
    key = f"{about.namespace}/{about.name}-{name}-{index}"
    values: Mapping[str, object] = {
        "jobset-name": about.name,
        "jobset-uid": about.uid,
        "replicatedjob-name": name,
        "restart-attempt": count_at(thing, "status.restarts", 0),
        "replicatedjob-replicas": sizes[number],
        "global-replicas": sum(sizes),
        "job-key": hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": sum(sizes[:number]) + index,
        "group-name": group,
        "group-replicas": sum(in_group),
        "job-group-index": sum(in_group[:number]) + index,
    }
    return {JOB_INDEX: str(index)} | {f"{JOB_SET}/{key}": str(value) for key, value in values.items() if value != ""}


def _placed_exclusively(thing: RawObject, entry: RawObject, template: Template, key: str, job_name: str) -> Template:
    """With exclusive placement, each Job has a domain to itself.

    The webhook gives the first pod affinity and makes the others follow it; affinity on all pods has the same effect.
    """
    notes = {**annotations_of(thing), **annotations_of(map_at(entry, ("template",)))}
    if EXCLUSIVE not in notes:
        return template
    if NODE_SELECTOR in notes:
        named = {f"alpha.{JOB_SET}/namespaced-job": f"{Reference.of(thing).namespace}_{job_name}"}
        taint = {"key": f"alpha.{JOB_SET}/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
        return template.with_spec(
            nodeSelector={**(template.spec.get("nodeSelector") or {}), **named},
            tolerations=[*(template.spec.get("tolerations") or ()), taint],
        )
    return exclusive(template, JOB_KEY, key, notes[EXCLUSIVE], everywhere=True)
