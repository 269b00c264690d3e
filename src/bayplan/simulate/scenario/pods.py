"""The pod of a workload: a pod spec as Kubernetes has it, or the short form `resources: {cpu: 8, memory: 16Gi}`.

In comes what stands under `pod`, out goes the template from which the simulation makes pods. What the API server would
refuse is refused here, at the line where it stands; so are fields that a pod does not have, because a slip in
`tolerations` costs an hour.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.cluster.pods.pod_class import pod_class_of
from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY
from bayplan.kube.errors import InvalidObject, field_and_problem
from bayplan.kube.wire.core_v1 import Pod
from bayplan.simulate.scenario.lines import Section, Wrong, YamlValue, described, entries_of
from bayplan.simulate.scenario.machine_text import SHORT_NAMES_BELONG_TO
from bayplan.simulate.scenario.values import amount, text, whole_amount, whole_number

# The fields of Kubernetes' PodSpec and Container. Most of them decide nothing about placement and are accepted as they
# are.
POD_FIELDS = (
    *("activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy"),
    *("enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers"),
    *("hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os"),
    *("overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources"),
    *("restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount"),
    *("serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds"),
    *("tolerations", "topologySpreadConstraints", "volumes"),
)
CONTAINER_FIELDS = (
    *("args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports"),
    *("readinessProbe", "resizePolicy", "resources", "restartPolicy", "restartPolicyRules", "securityContext"),
    *("startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty"),
    *("volumeDevices", "volumeMounts", "workingDir"),
)
# What the API server allows, and the classes that it knows from the beginning.
PRIORITIES = (-(2**31), 2**31 - 1)
PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NATIVE = (CPU, MEMORY, "ephemeral-storage")


def template_of(
    written: YamlValue, name: str, namespace: str, labels: dict[str, str], annotations: dict[str, str] | None = None
) -> Pod | None:
    """The pod that is written here, called as its workload is; None if something is wrong with it."""
    before = len(written.faults.found)
    section = Section(written, POD_FIELDS)
    containers = section.get("containers")
    if containers is not None and not containers.content:
        containers.wrong("is empty: a pod needs at least one container")
    is_short = containers is None
    taken = {name} if is_short else set()
    for field in ("containers", "initContainers"):
        listed = section.get(field)
        for container in listed.content if listed is not None and isinstance(listed.content, list) else []:
            _check_container(container, taken)
    of_class = PRIORITY_CLASSES.get(section.take("priorityClassName", text, ""), 0)
    priority = section.take("priority", whole_number(*PRIORITIES), of_class)
    spec = {**written.plain(), "priority": priority} if isinstance(written.content, dict) else {}
    if is_short:
        resources = section.need("resources", _short_resources, None)
        spec = {**spec, "resources": None, "containers": [{"name": name, "resources": resources}]}
    if len(written.faults.found) > before:
        return None
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations or {}}
    wire = {"metadata": metadata, "spec": spec}
    try:
        pod = msgspec.convert(wire, Pod)
        pod_class_of(pod)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
    except InvalidObject as error:
        field, problem = error.at.field, error.problem
    else:
        return pod
    field = field.removeprefix("spec.")
    written.at(field.removeprefix("containers[0].") if is_short else field).wrong(problem)
    return None


def _check_container(written: YamlValue, taken: set[str]) -> None:
    """Fields that a container has, resources that Kubernetes knows, and a name that is not among those taken."""
    section = Section(written, CONTAINER_FIELDS)
    own_name = section.get("name")
    if own_name is not None and isinstance(own_name.content, str):
        if own_name.content in taken:
            own_name.wrong(f"{described(own_name)} is the name of another container of the pod")
        taken.add(own_name.content)
    resources = section.inner("resources", ("requests", "limits", "claims"))
    for key in ("requests", "limits"):
        resources.entries(key, _amount)


def _short_resources(written: YamlValue) -> dict[str, Any] | None:
    """A container's requests and limits, or only amounts, which then are both: the pod is Guaranteed."""
    if isinstance(written.content, dict) and set(written.content) & {"requests", "limits"}:
        section = Section(written, ("requests", "limits"))
        for key in ("requests", "limits"):
            section.entries(key, _amount)
        return dict(written.plain())
    entries_of(written, _amount)
    if not written.content:
        raise Wrong("is empty: must be resources and amounts, such as cpu: 8")
    return {"requests": written.plain(), "limits": written.plain()}


def _amount(resource: str, written: YamlValue) -> int:
    """An amount of something that Kubernetes would take for a resource."""
    if resource not in NATIVE and not resource.startswith(HUGEPAGES_PREFIX) and "/" not in resource:
        hint = f"did you mean {SHORT_NAMES_BELONG_TO}/{resource}?"
        raise Wrong(f"is no resource: must be {', '.join(NATIVE)}, hugepages-SIZE or a name with a domain; {hint}")
    return whole_amount(resource, written) if "/" in resource else amount(resource, written)
