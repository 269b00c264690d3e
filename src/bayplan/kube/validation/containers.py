"""Containers, init containers and sidecars: names, images, ports, mounts, restart policies.

Variables and probes have files of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import environment, names, probes, resources, security
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    choice,
    chosen,
    entries,
    missing,
    named,
    optional,
    part,
    required,
    text,
    twice,
    within,
)

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
RESTART_ACTIONS = ("Restart", "RestartAllContainers")
EXIT_CODE_OPERATORS = ("In", "NotIn")
PROTOCOLS = ("SCTP", "TCP", "UDP")
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
LARGEST_PORT = 65_535
MOST_RESTART_RULES = 20
MOST_EXIT_CODES = 255


@dataclass(frozen=True, slots=True)
class PodContext:
    """What the containers of a pod are checked against: its volumes that are right, its claims, and a few of its
    settings.
    """

    volumes: Mapping[str, Json]
    claims: Collection[str]
    restart_policy: str
    grace_period: int
    host_users: bool
    host_network: bool


def containers_faults(spec: Json, context: PodContext, at: ObjectPath) -> Faults:
    """All containers of a pod; `at` is the place of the spec."""
    if not spec.get("containers"):
        yield missing(at.child("containers"), "a pod needs at least one container")
    seen: set[str] = set()
    ports: set[tuple[str, str, int]] = set()
    for container, place in entries(spec, "containers", at):
        yield from _common_faults(container, context, place)
        yield from _name_once(container, seen, place)
        yield from probes.running_faults(container, context.grace_period, place)
        yield from _restart_faults(container, place)
        yield from _host_port_faults(container, ports, context, place)
    for container, place in entries(spec, "initContainers", at):
        yield from _common_faults(container, context, place)
        yield from _name_once(container, seen, place)
        yield from _init_faults(container, context, place)
        yield from _host_port_faults(container, set(), context, place)
    if spec.get("ephemeralContainers"):
        yield InvalidObject(at.child("ephemeralContainers"), "is not allowed in a new pod")


def _name_once(container: Json, seen: set[str], at: ObjectPath) -> Faults:
    name = text(container, "name")
    if name and name in seen:
        yield twice(name, at.child("name"))
    seen.add(name)


def _common_faults(container: Json, context: PodContext, at: ObjectPath) -> Faults:
    yield from required(container, "name", at, names.dns_label)
    image = text(container, "image")
    if not image:
        yield missing(at.child("image"))
    elif image != image.strip():
        yield InvalidObject(at.child("image"), f'"{image}" is not allowed: must not begin or end with a space')
    policy = text(container, "terminationMessagePolicy", "File")
    yield from choice(policy, MESSAGE_POLICIES, at.child("terminationMessagePolicy"))
    yield from choice(text(container, "imagePullPolicy", "Always"), PULL_POLICIES, at.child("imagePullPolicy"))
    yield from _port_faults(container, at)
    yield from environment.faults(container, context.volumes, at)
    yield from _mount_faults(container, context, at)
    yield from _device_faults(container, context, at)
    yield from resources.container_faults(container, context.claims, at)
    yield from resources.resize_faults(container, context.restart_policy, at)
    yield from security.container_faults(container, at, host_users=context.host_users)


def _port_faults(container: Json, at: ObjectPath) -> Faults:
    seen: set[str] = set()
    for port, place in entries(container, "ports", at):
        name = text(port, "name")
        problems = list(optional(port, "name", place, names.port_name))
        yield from problems
        if name and not problems and name in seen:
            yield twice(name, place.child("name"))
        seen.add(name)
        if not port.get("containerPort"):
            yield missing(place.child("containerPort"))
        else:
            yield from within(port["containerPort"], 1, LARGEST_PORT, place.child("containerPort"))
        yield from within(port.get("hostPort") or None, 1, LARGEST_PORT, place.child("hostPort"))
        yield from choice(text(port, "protocol", "TCP"), PROTOCOLS, place.child("protocol"))


def _host_port_faults(container: Json, taken: set[tuple[str, str, int]], context: PodContext, at: ObjectPath) -> Faults:
    """Host ports that stand twice, or differ from the container's where both are the same thing."""
    for port, place in entries(container, "ports", at):
        inside = port.get("containerPort") or 0
        outside = port.get("hostPort") or (inside if context.host_network else 0)
        if not outside:
            continue
        if context.host_network and outside != inside and ".containers[" in f".{place.field}":
            problem = f"{outside} is not allowed: must equal containerPort where hostNetwork is true"
            yield InvalidObject(place.child("hostPort"), problem)
        key = (text(port, "protocol", "TCP"), text(port, "hostIP"), outside)
        if key in taken:
            yield twice(str(outside), place.child("hostPort"))
        taken.add(key)


