"""Gangs for the commands: place them, and gather what there is to say.

Shared by `place` and `why`; `gang_objects.py` finds them among the objects that were read. A gang that is wrong in
itself is an error that names object, field and value; one that merely does not fit is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from bayplan.cli.shared.admission import unless_refused
from bayplan.cli.shared.gang_objects import (
    PodGroup,
    about_workload,
    gang_of_key,
    gang_without_strangers,
    owner_of_gang,
    pod_group_of_key,
    warn_of_demands,
    warn_of_fields,
    warn_of_members,
)
from bayplan.cli.shared.gang_sources import wrong_gang
from bayplan.cli.shared.session import ClusterSession
from bayplan.cluster.pods.node_pods import belongs_to_its_node
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.topology.tree import Distances, Tree, distances_among
from bayplan.dialects.members import Incomplete
from bayplan.dialects.registry import (
    gang_named,
    key_of,
    resource_of,
    shown,
)
from bayplan.engine.gangs.problem import Counts, Status
from bayplan.explain.gangs.outcome import GangOutcome, ShapeView, stages_in_tree
from bayplan.explain.headline import headline
from bayplan.explain.refusal import description
from bayplan.explain.volumes import volumes_behind, volumes_that_limit
from bayplan.gangs.checks import problem_of
from bayplan.gangs.closeness import closeness_of, running_members, unbound
from bayplan.gangs.cycle import assume_gang, refused_after_all, schedule_gang
from bayplan.gangs.model import Gang, GangDecision, Group, Seat, waited_for
from bayplan.gangs.ranks.ranks import rank_key
from bayplan.gangs.relations.gang_relations import GangRelations
from bayplan.gangs.relations.members import MemberClass
from bayplan.gangs.relations.shared_claims import shared_by
from bayplan.gangs.remedies import GangRemedy, Running, gang_remedies
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.split_gangs import running_seats, split_problem
from bayplan.gangs.trees import rooms_of, single_label
from bayplan.kube.errors import InvalidObject
from bayplan.kube.times import moment_of
from bayplan.kube.topology_levels import HOSTNAME
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import shortfall_of

# More pods than any node can hold: a query for the largest gang counts all slots.
ALL_SLOTS = 1_000_000


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
        return replace(self._placed(gang, now, since, written), owner=owner)

    def _placed(
        self, gang: Gang | Incomplete, now: datetime, created: str | None, written: PodGroup | None
    ) -> GangOutcome:
        session = self._session
        gang = unless_refused(session, gang)
        begun = moment_of(created or "")
        otherwise = None if begun is None else begun.timestamp()
        if isinstance(gang, Incomplete):
            decision = GangDecision(gang.gang, Status.INFEASIBLE, gang.reason, problem=gang.reason)
            waited = None if otherwise is None else max(0.0, now.timestamp() - otherwise)
            return GangOutcome(decision, "", (), len(session.state.rows), (), waited=waited)
        topology = session.trees.name_for(gang)
        tree = session.trees.get(topology)
        wrong = problem_of(gang, tree, session.trees.topologies)
        if wrong or tree is None:
            raise wrong_gang(gang, written, "" if written is None else resource_of(written).kind, wrong)
        scheduler = self._scheduler(gang)
        if not gang.pods:
            return running_outcome(scheduler, tree, gang)
        scheduler.share_claims(gang)
        classes = _classes(session, scheduler.relations(gang), gang)
        before = _slots(scheduler, gang, tree, classes)
        waited = waited_for(gang, now.timestamp(), otherwise)
        decision = schedule_gang(scheduler, gang, waited or 0.0)
        taken = assume_gang(scheduler, gang, decision) if decision.placed else []
        if taken is None:
            reason = refused_after_all(scheduler, gang, decision)
            decision = GangDecision(gang.name, Status.LIMIT_REACHED, reason)
        after = _slots_left(scheduler, gang, tree, classes) if decision.placed else {}
        running = running_seats(gang, tree)
        group_of = {id(pod): group.name for group in gang.root.every_group() for pod in group.pods}
        several = len(set(group_of.values())) > 1
        return GangOutcome(
            decision=decision,
            topology=topology,
            levels=tree.levels,
            nodes=len(session.state.rows),
            shapes=tuple(
                replace(
                    self._shape(scheduler, tree, decision, each.pod_class, pods, before[each], after.get(each)),
                    groups=tuple(dict.fromkeys(filter(None, (group_of[id(pod)] for pod in pods if several)))),
                )
                for each, pods in classes.items()
            ),
            zones={seated.pod: seated.containers for seated in taken or ()},
            zones_unknown=tuple(dict.fromkeys(seated.node for seated in taken or () if seated.node and seated.remark)),
            distances=_distances(tree, running, decision.seats) if decision.seats else None,
            waited=waited,
            running=running,
            remedies=self._remedies(scheduler, gang, decision),
            gang=gang,
        )

    def _remedies(self, scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> tuple[GangRemedy, ...]:
        if decision.seats or decision.problem or not self._advice:
            return ()
        return gang_remedies(scheduler, gang, self._running(gang))

    def _running(self, gang: Gang) -> list[Running]:
        """Gangs and pods on nodes that could make room for a gang: none of a higher priority,
        none that every node has.
        """
        session, by_name = self._session, dict[str, list[Pod]]()
        highest = max((pod.spec.priority or 0 for pod in gang.pods), default=0)
        for key, pod in session.state.bound.items():
            if (pod.spec.priority or 0) <= highest and not belongs_to_its_node(pod):
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
        """What there is to say about equal pods: what is left for such pods if the gang was placed, else what is
        missing.
        """
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
        causes, stages = stages_in_tree(tree, shortfall, pod, scheduler.profile)
        volumes = volumes_behind(state, pod, shortfall) or volumes_that_limit(state, pod, before, tree.rows)
        lost = {node for stage in stages for cause in stage.causes for node in cause.nodes}
        closed = not before.any() and shortfall.matter <= lost
        sentence = headline(state, pod, shortfall, stages) if closed else ""
        return replace(shape, causes=causes, stages=stages, volumes=volumes, sentence=sentence)


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
    try:
        gang = gang_without_strangers(session, written)
        warn_of_members(session, gang)
        placer = GangPlacer(session, ClassAnswers(session.state))
        outcome = placer.place(gang, now, written)
    except InvalidObject as error:
        return outcome_of_invalid(session, key_of(written), error)
    warn_of_demands(session.objects, written, session.trees.topologies)
    return outcome


def outcome_of_gang_with(session: ClusterSession, pod: Pod, now: datetime) -> GangOutcome:
    """The decision for the gang that a pod names, whether or not its PodGroup exists or is needed."""
    key = gang_named(pod)
    written = pod_group_of_key(session, key)
    if written is not None:
        return outcome_of(session, written, now)
    try:
        gang, _ = gang_of_key(session, key, session.objects.pods)
        warn_of_members(session, gang)
        placer = GangPlacer(session, ClassAnswers(session.state))
        return placer.place(gang, now, created=pod.metadata.creation_timestamp)
    except InvalidObject as error:
        return outcome_of_invalid(session, key, error)


def outcome_of_invalid(session: ClusterSession, key: str, error: InvalidObject) -> GangOutcome:
    """A gang of the cluster that is wrong in itself waits; the reason is in the words of what its user has written."""
    written = pod_group_of_key(session, key)
    owner = "" if written is None else owner_of_gang(written)
    told = str(error if written is None else about_workload(session.objects, written, error))
    problem = told.removeprefix(f"{owner}: ")
    decision = GangDecision(key.rpartition(" ")[2], Status.INFEASIBLE, problem, problem=problem)
    return GangOutcome(decision, "", (), len(session.state.rows), (), owner=owner)


def _classes(session: ClusterSession, relations: GangRelations, gang: Gang) -> dict[MemberClass, list[Pod]]:
    """The pods of each class of a gang; one that already has a node is an error."""
    found: dict[MemberClass, list[Pod]] = {}
    for pod in gang.pods:
        session.refuse_if_there(pod)
        found.setdefault(relations.class_of(session.state, pod), []).append(pod)
    return found


def _slots(
    scheduler: GangScheduler, gang: Gang, tree: Tree, classes: Iterable[MemberClass]
) -> dict[MemberClass, Counts]:
    """By position in the tree how many pods of each class fit now, as far as neighbours and fellows let them."""
    relations = scheduler.relations(gang)
    return {pod: relations.limit(pod, tree, scheduler.slots(pod.pod_class, tree, ALL_SLOTS)) for pod in classes}


def _slots_left(
    scheduler: GangScheduler, gang: Gang, tree: Tree, classes: Mapping[MemberClass, Sequence[Pod]]
) -> dict[MemberClass, Counts]:
    """The same once the gang has its seats: claims that its pods share have their volumes now."""
    now = {
        pod: pod._replace(pod_class=scheduler.state.classes.of(pods[0])) if any(shared_by(pod.pod_class)) else pod
        for pod, pods in classes.items()
    }
    slots = _slots(scheduler, gang, tree, now.values())
    return {pod: slots[of_seated] for pod, of_seated in now.items()}


def running_outcome(scheduler: GangScheduler, tree: Tree, gang: Gang) -> GangOutcome:
    """A gang none of whose pods waits: where they are and whether they could be closer, or what is wrong with that."""
    state = scheduler.state
    split = split_problem(gang, tree, state)
    if split:
        decision = GangDecision(gang.name, Status.INFEASIBLE, split, problem=split)
        return GangOutcome(decision, tree.name, tree.levels, len(state.rows), ())
    running = running_seats(gang, tree)
    return GangOutcome(
        GangDecision(gang.name, Status.OPTIMAL, "every pod has a node"),
        tree.name,
        tree.levels,
        len(state.rows),
        (),
        running=running,
        distances=_distances(tree, running),
        closeness=closeness_of(scheduler, gang, tree),
    )


def outcome_of_running(session: ClusterSession, name: str, pods: Sequence[Pod]) -> GangOutcome:
    """Where running pods are that belong together without being a gang, such as those of a Deployment."""
    nodes = {pod.spec.node_name for pod in pods}
    trees = [tree for each in session.trees.topologies.having() if (tree := session.trees.get(each)) is not None]
    around = [tree for tree in trees if nodes <= {path[-1] for path in tree.paths[tree.node_level]}]
    topology = around[0].name if len(around) == 1 else single_label(HOSTNAME)
    tree = session.trees.get(topology)
    assert tree is not None
    # None of them asks to be close to the others, and replicas are better apart.
    gang = Gang(name, Group(running=tuple(sorted(pods, key=rank_key))), topology, spread=True)
    answers = ClassAnswers(session.state)
    scheduler = GangScheduler(session.state, session.trees, session.profile_for(pods[0]), answers)
    return running_outcome(scheduler, tree, gang)


def _distances(tree: Tree, running: Sequence[Seat], seats: Sequence[Seat] = ()) -> Distances | None:
    """How far all members are from each other: those with a seat, and those that run on nodes of the tree."""
    inside = [seat.path for seat in (*seats, *running) if len(seat.path) > tree.node_level]
    return distances_among(inside) if inside and tree.levels else None
