"""Gangs among the objects that a command read: their PodGroups, their members, and what is odd about them.

`gangs.py` places them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches

import click
import msgspec

from bayplan.cli.shared.gang_sources import of_origin, of_shape, path_of
from bayplan.cli.shared.group_trees import GroupTrees
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.session import DEFAULT_SCHEDULER, ClusterSession
from bayplan.cluster.state import pod_key
from bayplan.dialects.dialect import full_name
from bayplan.dialects.given_ranks import rank_remarks
from bayplan.dialects.members import Incomplete
from bayplan.dialects.own.pod_group import redundant_levels
from bayplan.dialects.own.reader import has_shapes, read_gang
from bayplan.dialects.registry import (
    AnyPodGroup,
    dialect_of,
    dialect_of_gang,
    gang_named,
    gang_of_members,
    key_of,
    lost_words,
)
from bayplan.dialects.volcano.job import in_group as in_volcano_group
from bayplan.dialects.volcano.job import in_words_of_job, pod_group_of, pods_of
from bayplan.dialects.volcano.pod_group import group_named as volcano_group
from bayplan.dispatch.roster import GangRoster, naming_strangers
from bayplan.gangs.model import Gang
from bayplan.gangs.trees import Topologies
from bayplan.grouping.podgroup import name_of as name_of_group
from bayplan.grouping.raw import Reference
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import MadeFrom, ObjectSet
from bayplan.kube.wire import bayplan_v1alpha1
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_batch_v1alpha1 import Job
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup as VolcanoPodGroup

# How many wrong ranks are told one by one.
MOST_REMARKS = 5
KINDS = ("podgroup", "podgroups", "pg")

PodGroup = AnyPodGroup


def pod_groups(objects: ObjectSet) -> list[PodGroup]:
    """Everything that describes a gang."""
    return [*objects.gangs, *objects.other_gangs]


def warn_of_fields(objects: ObjectSet, written: PodGroup | Job) -> None:
    """Name the fields and annotations of a group object that have no effect."""
    _warn_of(objects, written, lost_words(written))


def warn_of_demands(objects: ObjectSet, written: PodGroup, topologies: Topologies) -> None:
    """Name what a PodGroup asks for and bayplan does not do, and levels that have no effect in their Topology."""
    remarks = [f"spec.{remark}" for remark in dialect_of(written).remarks(written)]
    job = _volcano_job(objects, written)
    if job is not None and all(task.min_available is None for task in job.spec.tasks or ()):
        # The minima of tasks are Volcano's defaults, and not what the user wrote.
        remarks = [remark for remark in remarks if not remark.startswith("spec.minTaskMember")]
    if isinstance(written, bayplan_v1alpha1.PodGroup):
        levels = dict.fromkeys(redundant_levels(written.spec, topologies))
        remarks += [f"{path_of(written, level.field, level.name)}: {level.problem}" for level in levels]
    _warn_of(objects, written, remarks)


def _warn_of(objects: ObjectSet, written: PodGroup | Job, remarks: Sequence[str]) -> None:
    for remark in remarks:
        field, _, problem = remark.partition(": ")
        error = InvalidObject(ObjectPath.of(written).child(field), problem)
        warn([str(in_users_words(objects, written, error))])


def with_volcano_jobs(objects: ObjectSet, cluster: ObjectSet, namespace: str | None = None) -> ObjectSet:
    """The same objects, with the PodGroup and the pods that Volcano would make of each of its Jobs.

    Pods that the cluster has are not made again: the others join them in their PodGroup.
    """
    known = {pod_key(pod): pod for pod in cluster.pods}
    for job in objects.volcano_jobs:
        warn_of_fields(objects, job)
        with naming_the_file(objects, job):
            home = job.metadata.namespace or namespace or "default"
            named = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, namespace=home))
            made, group = pods_of(named), pod_group_of(named)
        there = [known[pod_key(pod)] for pod in made if pod_key(pod) in known]
        new = [pod for pod in made if pod_key(pod) not in known]
        if there and (joined := volcano_group(there[0])):
            new = [in_volcano_group(pod, joined) for pod in new]
            of_group = (each for each in cluster.other_gangs if key_of(each) == gang_named(there[0]))
            renamed = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, name=joined))
            objects.other_gangs.append(next(of_group, renamed))
        else:
            objects.other_gangs.append(group)
        objects.pods += [*(pod for pod in there if not pod.spec.node_name), *new]
    return objects


@contextmanager
def naming_the_file(objects: ObjectSet, written: PodGroup | Job) -> Iterator[None]:
    """Errors about a gang name what its user has written, and the file that this came from."""
    try:
        yield
    except InvalidObject as error:
        raise in_users_words(objects, written, error) from None


def in_users_words(objects: ObjectSet, written: PodGroup | Job, error: InvalidObject) -> InvalidObject:
    """The same error about the shapes of a PodGroup or the workload that it was made of, with its file."""
    found, origin = about_workload(objects, written, error), _origin(objects, written)
    if origin is None:
        return objects.naming_the_file(found, written)
    is_named = origin.other is not None and found.at.subject == origin.about
    return objects.naming_the_file_of(found, origin.other) if is_named and origin.other is not None else found


def about_workload(objects: ObjectSet, written: PodGroup | Job, error: InvalidObject) -> InvalidObject:
    """The same error about the shapes of a PodGroup or the workload that it was made of."""
    if _volcano_job(objects, written) is not None:
        at = ObjectPath(f"Job {full_name(written.metadata)}", in_words_of_job(error.at.field))
        return InvalidObject(at, in_words_of_job(error.problem))
    origin = _origin(objects, written)
    return of_shape(error, written) if origin is None else of_origin(error, origin)


def _volcano_job(objects: ObjectSet, written: PodGroup | Job) -> Job | None:
    """The Volcano Job that a PodGroup was made of."""
    if not isinstance(written, VolcanoPodGroup) or written.metadata.uid:
        return None
    return next((each for each in objects.volcano_jobs if each.metadata.name == written.metadata.name), None)


def _origin(objects: ObjectSet, written: PodGroup | Job) -> MadeFrom | None:
    own = isinstance(written, bayplan_v1alpha1.PodGroup)
    return objects.origins.get(full_name(written.metadata)) if own else None


def gang_in(
    written: PodGroup, pods: Sequence[Pod], topologies: Topologies, namespace: str | None = None
) -> Gang | Incomplete:
    """The gang of a PodGroup, in the namespace given if it names none; its members are looked for among `pods`.

    bayplan's own PodGroup may do without any: then its pods are made from its shapes. One in a cluster that has no
    shapes waits for them, or has ended.
    """
    metadata = written.metadata
    metadata = metadata if metadata.namespace else msgspec.structs.replace(metadata, namespace=namespace or "default")
    in_namespace = msgspec.structs.replace(written, metadata=metadata)
    key = key_of(in_namespace)
    members = [pod for pod in pods if gang_named(pod) == key]
    if isinstance(in_namespace, bayplan_v1alpha1.PodGroup) and not members:
        if not metadata.uid or has_shapes(in_namespace.spec):
            return read_gang(in_namespace)
        if in_namespace.status is not None and in_namespace.status.phase == bayplan_v1alpha1.ENDED:
            return Incomplete(key, "has ended: no pods are left")
    return gang_of_members(key, in_namespace, members, topologies)


def gangs_without_an_object(pods: Sequence[Pod], topologies: Topologies) -> Iterator[Gang | Incomplete]:
    """Gangs that their pods alone make: Kueue's pod groups."""
    by_gang: dict[str, list[Pod]] = {}
    for pod in pods:
        key = gang_named(pod)
        if key and dialect_of_gang(key).written_as is None:
            by_gang.setdefault(key, []).append(pod)
    for key, members in by_gang.items():
        yield gang_of_members(key, None, members, topologies)