def _mount_faults(container: Json, context: PodContext, at: ObjectPath) -> Faults:
    devices = {text(each, "name"): text(each, "devicePath") for each, _ in entries(container, "volumeDevices", at)}
    paths: set[str] = set()
    for mount, place in entries(container, "volumeMounts", at):
        name, path = text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield missing(place.child("name"))
        elif name not in context.volumes:
            yield InvalidObject(place.child("name"), f'"{name}" is not the name of a volume of this pod')
        if not path:
            yield missing(place.child("mountPath"))
        if path in paths:
            yield twice(path, place.child("mountPath"))
        paths.add(path)
        if name in devices:
            yield InvalidObject(place.child("name"), f'"{name}" stands in volumeDevices as well')
        if path in devices.values():
            yield InvalidObject(place.child("mountPath"), f'"{path}" stands in volumeDevices as well')
        yield from optional(mount, "subPath", place, names.descending_path)
        yield from optional(mount, "subPathExpr", place, names.descending_path)
        if text(mount, "subPath") and text(mount, "subPathExpr"):
            yield InvalidObject(place.child("subPathExpr"), "is not allowed together with subPath")
        yield from _propagation_faults(mount, container, place)


def _propagation_faults(mount: Json, container: Json, at: ObjectPath) -> Faults:
    propagation = mount.get("mountPropagation")
    yield from chosen(mount, "mountPropagation", PROPAGATIONS, at)
    if propagation == "Bidirectional" and not (part(container, "securityContext") or {}).get("privileged"):
        yield InvalidObject(at.child("mountPropagation"), "Bidirectional is only allowed in a privileged container")
    recursive, place = mount.get("recursiveReadOnly"), at.child("recursiveReadOnly")
    yield from chosen(mount, "recursiveReadOnly", RECURSIVE_READ_ONLY, at)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield InvalidObject(place, "is only allowed where readOnly is true")
        if propagation not in (None, "None"):
            yield InvalidObject(place, "is only allowed where mountPropagation is None or absent")


def _device_faults(container: Json, context: PodContext, at: ObjectPath) -> Faults:
    mounts = {text(each, "name"): text(each, "mountPath") for each, _ in entries(container, "volumeMounts", at)}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for device, place in entries(container, "volumeDevices", at):
        name, path = text(device, "name"), text(device, "devicePath")
        volume = context.volumes.get(name)
        if not name:
            yield missing(place.child("name"))
        elif name in seen_names:
            yield twice(name, place.child("name"))
        if volume is None and name:
            yield InvalidObject(place.child("name"), f'"{name}" is not the name of a volume of this pod')
        elif volume is not None and volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
            yield InvalidObject(place.child("name"), f'"{name}" is no persistentVolumeClaim or ephemeral volume')
        if not path:
            yield missing(place.child("devicePath"))
        if path in seen_paths:
            yield twice(path, place.child("devicePath"))
        yield from named(path, names.no_backsteps, place.child("devicePath"))
        if name in mounts or path in mounts.values():
            yield InvalidObject(place, "stands in volumeMounts as well")
        seen_names.add(name)
        seen_paths.add(path)


def _restart_faults(container: Json, at: ObjectPath) -> Faults:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is not None:
        yield from choice(policy, RESTART_POLICIES, at.child("restartPolicy"))
    elif rules:
        yield missing(at.child("restartPolicy"), "restartPolicyRules need it")
    if len(rules) > MOST_RESTART_RULES:
        yield InvalidObject(at.child("restartPolicyRules"), f"has more than {MOST_RESTART_RULES} rules")
    for rule, place in entries(container, "restartPolicyRules", at):
        yield from choice(text(rule, "action"), RESTART_ACTIONS, place.child("action"))
        codes = part(rule, "exitCodes")
        if codes is None:
            yield missing(place.child("exitCodes"))
            continue
        yield from choice(text(codes, "operator"), EXIT_CODE_OPERATORS, place.child("exitCodes.operator"))
        if len(codes.get("values") or ()) > MOST_EXIT_CODES:
            yield InvalidObject(place.child("exitCodes.values"), f"has more than {MOST_EXIT_CODES} values")


def _init_faults(container: Json, context: PodContext, at: ObjectPath) -> Faults:
    yield from _restart_faults(container, at)
    if container.get("restartPolicy") == "Always":
        yield from probes.running_faults(container, context.grace_period, at)
        return
    for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        # A stop signal needs a feature gate that is off: the API server drops it, and a lifecycle of nothing else.
        if container.get(field) is not None and set(container[field] or {"": 0}) != {"stopSignal"}:
            yield InvalidObject(at.child(field), "is only allowed in an init container with restartPolicy Always")
    for policy, place in entries(container, "resizePolicy", at):
        if policy.get("restartPolicy") == "RestartContainer":
            problem = "RestartContainer is only allowed in an init container with restartPolicy Always"
            yield InvalidObject(place.child("restartPolicy"), problem)
