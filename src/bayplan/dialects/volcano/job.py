"""Volcano's Job (`batch.volcano.sh/v1alpha1`): the PodGroup and pods of a Job, and what admission rejects.

On a cluster, Volcano's controllers create them, and `pod_group.py` reads them. For planning, `pod_group_of` and
`pods_of` make the same from the manifest. `job_problem` uses the words of Volcano's admission webhook.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bayplan.dialects.volcano.pod_group import GROUP_NAMES, TASK
from bayplan.gangs.ranks.ranks import TASK_INDEX
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.manifest_limits import count_pods
from bayplan.kube.quantity import QuantityError, parse
from bayplan.kube.volcano_annotations import policy_annotations
from bayplan.kube.wire.core_v1 import Container, LabelSelector, Metadata, Pod, PodSpec
from bayplan.kube.wire.volcano_batch_v1alpha1 import Job, PartitionPolicy, Task
from bayplan.kube.wire.volcano_scheduling_v1beta1 import NetworkTopology, PodGroup, PodGroupSpec, SubGroupPolicy

JOB = "volcano.sh/job-name"
PARTITION = "volcano.sh/partition-id"
NO_POLICY = ("", "none")
MILLI = 1000


def pod_group_of(job: Job) -> PodGroup:
    """The PodGroup of a Job: its minima, and a sub-group policy for each task with partitions."""
    tasks, spec = job.spec.tasks or [], job.spec
    all_pods = sum(task.replicas for task in tasks)
    return PodGroup(
        metadata=Metadata(
            name=job.metadata.name, namespace=job.metadata.namespace, annotations=job.metadata.annotations
        ),
        spec=PodGroupSpec(
            min_member=all_pods if spec.min_available is None else spec.min_available,
            min_task_member={task.name: _least(task) for task in tasks},
            queue=spec.queue,
            network_topology=spec.network_topology,
            sub_group_policy=[
                _policy(task, task.partition_policy) for task in tasks if task.partition_policy is not None
            ],
        ),
    )


def in_words_of_job(text: str) -> str:
    """A text about a Job's PodGroup with the names of the Job's own fields."""
    return text.replace("minTaskMember", "tasks[].minAvailable").replace("minMember", "minAvailable")


def _least(task: Task) -> int:
    return task.replicas if task.min_available is None else task.min_available


def _policy(task: Task, partitions: PartitionPolicy) -> SubGroupPolicy:
    return SubGroupPolicy(
        name=task.name,
        sub_group_size=partitions.partition_size,
        min_sub_groups=partitions.min_partitions,
        label_selector=LabelSelector(match_labels={TASK: task.name}),
        match_label_keys=[PARTITION],
        network_topology=partitions.network_topology,
    )


def pods_of(job: Job) -> list[Pod]:
    """The pods of a Job with Volcano's labels. Raises `InvalidObject` if admission would reject the Job."""
    problem = job_problem(job)
    if problem:
        raise InvalidObject(ObjectPath.of(job), problem)
    at = ObjectPath.of(job)
    count_pods((Job, at.subject), at.child("spec.tasks"), sum(task.replicas for task in job.spec.tasks or ()))
    return [pod for task in job.spec.tasks or () for pod in _pods_of_task(job, task)]


