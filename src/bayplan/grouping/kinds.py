"""The kinds of workloads that bayplan knows, as rules in the form of users' rule files (`rules.py`).

The topmost owner with a rule describes the pods. So kinds that only own other workloads need no entry: a CronJob's gang
is that of its Job, and a RayJob's that of its RayCluster. Grove's gangs are objects of their own (`grove.py`); Spark's
plain pods have no owner; see the end of this file.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.gangs.ranks.ranks import (
    COMPLETION_INDEX,
    JOB_INDEX,
    KUBEFLOW_INDEX,
    POD_INDEX,
    RAY_HOST_INDEX,
    RAY_REPLICA_INDEX,
    TASK_INDEX,
    WORKER_INDEX,
)
from bayplan.grouping.raw import RawObject, Reference, labels_of
from bayplan.grouping.rules import ASKED, Condition, PodRole, Rank, Rule, rules_by_kind
from bayplan.grouping.workload import OwningWorkload, described

KUBEFLOW_ROLE = ["training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"]
KUBEFLOW_RANK = [Rank(label=KUBEFLOW_INDEX)]
KUBEFLOW_MINIMUM = "spec.runPolicy.schedulingPolicy.minAvailable"
LWS_RANK = [Rank(label=WORKER_INDEX)]


def _kubeflow_role(specs: str, name: str, *, minimum: str | None = None, from_one: str = "") -> PodRole:
    """One entry of `xReplicaSpecs`; no pod waits for succeeded ones."""
    replicas = f"spec.{specs}.{name}.replicas|1"
    return PodRole(
        name=name.lower(),
        replicas=replicas,
        minimum=minimum,
        remaining=f"{replicas} - status.replicaStatuses.{name}.succeeded",
        needs=f"spec.{specs}.{name}",
        template=f"spec.{specs}.{name}.template",
        rank=KUBEFLOW_RANK,
        from_one=from_one,
    )


def _kubeflow(kind: str, specs: str, roles: Sequence[str]) -> Rule:
    """A job of Kubeflow's training operator; leaders are first, so that they have the lowest ranks."""
    return Rule(
        group="kubeflow.org",
        kind=kind,
        minimum=KUBEFLOW_MINIMUM,
        roles=[_kubeflow_role(specs, name) for name in roles],
        role_label=KUBEFLOW_ROLE,
    )


