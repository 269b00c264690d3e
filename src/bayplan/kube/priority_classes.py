"""PriorityClasses as admission applies them: pods that name a class, or none, get its priority.

Classes of a dump, a cluster and `-f` come in; pod specs with a priority go out. In a cluster that runs, the API server
has done that already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from bayplan.kube.errors import did_you_mean
from bayplan.kube.wire.bayplan_v1alpha1 import GroupSpec, PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Int32, Metadata, Pod, PodSpec, WireStruct

API_VERSION = "scheduling.k8s.io/v1"
KIND = "PriorityClass"
# Every API server creates these.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_Shaped = TypeVar("_Shaped", PodGroupSpec, GroupSpec)


class PriorityClass(WireStruct, frozen=True):
    """The priority of pods that name the class; of pods that name none if it is the `global_default`."""

    metadata: Metadata = Metadata()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class PriorityClasses:
    """The classes by name; the last one of a name counts. `complete` if no others exist."""

    def __init__(self, written: Iterable[PriorityClass] = (), *, complete: bool = False) -> None:
        system = (PriorityClass(metadata=Metadata(name=name), value=value) for name, value in SYSTEM_CLASSES.items())
        self._by_name = {each.metadata.name: each for each in (*system, *written)}
        defaults = (each for each in self._by_name.values() if each.global_default)
        # Of several, which only a race creates, admission takes the lowest.
        self._default = min(defaults, key=lambda each: each.value, default=None)
        self.complete = complete

    def problem(self, spec: PodSpec) -> str:
        """What is wrong with the class that a pod names; empty if it is known, or not needed."""
        name = spec.priority_class_name
        if not name or spec.priority is not None or name in self._by_name:
            return ""
        return f'there is no PriorityClass "{name}"{did_you_mean(name, self._by_name)}'

    def admitted(self, pod: Pod) -> Pod:
        """The pod with the priority of its class; unchanged if it has one, or if its class is not known."""
        spec = self.admitted_spec(pod.spec)
        return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)

    def admitted_spec(self, spec: PodSpec) -> PodSpec:
        """The same for the spec of a pod."""
        if spec.priority is not None:
            return spec
        found = self._by_name.get(spec.priority_class_name) if spec.priority_class_name else self._default
        if found is None:
            return spec
        policy = found.preemption_policy or spec.preemption_policy
        return msgspec.structs.replace(
            spec, priority=found.value, priority_class_name=found.metadata.name, preemption_policy=policy
        )

    def admitted_gang(self, gang: PodGroup) -> PodGroup:
        """A PodGroup with the priorities of the pods that are made from its shapes."""
        if all(self.admitted_spec(spec) is spec for _, spec in specs_of(gang)):
            return gang
        return msgspec.structs.replace(gang, spec=self._with_shapes(gang.spec))

    def _with_shapes(self, spec: _Shaped) -> _Shaped:
        shape = spec.pod
        if shape is not None and shape.spec is not None:
            shape = msgspec.structs.replace(shape, spec=self.admitted_spec(shape.spec))
        groups = None if spec.groups is None else [self._with_shapes(each) for each in spec.groups]
        return msgspec.structs.replace(spec, pod=shape, groups=groups)


def specs_of(gang: PodGroup) -> Iterator[tuple[str, PodSpec]]:
    """The pod specs in the shapes of a PodGroup, each with its field."""
    return _specs_in(gang.spec, "spec")


def _specs_in(spec: PodGroupSpec | GroupSpec, field: str) -> Iterator[tuple[str, PodSpec]]:
    if spec.pod is not None and spec.pod.spec is not None:
        yield f"{field}.pod.spec", spec.pod.spec
    for index, each in enumerate(spec.groups or ()):
        yield from _specs_in(each, f"{field}.groups[{index}]")
