"""Which of KAI's groupers a kind belongs to, and the way in to this folder: `kai_group_for`.

A few kinds are only wrappers: KAI skips them, copies their labels and annotations down where the object below has none
of that name, and goes on with the grouper of that object. Kinds that are not in the table get the usual group of their
owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bayplan.compat.kai.grouping import grove, jobs, kubeflow, leader_worker_set, ray
from bayplan.compat.kai.grouping.metadata import (
    NO_CONSTRAINT,
    KaiCase,
    KaiConstraint,
    KaiGroup,
    KaiSubGroup,
)
from bayplan.grouping.group import KaiSettings
from bayplan.grouping.grouping import Answers, Grouping, InvalidValue
from bayplan.grouping.raw import RawObject, Reference, WrongValue, annotations_of, labels_of, metadata_of

Grouper = Callable[[KaiCase], KaiGroup]
ANY = "*"
SUB_GROUP = "kai.scheduler/subgroup-name"


def skip_top_owner(case: KaiCase) -> KaiGroup:
    """The group of the object below a wrapper."""
    below = below_wrapper(case)
    return grouper_for(below.owner)(below)


def below_wrapper(case: KaiCase) -> KaiCase:
    """The object below a wrapper, with what the wrapper says handed down to it."""
    below = case.owners[-2] if len(case.owners) > 1 else case.pod
    metadata = {
        **metadata_of(below),
        "labels": {**labels_of(case.owner), **labels_of(below)},
        "annotations": {**annotations_of(case.owner), **annotations_of(below)},
    }
    return replace(case, owner={**below, "metadata": metadata}, owners=case.owners[:-1])


# API group, version and kind.
GROUPERS: dict[tuple[str, str, str], Grouper] = {
    ("", "v1", "Pod"): jobs.pod_by_itself,
    ("apps", "v1", "Deployment"): jobs.deployment,
    ("batch", "v1", "Job"): jobs.batch_job,
    ("batch", "v1", "CronJob"): jobs.cron_job,
    ("run.ai", "v1", "RunaiJob"): jobs.run_ai_job,
    ("kubeflow.org", "v1", "TFJob"): kubeflow.tf_job,
    ("kubeflow.org", "v1", "PyTorchJob"): kubeflow.pytorch_job,
    ("kubeflow.org", "v1", "XGBoostJob"): kubeflow.xgboost_job,
    ("kubeflow.org", "v1", "JAXJob"): kubeflow.jax_job,
    ("kubeflow.org", "v1", "MPIJob"): kubeflow.mpi_job,
    ("kubeflow.org", "v2beta1", "MPIJob"): kubeflow.mpi_job,
    ("kubeflow.org", "v1beta1", "Notebook"): jobs.notebook,
    ("amlarc.azureml.com", "v1alpha1", "AmlJob"): jobs.azure_ml,
    ("serving.knative.dev", "v1", "Service"): jobs.knative,
    ("ray.io", "v1alpha1", "RayCluster"): ray.ray_cluster,
    ("ray.io", "v1alpha1", "RayJob"): ray.ray_job,
    ("ray.io", "v1alpha1", "RayService"): ray.ray_service,
    ("ray.io", "v1", "RayCluster"): ray.ray_cluster,
    ("ray.io", "v1", "RayJob"): ray.ray_job,
    ("ray.io", "v1", "RayService"): ray.ray_service,
    ("egx.nvidia.io", "v1", "SPOTRequest"): jobs.spot_request,
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"): leader_worker_set.leader_worker_set,
    ("jobset.x-k8s.io", "v1alpha2", "JobSet"): jobs.job_set,
    ("grove.io", "v1alpha1", "PodGangSet"): grove.pod_gang,
    ("grove.io", "v1alpha1", "PodCliqueSet"): grove.pod_gang,
    ("argoproj.io", "v1alpha1", "Workflow"): skip_top_owner,
    ("trainer.kubeflow.org", "v1alpha1", "TrainJob"): skip_top_owner,
    ("nvidia.com", "v1alpha1", "DynamoGraphDeployment"): skip_top_owner,
    ("run.ai", ANY, "TrainingWorkload"): skip_top_owner,
    ("run.ai", ANY, "InteractiveWorkload"): skip_top_owner,
    ("run.ai", ANY, "DistributedWorkload"): skip_top_owner,
    ("run.ai", ANY, "InferenceWorkload"): skip_top_owner,
    ("run.ai", ANY, "DistributedInferenceWorkload"): skip_top_owner,
}


def grouper_for(owner: RawObject) -> Grouper:
    """KAI's grouper for an owner's kind."""
    about = Reference.of(owner)
    exact = GROUPERS.get((about.group, about.version, about.kind))
    return exact or GROUPERS.get((about.group, ANY, about.kind)) or jobs.plain


def kai_group_for(pod: RawObject, owners: Sequence[RawObject], settings: KaiSettings, answers: Answers) -> Grouping:
    """What KAI would do with a pod and its owners, the top one last."""
    owner = owners[-1] if owners else pod
    try:
        group = grouper_for(owner)(KaiCase(pod, owner, tuple(owners), settings, answers))
    except WrongValue as wrong:
        return Grouping(problems=(InvalidValue(Reference.of(owner), wrong.field, wrong.value, wrong.allowed),))
    name = Reference.of(pod).name
    place = next((sub_group.name for sub_group in group.sub_groups if name in sub_group.pods), "")
    return Grouping(
        name=group.name,
        manifest=manifest_of(group),
        owner=group.owner,
        group=place,
        labels={SUB_GROUP: place} if place else {},
        annotations={jobs.GROUP_OF_POD: group.name},
    )


def manifest_of(group: KaiGroup) -> RawObject:
    """The PodGroup as KAI's grouper writes it."""
    spec: RawObject = {
        "minMember": group.min_available,
        "queue": group.queue,
        "priorityClassName": group.priority_class,
    }
    if group.preemptibility:
        spec["preemptibility"] = group.preemptibility
    if group.constraint != NO_CONSTRAINT:
        spec["topologyConstraint"] = _constraint(group.constraint)
    if group.sub_groups:
        spec["subGroups"] = [_sub_group(sub_group) for sub_group in group.sub_groups]
    metadata = {
        "name": group.name,
        "namespace": group.namespace,
        "labels": group.labels,
        "annotations": group.annotations,
        "ownerReferences": [group.owner.as_owner()],
    }
    return {"apiVersion": jobs.KAI_API, "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _sub_group(sub_group: KaiSubGroup) -> RawObject:
    written: RawObject = {"name": sub_group.name, "minMember": sub_group.min_available}
    if sub_group.parent:
        written["parent"] = sub_group.parent
    if sub_group.constraint != NO_CONSTRAINT:
        written["topologyConstraint"] = _constraint(sub_group.constraint)
    return written


def _constraint(constraint: KaiConstraint) -> RawObject:
    written = {
        "topology": constraint.topology,
        "requiredTopologyLevel": constraint.required,
        "preferredTopologyLevel": constraint.preferred,
    }
    return {key: value for key, value in written.items() if value}
