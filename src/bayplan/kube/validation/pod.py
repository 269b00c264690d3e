"""Everything that an API server would reject in a submitted pod, as a list of errors.

The input is a pod or pod template as written; the output is `InvalidObject`s that name the field, the value and what is
allowed. Strict decoding (`fields.py`) comes first; validation runs only if decoding finds nothing. The rules are those
of Kubernetes 1.36 with its default feature gates; `tests/kubernetes/test_strict_pods.py` compares them with a real API
server. `kube/files.py` checks the files that users submit. Objects from a cluster are not checked: an API server has
already admitted them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.validation import containers, names, resources, scheduling, security, volumes
from bayplan.kube.validation.fields import UnknownField, field_faults
from bayplan.kube.validation.metadata import built_in_metadata_faults
from bayplan.kube.validation.rules import (
    Faults,
    Json,
    choice,
    chosen,
    entries,
    labels,
    missing,
    named,
    optional,
    part,
    required,
    text,
    texts,
    within,
)

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
LARGEST_ANNOTATIONS = 256 * 1024
DEFAULT_GRACE_PERIOD = 30
MOST_NAME_SERVERS = 3
MOST_SEARCHES = 32
LONGEST_SEARCH_LIST = 2048
LONGEST_HOSTNAME = 64


def pod_faults(pod: Any, at: ObjectPath) -> list[InvalidObject]:
    """Everything that is wrong with a submitted pod; `at` names it."""
    found = list(field_faults(pod, "Pod", at))
    if not isinstance(pod, Mapping) or any(not isinstance(fault, UnknownField) for fault in found):
        return found
    if text(pod, "apiVersion") != "v1":
        problem = (
            f'"{pod["apiVersion"]}" is not allowed: must be v1' if text(pod, "apiVersion") else "is missing: must be v1"
        )
        found.append(InvalidObject(at.child("apiVersion"), problem))
    if found:
        return found
    metadata, spec = part(pod, "metadata") or {}, part(pod, "spec") or {}
    found += built_in_metadata_faults(metadata, at.child("metadata"))
    found += _annotation_faults(metadata, spec, at.child("metadata"))
    found += _spec_faults(spec, metadata, at.child("spec"))
    return found


def template_faults(template: Any, at: ObjectPath) -> list[InvalidObject]:
    """Everything that is wrong with the pod template of a workload; `at` is its place, such as `spec.template`.

    What an API server accepts in a template and refuses in each of its pods is wrong, too.
    """
    found = list(field_faults(template, "PodTemplateSpec", at))
    if found or not isinstance(template, Mapping):
        return found
    metadata, spec = part(template, "metadata") or {}, part(template, "spec") or {}
    found += labels(metadata, "labels", at.child("metadata"))
    found += _annotation_faults(metadata, spec, at.child("metadata"))
    found += _spec_faults(spec, {**metadata, "name": ""}, at.child("spec"))
    return found


def _annotation_faults(metadata: Json, spec: Json, at: ObjectPath) -> Faults:
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    at = at.child("annotations")
    for key in annotations:
        yield from named(key.lower(), names.qualified_name, at)
    if sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items()) > LARGEST_ANNOTATIONS:
        yield InvalidObject(at, f"has more than {LARGEST_ANNOTATIONS} bytes")
    if MIRROR in annotations and not text(spec, "nodeName"):
        yield InvalidObject(at.entry(MIRROR), "is only allowed where spec.nodeName is set")
    cost = annotations[DELETION_COST] or "" if DELETION_COST in annotations else "0"
    if any(True for _ in names.decimal_integer(cost)) or not -(2**31) <= int(cost) < 2**31:
        yield InvalidObject(at.entry(DELETION_COST), f'"{cost}" is not allowed: must be a whole number of 32 bits')


def _spec_faults(spec: Json, metadata: Json, at: ObjectPath) -> Faults:
    pod_name = text(metadata, "name")
    claims = [name for claim, _ in entries(spec, "resourceClaims", at) if (name := text(claim, "name"))]
    system = text(part(spec, "os") or {}, "name")
    context = containers.PodContext(
        volumes=volumes.usable(spec, pod_name, at),
        claims=claims,
        restart_policy=text(spec, "restartPolicy", "Always"),
        grace_period=_grace_period(spec),
        host_users=spec.get("hostUsers") is not False,
        host_network=bool(spec.get("hostNetwork")),
    )
    yield from volumes.faults(spec, pod_name, at)
    yield from resources.claim_faults(spec, at)
    yield from containers.containers_faults(spec, context, at)
    yield from resources.pod_faults(spec, claims, at, windows=system == "windows")
    yield from choice(context.restart_policy, RESTART_POLICIES, at.child("restartPolicy"))
    yield from security.pod_faults(spec, at)
    yield from scheduling.faults(spec, metadata.get("labels") or {}, at)
    yield from _network_faults(spec, at)
    yield from _name_faults(spec, at)
    if spec.get("activeDeadlineSeconds") is not None:
        yield from within(spec["activeDeadlineSeconds"], 1, 2**31 - 1, at.child("activeDeadlineSeconds"))
    yield from chosen(spec, "preemptionPolicy", PREEMPTION_POLICIES, at)
    if spec.get("overhead"):
        yield from resources.overhead_faults(spec["overhead"], at.child("overhead"))
    yield from _token_faults(spec, at)


def _grace_period(spec: Json) -> int:
    written: int | None = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_PERIOD if written is None else written


def _network_faults(spec: Json, at: ObjectPath) -> Faults:
    policy = text(spec, "dnsPolicy", "ClusterFirst")
    yield from choice(policy, DNS_POLICIES, at.child("dnsPolicy"))
    config, place = part(spec, "dnsConfig"), at.child("dnsConfig")
    if policy == "None" and not (config or {}).get("nameservers"):
        yield missing(place.child("nameservers") if config is not None else place, "dnsPolicy None needs a name server")
    config = config or {}
    for field, most in (("nameservers", MOST_NAME_SERVERS), ("searches", MOST_SEARCHES)):
        if len(config.get(field) or ()) > most:
            yield InvalidObject(place.child(field), f"has more than {most} entries")
    for server, where in texts(config, "nameservers", place):
        yield from named(server, names.ip_address, where)
    if len(" ".join(domain for domain, _ in texts(config, "searches", place))) > LONGEST_SEARCH_LIST:
        yield InvalidObject(place.child("searches"), f"has more than {LONGEST_SEARCH_LIST} characters")
    for domain, where in texts(config, "searches", place):
        if domain != ".":
            yield from named(domain.removesuffix("."), names.search_domain, where)
    for option, where in entries(config, "options", place):
        yield from required(option, "name", where)
    for alias, where in entries(spec, "hostAliases", at):
        yield from named(text(alias, "ip"), names.ip_address, where.child("ip"))
        for hostname, each in texts(alias, "hostnames", where):
            yield from named(hostname, names.dns_subdomain, each)


def _name_faults(spec: Json, at: ObjectPath) -> Faults:
    for field, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
        ("hostname", names.dns_label),
        ("subdomain", names.dns_label),
        ("priorityClassName", names.dns_subdomain),
    ):
        yield from optional(spec, field, at, rule)
    if spec.get("runtimeClassName") is not None:
        yield from named(spec["runtimeClassName"], names.dns_subdomain, at.child("runtimeClassName"))
    for gate, place in entries(spec, "readinessGates", at):
        yield from named(text(gate, "conditionType"), names.qualified_name, place.child("conditionType"))
    override, place = spec.get("hostnameOverride"), at.child("hostnameOverride")
    if override is not None:
        if spec.get("setHostnameAsFQDN") or spec.get("hostNetwork"):
            yield InvalidObject(place, "is not allowed beside setHostnameAsFQDN or hostNetwork")
        if len(override) > LONGEST_HOSTNAME:
            yield InvalidObject(place, f"has more than {LONGEST_HOSTNAME} characters")
        yield from named(override, names.dns_subdomain, place)


def _token_faults(spec: Json, at: ObjectPath) -> Faults:
    if text(spec, "serviceAccountName") or text(spec, "serviceAccount"):
        return
    for volume, place in entries(spec, "volumes", at):
        for source, where in entries(part(volume, "projected") or {}, "sources", place.child("projected")):
            if part(source, "serviceAccountToken") is not None:
                yield InvalidObject(
                    where.child("serviceAccountToken"), "is only allowed where serviceAccountName is set"
                )
