"""Which pods of a workload exist already, so that they are not made twice.

A pod belongs to a workload if its owners lead there. Dumps often lack the objects between, so names help: a ReplicaSet
is named like its Deployment with the pod's template hash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from bayplan.gangs.ranks.ranks import (
    COMPLETION_INDEX,
    JOB_INDEX,
    KUBEFLOW_INDEX,
    POD_INDEX,
    RAY_HOST_INDEX,
    RAY_REPLICA_INDEX,
    WORKER_INDEX,
)
from bayplan.grouping.grouping import Lookup
from bayplan.grouping.raw import RawObject, Reference, labels_of, managing, metadata_of
from bayplan.kube.wire.core_v1 import OwnerReference, Pod
from bayplan.workloads.apps import HOSTNAME_FIELD, TEMPLATE_HASH
from bayplan.workloads.planned import PlannedPod

TERMINAL = ("Succeeded", "Failed")
LONGEST_CHAIN = 10
# Labels that distinguish the pods of a workload; pods without them are interchangeable.
_TOLD_APART_BY = (
    COMPLETION_INDEX,
    JOB_INDEX,
    KUBEFLOW_INDEX,
    POD_INDEX,
    RAY_HOST_INDEX,
    RAY_REPLICA_INDEX,
    WORKER_INDEX,
    "jobset.sigs.k8s.io/replicatedjob-name",
    "leaderworkerset.sigs.k8s.io/group-index",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "ray.io/group",
)

Identity = tuple[str, ...]
_Known = tuple[str, str, str]


class OwnerIndex:
    """Objects by group, kind, namespace and name, to follow owner references."""

    def __init__(self, things: Iterable[RawObject] = ()) -> None:
        self._things: dict[_Known, dict[str, RawObject]] = defaultdict(dict)
        for thing in things:
            about = Reference.of(thing)
            self._things[about.group, about.kind, about.namespace or "default"][about.name] = thing

    def named(self, about: Reference) -> RawObject | None:
        """The object of a reference, ignoring its uid."""
        return self._things.get((about.group, about.kind, about.namespace or "default"), {}).get(about.name)

    def answer(self, question: Lookup) -> list[RawObject]:
        """The objects that grouping asks for (`grouping/grouping.py`)."""
        asked = Reference(question.api_version, question.kind)
        of_kind = self._things.get((asked.group, asked.kind, question.namespace or "default"), {})
        named = of_kind if not question.name else [question.name] if question.name in of_kind else []
        found = [of_kind[name] for name in named]
        return [thing for thing in found if all(labels_of(thing).get(key) == value for key, value in question.labels)]

    def above(self, reference: Reference) -> tuple[RawObject, ...]:
        """The known owners that a reference leads to, the nearest first."""
        found: list[RawObject] = []
        here: Reference | None = reference
        while here is not None and len(found) < LONGEST_CHAIN:
            thing = self.named(here)
            if thing is None or (here.uid and Reference.of(thing).uid not in ("", here.uid)):
                break
            found.append(thing)
            here = owner_of(thing)
        return tuple(found)


def owner_of(thing: RawObject) -> Reference | None:
    """The owner that manages an object; None if it has none."""
    owner = managing(metadata_of(thing).get("ownerReferences") or [])
    if owner is None:
        return None
    values = (str(owner.get(key) or "") for key in ("apiVersion", "kind", "name", "uid"))
    api_version, kind, name, uid = values
    return Reference(api_version, kind, Reference.of(thing).namespace, name, uid)


def pods_of(about: Reference, planned: Sequence[PlannedPod], pods: Iterable[Pod], owners: OwnerIndex) -> list[Pod]:
    """The pods of a workload that exist and have not ended."""
    references = (Reference.of(owner) for pod in planned for owner in pod.owners)
    between = {(each.group, each.kind, each.name) for each in references}
    return [pod for pod in pods if is_active(pod) and _belongs(pod, about, between, owners)]


def matched(made: Sequence[Pod], existing: Iterable[Pod], told_apart_by: Iterable[str] = ()) -> list[Pod | None]:
    """The existing pod for each planned one; None if there is none yet.

    Names match if a controller fixes them, else the labels that distinguish pods; `told_apart_by` are further ones.
    """
    labels = (*_TOLD_APART_BY, *told_apart_by)
    by_name = {pod.metadata.name: pod for pod in existing}
    found = [by_name.pop(pod.metadata.name, None) for pod in made]
    waiting: dict[Identity, list[Pod]] = defaultdict(list)
    for pod in by_name.values():
        waiting[_identity(pod, labels)].append(pod)
    for number, pod in enumerate(made):
        if found[number] is None and (alike := waiting.get(_identity(pod, labels))):
            found[number] = alike.pop(0)
    return found


def is_active(pod: Pod) -> bool:
    """True if a pod has neither ended nor been deleted."""
    return pod.metadata.deletion_timestamp is None and (pod.status is None or pod.status.phase not in TERMINAL)


def _belongs(pod: Pod, about: Reference, between: set[tuple[str, str, str]], owners: OwnerIndex) -> bool:
    if (pod.metadata.namespace or "default") != (about.namespace or "default"):
        return False
    reference = controller_of(pod)
    if reference is None:
        return False
    found = Reference(reference.api_version, reference.kind, about.namespace, reference.name, reference.uid)
    if _is_same(found, about) or any(_is_same(Reference.of(each), about) for each in owners.above(found)):
        return True
    if (found.group, found.kind, found.name) == (about.group, about.kind, about.name):
        return False  # another object that had the name before
    if (found.group, found.kind, found.name) in between:
        return True
    template_hash = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    is_of_deployment = about.kind == "Deployment" and found.kind == "ReplicaSet"
    return is_of_deployment and found.name == f"{about.name}-{template_hash}"


def _is_same(one: Reference, other: Reference) -> bool:
    same_name = (one.group, one.kind, one.name) == (other.group, other.kind, other.name)
    return same_name and (not one.uid or not other.uid or one.uid == other.uid)


def controller_of(pod: Pod) -> OwnerReference | None:
    """The owner that manages a pod; None if it has none."""
    references = pod.metadata.owner_references or []
    return next((each for each in references if each.controller), references[0] if references else None)


def _identity(pod: Pod, labels: Sequence[str]) -> Identity:
    own = pod.metadata.labels or {}
    return (_node_of(pod), *(own.get(label, "") for label in labels))


def _node_of(pod: Pod) -> str:
    """The node of a DaemonSet's pod."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in (required.node_selector_terms if required is not None else None) or ():
        for field in term.match_fields or ():
            if field.key == HOSTNAME_FIELD and field.values:
                return field.values[0]
    return ""
