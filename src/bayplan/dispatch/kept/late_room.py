"""Room for members of a started gang that have no node yet: those still to come, and those that wait for room.

Some controllers create workers only when their leader runs; others replace members that were lost. All must follow
the gang into its domain. So the seats that the plan has for them are kept for a bounded time: other units see them as
taken. Members that arrive get the seats of their group back (`lend`) and are decided as any other unit.

A more important unit takes the room, and so do units of other namespaces beyond the share in `allowance.py`. It is
given up at once when the gang lacks fewer members, ends or starts over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct, structs

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.pods.request import PODS
from bayplan.cluster.state import ClusterState
from bayplan.dispatch.kept.allowance import Allowance, Amounts
from bayplan.dispatch.kept.seats import KeptSeat, KeptSeats
from bayplan.gangs.model import LaterSeat, Seat
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.seats import SeatTaker
from bayplan.kube.wire.core_v1 import Affinity, Metadata, Pod

# A namespace keeps at most this many seats, and all namespaces together. Setting all of them aside and keeping them
# again, as for a more important pod that finds no place, takes about 30 ms.
MOST_OF_A_NAMESPACE = 1_024
MOST_IN_ALL = 2_048
# Ended rooms that were not asked for; older ones are dropped.
MOST_ENDED = 1_000


class End(Enum):
    """What becomes of a kept seat; the values are those of the metric."""

    USED = "used"
    EXPIRED = "expired"
    TAKEN = "taken"
    GIVEN_UP = "given_up"


class EndedRoom(Struct, frozen=True):
    """Room for members of a gang that was given up because its time ended, after `seconds`."""

    gang: str
    members: int
    seconds: float


@dataclass
class LateRoom:
    """The seats that are kept for one gang, by group; `lent` ones are free while the gang is decided.

    It is `protected` if its namespace keeps it from the units of others, too.
    """

    gang: str
    scheduler: GangScheduler
    tenant: str
    priority: int
    until: float
    protected: bool = True
    seats: dict[str, list[KeptSeat]] = field(default_factory=dict)
    lent: list[tuple[str, KeptSeat]] = field(default_factory=list)

    @property
    def every_seat(self) -> list[KeptSeat]:
        """All seats that are not lent."""
        return [seat for seats in self.seats.values() for seat in seats]


class LateRooms:
    """The room of all started gangs of one dispatcher; it is kept for `keeps_for` seconds.

    It has many methods because room begins, is lent, set aside and ends for many reasons; each is a few lines.
    """

    def __init__(self, state: ClusterState, seats: KeptSeats, keeps_for: float) -> None:
        self._state = state
        self._seats = seats
        self.keeps_for = keeps_for
        self._allowance = Allowance(state)
        self._by_gang: dict[str, LateRoom] = {}
        # By gang that lacks members, since when room is kept for them. It stays when the room has ended.
        self._since: dict[str, float] = {}
        self._numbers = 0
        self._ended: list[EndedRoom] = []
        self.ends: Counter[End] = Counter()
        """Members whose room ended so far, by how."""

    # -- keeping --------------------------------------------------------------------------------------------------

    def get(self, gang: str) -> LateRoom | None:
        """The room of a gang, if any is kept."""
        return self._by_gang.get(gang)

    @property
    def members(self) -> int:
        """The number of members that have room kept."""
        return sum(len(seats) for room in self._by_gang.values() for seats in room.seats.values())

    def _members_of(self, tenant: str) -> int:
        return sum(len(room.every_seat) for room in self._by_gang.values() if room.tenant == tenant)

    def begins(self, gang: str, since: float, now: float) -> bool:
        """A gang has lacked members since `since`, or since an earlier recorded time.

        False if the time for their room has ended.
        """
        return self._since.setdefault(gang, since) + self.keeps_for > now

    def begins_again(self, gang: str) -> None:
        """A gang has just lost a member: the time for its room begins anew, unless room is being kept."""
        if gang not in self._by_gang:
            self._since.pop(gang, None)

    def was_tried(self, gang: str) -> bool:
        """True if room for a gang was kept, or looked for, since it began to lack members."""
        return gang in self._since

    def keep(self, gang: str, later: Sequence[LaterSeat], scheduler: GangScheduler, like: Pod, now: float) -> None:
        """Keep as many of these seats as possible, of a namespace and priority as that of a member."""
        until = self._since.setdefault(gang, now) + self.keeps_for
        if until <= now:
            return
        tenant, priority = like.metadata.namespace or "default", like.spec.priority or 0
        room = self._by_gang.setdefault(gang, LateRoom(gang, scheduler, tenant, priority, until))
        self._keep(room, later, now)
        self._forget_if_empty(room)

    def _keep(self, room: LateRoom, later: Sequence[LaterSeat], now: float) -> None:
        most = max(min(MOST_OF_A_NAMESPACE - self._members_of(room.tenant), MOST_IN_ALL - self.members), 0)
        scheduler = room.scheduler
        taker = SeatTaker(scheduler.state, scheduler.profile, scheduler.answers)
        pods: dict[str, tuple[str, Pod]] = {}
        for seat in later[:most]:
            self._numbers += 1
            pod = _stand_in(seat.pod, room.tenant, f"{room.gang.rpartition('/')[2]} (to come {self._numbers})")
            key = f"{room.tenant}/{pod.metadata.name}"
            pods[key] = seat.group, pod
            taker.take(Seat(key, seat.group, seat.node, (), 0), pod)
        kept = [(*pods[decision.pod], decision) for decision in taker.taken]
        for group, pod, decision in kept:
            self._seats.taken(_unit(room.gang), pod, decision)
            room.seats.setdefault(group, []).append((pod, decision))
        more = self._amounts([(pod, decision) for _, pod, decision in kept])
        room.protected = room.protected and self._allowance.allows(room.tenant, more, now)
        self._allowance.add(room.tenant, more)

    def keep_more(
        self, gang: str, find: Callable[[], Sequence[LaterSeat]], scheduler: GangScheduler, like: Pod, now: float
    ) -> None:
        """Keep the seats that are found without the gang's own room, if they are more; else its room stays where it is.

        If it moved for nothing, two gangs could wake each other endlessly.
        """
        room = self._by_gang.get(gang)
        before = [] if room is None else [(group, seat) for group, seats in room.seats.items() for seat in seats]
        self._seats.give_back([seat for _, seat in before])
        if room is not None:
            room.seats = {}
        found = find()[:MOST_OF_A_NAMESPACE]
        if room is not None and len(found) <= len(before):
            self._keep_again(room, before, now)
            return
        if room is not None:
            self._allowance.remove(room.tenant, self._amounts([seat for _, seat in before]))
            self._forget_if_empty(room)
        self.keep(gang, found, scheduler, like, now)

    def lend(self, gang: str, arrived: Counter[str]) -> None:
        """Give back the seats of members that have arrived, by group, while they are decided: `returned` follows."""
        room = self._by_gang.get(gang)
        if room is None:
            return
        for group, number in arrived.items():
            seats = room.seats.get(group, [])
            room.lent += [(group, seat) for seat in seats[:number]]
            del seats[:number]
        self._seats.give_back([seat for _, seat in room.lent])

    def returned(self, gang: str, now: float, *, used: bool) -> None:
        """The gang was decided: its members have `used` the lent seats, or they are kept again as far as they exist.

        Other schedulers may have bound pods there.
        """
        room = self._by_gang.get(gang)
        if room is None or not room.lent:
            return
        lent, room.lent = room.lent, []
        if used:
            self._count(room, [seat for _, seat in lent], End.USED)
        else:
            self._keep_again(room, lent, now)

    def _keep_again(self, room: LateRoom, seats: Sequence[tuple[str, KeptSeat]], now: float) -> None:
        """Keep seats that were given back, as far as their nodes still have them; the others were taken."""
        self._allowance.remove(room.tenant, self._amounts([seat for _, seat in seats]))
        before = len(room.every_seat)
        later = [LaterSeat(group, pod, decision.node or "") for group, (pod, decision) in seats]
        if later:
            self._keep(room, later, now)
        self.ends[End.TAKEN] += len(seats) - len(room.every_seat) + before
        self._forget_if_empty(room)

    # -- the end --------------------------------------------------------------------------------------------------

    def lacks(self, gang: str, lacking: Counter[str]) -> None:
        """A gang lacks these numbers of members by group, none if it starts over: room for more is given up."""
        room = self._by_gang.get(gang)
        if room is not None:
            surplus = [seat for group, seats in room.seats.items() for seat in seats[lacking[group] :]]
            self._seats.give_back(surplus)
            room.seats = {group: seats[: lacking[group]] for group, seats in room.seats.items()}
            self._count(room, surplus, End.GIVEN_UP)
        if not lacking:
            self._since.pop(gang, None)

    def drop(self, gang: str) -> None:
        """Give up the room of a gang; it may be kept elsewhere."""
        room = self._by_gang.get(gang)
        if room is not None:
            self._end(room, End.GIVEN_UP)

    def expire(self, now: float) -> None:
        """Give up room whose time has ended."""
        for room in [each for each in self._by_gang.values() if each.until <= now]:
            seats = room.every_seat
            self._allowance.was_unused(room.tenant, self._amounts(seats), now)
            self._ended.append(EndedRoom(room.gang, len(seats), self.keeps_for))
            self._end(room, End.EXPIRED)
        del self._ended[:-MOST_ENDED]

    def next_time(self) -> float | None:
        """When the time of the next room ends."""
        return min((each.until for each in self._by_gang.values()), default=None)

    def take_ended(self) -> list[EndedRoom]:
        """The room whose time has ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _end(self, room: LateRoom, how: End) -> None:
        seats = room.every_seat
        room.seats = {}
        self._seats.give_back(seats)
        self._count(room, seats, how)

    def _count(self, room: LateRoom, seats: Collection[KeptSeat], how: End) -> None:
        """Seats of a room have ended."""
        self.ends[how] += len(seats)
        self._allowance.remove(room.tenant, self._amounts(seats))
        self._forget_if_empty(room)

    def _forget_if_empty(self, room: LateRoom) -> None:
        if not room.every_seat and not room.lent:
            self._by_gang.pop(room.gang, None)

    # -- units that come first ------------------------------------------------------------------------------------

    def set_aside(self, priority: int, tenant: str, own: str = "") -> list[LateRoom]:
        """Give back, for a moment, the room that a unit may take: that of its own gang, of less important ones, and
        what other namespaces keep beyond their share. `settle` follows.
        """
        aside = [
            room
            for room in self._by_gang.values()
            if room.gang == own
            or room.priority < priority
            or (not room.protected and room.tenant != tenant and room.priority == priority)
        ]
        for room in aside:
            self._seats.give_back(room.every_seat)
        return aside

    def settle(self, aside: Collection[LateRoom], rows_taken: Collection[int], now: float) -> None:
        """Keep the room again; on nodes that the unit takes, what is left of it."""
        for room in aside:
            seats = [(group, seat) for group, seats in room.seats.items() for seat in seats]
            there = [each for each in seats if each[1][1].row in rows_taken]
            room.seats = {}
            for group, seat in seats:
                if seat[1].row not in rows_taken:
                    room.seats.setdefault(group, []).append(seat)
            self._seats.keep(_unit(room.gang), room.every_seat)
            self._keep_again(room, there, now)

    # -- questions ------------------------------------------------------------------------------------------------

    def kept_from(self, pod: PodClass, own: str = "") -> list[tuple[LateRoom, list[int]]]:
        """The rooms of other gangs without which nodes would have enough for a pod, and those nodes' rows."""
        found = []
        for room in self._by_gang.values():
            rows = dict.fromkeys(decision.row for _, decision in room.every_seat) if room.gang != own else {}
            helped = [row for row in rows if self._would_hold(row, pod)]
            found += [(room, helped)] if helped else []
        return found

    def _would_hold(self, row: int, pod: PodClass) -> bool:
        """True if a node has too little for a pod, and enough with what is kept there."""
        columns, kept = self._state.columns, self._amounts(self._seats.on_row(row))
        asked = {**pod.request.total, PODS: 1}
        free = {name: float(columns.free[columns.index_of(name), row]) for name in asked}
        return any(free[name] < amount for name, amount in asked.items()) and all(
            free[name] + kept[name] >= amount for name, amount in asked.items()
        )

    def _amounts(self, seats: Collection[KeptSeat]) -> Amounts:
        total: Amounts = Counter({PODS: len(seats)})
        for pod, _ in seats:
            total.update(self._state.classes.of(pod).request.total)
        return total


def _unit(gang: str) -> str:
    return f"gang {gang} with its later members"


def _stand_in(like: Pod, namespace: str, name: str) -> Pod:
    """A pod of the same amounts without relations to other pods or volumes, under a name that no pod can have."""
    spec, nodes = like.spec, like.spec.affinity.node_affinity if like.spec.affinity is not None else None
    affinity = None if nodes is None else Affinity(node_affinity=nodes)
    alone = structs.replace(spec, affinity=affinity, topology_spread_constraints=None, volumes=None, node_name=None)
    return structs.replace(like, metadata=Metadata(name=name, namespace=namespace), spec=alone, status=None)
