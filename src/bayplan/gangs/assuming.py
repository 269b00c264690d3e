"""Taking the seats of a gang, one by one, each with the zones that its node's kubelet will give.

In comes a seat and who of the gang stands on that node already, out goes a `Decision`, or None if the node says no: something may have
changed since the gang was placed. Amounts per zone are asked first, as for any pod. They know less with every pod that is promised and not
reported yet: which CPUs it got, which memory is used together. So where they say no to a second pod, the node is looked at as it was before
the gang came, and its kubelet is replayed for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.state import ClusterState
from bayplan.engine.kubelet import admit
from bayplan.engine.numa.placement import Placement, knowledge_of, placement_of
from bayplan.engine.slots.replay import after, unsettled
from bayplan.gangs.model import Seat
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import CODES_PER_FILTER, PASSES, Profile

Seated = tuple[Decision, Pod]


class SeatTaker:
    """Takes seats of one gang. `taken` are those it has."""

    def __init__(self, state: ClusterState, profile: Profile, answers: ClassAnswers) -> None:
        self._state = state
        self._profile = profile
        self._answers = answers
        self._on_row: dict[int, list[Seated]] = {}

    @property
    def taken(self) -> list[Decision]:
        """All decisions, node by node."""
        return [decision for here in self._on_row.values() for decision, _ in here]

    def take(self, seat: Seat, pod: Pod) -> bool:
        """Take a seat; False if its node does not have it any more."""
        row = self._state.rows.get(seat.node)
        if row is None or seat.pod in self._state.pods:
            return False
        pod_class = self._state.classes.of(pod)
        blocked = int(self._answers.for_class(pod_class, self._profile).blocked[row])
        topology = self._profile.topology
        if blocked != PASSES and (
            topology is None or self._profile.filters[blocked // CODES_PER_FILTER] is not topology
        ):
            return False
        here = self._on_row.setdefault(row, [])
        placement = Placement() if topology is None else topology.place(self._state, pod_class, row)
        if blocked == PASSES and placement.refusal is None:
            remark = "" if topology is None else topology.remark(self._state, pod_class, row)
            here.append(_decided(seat, row, placement, pod, remark=remark))
            assume(self._state, *here[-1])
            return True
        return self._take_by_replay(seat, pod, row, here)

    def give_back(self) -> None:
        """Nothing was taken."""
        for decision in self.taken:
            self._state.forget(decision.pod)

    def _take_by_replay(self, seat: Seat, pod: Pod, row: int, here: list[Seated]) -> bool:
        """Seat a pod and those of the gang that came before it, all as the kubelet's replay has it."""
        state, report, topology = self._state, self._state.reports[row], self._profile.topology
        if not here or report is None or topology is None:
            return False
        for decision, _ in here:
            state.forget(decision.pod)
        waits = state.freshness.waits_for_reports
        if waits and state.is_ahead_of_report(row):
            return False
        node = knowledge_of(state, row, topology.arguments.assumptions)
        members: Sequence[tuple[str, Pod]] = [*((decision.pod, each) for decision, each in here), (seat.pod, pod)]
        here.clear()
        for number, (key, each) in enumerate(members, start=1):
            if node is None:
                return False
            request = state.classes.of(each).request
            admission = admit(node, request)
            placement = placement_of(state, node, admission, report)
            if placement.refusal is not None:
                return False
            if waits and number < len(members) and unsettled(request, admission):
                return False
            here.append(_decided(seat, row, placement, each, key))
            assume(state, *here[-1])
            node = after(node, admission)
        return True


def _decided(seat: Seat, row: int, placement: Placement, pod: Pod, key: str = "", remark: str = "") -> Seated:
    decision = Decision(
        key or seat.pod,
        seat.node,
        row,
        containers=placement.containers,
        charges=placement.charges,
        by_amounts=placement.by_amounts,
        remark=remark,
    )
    return decision, pod
