"""Gangs for the commands: find them among the objects that were read, place them, and gather what there is to say.

Shared by `place` and `why`. A gang that is wrong in itself is an error that names object, field and value; one that
merely does not fit is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial

import click
import msgspec

from bayplan.cli.shared.group_trees import GroupTrees
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Distances, Tree, distances_among
from bayplan.dialects.own.members import Incomplete
from bayplan.dialects.own.reader import gang_of, has_shapes
from bayplan.dialects.registry import (
    AnyPodGroup,
    dialect_of,
    dialect_of_gang,
    gang_named,
    gang_of_members,
    key_of,
    lost_words,
    shown,
)
from bayplan.dialects.volcano.job import in_group as in_volcano_group
from bayplan.dialects.volcano.job import pod_group_of, pods_of
from bayplan.dialects.volcano.pod_group import group_named as volcano_group
from bayplan.dispatch.roster import GangRoster, naming_strangers
from bayplan.engine.gangs.problem import Counts, Status
from bayplan.explain.gangs.outcome import GangOutcome, ShapeView, stages_in_tree
from bayplan.explain.refusal import description
from bayplan.gangs.checks import problem_of
from bayplan.gangs.closeness import closeness_of, running_members, unbound
from bayplan.gangs.cycle import assume_gang, schedule_gang
from bayplan.gangs.model import BAYPLAN, Gang, GangDecision, Group, waited_for
from bayplan.gangs.ranks.ranks import rank_key
from bayplan.gangs.remedies import GangRemedy, Running, gang_remedies
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.split_gangs import running_seats, split_problem
from bayplan.gangs.trees import Topologies, rooms_of, single_label
from bayplan.grouping.podgroup import name_of as name_of_group
from bayplan.grouping.raw import Reference
from bayplan.kube.errors import InvalidObject, ObjectPath
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.times import moment_of
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire import podgroup_v1alpha1
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.volcano_batch_v1alpha1 import Job
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import shortfall_of

# More pods than any node can hold: a query for the largest gang counts all slots.
ALL_SLOTS = 1_000_000
AFTER_ALL = "counting found a place, but a kubelet there would refuse one of the pods"
IN_STYLE = "{} would place it, but a kubelet there would refuse one of the pods"

KINDS = ("podgroup", "podgroups", "pg")

PodGroup = AnyPodGroup


def pod_groups(objects: ObjectSet) -> list[PodGroup]:
    """Everything that describes a gang."""
    return [*objects.gangs, *objects.other_gangs]


def warn_of_fields(objects: ObjectSet, written: PodGroup | Job) -> None:
    """Name the fields and annotations of a group object that have no effect."""
    _warn_of(objects, written, lost_words(written))


def warn_of_demands(objects: ObjectSet, written: PodGroup) -> None:
    """Name what a PodGroup asks for and bayplan does not do."""
    _warn_of(objects, written, [f"spec.{remark}" for remark in dialect_of(written).remarks(written)])


def _warn_of(objects: ObjectSet, written: PodGroup | Job, remarks: Sequence[str]) -> None:
    for remark in remarks:
        field, _, problem = remark.partition(": ")
        warn([str(objects.naming_the_file(InvalidObject(ObjectPath.of(written).child(field), problem), written))])


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
    """Whatever turns out to be wrong with a gang is said with the file that it came from."""
    try:
        yield
    except InvalidObject as error:
        raise objects.naming_the_file(error, written) from None


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
    if isinstance(in_namespace, podgroup_v1alpha1.PodGroup) and not members:
        if not metadata.uid or has_shapes(in_namespace.spec):
            return gang_of(in_namespace)
        if in_namespace.status is not None and in_namespace.status.phase == podgroup_v1alpha1.ENDED:
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


def gang_of_pod(pod: Pod) -> str:
    """`namespace/name` of the gang that a pod names; empty if it names none."""
    return gang_named(pod).rpartition(" ")[2]


class GangPlacer:
    """Places gangs one after another on a session's cluster; each sees what the earlier ones took.

    Without `advice`, skip the search for changes that would help gangs without a place: for very many gangs it takes
    too long.
    """

    def __init__(self, session: ClusterSession, answers: ClassAnswers, *, advice: bool = True) -> None:
        self._session = session
        self._advice = advice
        self._answers = answers
        self._schedulers: dict[str, GangScheduler] = {}

    def place(
        self, gang: Gang | Incomplete, now: datetime, written: PodGroup | None = None, created: str | None = None
    ) -> GangOutcome:
        """Decide about a gang and take its seats. Raises `InvalidObject` if it is wrong in itself.

        If its pods do not say since when it waits, its PodGroup does, or `created`. The PodGroup's owner names it.
        """
        owner = "" if written is None else owner_of_gang(written)
        since = created if written is None else written.metadata.creation_timestamp
        subject = "" if written is None else _written_by_user(written)
        return replace(self._placed(gang, now, since, subject), owner=owner)

    def _placed(self, gang: Gang | Incomplete, now: datetime, created: str | None, subject: str) -> GangOutcome:
        session = self._session
        begun = moment_of(created or "")
        otherwise = None if begun is None else begun.timestamp()
        if isinstance(gang, Incomplete):
            decision = GangDecision(gang.gang, Status.INFEASIBLE, gang.reason, problem=gang.reason)
            waited = None if otherwise is None else max(0.0, now.timestamp() - otherwise)
            return GangOutcome(decision, "", (), len(session.state.rows), (), waited=waited)
        topology = session.trees.name_for(gang)
        tree = session.trees.get(topology)
        wrong = problem_of(gang, tree, session.trees.names)
        if wrong or tree is None:
            raise InvalidObject(ObjectPath(subject or f"PodGroup {gang.name}"), wrong)
        scheduler = self._scheduler(gang)
        if not gang.pods:
            return running_outcome(scheduler, tree, gang)
        classes = _classes(session, gang)
        before = _slots(scheduler, gang, tree, classes)
        waited = waited_for(gang, now.timestamp(), otherwise)
        decision = schedule_gang(scheduler, gang, waited or 0.0)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else []
        if taken is None:
            after_all = AFTER_ALL if gang.style == BAYPLAN else IN_STYLE.format(gang.style)
            decision = GangDecision(gang.name, Status.LIMIT_REACHED, after_all)
        after = _slots(scheduler, gang, tree, classes) if decision.placed else {}
        return GangOutcome(
            decision=decision,
            topology=topology,
            levels=tree.levels,
            nodes=len(session.state.rows),
            shapes=tuple(
                self._shape(scheduler, tree, decision, each, pods, before[each], after.get(each))
                for each, pods in classes.items()
            ),
            zones={seated.pod: seated.containers for seated in taken or ()},
            zones_unknown=tuple(dict.fromkeys(seated.node for seated in taken or () if seated.node and seated.remark)),
            distances=_distances(tree, gang, decision) if decision.seats and tree.levels else None,
            waited=waited,
            running=running_seats(gang, tree),
            remedies=self._remedies(scheduler, gang, decision),
        )

    def _remedies(self, scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> tuple[GangRemedy, ...]:
        if decision.seats or decision.problem or not self._advice:
            return ()
        return gang_remedies(scheduler, gang, self._running(gang))

    def _running(self, gang: Gang) -> list[Running]:
        """Gangs and pods on nodes that could make room for a gang: none of a higher priority, none that every node has."""
        session, by_name = self._session, dict[str, list[Pod]]()
        highest = max((pod.spec.priority or 0 for pod in gang.pods), default=0)
        for key, pod in session.state.bound.items():
            owners = pod.metadata.owner_references or ()
            if (pod.spec.priority or 0) <= highest and not any(owner.kind == "DaemonSet" for owner in owners):
                by_name.setdefault(gang_named(pod) or key, []).append(pod)
        return [
            Running(shown(name), tuple(pods), partial(_anew, session, name, pods)) for name, pods in by_name.items()
        ]

    def _scheduler(self, gang: Gang) -> GangScheduler:
        session = self._session
        profile = session.profile_for((gang.pods or running_members(gang))[0])
        if profile.name not in self._schedulers:
            self._schedulers[profile.name] = GangScheduler(session.state, session.trees, profile, self._answers)
        return self._schedulers[profile.name]

    def _shape(
        self,
        scheduler: GangScheduler,
        tree: Tree,
        decision: GangDecision,
        pod: PodClass,
        pods: list[Pod],
        before: Counts,
        after: Counts | None,
    ) -> ShapeView:
        """What there is to say about equal pods: what is left for such pods if the gang was placed, else what is missing."""
        state = self._session.state
        room = rooms_of(tree, before, len(pods))
        shape = ShapeView(len(pods), pods[0], pod.request, description(state, pod), room, before)
        if after is not None:
            return replace(shape, after=rooms_of(tree, after, len(pods)), slots=after)
        if decision.seats:
            return shape
        answer = answer_for(state, pods[0], pod, scheduler.profile, self._answers)
        refused = list(answer.refused_by_replay.items())
        newcomer = incoming_pod(state, pods[0], pod)
        shortfall = shortfall_of(state, pod, scheduler.profile, answer, refused, newcomer)
        causes, stages = stages_in_tree(tree, len(state.rows), shortfall, pod, scheduler.profile)
        return replace(shape, causes=causes, stages=stages)


def _anew(session: ClusterSession, name: str, bound: Sequence[Pod]) -> Gang | None:
    """How a running gang, or a pod by itself, would be placed if it were started anew.

    None if it would wait for others.
    """
    pods = [unbound(pod) for pod in bound]
    if not gang_named(pods[0]):
        return Gang(name, Group(pods=tuple(pods)))
    try:
        gang, _ = gang_of_key(session, name, pods)
    except InvalidObject:
        return None
    return gang if isinstance(gang, Gang) else None


def outcome_of(session: ClusterSession, written: PodGroup, now: datetime) -> GangOutcome:
    """What would become now of the gang of a PodGroup."""
    warn_of_fields(session.objects, written)
    with naming_the_file(session.objects, written):
        gang = _without_strangers(session, written)
        placer = GangPlacer(session, ClassAnswers(session.state))
        outcome = placer.place(gang, now, written)
    warn_of_demands(session.objects, written)
    return outcome


def _without_strangers(session: ClusterSession, written: PodGroup) -> Gang | Incomplete:
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


def outcome_of_gang_with(session: ClusterSession, pod: Pod, now: datetime) -> GangOutcome:
    """The decision for the gang that a pod names, whether or not its PodGroup exists or is needed."""
    key = gang_named(pod)
    written = _written(session, key)
    if written is not None:
        return outcome_of(session, written, now)
    gang, _ = gang_of_key(session, key, session.objects.pods)
    placer = GangPlacer(session, ClassAnswers(session.state))
    return placer.place(gang, now, created=pod.metadata.creation_timestamp)


def gang_of_key(session: ClusterSession, key: str, pods: Sequence[Pod]) -> tuple[Gang | Incomplete, PodGroup | None]:
    """The gang of a key with its members among `pods`, and its PodGroup if there is one.

    A group inside others is decided with the outermost of them.
    """
    groups = GroupTrees(pod_groups(session.objects))
    if groups.is_nested(root := groups.outermost(key)):
        return groups.gang(root, pods, session.trees.topologies), groups.written(root)
    written = _written(session, key)
    if written is not None:
        return gang_in(written, pods, session.trees.topologies), written
    roster = GangRoster(lambda: session.trees.topologies)
    for pod in pods:
        roster.set_member(pod)
    gang = roster.gang(key)
    return replace(gang, gang=key.rpartition(" ")[2]) if isinstance(gang, Incomplete) else gang, None


def _written_by_user(written: PodGroup) -> str:
    """The owner that a PodGroup of ours was made for: the object that its user has written; else empty."""
    owner = next(iter(written.metadata.owner_references or ()), None)
    if not isinstance(written, podgroup_v1alpha1.PodGroup) or owner is None:
        return ""
    return f"{owner.kind} {written.metadata.namespace or 'default'}/{owner.name}"


def owner_of_gang(written: PodGroup) -> str:
    """`Job ml/train`: the workload that the pod grouper made a PodGroup of, where the user never wrote the PodGroup's name; else empty."""
    metadata = written.metadata
    owner = next(iter(metadata.owner_references or ()), None)
    if not isinstance(written, podgroup_v1alpha1.PodGroup) or owner is None or owner.name == metadata.name:
        return ""
    about = Reference(owner.api_version, owner.kind, metadata.namespace or "default", owner.name, owner.uid)
    named = name_of_group(about)
    if metadata.name == named:
        return str(about)
    return f"{about}, gang {metadata.name.removeprefix(f'{named}-')}"


