"""Single pods as units of the queue: from a pod without a node to its decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec
from msgspec import structs

from bayplan.cluster.pods.terms import namespace_of
from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.numa_policy import ignored_annotations, policy_remarks
from bayplan.cluster.state import pod_key
from bayplan.cluster.volumes.claims import claims_of
from bayplan.dialects.given_ranks import GivenRanks
from bayplan.dialects.own import pod_group as own
from bayplan.dialects.pod_words import word_remarks
from bayplan.dialects.registry import dialect_of_gang, gang_named
from bayplan.dispatch.actions import Action, Assignment, Bind, Unschedulable
from bayplan.dispatch.core import Core, SetAside
from bayplan.dispatch.kept.kept_room import ClosedNodes
from bayplan.dispatch.preemption import LOOKS_EVERY
from bayplan.dispatch.units import PodUnit
from bayplan.dispatch.waking import NO_NAMESPACES, ForItself, ForNeighbours, ForRoom, Waits, namespaces_that_matter
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import NOT_USABLE
from bayplan.scheduling.cycle import assume, schedule_one
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.preemption.candidates import priority_of
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import incoming_pod

# A claim with more users is not asked about after every change, but after a pause that grows with their number.
MANY_USERS = 256
REST_PER_USER = 50e-6


class ClaimUsers:
    """Waiting pods by the claims that they use, and claims that changed since their users were decided."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, None]] = {}
        self._changed: dict[str, None] = {}
        # When claims with many users can be asked about again.
        self._rest_until: dict[str, float] = {}

    def put(self, pod: Pod) -> None:
        """A pod waits."""
        for claim, _ in claims_of(pod):
            self._users.setdefault(claim, {})[pod_key(pod)] = None

    def remove(self, pod: Pod) -> None:
        """A pod no longer waits."""
        for claim, _ in claims_of(pod):
            users = self._users.get(claim, {})
            users.pop(pod_key(pod), None)
            if not users:
                for each in (self._users, self._changed, self._rest_until):
                    each.pop(claim, None)

    def changed(self, claims: Iterable[str]) -> None:
        """These claims, or what else their users depend on, changed."""
        self._changed.update((claim, None) for claim in claims if claim in self._users)

    def due(self, now: float) -> list[str]:
        """The users of changed claims, each once."""
        found: dict[str, None] = {}
        for claim in [each for each in self._changed if now >= self._rest_until.get(each, now)]:
            del self._changed[claim]
            users = self._users[claim]
            found.update(users)
            if len(users) > MANY_USERS:
                self._rest_until[claim] = now + len(users) * REST_PER_USER
        return list(found)

    def next_time(self) -> float | None:
        """When the next claim can be asked about; None if none changed."""
        return min((self._rest_until.get(each, 0.0) for each in self._changed), default=None)


