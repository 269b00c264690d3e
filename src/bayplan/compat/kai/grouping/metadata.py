"""What every PodGroup of KAI's has in common: name, owner, queue, priority class, preemptibility, labels, annotations,
constraint.

`usual_group` is KAI's default grouper; the other kinds begin with it and change what is different
(`dataclasses.replace`). Objects it looks at besides pod and owners (priority classes, the ConfigMap with defaults per
kind) are asked for (`grouping/grouping.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from bayplan.grouping.group import KaiSettings
from bayplan.grouping.grouping import Answers, InvalidGrouping, InvalidValue, Lookup, one
from bayplan.grouping.raw import RawObject, Reference, WrongValue, annotations_of, labels_of, look_up
from bayplan.kube.json_text import decode
from bayplan.kube.manifest_limits import MOST_PODS_OF_OBJECT

TRAIN, BUILD, INFERENCE = "train", "build", "inference"
DEFAULT_QUEUE = "default-queue"
PROJECT = "project"
PRIORITY_CLASS = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
PREEMPTIBILITIES = ("preemptible", "non-preemptible")
USER = "user"
YAML_WORDS = ("", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n")
TOP_OWNER = "kai.scheduler/top-owner-metadata"


def wrong_pod(pod: RawObject, field: str, value: object, allowed: str) -> InvalidGrouping:
    """What is wrong with a pod itself; what is wrong with its owner is a `WrongValue`."""
    return InvalidGrouping(InvalidValue(Reference.of(pod), field, value, allowed))


@dataclass(frozen=True, slots=True)
class KaiConstraint:
    """`topologyConstraint` of a PodGroup or sub-group."""

    topology: str = ""
    required: str = ""
    preferred: str = ""


NO_CONSTRAINT = KaiConstraint()


@dataclass(frozen=True, slots=True)
class KaiSubGroup:
    """A sub-group, with the pods that this pod's judgement puts there."""

    name: str
    min_available: int
    parent: str = ""
    pods: tuple[str, ...] = ()
    constraint: KaiConstraint = NO_CONSTRAINT


@dataclass(frozen=True, slots=True)
class KaiGroup:
    """The PodGroup that KAI would write."""

    name: str
    namespace: str
    owner: Reference
    min_available: int = 1
    queue: str = ""
    priority_class: str = ""
    preemptibility: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    constraint: KaiConstraint = NO_CONSTRAINT
    sub_groups: tuple[KaiSubGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class KaiCase:
    """Everything that a grouper may look at: the pod, the owner it is about, the owners on the way to it (nearest
    first).
    """

    pod: RawObject
    owner: RawObject
    owners: Sequence[RawObject]
    settings: KaiSettings
    answers: Answers

    def find(self, api_version: str, kind: str, name: str, namespace: str = "") -> RawObject | None:
        """Another object of the cluster; None if it does not exist."""
        return one(self.answers, Lookup(api_version, kind, namespace, name))


def usual_group(case: KaiCase, owners: Sequence[RawObject] = ()) -> KaiGroup:
    """KAI's default: one group per owner, of which one pod suffices.

    Any of `owners` (else only that one) may give the priority.
    """
    about = Reference.of(case.owner)
    owners = owners or [case.owner]
    defaults = _Defaults(case)
    return KaiGroup(
        name=group_name(about.name, about.uid),
        namespace=Reference.of(case.pod).namespace,
        owner=about,
        queue=queue_of(case.owner, case.pod, case.settings),
        priority_class=priority_class_of(case, owners, TRAIN, defaults),
        preemptibility=_preemptibility(case, owners, defaults),
        labels=group_labels(case.owner, case.pod),
        annotations=group_annotations(case.owner, case.pod),
        constraint=constraint_of(case.owner),
    )


def group_name(name: str, uid: str) -> str:
    """How KAI calls a PodGroup."""
    return f"pg-{name}-{uid}"


def constraint_of(thing: RawObject) -> KaiConstraint:
    """What an object's annotations ask for; KAI checks none of it."""
    annotations = annotations_of(thing)
    return KaiConstraint(
        annotations.get("kai.scheduler/topology", ""),
        annotations.get("kai.scheduler/topology-required-placement", ""),
        annotations.get("kai.scheduler/topology-preferred-placement", ""),
    )


def queue_of(owner: RawObject, pod: RawObject, settings: KaiSettings) -> str:
    """The queue label of owner or pod; else project and node pool; else the default queue."""
    for thing in (owner, pod):
        if settings.queue_label in labels_of(thing):
            return labels_of(thing)[settings.queue_label]
    project = labels_of(owner).get(PROJECT, labels_of(pod).get(PROJECT, ""))
    if not project:
        return DEFAULT_QUEUE
    pool = labels_of(pod).get(settings.node_pool_label)
    return project if pool is None else f"{project}-{pool}"


def group_labels(owner: RawObject, pod: RawObject) -> dict[str, str]:
    """The owner's labels, and the user that the pod names."""
    user = labels_of(pod).get(USER)
    return ({} if user is None else {USER: user}) | dict(labels_of(owner))


def group_annotations(owner: RawObject, pod: RawObject) -> dict[str, str]:
    """The owner's annotations, the user that the pod names, and who the owner is."""
    user = annotations_of(pod).get(USER)
    return ({} if user is None else {USER: user}) | {TOP_OWNER: _top_owner(owner)} | dict(annotations_of(owner))


def _top_owner(owner: RawObject) -> str:
    about = Reference.of(owner)
    fields = {"name": about.name, "uid": about.uid, "group": about.group, "version": about.version, "kind": about.kind}
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in fields.items())