def _written(session: ClusterSession, key: str) -> PodGroup | None:
    return next((each for each in pod_groups(session.objects) if key_of(each) == key), None)


def _classes(session: ClusterSession, gang: Gang) -> dict[PodClass, list[Pod]]:
    """The pods of each class of a gang; one that stands somewhere already is an error."""
    found: dict[PodClass, list[Pod]] = {}
    for pod in gang.pods:
        session.refuse_if_there(pod)
        found.setdefault(session.state.classes.of(pod), []).append(pod)
    return found


def _slots(scheduler: GangScheduler, gang: Gang, tree: Tree, classes: Iterable[PodClass]) -> dict[PodClass, Counts]:
    """By position in the tree how many pods of each class fit now, as far as neighbours and fellows let them."""
    relations = scheduler.relations(gang)
    return {pod: relations.limit(pod, tree, scheduler.slots(pod, tree, ALL_SLOTS)) for pod in classes}


def running_outcome(scheduler: GangScheduler, tree: Tree, gang: Gang) -> GangOutcome:
    """A gang none of whose pods waits: where they are and whether they could be closer, or what is wrong with that."""
    state = scheduler.state
    split = split_problem(gang, tree, state)
    if split:
        decision = GangDecision(gang.name, Status.INFEASIBLE, split, problem=split)
        return GangOutcome(decision, tree.name, tree.levels, len(state.rows), ())
    running = running_seats(gang, tree)
    inside = [seat.path for seat in running if len(seat.path) > tree.node_level]
    return GangOutcome(
        GangDecision(gang.name, Status.OPTIMAL, "every pod has a node"),
        tree.name,
        tree.levels,
        len(state.rows),
        (),
        running=running,
        distances=distances_among(inside) if inside and tree.levels else None,
        closeness=closeness_of(scheduler, gang, tree),
    )


