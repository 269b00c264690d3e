"""Kueue's groups of plain pods, and its topology annotations (`kueue.x-k8s.io`).

A pod group has no object: each pod names it in a label and gives the number of pods in an annotation. The requests of a
pod set are annotations of its pod template, also on Jobs and other kinds. `request_of` reads them:

    podset-required-topology, podset-preferred-topology     a level that all pods must or should share
    podset-unconstrained-topology                           nothing
    podset-slice-required-topology, podset-slice-size       segments; or up to three layers of them as JSON
    podset-group-name                                       pod sets that share a domain: a leader and its workers
    pod-index-offset                                        the index of the first pod

Pods that Kueue itself assigns to domains have node selectors, which hold as for any pod.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import Dialect, as_others_prefer, asked_by_label, topology_for
from bayplan.dialects.members import Incomplete, arrived, counted, group_of, has_started
from bayplan.dialects.misspelt import KeyFamily, complaint_about, judged
from bayplan.gangs.model import Gang, Group, Segments
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.kube.json_text import decode, json_words
from bayplan.kube.topology_levels import KUEUE, is_node_label
from bayplan.kube.whole_number import whole_number
from bayplan.kube.wire.core_v1 import Pod

PREFIX = "kueue.x-k8s.io/"
POD_GROUP = PREFIX + "pod-group-name"
TOTAL_COUNT = PREFIX + "pod-group-total-count"
FAST_ADMISSION = PREFIX + "pod-group-fast-admission"
ROLE_HASH = PREFIX + "role-hash"
POD_INDEX = PREFIX + "pod-group-pod-index"

REQUIRED = PREFIX + "podset-required-topology"
PREFERRED = PREFIX + "podset-preferred-topology"
UNCONSTRAINED = PREFIX + "podset-unconstrained-topology"
SLICE_LEVEL = PREFIX + "podset-slice-required-topology"
SLICE_SIZE = PREFIX + "podset-slice-size"
SLICE_LAYERS = PREFIX + "podset-slice-required-topology-constraints"
SHARED_DOMAIN = PREFIX + "podset-group-name"
# Keys for groups of plain pods resemble those of pod sets.
TOPOLOGY_KEYS = KeyFamily(
    PREFIX,
    (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE_LEVEL, SLICE_SIZE, SLICE_LAYERS, SHARED_DOMAIN),
    re.compile("^podset-"),
    never_meant=PREFIX + "pod-group-",
)
# The index of the first pod of a pod set, if not 0: a launcher that also works can precede it.
INDEX_OFFSET = PREFIX + "pod-index-offset"
NAMING_LEVELS = (REQUIRED, PREFERRED, SLICE_LEVEL, SLICE_LAYERS)
# What a gang's fields are called in annotations of its pods.
_FIELD_NAMES = {
    field: f'metadata.annotations["{key}"]'
    for field, key in (("required", REQUIRED), ("preferred", PREFERRED), ("segments", SLICE_SIZE))
}
MOST_LAYERS = 3
MUST_BE_A_LABEL = "must be a node label, such as topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a pod set; `shares_with` names the pod sets in the same domain."""

    required: str | None = None
    preferred: str | None = None
    slices: tuple[Segments, ...] = ()
    shares_with: str = ""

    @property
    def levels(self) -> list[str]:
        """Every node label that is named."""
        return [level for level in (self.required, self.preferred, *(each.level for each in self.slices)) if level]


class _Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topology: str
    size: int


