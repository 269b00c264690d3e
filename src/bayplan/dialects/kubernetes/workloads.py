"""Kubernetes' Workloads (`scheduling.k8s.io`) by their name and by the object that they refer to.

The pod grouper asks which Workloads refer to an owner of pods (`grouping/kubernetes_workload.py`). The scheduler asks
whether a PodGroup matches its template. The PodGroup wins, as in kube-scheduler, which never reads Workloads. But
Kubernetes' Job controller copies only a part of the template, so users are told about differences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from bayplan.dialects.dialect import full_name
from bayplan.kube.wire.k8s_scheduling_v1beta1 import GroupAsked, PodGroup, Workload

COUNTS = "the PodGroup counts as it is"


class KubernetesWorkloads:
    """The Workloads that exist."""

    def __init__(self) -> None:
        self._by_name: dict[str, Workload] = {}
        # By namespace, kind and name of the object; objects of two API groups may share a kind.
        self._about: dict[tuple[str, str, str], dict[str, None]] = {}

    @classmethod
    def of(cls, written: Iterable[Workload], namespace: str = "default") -> KubernetesWorkloads:
        """Workloads from files, by default in this namespace; the later of two with one name wins."""
        found = cls()
        for each in written:
            metadata = msgspec.structs.replace(each.metadata, namespace=each.metadata.namespace or namespace)
            found.put(msgspec.structs.replace(each, metadata=metadata))
        return found

    def put(self, written: Workload) -> None:
        """A Workload came or changed."""
        name = full_name(written.metadata)
        self.remove(name)
        self._by_name[name] = written
        reference = written.spec.controller_ref
        if reference is not None:
            namespace = written.metadata.namespace or "default"
            self._about.setdefault((namespace, reference.kind, reference.name), {})[name] = None

    def remove(self, name: str) -> None:
        """A Workload was deleted, by `namespace/name`."""
        written = self._by_name.pop(name, None)
        reference = written.spec.controller_ref if written is not None else None
        if written is not None and reference is not None:
            key = (written.metadata.namespace or "default", reference.kind, reference.name)
            self._about[key].pop(name)
            if not self._about[key]:
                del self._about[key]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def names(self) -> list[str]:
        """The known Workloads, as `namespace/name`."""
        return list(self._by_name)

    def about(self, namespace: str, kind: str, name: str) -> list[Workload]:
        """The Workloads that refer to an object, of any API group."""
        return [self._by_name[each] for each in self._about.get((namespace, kind, name), ())]

    def unlike_template(self, written: PodGroup) -> tuple[str, ...]:
        """One sentence for each difference between a PodGroup and the template that it names, if any."""
        reference = _reference_in(written)
        if reference is None:
            return ()
        namespace = written.metadata.namespace or "default"
        workload = self._by_name.get(f"{namespace}/{reference.workload}")
        if workload is None:
            missing = f'"{reference.workload}" does not exist, or bayplan is not allowed to read it; {COUNTS}'
            return (f"{reference.at}.workloadName: {missing}",)
        templates = {each.name: each for each in workload.spec.pod_group_templates or ()}
        template = templates.get(reference.template)
        if template is None:
            known = f"is no template of Workload {workload.metadata.name}; known: {', '.join(templates) or 'none'}"
            return (f'{reference.template_at}: "{reference.template}" {known}; {COUNTS}',)
        whose = f'the template "{template.name}" of Workload {workload.metadata.name}'
        return tuple(
            f"{field}: is {here}, but {whose} says {there}; {COUNTS}"
            for field, here, there in (
                ("schedulingPolicy", _policy(written.spec), _policy(template)),
                ("schedulingConstraints.topology", _topology(written.spec), _topology(template)),
            )
            if here != there
        )


class _Reference(NamedTuple):
    """A template by name, and the fields that name it."""

    workload: str
    template: str
    at: str
    template_at: str


def _reference_in(written: PodGroup) -> _Reference | None:
    """The template that a PodGroup names, in the words of its version."""
    named, older = written.spec.workload_ref, written.spec.pod_group_template_ref
    if named is not None:
        return _Reference(named.workload_name, named.template_name, "workloadRef", "workloadRef.templateName")
    if older is None or older.workload is None:
        return None
    at = "podGroupTemplateRef.workload"
    template = older.workload.pod_group_template_name
    return _Reference(older.workload.workload_name, template, at, f"{at}.podGroupTemplateName")


def _policy(asked: GroupAsked) -> str:
    gang = asked.scheduling_policy.gang
    return "basic" if gang is None else f"gang with minCount {gang.min_count}"


def _topology(asked: GroupAsked) -> str:
    constraints = asked.scheduling_constraints
    labels = (constraints.topology or ()) if constraints is not None else ()
    return ", ".join(each.key for each in labels) or "empty"