def gang_without_strangers(session: ClusterSession, written: PodGroup) -> Gang | Incomplete:
    """The gang as the scheduler knows it: without members that wait for another one, unless all of them do."""
    pods, key = session.objects.pods, key_of(written)
    groups = GroupTrees(pod_groups(session.objects))
    if groups.is_nested(root := groups.outermost(key)):
        return groups.gang(root, pods, session.trees.topologies, session.is_stranger)
    members = [pod for pod in pods if gang_named(pod) == key]
    strangers = [pod for pod in members if session.is_stranger(pod)]
    if len(strangers) == len(members):
        warn_of_stranger(session, *strangers)
        return gang_in(written, pods, session.trees.topologies)
    ours = [pod for pod in members if not session.is_stranger(pod)]
    return naming_strangers(gang_in(written, ours, session.trees.topologies), strangers)


def warn_of_stranger(session: ClusterSession, *pods: Pod) -> None:
    """Say of pods that wait for another scheduler that bayplan never looks at them: of the first, for all of them."""
    if pods and session.is_stranger(pods[0]):
        pod, known = pods[0], ", ".join(session.schedulers)
        where = f'Pod {pod_key(pod)}: spec.schedulerName: "{pod.spec.scheduler_name}" is not one of {known}'
        warn([f"{where}: bayplan does not schedule it, and this is what it would say if it did (see --config)"])