def request_of(annotations: Mapping[str, str], at: ObjectPath) -> Request:
    """The request in the annotations of a pod or its template.

    Raises `InvalidObject` with key, value and what is allowed.
    """
    modes = [key for key in (REQUIRED, PREFERRED, UNCONSTRAINED) if key in annotations]
    if len(modes) > 1:
        problem = f'"{annotations[modes[1]]}" cannot stand beside {modes[0]}: only one of them may be given'
        raise InvalidObject(at.key(modes[1]), problem)
    unconstrained = annotations.get(UNCONSTRAINED, "false")
    if unconstrained not in ("true", "false"):
        raise InvalidObject(at.key(UNCONSTRAINED), f'"{unconstrained}" must be "true" or "false"')
    for key in (REQUIRED, PREFERRED, SLICE_LEVEL):
        if key in annotations and not is_node_label(annotations[key]):
            raise InvalidObject(at.key(key), f'"{annotations[key]}" {MUST_BE_A_LABEL}')
    slices = _slices(annotations, at)
    shares_with = annotations.get(SHARED_DOMAIN, "")
    if shares_with.isascii() and shares_with.isdecimal():
        raise InvalidObject(at.key(SHARED_DOMAIN), f'"{shares_with}" must not be a number')
    if shares_with and not (annotations.get(REQUIRED) or annotations.get(PREFERRED)):
        raise InvalidObject(at.key(SHARED_DOMAIN), f'"{shares_with}" needs {REQUIRED} or {PREFERRED}')
    if shares_with and slices:
        raise InvalidObject(at.key(SHARED_DOMAIN), f'"{shares_with}" cannot stand beside slices')
    return Request(annotations.get(REQUIRED), annotations.get(PREFERRED), slices, shares_with)


def _slices(annotations: Mapping[str, str], at: ObjectPath) -> tuple[Segments, ...]:
    level, size, layers = (annotations.get(key) for key in (SLICE_LEVEL, SLICE_SIZE, SLICE_LAYERS))
    if layers is not None:
        if level is not None or size is not None:
            raise InvalidObject(at.key(SLICE_LAYERS), f'"{layers}" cannot stand beside {SLICE_LEVEL} and {SLICE_SIZE}')
        return _layers(layers, at.key(SLICE_LAYERS))
    if (level is None) != (size is None):
        here, there = (SLICE_SIZE, SLICE_LEVEL) if level is None else (SLICE_LEVEL, SLICE_SIZE)
        raise InvalidObject(at.key(here), f'"{annotations[here]}" needs {there}')
    if level is None or size is None:
        return ()
    pods = whole_number(size)
    if not pods:
        raise InvalidObject(at.key(SLICE_SIZE), f'"{size}" must be a whole number, 1 or more')
    return (Segments(pods, level),)


def _layers(written: str, at: ObjectPath) -> tuple[Segments, ...]:
    example = 'must be such as [{"topology": "example.com/rack", "size": 8}]'
    try:
        layers = decode(written, list[_Layer])
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error)
        raise InvalidObject(at, f'"{written}": {where}: {problem}; {example}') from None
    except msgspec.DecodeError as error:
        raise InvalidObject(at, f'"{written}" is not JSON: {json_words(error)}; {example}') from None
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise InvalidObject(at, f'"{written}" has {len(layers)} layers: must be 1 to {MOST_LAYERS}')
    for index, layer in enumerate(layers):
        of_layer = f"of layer {index + 1}"
        if not is_node_label(layer.topology):
            raise InvalidObject(at, f'"{written}": topology "{layer.topology}" {of_layer} {MUST_BE_A_LABEL}')
        if layer.size < 1:
            raise InvalidObject(at, f'"{written}": size {layer.size} {of_layer} must be 1 or more')
        if index and layers[index - 1].size % layer.size:
            wider = layers[index - 1].size
            raise InvalidObject(
                at, f'"{written}": size {layer.size} {of_layer} must divide {wider}, the size before it'
            )
    return tuple(Segments(layer.size, layer.topology) for layer in layers)


# -- groups of plain pods ----------------------------------------------------------------------------------------------


def group_named(pod: Pod) -> str:
    """The pod group of a pod's label."""
    return (pod.metadata.labels or {}).get(POD_GROUP, "")


def gang_of(_: None, pods: Sequence[Pod], topologies: Topologies) -> Gang | Incomplete:
    """The gang of the pods that name one pod group."""
    first = pods[0]
    name = f"{first.metadata.namespace or 'default'}/{group_named(first)}"
    members = counted(pods)
    # No object records completion, but no pod runs before all have arrived.
    started = has_started(members, was_complete=True)
    total = _total(members or pods)
    if not started:
        _refuse_excess(members, total)
    missing = arrived(len(members), total)
    if missing and not started and not _is_fast(first):
        return Incomplete(name, missing)
    pod_sets: dict[tuple[str, Request], list[Pod]] = {}
    for pod in members:
        pod_sets.setdefault((_role(pod), _request(pod)), []).append(pod)
    root = _whole(pod_sets)
    levels = [level for _, request in pod_sets for level in request.levels]
    topology = topology_for(first.metadata, levels, topologies, _annotations(first), KUEUE)
    asked_in = asked_by_label(topology, _where_asked(pods), topologies)
    objective = as_others_prefer(root)
    return Gang(name, root, topology, objective=objective, asked_in=asked_in, field_names=_FIELD_NAMES)