class PodUnits:
    """All pods without a node, members of gangs included; pods outside gangs are units of the queue.

    `expects_group` tells whether a pod that names no gang can still be added to one. Such a pod is gated until
    `ungrouped` says otherwise.
    """

    def __init__(self, core: Core, expects_group: Callable[[Pod], bool]) -> None:
        self.waiting: dict[str, Pod] = {}
        self._core = core
        self._expects_group = expects_group
        self._given_ranks = GivenRanks()
        self.by_claim = ClaimUsers()

    def set(self, key: str, pod: Pod, gang: str, now: float) -> bool:
        """Take in a pod without a node, a member of `gang` if that is not empty; True if it needs a new decision."""
        known = self.waiting.get(key)
        self.waiting[key] = pod
        if (
            pod.status is not None
            and pod.status.nominated_node_name
            and self._core.preempting.nominations.get(PodUnit(key)) is None
        ):
            self._core.preempting.nominated_by_another(key, now)
        self.by_claim.put(pod)
        is_assumed = key in self._core.state.pods
        if is_assumed or (known is not None and _asks_the_same(known, pod)):
            return False
        for remark in (*self._remarks(pod), *self._given_ranks.came(key, gang, pod)):
            self._core.state.remarks.note(remark)
        if gang or pod.metadata.deletion_timestamp:
            self._core.queue.remove(PodUnit(key))
        else:
            self._put(key, pod, now)
        return True

    def awaits_grouper(self, pod: Pod) -> bool:
        """True if a pod names a gang, and the pod grouper can still put it into another one."""
        gang = gang_named(pod)
        return bool(gang) and dialect_of_gang(gang) is not own.DIALECT and self._expects_group(pod)

    def ungrouped(self, key: str, now: float) -> None:
        """The pod grouper found that a pod belongs to no gang."""
        pod = self.waiting.get(key)
        if pod is not None and key not in self._core.state.pods and not self._core.roster.gang_of(key):
            self._put(key, pod, now)

    def _put(self, key: str, pod: Pod, now: float) -> None:
        queue, unit = self._core.queue, PodUnit(key)
        known = queue.get(unit)
        created = now if known is None else known.created
        gated = bool(pod.spec.scheduling_gates) or self._expects_group(pod)
        priority = pod.spec.priority or 0
        queue.put(unit, priority=priority, created=created, now=now, gated=gated, tenant=namespace_of(pod))

    def remove(self, key: str) -> None:
        """A pod no longer waits here: it has a node, another scheduler, or is gone."""
        pod = self.waiting.pop(key, None)
        if pod is not None:
            self.by_claim.remove(pod)
            unit = PodUnit(key)
            self._core.queue.remove(unit)
            self._core.preempting.unit_gone(unit)

    def withdraw_remarks(self, key: str) -> None:
        """Withdraw all remarks about a pod that is gone."""
        state = self._core.state
        known = self.waiting.get(key) or state.bound.get(key)
        remarks = self._remarks(known) if known is not None else []
        for remark in (*remarks, *self._given_ranks.went(key)):
            state.remarks.withdraw(remark)

    def _remarks(self, pod: Pod) -> list[ObjectRemark]:
        """Labels and annotations of a pod that have no effect."""
        profile = self._core.profiles.get(pod.spec.scheduler_name or "")
        ignored = ignored_annotations(pod, profile.name, profile.filter_names) if profile is not None else []
        return [*(ignored or policy_remarks(pod, self._core.state.classes.request_of)), *word_remarks(pod)]

    def still_waits(self, pod: Pod) -> bool:
        """True if this very pod waits, not a successor of the same name with a decision of its own."""
        known = self.waiting.get(pod_key(pod))
        return known is not None and known.metadata.uid == pod.metadata.uid

    def is_assumed(self, pod: Pod, node: str) -> bool:
        """True if the pod's place is still assumed: it was not given back, and its node still exists."""
        state, placed = self._core.state, self._core.state.pods.get(pod_key(pod))
        return self.still_waits(pod) and placed is not None and state.names[placed.row] == node

    def decide(self, unit: PodUnit, now: float) -> Action | None:
        """Decide about a pod that was popped from the queue; None if it needs no place any more."""
        core, pod = self._core, self.waiting.get(unit.pod)
        if pod is None or unit.pod in core.state.pods or pod.metadata.deletion_timestamp:
            core.queue.done(unit)
            return None
        profile = core.profiles[pod.spec.scheduler_name or ""]
        with core.preempting.kept_room.deciding(profile) as closing:
            return self._decide(unit, pod, profile, closing, now)

    def _decide(self, unit: PodUnit, pod: Pod, profile: Profile, closing: ClosedNodes, now: float) -> Action:
        """Find a place: beside the room that is kept for others, else in the room of less important ones,
        else by a preemption.
        """
        core, preempting = self._core, self._core.preempting

        def place() -> Decision:
            return schedule_one(core.state, pod, profile, core.answers, explain=False)

        def seat(decision: Decision) -> list[tuple[Pod, int]]:
            return [(pod, decision.row)] if decision.placed else []

        try:
            decision = closing.decide(place, seat)
            if not decision.placed and core.state.volumes.forget_avoided(pod):
                decision = closing.decide(place, seat)
            aside = SetAside() if decision.placed else core.set_aside(priority_of(pod), namespace_of(pod))
            if aside:
                closing.open()
                decision = closing.decide(place, seat)
        except InvalidObject as error:
            core.settle_after_failure(now)
            core.park(unit, ForItself(unit), now)
            return Unschedulable(unit, (pod,), str(error), invalid=True)
        if core.reports.counts_refusals:
            for row in core.answers.rows_refused_for_zones(core.state.classes.of(pod), profile):
                core.reports.refused(core.state.names[row])
        if not decision.placed:
            if closing.rows and not preempting.was_nominated(unit):
                core.settle_set_aside(aside, now)
                core.park(unit, ForItself(unit), now, again_at=now + LOOKS_EVERY)
                return Unschedulable(unit, (pod,), closing.reason, decision)
            result = None if decision.held_back else preempting.for_pod(pod, profile, closing, now)
            core.settle_set_aside(aside, now, preempting.rows_taken(unit, result))
            # Open the nodes before parking; afterwards it would look like an improvement and wake the unit.
            closing.open()
            refusal = Unschedulable(unit, (pod,), decision.held_back, decision)
            if result is None:
                core.park(unit, ForItself(unit) if decision.held_back else _waits_for(core, pod, profile), now)
                return refusal
            core.park_preemptor(unit, result, _waits_for(core, pod, profile), now)
            return structs.replace(refusal, preemption=result.plan, stage=result.stage)
        decision = preempting.kept_room.seats.beside(decision, pod)
        assume(core.state, decision, pod)
        core.settle_set_aside(aside, now, (decision.row,))
        core.reports.reserved(decision.node or "", pod)
        return Bind(unit, (Assignment(pod, decision),))


def _waits_for(core: Core, pod: Pod, profile: Profile) -> Waits:
    """Room, if no node takes the pod's class; otherwise the pods that keep it off the nodes that would."""
    pod_class = core.state.classes.of(pod)
    if not (core.answers.for_class(pod_class, profile).total_score != NOT_USABLE).any():
        return ForRoom(profile.name, pod_class)
    metadata, spec = pod.metadata, pod.spec
    alike = (metadata.namespace, metadata.labels, spec.affinity, spec.topology_spread_constraints)
    waits_for = ForNeighbours(profile.name, pod_class, msgspec.json.encode(alike).decode())
    incoming = incoming_pod(core.state, pod, pod_class)
    if incoming is None:
        return waits_for
    namespaces = namespaces_that_matter(core.state, incoming.namespace, incoming.labels, incoming.terms)
    # If no pod is known to keep it away, any pod could.
    return waits_for if namespaces == NO_NAMESPACES else replace(waits_for, namespaces=namespaces, pod=incoming)


def _asks_the_same(known: Pod, pod: Pod) -> bool:
    """True if nothing changed in a waiting pod that a decision depends on; conditions change often."""
    before, after = known.metadata, pod.metadata
    return (
        known.spec == pod.spec
        and before.labels == after.labels
        and before.annotations == after.annotations
        # A pod without an owner no longer waits for the pod grouper.
        and before.owner_references == after.owner_references
        and before.deletion_timestamp == after.deletion_timestamp
    )
