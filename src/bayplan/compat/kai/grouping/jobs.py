"""KAI's groups of workloads whose pods are alike: Deployment, Job, CronJob, run.ai's job, JobSet, Azure ML, Notebook,
Spark, Knative.

Most are the usual group with another name, priority class or number. A batch Job is one group *per pod* here, so a
topology constraint on it has no effect; `mode: bayplan` makes one gang of it.
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.compat.kai.grouping.metadata import (
    BUILD,
    INFERENCE,
    KaiCase,
    KaiGroup,
    group_annotations,
    group_labels,
    group_name,
    priority_class_of,
    queue_of,
    usual_group,
    wrong_pod,
)
from bayplan.grouping.grouping import Lookup, every
from bayplan.grouping.raw import (
    RawObject,
    Reference,
    WrongValue,
    annotations_of,
    labels_of,
    list_at,
    metadata_of,
    number_at,
    text_at,
)

GROUP_OF_POD = "pod-group-name"
KAI_API = "scheduling.run.ai/v2alpha2"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
REVISION = "serving.knative.dev/revision"
MIN_SCALE = "autoscaling.knative.dev/min-scale"
SPARK_LABELS = ("spark-app-name", "spark-app-selector")
LARGEST = 2**31 - 1


def plain(case: KaiCase) -> KaiGroup:
    """ReplicaSet, StatefulSet and every kind that KAI does not know."""
    return usual_group(case, case.owners)


def notebook(case: KaiCase) -> KaiGroup:
    """A notebook is built at, not trained on."""
    return _with_class(case, usual_group(case), BUILD)


def spot_request(case: KaiCase) -> KaiGroup:
    """NVIDIA's SPOTRequest serves inference."""
    return _with_class(case, usual_group(case), INFERENCE)


def deployment(case: KaiCase) -> KaiGroup:
    """Each pod of a Deployment is a group of its own, which it owns itself."""
    pod = Reference.of(case.pod)
    group = replace(usual_group(case), owner=pod, name=group_name(pod.name, pod.uid))
    return _with_class(case, group, INFERENCE)


def _with_class(case: KaiCase, group: KaiGroup, default_class: str) -> KaiGroup:
    return replace(group, priority_class=priority_class_of(case, [case.owner], default_class))


def batch_job(case: KaiCase) -> KaiGroup:
    """Each pod of a Job is a group of its own."""
    return replace(usual_group(case), name=_name_by_pod(case, Reference.of(case.pod).name))


def run_ai_job(case: KaiCase) -> KaiGroup:
    """Pods whose names differ only after the last dash are a group."""
    head, dash, tail = Reference.of(case.pod).name.rpartition("-")
    return replace(usual_group(case), name=_name_by_pod(case, head if dash else tail))


def _name_by_pod(case: KaiCase, stem: str) -> str:
    """The group's name; one that an older KAI has left is kept."""
    owner, pod = Reference.of(case.owner), Reference.of(case.pod)
    if case.settings.search_for_legacy_groups:
        try:
            many = (number_at(case.owner, ("spec", "parallelism")) or 0) > 1
        except WrongValue:
            many = False
        legacy = group_name(pod.name if many else owner.name, owner.uid)
        if case.find(KAI_API, "PodGroup", legacy, pod.namespace) is not None:
            return legacy
    return group_name(stem, owner.uid)


def cron_job(case: KaiCase) -> KaiGroup:
    """The group of the CronJob's Job that made the pod."""
    references = metadata_of(case.pod).get("ownerReferences") or []
    name = next((reference.get("name", "") for reference in references if reference.get("kind") == "Job"), None)
    if name is None:
        raise wrong_pod(case.pod, "metadata.ownerReferences", None, "names no Job, though a CronJob is above the pod")
    job = case.find("batch/v1", "Job", name, Reference.of(case.pod).namespace)
    if job is None:
        raise wrong_pod(case.pod, "metadata.ownerReferences", name, "is a Job that does not exist")
    return usual_group(replace(case, owner=job))


def pod_by_itself(case: KaiCase) -> KaiGroup:
    """A pod without an owner; those of a Spark application are a group."""
    labels = labels_of(case.pod)
    return spark(case) if all(label in labels for label in SPARK_LABELS) else usual_group(case)


def spark(case: KaiCase) -> KaiGroup:
    """The group is called as the application."""
    return replace(usual_group(case), name=labels_of(case.pod).get("spark-app-selector", ""))


def azure_ml(case: KaiCase) -> KaiGroup:
    """As many pods as Azure ML counts nodes."""
    group = usual_group(case)
    count = number_at(case.owner, ("spec", "job", "options", "envs", "AZUREML_NODE_COUNT"))
    if count is None:
        raise WrongValue("spec.job.options.envs.AZUREML_NODE_COUNT", None, "is missing: how many pods are there?")
    return replace(group, min_available=count)