def _where_asked(pods: Sequence[Pod]) -> ObjectPath:
    """The first annotation of the first pod that names a level."""
    asking = ((pod, key) for pod in pods for key in NAMING_LEVELS if key in (pod.metadata.annotations or {}))
    pod, key = next(asking, (pods[0], ""))
    return _annotations(pod).key(key) if key else _annotations(pod)


def _annotations(pod: Pod) -> ObjectPath:
    return ObjectPath(f"Pod {pod_key(pod)}", "metadata.annotations")


def _total(pods: Sequence[Pod]) -> int:
    """The number of pods, on which all of them must agree."""
    first, *others = pods
    total = _total_of(first)
    for pod in others:
        if _total_of(pod) != total:
            problem = (
                f"{_total_of(pod)} is not the {total} of pod {pod_key(first)}: all pods of a group must say the same"
            )
            raise InvalidObject(_annotations(pod).key(TOTAL_COUNT), problem)
    return total


def _refuse_excess(members: Sequence[Pod], total: int) -> None:
    """Reject more pods than the group has: Kueue would delete some of them. Those being deleted do not count."""
    staying = [pod for pod in members if not pod.metadata.deletion_timestamp]
    if len(staying) > total:
        problem = f'"{total}" is fewer than the {len(staying)} pods that name the group; it must be their number'
        raise InvalidObject(_annotations(staying[0]).key(TOTAL_COUNT), problem)


def _total_of(pod: Pod) -> int:
    text = (pod.metadata.annotations or {}).get(TOTAL_COUNT, "")
    total = whole_number(text)
    if not total:
        raise InvalidObject(_annotations(pod).key(TOTAL_COUNT), f'"{text}" must be the number of pods, 1 or more')
    return total


def _is_fast(pod: Pod) -> bool:
    """True if pods need not wait for those still to be created."""
    return (pod.metadata.annotations or {}).get(FAST_ADMISSION) == "true"


def _role(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(ROLE_HASH) or (pod.metadata.annotations or {}).get(ROLE_HASH, "")


def pod_set_of(pod: Pod) -> str:
    """What pods of one pod set have in common; their indices count for themselves."""
    annotations = pod.metadata.annotations or {}
    return " ".join((_role(pod), *(f"{key}={annotations[key]}" for key in TOPOLOGY_KEYS.known if key in annotations)))


def _request(pod: Pod) -> Request:
    annotations = pod.metadata.annotations or {}
    for key in judged(annotations, TOPOLOGY_KEYS):
        complaint = complaint_about(key, TOPOLOGY_KEYS)
        if complaint:
            raise InvalidObject(_annotations(pod).key(key), f'"{annotations[key]}" {complaint}')
    return request_of(annotations, _annotations(pod))


def _whole(pod_sets: Mapping[tuple[str, Request], Sequence[Pod]]) -> Group:
    """A single pod set is the gang. Several are groups; those that share a domain have a group around them."""
    groups = [
        (
            request.shares_with,
            group_of(
                pods,
                len(pods),
                name=f"pod-set-{number}",
                required=request.required,
                preferred=request.preferred,
                segments=request.slices,
            ),
        )
        for number, ((_, request), pods) in enumerate(pod_sets.items())
    ]
    if len(groups) == 1:
        return replace(groups[0][1], name="")
    inner = [group for shares_with, group in groups if not shares_with]
    for name in dict.fromkeys(shares_with for shares_with, _ in groups if shares_with):
        some = [group for shares_with, group in groups if shares_with == name]
        around = Group(name, required=some[0].required, preferred=some[0].preferred, minimum=0)
        inner.append(replace(around, groups=tuple(replace(each, required=None, preferred=None) for each in some)))
    return Group(groups=tuple(inner), minimum=0)


DIALECT = Dialect("kueue", None, group_named, gang_of)