def outcome_of_running(session: ClusterSession, name: str, pods: Sequence[Pod]) -> GangOutcome:
    """Where running pods are that belong together without being a gang, such as those of a Deployment."""
    nodes = {pod.spec.node_name for pod in pods}
    trees = [tree for each in session.trees.names if (tree := session.trees.get(each)) is not None]
    around = [tree for tree in trees if nodes <= {path[-1] for path in tree.paths[tree.node_level]}]
    topology = around[0].name if len(around) == 1 else single_label(HOSTNAME)
    tree = session.trees.get(topology)
    assert tree is not None
    gang = Gang(name, Group(running=tuple(sorted(pods, key=rank_key))), topology)
    answers = ClassAnswers(session.state)
    scheduler = GangScheduler(session.state, session.trees, session.profile_for(pods[0]), answers)
    return running_outcome(scheduler, tree, gang)


def _running_on(gang: Gang) -> list[str]:
    """The nodes of members that run already, one for each member."""
    return [pod.spec.node_name or "" for group in gang.whole.every_group() for pod in group.running]


def _distances(tree: Tree, gang: Gang, decision: GangDecision) -> Distances:
    """How far all members are from each other: those with a seat, and those that run on nodes of the tree."""
    running = set(_running_on(gang))
    path_of = {path[-1]: path for path in tree.paths[tree.node_level] if path[-1] in running}
    stand = [path_of[node] for node in _running_on(gang) if node in path_of]
    return distances_among([*(seat.path for seat in decision.seats), *stand])


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
