"""Seats: from counts per position to one place for every pod, and taking these places.

Ranks follow the order of the tree, so that neighbours in rank are neighbours in the network. Pods of different shapes
on one node are seated in the order in which its kubelet admits them (`engine/numa/mixes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

import numpy as np

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.cluster.volumes.needs import NO_PLAN, VolumePlan
from bayplan.engine.numa.placement import Placement, knowledge_of, placement_of
from bayplan.engine.slots.outlook import Outlook, after
from bayplan.gangs.model import Gang, Seat
from bayplan.gangs.outline import Tried
from bayplan.gangs.ranks.parallelism import seated_by_groups
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Profile


class Seats(Sequence[Seat]):
    """The seats of a decision, built lazily: a waiting gang is decided on more often than it is seated."""

    def __init__(self, gang: Gang, tried: Tried) -> None:
        self._of = gang, tried
        self._number = tried.outline.pods

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> Seat: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Seat]: ...
    def __getitem__(self, index: int | slice) -> Seat | Sequence[Seat]:
        return self._made[index]

    @cached_property
    def _made(self) -> tuple[Seat, ...]:
        return _seats(*self._of)


def _seats(gang: Gang, tried: Tried) -> tuple[Seat, ...]:
    outline, tree = tried.outline, tried.problem.tree
    paths = tree.paths[tree.node_level]
    ranks = gang.ranks
    size = outline.layers[-1].size if outline.layers else None
    found: list[tuple[Seat, int, int]] = []
    for pods_of, placed in zip(outline.pods_of, tried.solution.placed, strict=True):
        for shape, pods in pods_of.by_shape.items():
            positions = np.repeat(placed[shape].positions, placed[shape].counts).tolist()
            if gang.parallelism:
                positions = seated_by_groups(gang, tree, positions)
            for number, (pod, position) in enumerate(zip(pods, positions, strict=True)):
                key, path = pod_key(pod), paths[position]
                segment = number // size if size else pods_of.segment
                found.append((Seat(key, pods_of.group, path[-1], path, ranks[key], segment), position, shape))
    found.sort(key=lambda each: each[0].rank)
    return tuple(seat for seat, _, _ in (found if tried.mixes is None else _in_order_of_admission(found, tried)))


def _in_order_of_admission(seats: list[tuple[Seat, int, int]], tried: Tried) -> list[tuple[Seat, int, int]]:
    """Swap pods of different shapes on a node into the order in which its kubelet admits them."""
    assert tried.mixes is not None
    on_node: dict[int, list[int]] = {}
    for index, (_, position, _) in enumerate(seats):
        on_node.setdefault(position, []).append(index)
    ordered = list(seats)
    for position, places in on_node.items():
        by_shape: dict[int, list[int]] = {}
        for index in places:
            by_shape.setdefault(seats[index][2], []).append(index)
        if len(by_shape) == 1:
            continue
        counts = tuple(sorted((shape, len(here)) for shape, here in by_shape.items()))
        order = tried.mixes.order(position, counts)
        assert order is not None, "the search found this mix"
        for place, shape in zip(places, order, strict=True):
            ordered[place] = seats[by_shape[shape].pop(0)]
    return ordered


Seated = tuple[Pod, Decision]


class SeatTaker:
    """Takes the seats of one gang, each with the zones that its node's kubelet will give."""

    def __init__(self, state: ClusterState, profile: Profile, answers: ClassAnswers) -> None:
        self._state = state
        self._profile = profile
        self._answers = answers
        self._on_row: dict[int, list[Seated]] = {}
        self.refusal = ""
        """Which seat was not there any more, and the filter that refused it."""

    @property
    def taken(self) -> list[Decision]:
        """All decisions, node by node."""
        return [decision for here in self._on_row.values() for _, decision in here]

    def take(self, seat: Seat, pod: Pod) -> bool:
        """Take a seat; False, with a `refusal`, if its node no longer has it."""
        row = self._state.rows.get(seat.node)
        if row is None or seat.pod in self._state.pods:
            self.refusal = f"{seat.node} or {seat.pod} changed meanwhile"
            return False
        return self._take_on(row, seat, pod)

    def _take_on(self, row: int, seat: Seat, pod: Pod) -> bool:
        pod_class = self._state.classes.of(pod)
        blocked = int(self._answers.for_class(pod_class, self._profile).blocked[row])
        topology = self._profile.topology
        if blocked != PASSES and (
            topology is None or self._profile.filters[blocked // CODES_PER_FILTER] is not topology
        ):
            name = self._profile.filters[blocked // CODES_PER_FILTER].name
            self.refusal = f"{seat.node} would refuse {seat.pod} beside the others ({name})"
            return False
        here = self._on_row.setdefault(row, [])
        placement = Placement() if topology is None else topology.place(self._state, pod_class, row)
        if blocked == PASSES and placement.refusal is None:
            remark = "" if topology is None else topology.remark(self._state, pod_class, row)
            volumes = self._state.volumes.plan_for(pod, row)
            decision = _decided(seat, row, placement, remark=remark, volumes=volumes)
            assume(self._state, decision, pod)
            here.append((pod, decision))
            return True
        if self._take_by_replay(seat, pod, row, here):
            return True
        self.refusal = f"the kubelet of {seat.node} would refuse {seat.pod} beside the others"
        return False

    def give_back(self) -> None:
        """Give all seats back."""
        for decision in self.taken:
            self._state.forget(decision.pod)

    def _take_by_replay(self, seat: Seat, pod: Pod, row: int, here: list[Seated]) -> bool:
        """Seat a pod, and members seated on the node before it, as the kubelet's replay places them.

        Amounts per zone lose precision with every unreported pod: which CPUs it got, which memory is used together. So
        if they refuse a second member, replay all of them on the node as it was before the gang.
        """
        state, report, topology = self._state, self._state.reports[row], self._profile.topology
        if not here or report is None or topology is None:
            return False
        for _, decision in here:
            state.forget(decision.pod)
        if state.waits_for_report(row):
            return False
        node = knowledge_of(state, row, topology.arguments.assumptions)
        outlook = None if node is None else Outlook(node)
        members: Sequence[tuple[str, Pod]] = [*((decision.pod, each) for each, decision in here), (seat.pod, pod)]
        here.clear()
        for key, each in members:
            if outlook is None:
                return False
            request = state.classes.of(each).request
            admission = outlook.admit(request)
            if admission is None:
                return False
            placement = placement_of(state, outlook.now, admission, report)
            if placement.refusal is not None:
                return False
            decision = _decided(seat, row, placement, key, volumes=state.volumes.plan_for(each, row))
            assume(state, decision, each)
            here.append((each, decision))
            waits = state.freshness.waits_for_reports
            outlook = outlook.after(request, admission) if waits else Outlook(after(outlook.now, admission))
        return True


def _decided(
    seat: Seat,
    row: int,
    placement: Placement,
    key: str = "",
    remark: str = "",
    volumes: VolumePlan = NO_PLAN,
) -> Decision:
    return Decision(
        key or seat.pod,
        seat.node,
        row,
        containers=placement.containers,
        charges=placement.charges,
        by_amounts=placement.by_amounts,
        remark=remark,
        volumes=volumes,
    )