KINDS = (
    # Workloads that are a gang only if an annotation requests it.
    Rule(
        group="batch",
        kind="Job",
        gang=ASKED,
        # Without completions it is a work queue. The last completions need fewer pods; failed indexes get none.
        replicas=["spec.parallelism|1", "spec.completions"],
        remaining="spec.completions - status.succeeded - #status.failedIndexes",
        template="spec.template",
        rank=[Rank(label=COMPLETION_INDEX)],
    ),
    Rule(group="apps", kind="ReplicaSet", gang=ASKED, replicas="spec.replicas|1", template="spec.template"),
    # A rollout replaces a few pods at a time: each can start alone, in the domain of the others.
    Rule(group="apps", kind="Deployment", gang=ASKED, replicas="spec.replicas|1", minimum=1, template="spec.template"),
    Rule(
        group="apps",
        kind="StatefulSet",
        gang=ASKED,
        replicas="spec.replicas|1",
        template="spec.template",
        rank=[Rank(label=POD_INDEX)],
        one_by_one=Condition(at="spec.podManagementPolicy", value="OrderedReady", otherwise="OrderedReady"),
    ),
    Rule(group="kubeflow.org", kind="Notebook", gang=ASKED, template="spec.template"),
    Rule(
        group="serving.knative.dev",
        kind="Revision",
        gang=ASKED,
        replicas='metadata.annotations["autoscaling.knative.dev/min-scale"]|1',
        minimum=1,
    ),
    # Workloads that are gangs by nature.
    Rule(
        group="jobset.x-k8s.io",
        kind="JobSet",
        roles=[
            PodRole(
                each="spec.replicatedJobs",
                name_at="name",
                replicas=["replicas|1 * template.spec.parallelism|1", "replicas|1 * template.spec.completions"],
                template="template.spec.template",
                segment="template.spec.parallelism min template.spec.completions",
                rank=[
                    Rank(
                        label=JOB_INDEX,
                        times="template.spec.completions|template.spec.parallelism|1",
                    ),
                    Rank(label=COMPLETION_INDEX),
                ],
            )
        ],
        role_label=["jobset.sigs.k8s.io/replicatedjob-name"],
        staged=Condition(at="spec.startupPolicy.startupPolicyOrder", value="InOrder"),
    ),
    Rule(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        roles=[
            PodRole(
                name="leader",
                means="0",
                replicas=1,
                template="spec.leaderWorkerTemplate.leaderTemplate",
                rank=LWS_RANK,
            ),
            PodRole(
                name="workers",
                means="*",
                replicas="spec.leaderWorkerTemplate.size|1 - 1",
                template="spec.leaderWorkerTemplate.workerTemplate",
                segment="spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize",
                rank=LWS_RANK,
            ),
        ],
        role_label=[WORKER_INDEX],
        one_gang_per="leaderworkerset.sigs.k8s.io/group-index",
        staged=Condition(at="spec.startupPolicy", value="LeaderReady"),
        ranks_of_whole=True,
        leader_apart=Condition(
            at="spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType", value="LeaderExcluded"
        ),
    ),
    Rule(
        group="kubeflow.org",
        kind="PyTorchJob",
        minimum=KUBEFLOW_MINIMUM,
        roles=[
            _kubeflow_role("pytorchReplicaSpecs", "Master"),
            _kubeflow_role("pytorchReplicaSpecs", "Worker", minimum="spec.elasticPolicy.minReplicas"),
        ],
        role_label=KUBEFLOW_ROLE,
    ),
    _kubeflow("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Evaluator", "Worker")),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    _kubeflow("JAXJob", "jaxReplicaSpecs", ("Worker",)),
    Rule(
        group="kubeflow.org",
        kind="MPIJob",
        minimum=KUBEFLOW_MINIMUM,
        roles=[
            _kubeflow_role("mpiReplicaSpecs", "Launcher"),
            # A launcher that works too has index 0.
            _kubeflow_role("mpiReplicaSpecs", "Worker", from_one="spec.runLauncherAsWorker"),
        ],
        role_label=KUBEFLOW_ROLE,
        staged=Condition(at="spec.launcherCreationPolicy", value="WaitForWorkersReady"),
    ),
    Rule(
        group="ray.io",
        kind="RayCluster",
        roles=[
            PodRole(name="headgroup", replicas=1, template="spec.headGroupSpec.template"),
            PodRole(
                each="spec.workerGroupSpecs",
                name_at="groupName",
                # KubeRay keeps the replicas between both bounds.
                replicas="replicas|0 max minReplicas min maxReplicas * numOfHosts",
                minimum="minReplicas * numOfHosts",
                unless="suspend",
                template="template",
                rank=[
                    Rank(label=RAY_REPLICA_INDEX, times="numOfHosts|1"),
                    Rank(label=RAY_HOST_INDEX),
                ],
            ),
        ],
        role_label=["ray.io/group"],
    ),
    Rule(
        group="batch.volcano.sh",
        kind="Job",
        minimum="spec.minAvailable",
        roles=[
            PodRole(
                each="spec.tasks",
                name_at="name",
                replicas="replicas|1",
                minimum="minAvailable",
                template="template",
                rank=[Rank(label=TASK_INDEX)],
            )
        ],
        role_label=["volcano.sh/task-spec"],
    ),
    Rule(group="amlarc.azureml.com", kind="AmlJob", replicas="spec.job.options.envs.AZUREML_NODE_COUNT|1"),
)

KNOWN = rules_by_kind(KINDS)


# -- Spark applications -----------------------------------------------------------------------------------------------
# The driver is a pod that owns its executors and must run before it requests them, so no pod waits for the others.
SPARK_APPLICATION = "spark-app-selector"
SPARK = Rule(kind="Pod", gang=ASKED, replicas=1, rank=[Rank(label="spark-exec-id")])


def spark_application(pod: RawObject) -> str:
    """The Spark application of a pod; empty if it has none."""
    return labels_of(pod).get(SPARK_APPLICATION, "")


def spark_workload(pod: RawObject, owners: Sequence[RawObject]) -> OwningWorkload:
    """The application of a driver or executor: the driver pod describes it; its owner can have annotations, too."""
    chain = [pod, *owners]
    driver = max(number for number, thing in enumerate(chain) if number == 0 or Reference.of(thing).kind == "Pod")
    return described(chain[driver], SPARK, tuple(chain[driver + 1 :]))
