"""The kinds of workloads that bayplan knows, as rules: one entry each, in the form that users' rule files share (`grouping/rules.py`).

Kinds that only own other workloads have no entry and need none: the topmost owner with a rule is what describes the pods. So a CronJob's gang is that of
its Job, and a RayJob's or RayService's that of its RayCluster; TrainJob, Argo Workflow, Seldon or Knative Service lead to what they made
in the same way. Grove's gangs are objects of their own (`grouping/grove.py`); Spark's and Kueue's plain pods have no owner (`grouping/loose_pods.py`).
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
from bayplan.grouping.rules import ASKED, Condition, Rank, Role, Rule, rules_by_kind

KUBEFLOW_ROLE = ["training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"]
KUBEFLOW_RANK = [Rank(label=KUBEFLOW_INDEX)]
KUBEFLOW_MINIMUM = "spec.runPolicy.schedulingPolicy.minAvailable"
LWS_RANK = [Rank(label=WORKER_INDEX)]


def _kubeflow_role(specs: str, name: str, *, minimum: str | None = None, from_one: str = "") -> Role:
    """One entry of `xReplicaSpecs`; pods that have succeeded are not waited for."""
    replicas = f"spec.{specs}.{name}.replicas|1"
    return Role(
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
    """A job of Kubeflow's training operator: leaders first, so that they have the lowest ranks."""
    return Rule(
        group="kubeflow.org",
        kind=kind,
        minimum=KUBEFLOW_MINIMUM,
        roles=[_kubeflow_role(specs, name) for name in roles],
        role_label=KUBEFLOW_ROLE,
    )


KINDS = (
    # Workloads that are a gang only if an annotation asks for one.
    Rule(
        group="batch",
        kind="Job",
        gang=ASKED,
        # Without completions it is a work queue; the last completions need fewer pods than ran in parallel before, and indexes that failed get no more.
        replicas=["spec.parallelism|1", "spec.completions"],
        remaining="spec.completions - status.succeeded - #status.failedIndexes",
        template="spec.template",
        rank=[Rank(label=COMPLETION_INDEX)],
    ),
    Rule(group="apps", kind="ReplicaSet", gang=ASKED, replicas="spec.replicas|1", template="spec.template"),
    # A rollout replaces a few pods at a time: each may start alone, all in the domain of the others.
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
            Role(
                each="spec.replicatedJobs",
                name_at="name",
                replicas=["replicas|1 * template.spec.parallelism|1", "replicas|1 * template.spec.completions"],
                template="template.spec.template",
                segment="template.spec.parallelism",
                rank=[
                    Rank(
                        label=JOB_INDEX,
                        times="template.spec.parallelism|1 max template.spec.completions",
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
            Role(
                name="leader",
                means="0",
                replicas=1,
                template="spec.leaderWorkerTemplate.leaderTemplate",
                rank=LWS_RANK,
            ),
            Role(
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
            Role(name="headgroup", replicas=1, template="spec.headGroupSpec.template"),
            Role(
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
            Role(
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
