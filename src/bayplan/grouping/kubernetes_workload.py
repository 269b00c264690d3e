"""A Kubernetes Workload that refers to an owner of pods: requests in Kubernetes' own terms instead of annotations.

    kind: Workload
    spec:
      controllerRef: {apiGroup: batch, kind: Job, name: train}          the user's existing Job
      podGroupTemplates:
      - name: workers
        schedulingPolicy: {gang: {minCount: 4}}                         the minimum
        schedulingConstraints: {topology: [{key: example.com/rack}]}    the required level

A single template describes the whole gang. Templates named like groups of the gang describe those groups, which then
start independently. From 1.37 on, a Job says the same in `spec.scheduling`, and its controller writes the Workload.

The workload (`workload.py`) and the requests of its annotations (`podgroup.py`) come in; both go out with what the
templates add. A *Workload* is Kubernetes' object; a *workload* is what a rule makes of an owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from bayplan.dialects.dialect import TOPOLOGY
from bayplan.dialects.kubernetes.pod_group import label_of, least_of, without_effect
from bayplan.dialects.kubernetes.workloads import KubernetesWorkloads
from bayplan.grouping.annotations import AnnotatedRequest
from bayplan.grouping.grouping import NOT_SUPPORTED, InvalidGrouping, InvalidValue
from bayplan.grouping.podgroup import WorkloadRequest
from bayplan.grouping.raw import RawObject, Reference, annotations_of, look_up, managing, metadata_of
from bayplan.grouping.workload import UNKNOWN, OwningWorkload, RoleSpec
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.kube.topology_levels import same_level
from bayplan.kube.wire.k8s_scheduling_v1beta1 import (
    API_VERSION,
    WORKLOAD,
    BasicPolicy,
    GangPolicy,
    PodGroupTemplate,
    SchedulingPolicy,
)
from bayplan.kube.wire.k8s_scheduling_v1beta1 import Workload as KubernetesWorkload

TEMPLATES = "spec.podGroupTemplates"
SCHEDULING = "spec.scheduling"
BASIC = SchedulingPolicy(basic=BasicPolicy())


@dataclass(frozen=True, slots=True)
class _Written:
    """Templates by field, and the object that has them: a Workload, or a Job without one.

    `by_default` means that no user wrote the policy: a Job that says nothing gets `basic`.
    """

    about: Reference
    templates: Mapping[str, PodGroupTemplate]
    topology: str
    unread: tuple[str, ...] = ()
    by_default: bool = False


@dataclass(frozen=True, slots=True)
class _Template:
    """The request for one group: `least` pods together if it is a gang, and a shared `level`; `where` is its field."""

    name: str
    where: str
    is_gang: bool
    least: int
    level: str | None
    by_default: bool


def is_asked_for(owners: Sequence[RawObject], namespace: str, workloads: KubernetesWorkloads) -> bool:
    """True if a Workload refers to one of these owners, or a Job asks by itself, valid or not."""
    found = (Reference.of(owner) for owner in owners)
    return any(workloads.about(namespace, each.kind, each.name) for each in found) or any(map(_says_how, owners))


def with_templates(
    workload: OwningWorkload,
    asked: WorkloadRequest,
    owners: Sequence[RawObject],
    namespace: str,
    workloads: KubernetesWorkloads,
) -> tuple[OwningWorkload, WorkloadRequest]:
    """A workload and its requests with what a Kubernetes Workload adds, if there is one and the pods are a gang.

    Raises `InvalidGrouping` if it is ambiguous which Workload applies, or to which group a template does.
    """
    written = None if asked.gang is False else _written_for(workload, owners, namespace, workloads)
    if written is None or not written.templates:
        return workload, asked
    about = written.about
    templates = _read(written)
    by_group = _by_group(workload, templates, about)
    problems = [*asked.problems, *_vain(written)]
    if by_group is None:
        workload, asked = _about_whole(workload, asked, templates[0], about, problems)
    else:
        workload, asked = _about_groups(workload, asked, by_group, about, problems)
    whole = _in_tree(asked.whole, written, problems)
    gang = True if any(each.is_gang or each.level for each in templates) else asked.gang or False
    return workload, replace(
        asked,
        whole=replace(whole, gang=gang),
        problems=tuple(problems),
        kubernetes_workload=about.name if about.kind == WORKLOAD else "",
    )


# -- Workload and template -----------------------------------------------------------------------------------------


def _written_for(
    workload: OwningWorkload, owners: Sequence[RawObject], namespace: str, workloads: KubernetesWorkloads
) -> _Written | None:
    """What is written for the object that describes the gang, else for the nearest owner above it."""
    counting = (workload.thing, *workload.above)
    for thing in counting:
        found = _about(thing, namespace, workloads)
        if found is not None:
            return _of_workload(found, thing)
    for owner in owners:
        below = None if any(owner is each for each in counting) else _about(owner, namespace, workloads)
        if below is not None:
            allowed = f"is a part of {workload.about}, whose pods are one gang; the Workload must name that"
            raise InvalidGrouping(
                InvalidValue(_reference(below), "spec.controllerRef.name", Reference.of(owner).name, allowed)
            )
    return _of_job(workload) if _says_how(workload.thing) else None


def _about(thing: RawObject, namespace: str, workloads: KubernetesWorkloads) -> KubernetesWorkload | None:
    """The one Workload about an object."""
    owner, found = Reference.of(thing), []
    for each in workloads.about(namespace, owner.kind, owner.name):
        group = each.spec.controller_ref.api_group if each.spec.controller_ref is not None else ""
        if group == owner.group:
            found.append(each)
        elif not group:
            allowed = f'is missing; {owner} is of the group "{owner.group}"'
            raise InvalidGrouping(InvalidValue(_reference(each), "spec.controllerRef.apiGroup", None, allowed))
    if len(found) > 1:
        # From 1.37 on, the Job controller makes one of its own, whatever Workloads users write.
        found = [each for each in found if not _is_made_by_job(each)] or found
    if len(found) > 1:
        first, second = (_reference(each) for each in found[:2])
        allowed = f"has a Workload already, {first.name}; there can be only one"
        raise InvalidGrouping(InvalidValue(second, "spec.controllerRef.name", owner.name, allowed))
    return found[0] if found else None


def _of_workload(written: KubernetesWorkload, thing: RawObject) -> _Written:
    templates = {f"{TEMPLATES}[{number}]": each for number, each in enumerate(written.spec.pod_group_templates or ())}
    topology = (written.metadata.annotations or {}).get(TOPOLOGY, "")
    by_default = _is_made_by_job(written) and not look_up(thing, ("spec", "scheduling", "schedulingPolicy"))
    is_basic = all(each.scheduling_policy.gang is None for each in templates.values())
    return _Written(
        _reference(written), templates, topology, tuple(written.unread or ()), by_default=by_default and is_basic
    )


def _is_made_by_job(written: KubernetesWorkload) -> bool:
    return any(each.controller and each.kind == "Job" for each in written.metadata.owner_references or ())


def _reference(written: KubernetesWorkload) -> Reference:
    metadata = written.metadata
    api_version = written.api_version or API_VERSION
    return Reference(api_version, WORKLOAD, metadata.namespace or "default", metadata.name, metadata.uid)


def _says_how(thing: RawObject) -> bool:
    """True for a Job with `spec.scheduling`. Its controller heeds that only in Jobs that no other controller owns."""
    about, spec = Reference.of(thing), thing.get("spec")
    if (about.group, about.kind) != ("batch", "Job") or not isinstance(spec, dict) or not spec.get("scheduling"):
        return False
    return managing(metadata_of(thing).get("ownerReferences") or []) is None


def _of_job(workload: OwningWorkload) -> _Written:
    """What the Job controller would write into the Workload: `basic` by default, and a gang is all pods."""
    about, thing = workload.about, workload.thing
    try:
        asked = msgspec.convert(look_up(thing, ("spec", "scheduling")), PodGroupTemplate)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise InvalidGrouping(InvalidValue(about, f"{SCHEDULING}.{field}", None, problem)) from None
    policy = asked.scheduling_policy
    is_given = policy != SchedulingPolicy()
    if not is_given:
        policy = BASIC
    elif policy.gang is not None and not look_up(thing, ("spec", "scheduling", "schedulingPolicy", "gang", "minCount")):
        policy = msgspec.structs.replace(policy, gang=GangPolicy(sum(part.size for part in workload.parts)))
    template = msgspec.structs.replace(asked, name="", scheduling_policy=policy)
    topology = annotations_of(thing).get(TOPOLOGY, "")
    return _Written(about, {SCHEDULING: template}, topology, by_default=not is_given)


def _read(written: _Written) -> list[_Template]:
    found = []
    for where, each in written.templates.items():
        at = ObjectPath(str(written.about), where)
        try:
            least, level = least_of(each, at), label_of(each, at)
        except InvalidObject as wrong:
            raise InvalidGrouping(InvalidValue(written.about, wrong.at.field, None, wrong.problem)) from None
        is_gang = each.scheduling_policy.gang is not None
        found.append(_Template(each.name, where, is_gang, least, level, written.by_default))
    return found


def _by_group(workload: OwningWorkload, templates: list[_Template], about: Reference) -> Mapping[str, _Template] | None:
    """Templates by group; None if the only one is for the whole gang."""
    groups = [] if workload.is_flat else [part.name for part in workload.parts]
    if len(templates) == 1 and templates[0].name not in groups:
        return None
    if workload.is_flat:
        allowed = f"has {len(templates)} entries; the pods of {workload.about} are of one sort: there can be only one"
        raise InvalidGrouping(InvalidValue(about, TEMPLATES, None, allowed))
    for each in templates:
        if each.name not in groups:
            allowed = f"is no group of {workload.about}; known: {', '.join(groups)}"
            raise InvalidGrouping(InvalidValue(about, f"{each.where}.name", each.name, allowed))
    return {each.name: each for each in templates}


# -- additions by templates ----------------------------------------------------------------------------------------


def _about_whole(
    workload: OwningWorkload,
    asked: WorkloadRequest,
    template: _Template,
    about: Reference,
    problems: list[InvalidValue],
) -> tuple[OwningWorkload, WorkloadRequest]:
    """The only template: minimum and level of the whole gang."""
    parts = workload.parts
    if not template.is_gang:
        if not (template.by_default and asked.gang):
            parts = tuple(_one_by_one(part) for part in parts)
            workload = replace(workload, staged=workload.staged or not workload.is_flat)
    else:
        if workload.rule is UNKNOWN:
            # The number of pods was unknown; the template provides a lower bound.
            parts = tuple(replace(part, size=template.least, coming=template.least) for part in parts)
        problems += _too_many(template, sum(part.size for part in parts), str(workload.about), about)
        *others, last = parts
        left = max(template.least - sum(part.least for part in others), 0)
        parts = (*others, replace(last, least=min(left, last.coming)))
    workload = replace(workload, parts=parts)
    if template.level and asked.whole.required and not same_level(asked.whole.required, template.level):
        # Both are asked for, so both hold: the narrower one counts.
        return workload, replace(asked, within=template.level)
    return workload, replace(asked, whole=_with_level(asked.whole, template, workload, about, problems))


def _about_groups(
    workload: OwningWorkload,
    asked: WorkloadRequest,
    templates: Mapping[str, _Template],
    about: Reference,
    problems: list[InvalidValue],
) -> tuple[OwningWorkload, WorkloadRequest]:
    """Templates for groups: minimum and level of each. Other groups are unchanged."""
    parts, requests = list(workload.parts), list(asked.parts)
    for number, part in enumerate(parts):
        template = templates.get(part.name)
        if template is None:
            continue
        requests[number] = _with_level(requests[number], template, workload, about, problems)
        if template.is_gang:
            problems += _too_many(template, part.size, f"group {part.name} of {workload.about}", about)
            parts[number] = replace(part, least=min(template.least, part.coming))
        else:
            parts[number] = _one_by_one(part)
    return replace(workload, parts=tuple(parts), staged=True), replace(asked, parts=tuple(requests))


def _one_by_one(part: RoleSpec) -> RoleSpec:
    """With policy `basic`, no pod waits for others."""
    return replace(part, least=min(part.least, 1), coming=min(part.coming, 1))


def _too_many(template: _Template, pods: int, whose: str, about: Reference) -> Iterator[InvalidValue]:
    if template.least > pods:
        field = f"{template.where}.schedulingPolicy.gang.minCount"
        yield InvalidValue(about, field, template.least, f"is more than the pods of {whose}; there are {pods}")


def _with_level(
    request: AnnotatedRequest,
    template: _Template,
    workload: OwningWorkload,
    about: Reference,
    problems: list[InvalidValue],
) -> AnnotatedRequest:
    if template.level and request.required and not same_level(request.required, template.level):
        field = f"{template.where}.schedulingConstraints.topology[0].key"
        allowed = (
            f'is another level than "{request.required}" in annotations of {workload.about}; only one can be meant'
        )
        problems.append(InvalidValue(about, field, template.level, allowed))
    return replace(request, required=template.level or request.required)


def _in_tree(whole: AnnotatedRequest, written: _Written, problems: list[InvalidValue]) -> AnnotatedRequest:
    """The Topology that the Workload's own annotation names."""
    named = written.topology
    if named and whole.topology and named != whole.topology:
        allowed = f'is another tree than "{whole.topology}", which annotations name; a gang is placed in one'
        problems.append(InvalidValue(written.about, f'metadata.annotations["{TOPOLOGY}"]', named, allowed))
    return replace(whole, topology=whole.topology or named)


def _vain(written: _Written) -> Iterator[InvalidValue]:
    """What templates ask for and do not get."""
    for where, each in written.templates.items():
        mode = each.disruption_mode if isinstance(each.disruption_mode, str) else "all"
        of_mode = ("disruptionMode", mode, "has no effect: members beyond the minimum can be evicted alone")
        for field, value, why in (*without_effect(each), *((of_mode,) if each.evicts == "all" else ())):
            yield InvalidValue(written.about, f"{where}.{field}", value, why, holds=False, reason=NOT_SUPPORTED)
    for remark in written.unread:
        field, _, why = remark.partition(": ")
        yield InvalidValue(written.about, field, None, why, holds=False, reason=NOT_SUPPORTED)
