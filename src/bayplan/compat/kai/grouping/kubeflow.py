"""KAI's groups of Kubeflow's distributed jobs: one per job, of all replicas unless the job says how many suffice.

PyTorchJobs alone have sub-groups: the master, and the workers, who may be cut into segments.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.compat.kai.grouping.metadata import (
    SEGMENT_SIZE,
    KaiCase,
    KaiGroup,
    KaiSubGroup,
    check_number,
    segment_constraint,
    usual_group,
    worker_annotation,
    wrong_pod,
)
from bayplan.gangs.ranks.ranks import KUBEFLOW_INDEX
from bayplan.grouping.grouping import Lookup, every
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    labels_of,
    look_up,
    map_at,
    metadata_of,
    number_at,
    text_at,
)

MIN_AVAILABLE = ("spec", "runPolicy", "schedulingPolicy", "minAvailable")
JOB_NAME, JOB_ROLE = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
REPLICA_TYPE = "training.kubeflow.org/replica-type"


def tf_job(case: KaiCase) -> KaiGroup:
    """TFJob: whatever roles it has."""
    return _distributed(case, "tfReplicaSpecs")


def xgboost_job(case: KaiCase) -> KaiGroup:
    """XGBoostJob: a master and workers."""
    return _distributed(case, "xgbReplicaSpecs", ("Master", "Worker"))


def jax_job(case: KaiCase) -> KaiGroup:
    """JAXJob: workers."""
    return _distributed(case, "jaxReplicaSpecs", ("Worker",))


def mpi_job(case: KaiCase) -> KaiGroup:
    """MPIJob: a launcher and workers; a launcher that comes after the workers is not waited for before it exists."""
    group = _distributed(case, "mpiReplicaSpecs", ("Launcher", "Worker"))
    delayed = text_at(case.owner, ("spec", "launcherCreationPolicy")) == "WaitForWorkersReady"
    if not delayed or _launcher_exists(case):
        return group
    launchers = number_at(case.owner, ("spec", "mpiReplicaSpecs", "Launcher", "replicas"))
    if not launchers:
        raise WrongValue("spec.mpiReplicaSpecs.Launcher.replicas", launchers, "must be 1 or more")
    return replace(group, min_available=group.min_available - launchers)


def _launcher_exists(case: KaiCase) -> bool:
    owner = Reference.of(case.owner)
    question = Lookup("v1", "Pod", owner.namespace, labels=((JOB_NAME, owner.name), (JOB_ROLE, "launcher")))
    return any(not metadata_of(pod).get("deletionTimestamp") for pod in every(case.answers, question))


def _distributed(case: KaiCase, specs: str, needed: tuple[str, ...] = ()) -> KaiGroup:
    group = usual_group(case)
    said = number_at(case.owner, MIN_AVAILABLE)
    return replace(group, min_available=_replicas(case.owner, specs, needed) if said is None else said)


def _replicas(job: RawObject, specs: str, needed: tuple[str, ...]) -> int:
    """The pods of all roles together; KAI insists that each role says how many it has."""
    roles = map_at(job, ("spec", specs))
    if look_up(job, ("spec", specs)) is None:
        raise WrongValue(f"spec.{specs}", None, "is missing: which pods does the job have?")
    for role in needed:
        if role not in roles:
            raise WrongValue(f"spec.{specs}.{role}", None, "is missing; a job of this kind needs it")
    total = 0
    for role in roles:
        replicas = number_at(job, ("spec", specs, role, "replicas"))
        if not replicas:
            raise WrongValue(f"spec.{specs}.{role}.replicas", replicas, "must be written, and 1 or more")
        total += replicas
    if total <= 0:
        raise WrongValue(f"spec.{specs}", total, "is the number of all pods; must be 1 or more")
    return total


# -- PyTorch -----------------------------------------------------------------------------------------------------------


def pytorch_job(case: KaiCase) -> KaiGroup:
    """PyTorchJob: the whole job's minimum, and what of it is not the master's is the workers'."""
    group = _distributed(case, "pytorchReplicaSpecs")
    elastic = _number_or_none(case.owner, ("spec", "elasticPolicy", "minReplicas"))
    said = number_at(case.owner, MIN_AVAILABLE)
    least = next(number for number in (said, elastic, group.min_available) if number is not None)
    roles = map_at(case.owner, ("spec", "pytorchReplicaSpecs"))
    if look_up(case.owner, ("spec", "pytorchReplicaSpecs")) is None:
        raise WrongValue("spec.pytorchReplicaSpecs", None, "is missing: which pods does the job have?")
    masters = number_at(roles, ("Master", "replicas")) or 0
    sub_groups = [KaiSubGroup("master", masters, pods=_own(case.pod, "master"))] if masters else []
    if "Worker" in roles:
        sub_groups += _workers(case, roles["Worker"] or {}, max(0, least - masters))
    return replace(group, min_available=least, sub_groups=tuple(sub_groups))


def _number_or_none(thing: RawObject, path: tuple[str, ...]) -> int | None:
    """A number; None also where something else is written: KAI reads over it."""
    try:
        return number_at(thing, path)
    except WrongValue:
        return None


def _own(pod: RawObject, role: str) -> tuple[str, ...]:
    return (Reference.of(pod).name,) if labels_of(pod).get(REPLICA_TYPE) == role else ()


def _workers(case: KaiCase, worker: RawObject, least: int) -> list[KaiSubGroup]:
    replicas = number_at(worker, ("replicas",))
    size = _segment_size(case.pod, worker)
    own = _own(case.pod, "worker")
    if size is None:
        return [KaiSubGroup("worker", least, pods=own)]
    pods = 1 if replicas is None else replicas
    check_number(pods)
    index = _segment_of(case.pod, size)
    constraint = segment_constraint(case.pod, map_at(worker, ("template",)), case.owner)
    segments = [
        KaiSubGroup(
            f"worker-{number}",
            min(size, pods - number * size),
            "worker",
            own if number == index else (),
            constraint,
        )
        for number in range(-(-pods // size))
    ]
    return [KaiSubGroup("worker", least), *segments]


def _segment_size(pod: RawObject, worker: RawObject) -> int | None:
    text = worker_annotation(pod, map_at(worker, ("template",)), SEGMENT_SIZE)
    if not text:
        return None
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size <= 0:
        raise WrongValue(SEGMENT_SIZE, text, "must be a whole number, 1 or more")
    return size


def _segment_of(pod: RawObject, size: int) -> int:
    """A worker's segment, by its index; -1 for others."""
    labels = labels_of(pod)
    if labels.get(REPLICA_TYPE) != "worker":
        return -1
    try:
        return int(labels.get(KUBEFLOW_INDEX, "")) // size
    except ValueError:
        field = f'metadata.labels["{KUBEFLOW_INDEX}"]'
        raise wrong_pod(
            pod, field, labels.get(KUBEFLOW_INDEX), "must be the worker's number: which segment is it in?"
        ) from None
