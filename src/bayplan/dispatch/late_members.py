"""Members that come after their gang has started: which are missing, and when room is kept for them.

`kept/late_room.py` holds the room. It begins when the first members are bound (`gang_decision.py`), when one is lost,
when late ones find too little room, and when this scheduler takes over from another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bayplan.cluster.state import pod_key
from bayplan.dialects.members import has_started
from bayplan.dialects.own.members import asks_for_a_level, group_label, lacking
from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.core import Core
from bayplan.dispatch.partially_bound import PartiallyBound
from bayplan.gangs.cycle import later_seats
from bayplan.gangs.model import Gang, LaterSeat
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from bayplan.kube.wire.core_v1 import Pod


class LateMembers:
    """The late members of all gangs of one dispatcher."""

    def __init__(self, core: Core, progress: PartiallyBound) -> None:
        self._core = core
        self._progress = progress
        # By gang, members that were lost since it was queued last.
        self._lost: dict[str, list[Pod]] = {}

    def lost(self, name: str, member: Pod) -> None:
        """A gang has lost a member that had a node, and that its owner will most likely replace."""
        self._lost.setdefault(name, []).append(member)

    def review(self, name: str, waiting: list[Pod], running: list[Pod], now: float) -> None:
        """Keep no more room for later members than the gang lacks; keep that of members that it has lost."""
        core, lost = self._core, self._lost.pop(name, ())
        if not lost and not core.late.was_tried(name):
            return
        if any(pod_key(pod) in core.state.pods for pod in waiting):
            return  # Binds are in flight: which members are missing is not known yet.
        written, missing = core.roster.groups.get(name), Counter[str]()
        is_there = isinstance(written, PodGroup) and not written.metadata.deletion_timestamp
        if isinstance(written, PodGroup) and is_there and has_started(running, was_complete=True):
            missing = lacking(written, (*waiting, *running))
        core.late.lacks(name, missing)
        if missing and lost:
            self._keep_room_of_lost(name, lost, missing, now)

    def may_keep_again(self, name: str, running: list[Pod], now: float) -> bool:
        """True if another leader started a gang a moment ago whose members are not all there."""
        late, started = self._core.late, self._progress.complete_since(name)
        written = self._core.roster.groups.get(name)
        return (
            started is not None
            and started + late.keeps_for > now
            and not late.was_tried(name)
            and isinstance(written, PodGroup)
            and bool(lacking(written, running))
        )

    def keep_again(self, name: str, gang: Gang, running: tuple[Pod, ...], now: float) -> None:
        """Keep the room of members still to come again, for what is left of its time: another leader started the gang.

        What that leader kept is not written anywhere, but which members are missing is.
        """
        late, started = self._core.late, self._progress.complete_since(name)
        ours = [pod for pod in running if pod.spec.scheduler_name in self._core.schedulers]
        if not ours or started is None or late.was_tried(name) or not late.begins(name, started, now):
            return
        scheduler = self._core.schedulers[ours[0].spec.scheduler_name or ""]
        late.keep(name, later_seats(scheduler, gang), scheduler, ours[0], now)

    def _keep_room_of_lost(self, name: str, lost: Iterable[Pod], missing: Counter[str], now: float) -> None:
        """Keep the seats of members that a started gang has lost: their successors must follow it, too."""
        core, written = self._core, self._core.roster.groups.get(name)
        if not isinstance(written, PodGroup) or not asks_for_a_level(written):
            return
        core.late.begins_again(name)
        room = core.late.get(name)
        kept = {} if room is None else {group: len(seats) for group, seats in room.seats.items()}
        missing = missing - Counter(kept)
        for pod in lost:
            group, scheduler = group_label(written, pod), core.schedulers.get(pod.spec.scheduler_name or "")
            if missing[group] > 0 and scheduler is not None:
                missing[group] -= 1
                core.late.keep(name, [LaterSeat(group, pod, pod.spec.node_name or "")], scheduler, pod, now)

    def refused(
        self, refusal: Unschedulable, gang: Gang, scheduler: GangScheduler, running: tuple[Pod, ...], now: float
    ) -> None:
        """Members of a gang found no place. If they must follow it, keep what there is until there is enough for all.

        Otherwise smaller units would take every seat as soon as it is free. Call this before the gang is parked: seats
        that it still had free then would look like room for others that wait.
        """
        late, name = self._core.late, refusal.gang_name
        is_nominated = self._core.preempting.nominations.get(refusal.unit) is not None
        late.returned(name, now, used=is_nominated)
        decision = refusal.gang
        if is_nominated or refusal.beyond_need or decision is None or decision.waits or decision.problem:
            return
        if has_started(running, was_complete=True) and late.begins(name, now, now):
            late.keep_more(name, lambda: later_seats(scheduler, gang), scheduler, gang.pods[0], now)