# -- JobSet ------------------------------------------------------------------------------------------------------------


def job_set(case: KaiCase) -> KaiGroup:
    """One group per replicated job if they start in order, which KAI takes for the default; else one for all."""
    owner = Reference.of(case.owner)
    if not owner.name or not owner.uid:
        raise WrongValue("metadata", None, "needs both name and uid")
    role = labels_of(case.pod).get(REPLICATED_JOB, "")
    if not role:
        raise wrong_pod(case.pod, "metadata.labels", None, f"{REPLICATED_JOB} is missing: which job is the pod from?")
    order = text_at(case.owner, ("spec", "startupPolicy", "startupPolicyOrder"))
    jobs = [job for job in list_at(case.owner, ("spec", "replicatedJobs")) if isinstance(job, dict)]
    if order not in (None, "InOrder"):
        total = sum(_pods_of_replicated_job(job) for job in jobs if job.get("name"))
        return replace(usual_group(case), min_available=_counted(total))
    pods = next((_pods_of_replicated_job(job) for job in jobs if job.get("name") == role), 1)
    name = f"{group_name(owner.name, owner.uid)}-{role}"
    return replace(usual_group(case), name=name, min_available=_counted(pods))


def _pods_of_replicated_job(job: RawObject) -> int:
    """Replicas times pods of one job, as many as run in parallel but no more than complete.

    What is not positive counts as unset.
    """
    replicas = _positive(number_at(job, ("replicas",)))
    parallelism = _positive(number_at(job, ("template", "spec", "parallelism")))
    completions = number_at(job, ("template", "spec", "completions")) or 0
    return replicas * (min(parallelism, completions) if completions > 0 else parallelism)


def _positive(number: int | None) -> int:
    return number if number is not None and number > 0 else 1


def _counted(pods: int) -> int:
    if pods > LARGEST:
        raise WrongValue("spec.replicatedJobs", pods, f"pods are too many: must be at most {LARGEST}")
    return max(pods, 1)


# -- Knative -----------------------------------------------------------------------------------------------------------


def knative(case: KaiCase) -> KaiGroup:
    """A group per pod.

    If gangs are wanted one per revision, of its smallest scale, unless its pods are in groups of their own already.
    """
    pod = Reference.of(case.pod)
    name = labels_of(case.pod).get(REVISION)
    if name is None:
        raise wrong_pod(case.pod, "metadata.labels", None, f"{REVISION} is missing: which revision is the pod of?")
    revision = case.find("serving.knative.dev/v1", "Revision", name, pod.namespace)
    if revision is None:
        raise wrong_pod(case.pod, f'metadata.labels["{REVISION}"]', name, "is a Revision that does not exist")
    about = Reference.of(revision)
    group = KaiGroup(
        name=group_name(pod.name, pod.uid),
        namespace=pod.namespace,
        owner=pod,
        queue=queue_of(revision, case.pod, case.settings),
        priority_class=INFERENCE,
        labels=group_labels(revision, case.pod),
        annotations=group_annotations(revision, case.pod),
    )
    if not case.settings.gangs_of_knative or _grouped_by_pod(case, about):
        return group
    return replace(
        group,
        name=group_name(about.name, about.uid),
        namespace=about.namespace,
        owner=about,
        min_available=_number(annotations_of(revision).get(MIN_SCALE, "1")),
        priority_class=priority_class_of(case, [revision], INFERENCE),
    )


def _number(text: str) -> int:
    """Text as a number; 1 if it is none."""
    return int(text) if text.removeprefix("-").isdecimal() else 1


def _grouped_by_pod(case: KaiCase, revision: Reference) -> bool:
    """Whether pods of a revision are in groups of their own, from before gangs were wanted."""
    question = Lookup("v1", "Pod", revision.namespace, labels=((REVISION, revision.name),))
    groups = [
        annotations_of(pod)[GROUP_OF_POD]
        for pod in every(case.answers, question)
        if GROUP_OF_POD in annotations_of(pod)
    ]
    if len(set(groups)) < len(groups) or not groups:
        return False
    if len(groups) > 1:
        return True
    found = case.find(KAI_API, "PodGroup", groups[0], revision.namespace)
    if found is None:
        return False
    owners = metadata_of(found).get("ownerReferences") or []
    if not owners:
        raise wrong_pod(found, "metadata.ownerReferences", None, "is empty: whose group is it?")
    if owners[0].get("kind") not in (revision.kind, "Pod"):
        raise wrong_pod(found, "metadata.ownerReferences", owners[0].get("kind"), f"must be a {revision.kind} or a Pod")
    return bool(owners[0].get("kind") == "Pod")
