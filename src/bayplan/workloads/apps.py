"""Pods of Deployment, ReplicaSet, ReplicationController, StatefulSet and DaemonSet, as controllers create them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from bayplan.gangs.ranks.ranks import POD_INDEX
from bayplan.grouping.raw import RawObject, WrongValue, list_at
from bayplan.kube.wire.core_v1 import Pod
from bayplan.plugins.node_affinity import NodeAffinity
from bayplan.plugins.node_basics import NodeName, TaintToleration
from bayplan.workloads.planned import (
    Around,
    PlannedPod,
    Template,
    count_at,
    generated,
    hash_of,
    name_of,
    owned,
    pod_from,
    template_at,
)

TEMPLATE = "spec.template"
REPLICAS = "spec.replicas"
TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"
HOSTNAME_FIELD = "metadata.name"
# Taints that every DaemonSet pod tolerates; the last only with the host's network.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def replica_set(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """`web-x7k2p`; a ReplicationController's pods are named alike."""
    template = template_at(thing, TEMPLATE)
    for number in range(count_at(thing, REPLICAS, 1)):
        yield pod_from(template, generated(f"{name_of(thing)}-", number), [thing])


def deployment(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """Through a ReplicaSet: `web-6d4cf56db6-x7k2p`."""
    template = template_at(thing, TEMPLATE)
    own_hash = hash_of([template.labels, template.annotations, template.spec])
    name = f"{name_of(thing)}-{own_hash}"
    between = owned(thing, "apps/v1", "ReplicaSet", name, thing["spec"], {**template.labels, TEMPLATE_HASH: own_hash})
    template = template.with_labels({TEMPLATE_HASH: own_hash})
    for number in range(count_at(thing, REPLICAS, 1)):
        yield pod_from(template, generated(f"{name}-", number), [between, thing])


def stateful_set(thing: RawObject, _: Around) -> Iterator[PlannedPod]:
    """`db-0` and on, from `spec.ordinals.start`; claim templates become volumes of the pods."""
    name, template = name_of(thing), template_at(thing, TEMPLATE)
    revision = f"{name}-{hash_of(template.spec)}"
    claims = _claim_names(thing)
    start = count_at(thing, "spec.ordinals.start", 0)
    for ordinal in range(start, start + count_at(thing, REPLICAS, 1)):
        own = f"{name}-{ordinal}"
        labels = {"statefulset.kubernetes.io/pod-name": own, POD_INDEX: str(ordinal), REVISION_HASH: revision}
        yield pod_from(_with_claims(template, claims, own), own, [thing], labels)


def _claim_names(thing: RawObject) -> list[str]:
    names = []
    for number, claim in enumerate(list_at(thing, ("spec", "volumeClaimTemplates"))):
        name = name_of(claim) if isinstance(claim, dict) else ""
        if not name:
            raise WrongValue(f"spec.volumeClaimTemplates[{number}].metadata.name", None, "is missing")
        names.append(name)
    return names


def _with_claims(template: Template, claims: list[str], pod: str) -> Template:
    if not claims:
        return template
    kept = [each for each in template.spec.get("volumes") or () if each.get("name") not in claims]
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{pod}"}} for claim in claims]
    return template.with_spec(volumes=[*volumes, *kept])


def daemon_set(thing: RawObject, around: Around) -> Iterator[PlannedPod]:
    """One pod per node that its selectors, affinity and tolerations allow, bound to the node by affinity."""
    template = _tolerating(template_at(thing, TEMPLATE))
    labels = {REVISION_HASH: hash_of(template.spec), "pod-template-generation": "1"}
    for number, node in enumerate(_eligible(template, around)):
        tied = _tied_to(template, node)
        yield pod_from(tied, generated(f"{name_of(thing)}-", number), [thing], labels)


def _tolerating(template: Template) -> Template:
    taints = (*_TOLERATED, _ON_HOST_NETWORK) if template.spec.get("hostNetwork") is True else _TOLERATED
    further = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
    return template.with_spec(tolerations=[*(template.spec.get("tolerations") or ()), *further])


def _eligible(template: Template, around: Around) -> list[str]:
    """The nodes that the DaemonSet controller chooses by name, affinity and taints, regardless of free room."""
    state = around.state
    try:
        pod = msgspec.convert({"metadata": {"name": "daemon"}, "spec": template.spec}, Pod)
        pod_class = state.classes.of(pod)
    except ValueError:  # said with its field when the pod itself is read; any node brings it up
        return state.names[:1]
    every = slice(0, len(state.names))
    refused = np.zeros(len(state.names), dtype=np.bool_)
    for plugin in (NodeName(), NodeAffinity(), TaintToleration()):
        codes = plugin.refusals(state, pod_class, every) if plugin.applies(pod_class) else None
        if codes is not None:
            refused |= codes != 0
    return [name for name, row in sorted(state.rows.items()) if not refused[row]]


def _tied_to(template: Template, node: str) -> Template:
    """Replace required node affinity, which the controller has already evaluated."""
    term = {"matchFields": [{"key": HOSTNAME_FIELD, "operator": "In", "values": [node]}]}
    affinity = dict(template.spec.get("affinity") or {})
    own = dict(affinity.get("nodeAffinity") or {})
    own["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return template.with_spec(affinity={**affinity, "nodeAffinity": own})
