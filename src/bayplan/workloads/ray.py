"""RayCluster, RayJob and RayService: head and workers as KubeRay creates them, with its containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bayplan.gangs.ranks.ranks import RAY_HOST_INDEX, RAY_REPLICA_INDEX
from bayplan.grouping.raw import RawObject, WrongValue, list_at, map_at
from bayplan.workloads.jobs import JOB, JOB_NAMES
from bayplan.workloads.planned import (
    Around,
    PlannedPod,
    Template,
    count_at,
    generated,
    is_true,
    name_of,
    owned,
    pod_from,
    template_at,
    word_at,
)

RAY = ("ray.io/v1", "RayCluster")
HEAD_GROUP = "headgroup"
K8S_JOB_MODE, SIDECAR_MODE = "K8sJobMode", "SidecarMode"
_LONGEST_PREFIX = 50
_LONGEST_LABEL = 63
_WAIT = {"cpu": "200m", "memory": "256Mi"}
_WAIT_FOR_HEAD: RawObject = {"name": "wait-gcs-ready", "resources": {"requests": _WAIT, "limits": _WAIT}}
_SCALES = {"cpu": "500m", "memory": "512Mi"}
_SUBMITTER: RawObject = {
    "name": "ray-job-submitter",
    "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}


def ray_cluster(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """`tune-head-x7k2p` and `tune-gpu-worker-x7k2p`."""
    return _pods(thing, "spec", ())


def ray_job(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """The pods of its RayCluster, and of the Job that submits the work."""
    where = "spec.rayClusterSpec"
    spec = map_at(thing, ("spec", "rayClusterSpec"))
    if not spec:
        selects = map_at(thing, ("spec", "clusterSelector"))
        allowed = "is missing: it runs on the RayCluster that clusterSelector names; ask about that one"
        raise WrongValue(where, None, allowed if selects else "is missing")
    cluster = owned(thing, *RAY, generated(f"{name_of(thing)}-"), spec)
    mode = word_at(thing, "spec.submissionMode", K8S_JOB_MODE)
    yield from _pods(cluster, where, (thing,), sidecar=mode == SIDECAR_MODE)
    if mode == K8S_JOB_MODE:
        yield _submitter(thing)


def ray_service(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """The pods of the RayCluster that serves."""
    spec = map_at(thing, ("spec", "rayClusterConfig"))
    if not spec:
        raise WrongValue("spec.rayClusterConfig", None, "is missing")
    cluster = owned(thing, *RAY, generated(f"{name_of(thing)}-"), spec)
    return _pods(cluster, "spec.rayClusterConfig", (thing,))


def _pods(cluster: RawObject, where: str, above: Sequence[RawObject], *, sidecar: bool = False) -> Iterator[PlannedPod]:
    name, owners = name_of(cluster), (cluster, *above)
    head = template_at(cluster, "spec.headGroupSpec.template", f"{where}.headGroupSpec.template")
    further = [_SUBMITTER] if sidecar else []
    if is_true(cluster, "spec.enableInTreeAutoscaling"):
        own = map_at(cluster, ("spec", "autoscalerOptions", "resources"))
        further.append({"name": "autoscaler", "resources": own or {"requests": _SCALES, "limits": _SCALES}})
    if further:
        head = head.with_spec(containers=[*(head.spec.get("containers") or ()), *further])
    own_labels = map_at(cluster, ("spec", "headGroupSpec", "labels"))
    labels = _labels(cluster, "head", HEAD_GROUP, {**head.labels, **own_labels})
    yield pod_from(head, generated(_prefix(name, "head")), owners, labels)
    for number, group in enumerate(list_at(cluster, ("spec", "workerGroupSpecs"))):
        if not isinstance(group, dict):
            raise WrongValue(f"{where}.workerGroupSpecs[{number}]", group, "must be a map")
        yield from _workers(cluster, group, f"{where}.workerGroupSpecs[{number}]", owners)


def _workers(cluster: RawObject, group: RawObject, where: str, owners: Sequence[RawObject]) -> Iterator[PlannedPod]:
    def number(field: str, otherwise: int) -> int:
        return count_at(group, field, otherwise, where=f"{where}.{field}")

    group_name = word_at(group, "groupName")
    if not group_name:
        raise WrongValue(f"{where}.groupName", None, "is missing")
    if is_true(group, "suspend"):
        return
    least = number("minReplicas", 0)
    replicas = max(number("replicas", 0), least)
    most = number("maxReplicas", replicas)
    if least > most:
        raise WrongValue(f"{where}.minReplicas", least, f"is more than maxReplicas {most}")
    replicas = min(replicas, most)
    hosts = max(number("numOfHosts", 1), 1)
    template = template_at(group, "template", f"{where}.template")
    template = template.with_spec(initContainers=[*(template.spec.get("initContainers") or ()), _WAIT_FOR_HEAD])
    labels = _labels(cluster, "worker", group_name, {**template.labels, **map_at(group, ("labels",))})
    prefix = _prefix(f"{name_of(cluster)}-{group_name}", "worker")
    for index in range(replicas * hosts):
        replica, host = divmod(index, hosts)
        own = {**labels, RAY_REPLICA_INDEX: str(replica)}
        if hosts > 1:
            own[RAY_HOST_INDEX] = str(host)
            own["ray.io/worker-group-replica-name"] = generated(f"{group_name}-", replica)
        yield pod_from(template, generated(prefix, index), owners, own)


def _submitter(thing: RawObject) -> PlannedPod:
    """The pod that submits the work."""
    where = "spec.submitterPodTemplate"
    if map_at(thing, ("spec", "submitterPodTemplate")):
        template = template_at(thing, where)
    else:
        template = Template({}, {}, {"containers": [_SUBMITTER], "restartPolicy": "Never"}, where)
    between = owned(thing, *JOB, name_of(thing), {"template": {"spec": template.spec}})
    name = generated(f"{name_of(thing)}-", 1)
    return pod_from(template, name, [between, thing], dict.fromkeys(JOB_NAMES, name_of(thing)))


def _labels(cluster: RawObject, node_type: str, group: str, written: Mapping[str, str]) -> dict[str, str]:
    """KubeRay's labels; users can override all but three."""
    name = name_of(cluster)
    fixed = {"ray.io/node-type": node_type, "ray.io/group": group, "ray.io/cluster": name}
    usual = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{name}-{node_type}"[-_LONGEST_LABEL:],
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    return {**usual, **written, **fixed}


def _prefix(name: str, node_type: str) -> str:
    return f"{name[:_LONGEST_PREFIX]}-{node_type}-".lower()
