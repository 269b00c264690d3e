"""The kinds of workloads whose pods bayplan can make, one row each: kubectl's names, and the function.

A kind without a row needs a grouping rule (`grouping/rules.py`); `by_rule.py` then makes its pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bayplan.grouping.raw import Reference
from bayplan.grouping.rules import Rules
from bayplan.workloads.apps import daemon_set, deployment, replica_set, stateful_set
from bayplan.workloads.by_rule import by_rule
from bayplan.workloads.jobs import cron_job, job, job_set
from bayplan.workloads.leader_worker_set import leader_worker_set
from bayplan.workloads.planned import Maker
from bayplan.workloads.ray import ray_cluster, ray_job, ray_service
from bayplan.workloads.training import mpi_job, training_job

PODS, REPLICAS = "pods", "replicas"
_SUSPENDED = "spec.suspend"
_OF_RUN_POLICY = "spec.runPolicy.suspend"


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind: `short` are kubectl's short names, `stopped` suspends it, `counts` is the name of its pods."""

    group: str
    kind: str
    make: Maker
    short: tuple[str, ...] = ()
    stopped: str = ""
    counts: str = PODS

    @property
    def names(self) -> tuple[str, ...]:
        """Names that users can write: `deployment`, `deployments`, `deploy`, each also with `.apps`."""
        singular = self.kind.lower()
        plain = (singular, f"{singular}s", *self.short)
        return (*plain, *(f"{name}.{self.group}" for name in plain if self.group))


def _training(kind: str, *short: str) -> WorkloadKind:
    return WorkloadKind("kubeflow.org", kind, training_job, short, _OF_RUN_POLICY)


# A name that two kinds share means the first, as in kubectl.
KINDS = (
    WorkloadKind("apps", "Deployment", deployment, ("deploy",), "spec.paused", REPLICAS),
    WorkloadKind("apps", "StatefulSet", stateful_set, ("sts",), counts=REPLICAS),
    WorkloadKind("apps", "DaemonSet", daemon_set, ("ds",)),
    WorkloadKind("apps", "ReplicaSet", replica_set, ("rs",), counts=REPLICAS),
    WorkloadKind("", "ReplicationController", replica_set, ("rc",), counts=REPLICAS),
    WorkloadKind("batch", "Job", job, stopped=_SUSPENDED),
    WorkloadKind("batch", "CronJob", cron_job, ("cj",), _SUSPENDED),
    WorkloadKind("jobset.x-k8s.io", "JobSet", job_set, ("js",), _SUSPENDED),
    WorkloadKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", leader_worker_set, ("lws",)),
    _training("PyTorchJob"),
    _training("TFJob"),
    _training("XGBoostJob"),
    _training("PaddleJob"),
    _training("JAXJob"),
    WorkloadKind("kubeflow.org", "MPIJob", mpi_job, stopped=_OF_RUN_POLICY),
    WorkloadKind("ray.io", "RayCluster", ray_cluster, stopped=_SUSPENDED),
    WorkloadKind("ray.io", "RayJob", ray_job, stopped=_SUSPENDED),
    WorkloadKind("ray.io", "RayService", ray_service),
)
# Volcano's Job has its own struct (`dialects/volcano/job.py`), which also makes its PodGroup.
VOLCANO_JOB = WorkloadKind("batch.volcano.sh", "Job", by_rule, ("vcjob", "vj"))
_BY_KIND = {(each.group, each.kind): each for each in KINDS}


def kind_of(about: Reference, rules: Rules) -> WorkloadKind | None:
    """The kind of an object; None without a row or a rule."""
    known = _BY_KIND.get((about.group, about.kind))
    if known is not None or (about.group, about.kind) not in rules:
        return known
    return WorkloadKind(about.group, about.kind, by_rule)


def every_kind(rules: Rules) -> Iterator[WorkloadKind]:
    """All kinds, in the order in which a name is looked up."""
    yield from KINDS
    yield VOLCANO_JOB
    known = {*_BY_KIND, (VOLCANO_JOB.group, VOLCANO_JOB.kind)}
    yield from (WorkloadKind(group, kind, by_rule) for group, kind in rules if (group, kind) not in known)


def kinds_named(text: str, rules: Rules) -> list[WorkloadKind]:
    """The kinds that a name such as `deploy`, `Job` or `job.batch.volcano.sh` can mean, the likeliest first.

    A version in the middle, as in `deployment.v1.apps`, is allowed, as in kubectl.
    """
    asked = text.lower()
    name, _, rest = asked.partition(".")
    version, _, group = rest.partition(".")
    without_version = f"{name}.{group}" if version.startswith("v") and version[1:2].isdigit() else asked
    return [kind for kind in every_kind(rules) if {asked, without_version} & set(kind.names)]


def known_kinds(rules: Rules) -> str:
    """All kinds, for a message."""
    return ", ".join(dict.fromkeys(["Pod", "PodGroup", *(kind.kind for kind in every_kind(rules))]))