def warn_of_members(session: ClusterSession, gang: Gang | Incomplete) -> None:
    """Name members with ranks that cannot be used, and those that wait for another scheduler than the others."""
    if isinstance(gang, Incomplete):
        return
    remarks = [str(remark) for remark in rank_remarks(gang)]
    more = len(remarks) - MOST_REMARKS
    warn([*remarks[:MOST_REMARKS], *([f"{gang.name}: {more} more such ranks"] if more > 0 else [])])
    ours = next((pod for pod in gang.pods if pod.spec.scheduler_name in session.schedulers), None)
    strangers = [pod for pod in gang.pods if ours and pod.spec.scheduler_name != ours.spec.scheduler_name]
    if ours is not None and strangers:
        at = ObjectPath.of(strangers[0]).child("spec.schedulerName")
        named = strangers[0].spec.scheduler_name or DEFAULT_SCHEDULER
        of_ours = f'not the "{ours.spec.scheduler_name}" of pod {pod_key(ours)}'
        warn([f'{at}: "{named}" is {of_ours}: members of a gang need the same ({len(strangers)} of {len(gang.pods)})'])


def gang_of_key(session: ClusterSession, key: str, pods: Sequence[Pod]) -> tuple[Gang | Incomplete, PodGroup | None]:
    """The gang of a key with its members among `pods`, and its PodGroup if there is one.

    A group inside others is decided with the outermost of them.
    """
    groups = GroupTrees(pod_groups(session.objects))
    if groups.is_nested(root := groups.outermost(key)):
        return groups.gang(root, pods, session.trees.topologies), groups.written(root)
    written = pod_group_of_key(session, key)
    if written is not None:
        return gang_in(written, pods, session.trees.topologies), written
    roster = GangRoster(lambda: session.trees.topologies)
    for pod in pods:
        roster.set_member(pod)
    gang = roster.gang(key)
    return replace(gang, gang=key.rpartition(" ")[2]) if isinstance(gang, Incomplete) else gang, None


def owner_of_gang(written: PodGroup) -> str:
    """`Job ml/train`: the workload that the pod grouper made a PodGroup of,
    where the user never wrote the PodGroup's name; else empty.
    """
    metadata = written.metadata
    owner = next(iter(metadata.owner_references or ()), None)
    if not isinstance(written, bayplan_v1alpha1.PodGroup) or owner is None or owner.name == metadata.name:
        return ""
    about = Reference(owner.api_version, owner.kind, metadata.namespace or "default", owner.name, owner.uid)
    named = name_of_group(about)
    if metadata.name == named:
        return str(about)
    return f"{about}, gang {metadata.name.removeprefix(f'{named}-')}"


def pod_group_of_key(session: ClusterSession, key: str) -> PodGroup | None:
    """The PodGroup of a gang, if it has one."""
    return next((each for each in pod_groups(session.objects) if key_of(each) == key), None)


def find_member(session: ClusterSession, name: str, namespace: str | None) -> Pod | None:
    """A pod of the gang podgroup/NAME or podgroup/NAMESPACE/NAME that its pods alone make, without any PodGroup.

    None if there is no such gang.
    """
    kind, _, rest = name.partition("/")
    for pod in session.objects.pods if rest and kind.lower() in KINDS else ():
        key = gang_named(pod)
        full = key.rpartition(" ")[2]
        is_meant = full == rest if "/" in rest else full == f"{namespace or full.partition('/')[0]}/{rest}"
        if is_meant and dialect_of_gang(key).written_as is None:
            return pod
    return None


def find_gang(session: ClusterSession, name: str, namespace: str | None) -> PodGroup | None:
    """The PodGroup of the dump called NAME, NAMESPACE/NAME or podgroup/NAME; None if a pod must be meant."""
    kind, _, rest = name.partition("/")
    certain = bool(rest) and kind.lower() in KINDS
    name = rest if certain else name
    by_name = {
        f"{each.metadata.namespace or 'default'}/{each.metadata.name}": each for each in pod_groups(session.objects)
    }
    if "/" in name or namespace:
        wanted = [name if "/" in name else f"{namespace}/{name}"]
    else:
        wanted = [key for key in by_name if key.partition("/")[2] == name]
    found = [key for key in wanted if key in by_name]
    if certain and not found:
        close = get_close_matches(wanted[0] if wanted else name, by_name, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else f"; the {session.source} has {len(by_name)}"
        raise click.ClickException(f"there is no PodGroup '{name}' in the {session.source}{hint}")
    if len(found) > 1:
        raise click.ClickException(f"PodGroup '{name}' is in several namespaces: {', '.join(found)}; choose with -n")
    if not found or (not certain and any(pod_key(pod) == found[0] for pod in session.objects.pods)):
        return None
    return by_name[found[0]]