def _scalar(text: str) -> str:
    """A text as KAI's YAML writer puts it: in quotes only where it would be read as something else."""
    return msgspec.json.encode(text).decode() if text.lower() in YAML_WORDS or _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# -- priority class and preemptibility ---------------------------------------------------------------------------------


def priority_class_of(
    case: KaiCase, owners: Sequence[RawObject], otherwise: str, defaults: _Defaults | None = None
) -> str:
    """The class that owner or pod name, if it exists; else the default of the kind in the ConfigMap, if it exists; else
    `otherwise`.
    """
    for owner in owners:
        named = labels_of(owner).get(PRIORITY_CLASS, labels_of(case.pod).get(PRIORITY_CLASS))
        name = named if named is not None else look_up(case.pod, ("spec", "priorityClassName")) or ""
        if _class_exists(case, name):
            return name
    defaults = defaults or _Defaults(case)
    for owner in owners:
        name = defaults.for_kind(Reference.of(owner)).priority_name if Reference.of(owner).kind else ""
        if _class_exists(case, name):
            return name
    return otherwise


def _class_exists(case: KaiCase, name: str) -> bool:
    return bool(name) and case.find("scheduling.k8s.io/v1", "PriorityClass", name) is not None


def _preemptibility(case: KaiCase, owners: Sequence[RawObject], defaults: _Defaults) -> str:
    """The label of an owner or of the pod, if it says something allowed; else the default of the kind."""
    for thing in (*owners, case.pod):
        said = labels_of(thing).get(PREEMPTIBILITY)
        if said in PREEMPTIBILITIES:
            return said
    for owner in owners:
        said = defaults.for_kind(Reference.of(owner)).preemptibility.lower()
        if said in PREEMPTIBILITIES:
            return said
    return ""


class _KindDefaults(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of the ConfigMap."""

    type_name: str = ""
    group: str = ""
    priority_name: str = ""
    preemptibility: str = ""


class _Defaults:
    """The ConfigMap with defaults per kind; one that is absent or cannot be read has none."""

    def __init__(self, case: KaiCase) -> None:
        self._case = case
        self._entries: dict[tuple[str, str], _KindDefaults] | None = None

    def for_kind(self, about: Reference) -> _KindDefaults:
        """The entry for a kind, with its API group or without."""
        if self._entries is None:
            self._entries = {(entry.group, entry.type_name): entry for entry in self._read()}
        entries = self._entries
        found = entries.get((about.group, about.kind)) if about.kind else None
        return found or entries.get(("", about.kind)) or _KindDefaults()

    def _read(self) -> list[_KindDefaults]:
        settings = self._case.settings
        if not settings.defaults_name or not settings.defaults_namespace:
            return []
        found = self._case.find("v1", "ConfigMap", settings.defaults_name, settings.defaults_namespace)
        try:
            return decode(((found or {}).get("data") or {}).get("types", ""), list[_KindDefaults])
        except msgspec.DecodeError:
            return []


TOPOLOGY = "kai.scheduler/topology"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"


def check_number(pods: int) -> None:
    """Reject an unrealistic number of pods before segments are listed one by one."""
    if pods > MOST_PODS_OF_OBJECT:
        raise WrongValue("replicas", pods, f"pods are too many for segments: must be at most {MOST_PODS_OF_OBJECT}")


def worker_annotation(pod: RawObject, template: RawObject, key: str) -> str:
    """An annotation of the pod, else of the template it is made from; empty if neither has it."""
    return annotations_of(pod).get(key) or annotations_of(template).get(key, "")


def segment_constraint(pod: RawObject, template: RawObject, owner: RawObject) -> KaiConstraint:
    """What each segment must share; nothing without the tree's name, which the owner may give, or without a level."""
    topology = worker_annotation(pod, template, TOPOLOGY) or annotations_of(owner).get(TOPOLOGY, "")
    required = worker_annotation(pod, template, SEGMENT_REQUIRED)
    preferred = worker_annotation(pod, template, SEGMENT_PREFERRED)
    if not topology or not (required or preferred):
        return NO_CONSTRAINT
    return KaiConstraint(topology, required, preferred)