def _pods_of_task(job: Job, task: Task) -> Iterator[Pod]:
    template = task.template
    spec = msgspec.structs.replace(
        template.spec,
        scheduler_name=template.spec.scheduler_name or job.spec.scheduler_name,
        priority_class_name=template.spec.priority_class_name or job.spec.priority_class_name or None,
    )
    annotations = {**(template.metadata.annotations or {}), **policy_annotations(task.topology_policy)}
    annotations[GROUP_NAMES[1]] = job.metadata.name
    for index in range(task.replicas):
        labels = {**(template.metadata.labels or {}), JOB: job.metadata.name, TASK: task.name, TASK_INDEX: str(index)}
        if task.partition_policy is not None:
            labels[PARTITION] = str(index // task.partition_policy.partition_size)
        name = f"{job.metadata.name}-{task.name}-{index}"
        metadata = Metadata(name=name, namespace=job.metadata.namespace, labels=labels, annotations=annotations)
        yield Pod(metadata=metadata, spec=spec)


def in_group(pod: Pod, group: str) -> Pod:
    """A pod of a Job in the PodGroup that its controller named."""
    annotations = {**(pod.metadata.annotations or {}), GROUP_NAMES[1]: group}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


# -- Volcano's admission webhook ---------------------------------------------------------------------------------


def said_by_admission(manifest: Mapping[str, object]) -> str:
    """What Volcano's admission webhook says about a Job; empty if it admits the Job or cannot decode it."""
    try:
        problem = job_problem(msgspec.convert(manifest, Job))
    except msgspec.ValidationError:
        return ""  # the field with the wrong type is told by the reader of that field
    return f'would be refused by Volcano\'s admission: "{problem.rstrip(";.")}"' if problem else ""


def job_problem(job: Job) -> str:
    """The first problem of a Job, its tasks or its tiers; empty if there is none."""
    tasks, least = job.spec.tasks or [], job.spec.min_available
    if least is not None and least < 0:
        return "job 'minAvailable' must be >= 0."
    if not tasks:
        return "No task specified in job spec"
    names: set[str] = set()
    for index, task in enumerate(tasks):
        where = f"in task: {task.name}, job: {job.metadata.name};"
        if task.replicas < 0:
            return f"'replicas' < 0 {where}"
        if task.min_available is not None and task.min_available < 0:
            return f"'minAvailable' < 0 {where}"
        if task.min_available is not None and task.min_available > task.replicas:
            return f"'minAvailable' is greater than 'replicas' {where}"
        if task.name in names:
            return f"duplicated task name {task.name};"
        names.add(task.name)
        problem = partition_problem(task, job.metadata.name) or topology_policy_problem(
            task.topology_policy, task.template.spec, index
        )
        if problem:
            return problem
    if least is not None and least > sum(task.replicas for task in tasks):
        return "job 'minAvailable' should not be greater than total replicas in tasks;"
    return tiers_problem(job.spec.network_topology)


def topology_policy_problem(policy: str, spec: PodSpec, index: int) -> str:
    """Under a NUMA policy every container needs whole CPUs; init containers are numbered after the others."""
    if policy in NO_POLICY:
        return ""
    for number, container in enumerate((*(spec.containers or ()), *(spec.init_containers or ()))):
        if not _whole_cpus(container):
            return f"the cpu request isn't an integer in spec.task[{index}] container[{number}]."
    return ""


def _whole_cpus(container: Container) -> bool:
    """True if the requests, or without any the limits, are whole CPUs."""
    resources = container.resources
    amounts = (resources.requests or resources.limits or {}) if resources is not None else {}
    try:
        cpus = parse(amounts.get("cpu", 0))
    except QuantityError:
        return False
    return cpus.value() > 0 and cpus.value() * MILLI == cpus.milli()


def partition_problem(task: Task, job: str) -> str:
    """Partitions must add up to the replicas, and their minimum to the task's; tiers have their own rule."""
    partitions = task.partition_policy
    if partitions is None:
        return ""
    where = f"in task: {task.name}, job: {job}"
    total, size, least = partitions.total_partitions, partitions.partition_size, partitions.min_partitions
    wrong = ""
    if total <= 0:
        wrong = f"'TotalPartitions' must be greater than 0 {where}"
    elif size <= 0:
        wrong = f"'PartitionSize' must be greater than 0 {where}"
    elif task.replicas != total * size:
        wrong = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    elif task.min_available is not None and least and task.min_available != least * size:
        wrong = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    return wrong + tiers_problem(partitions.network_topology)


def tiers_problem(asked: NetworkTopology | None) -> str:
    """A tier has a name or a number, not both."""
    if asked is None or asked.highest_tier_allowed is None or not asked.highest_tier_name:
        return ""
    return "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
