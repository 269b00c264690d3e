"""Training jobs of Kubeflow: PyTorchJob and its relatives (training-operator), MPIJob of both operators.

Grouping rules define roles and counts. This adds names, labels, a launcher's Job, and init containers. Those matter:
PyTorch's has a limit above its request, which makes a Guaranteed worker Burstable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from bayplan.gangs.ranks.ranks import KUBEFLOW_INDEX
from bayplan.grouping.raw import RawObject, Reference, WrongValue, map_at
from bayplan.grouping.rules import rule_for
from bayplan.workloads.by_rule import numbered_pods, templates_by_rule
from bayplan.workloads.jobs import JOB, JOB_NAMES
from bayplan.workloads.planned import (
    Around,
    PlannedPod,
    Template,
    generated,
    is_true,
    name_of,
    owned,
    pod_from,
)

PREFIX = "training.kubeflow.org"
MPI_V2 = "v2beta1"
LAUNCHER, MASTER, WORKER = "launcher", "master", "worker"
_PYTORCH_INIT: RawObject = {
    "name": "init-pytorch",
    "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}, "limits": {"cpu": "100m", "memory": "20Mi"}},
}
_DELIVERY = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_KUBECTL_DELIVERY: RawObject = {
    "name": "kubectl-delivery",
    "resources": {"requests": _DELIVERY, "limits": _DELIVERY},
}


def training_job(thing: RawObject, around: Around) -> Iterator[PlannedPod]:
    """`pretrain-worker-3`, as training-operator numbers the pods of each role."""
    thing = with_role_names(thing, around)
    operator = f"{str(thing['kind']).lower()}-controller"
    parts = list(templates_by_rule(thing, around))
    roles = {part.name for part, _ in parts}
    for part, template in parts:
        labels = _labels(thing, operator)
        waits_for_master = thing["kind"] == "PyTorchJob" and part.name == WORKER and MASTER in roles
        own = _with_init(template, _PYTORCH_INIT) if waits_for_master else template
        leads = part.name == (MASTER if MASTER in roles else WORKER)
        for number, pod in enumerate(numbered_pods(thing, around, part, own, labels)):
            is_master = leads and number == 0
            yield replace(pod, labels={**pod.labels, f"{PREFIX}/job-role": MASTER}) if is_master else pod


def mpi_job(thing: RawObject, around: Around) -> Iterator[PlannedPod]:
    """Workers `allreduce-worker-3` and a launcher: a Job's pod (mpi-operator) or a plain pod (training-operator)."""
    thing = with_role_names(thing, around)
    is_v2 = Reference.of(thing).version == MPI_V2
    role_label = f"{PREFIX}/{'job-role' if is_v2 else 'replica-type'}"
    labels = _labels(thing, "mpi-operator" if is_v2 else "mpijob-controller")
    for part, template in templates_by_rule(thing, around):
        if part.name == LAUNCHER:
            make = _launcher_of_job if is_v2 else _launcher_by_itself
            yield make(thing, template, {**labels, role_label: LAUNCHER})
            continue
        for pod in numbered_pods(thing, around, part, template, labels):
            # The rule finds the role by either operator's label.
            kept = {key: value for key, value in pod.labels.items() if key != f"{PREFIX}/replica-type"}
            numbered = kept if is_v2 else {key: value for key, value in kept.items() if key != KUBEFLOW_INDEX}
            yield replace(pod, labels={**numbered, role_label: WORKER})


def _launcher_of_job(thing: RawObject, template: Template, labels: dict[str, str]) -> PlannedPod:
    name = f"{name_of(thing)}-{LAUNCHER}"
    if is_true(thing, "spec.runLauncherAsWorker"):
        labels[KUBEFLOW_INDEX] = "0"
    between = owned(thing, *JOB, name, {"template": {"spec": template.spec}}, {"app": name_of(thing)})
    return pod_from(template, generated(f"{name}-"), [between, thing], {**labels, **dict.fromkeys(JOB_NAMES, name)})


def _launcher_by_itself(thing: RawObject, template: Template, labels: dict[str, str]) -> PlannedPod:
    labels[f"{PREFIX}/job-role"] = MASTER
    return pod_from(_with_init(template, _KUBECTL_DELIVERY), f"{name_of(thing)}-{LAUNCHER}", [thing], labels)


def _labels(thing: RawObject, operator: str) -> dict[str, str]:
    return {f"{PREFIX}/operator-name": operator, f"{PREFIX}/job-name": name_of(thing)}


def _with_init(template: Template, container: RawObject) -> Template:
    return template.with_spec(initContainers=[*(template.spec.get("initContainers") or ()), container])


def with_role_names(thing: RawObject, around: Around) -> RawObject:
    """The job with the operators' spelling of roles (`Worker`). Raises `WrongValue` for an unknown role."""
    rule = rule_for(around.rules, Reference.of(thing))
    known = {role.needs.rpartition(".")[2].lower(): role.needs for role in rule.roles} if rule is not None else {}
    paths = {needs.rpartition(".")[0] for needs in known.values()}
    if len(paths) != 1:
        return thing  # a rule of the user's own
    (path,) = paths
    field = path.partition(".")[2]
    found: RawObject = {}
    for name, spec in map_at(thing, ("spec", field)).items():
        needs = known.get(name.lower())
        if needs is None:
            roles = [each.rpartition(".")[2] for each in known.values()]
            close = get_close_matches(name.title(), roles, n=1, cutoff=0.5)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise WrongValue(f"{path}.{name}", None, f"is no role of a {thing['kind']}: {', '.join(roles)}{hint}")
        found[needs.rpartition(".")[2]] = spec
    if not found:
        raise WrongValue(path, None, "is missing: a job needs at least one role")
    return {**thing, "spec": {**thing["spec"], field: found}}
