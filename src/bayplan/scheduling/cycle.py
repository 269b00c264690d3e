"""Schedule one pod. Start reading here.

    class of the pod -> its cached answer -> effect of other pods -> best row -> zones on that node -> Decision

The caller (a command, the scheduler, the simulator) prints, binds or explains the `Decision`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.engine.numa.placement import Placement
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import NOT_USABLE, Answer, ClassAnswers, score_in
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import answer_for, incoming_pod
from bayplan.scheduling.shortfall import shortfall_of

Choice = Callable[[Sequence[int]], int]


def schedule_one(
    state: ClusterState,
    pod: Pod,
    profile: Profile,
    answers: ClassAnswers,
    *,
    explain: bool = True,
    choose: Choice | None = None,
) -> Decision:
    """Decide where one pod goes, without changing the state.

    Explaining a "no" costs more than finding it: pass `explain=False` if only the answer is needed, as on retries.
    `choose` breaks ties; by default the lowest row wins.
    """
    key = pod_key(pod)
    pod_class = state.classes.of(pod)
    held_back = why_not_yet(pod, pod_class)
    if held_back:
        return Decision(key, None, held_back=held_back)
    answer = answer_for(state, pod, pod_class, profile, answers)
    row, placement = _nominated_node(state, pod, pod_class, profile, answer)
    if row < 0:
        row, placement = _best_node(state, pod_class, profile, answer, choose)
    if row < 0 and not explain:
        return Decision(key, None)
    if row < 0:
        refused = list(answer.refused_by_replay.items())
        incoming = incoming_pod(state, pod, pod_class)
        return Decision(key, None, shortfall=shortfall_of(state, pod_class, profile, answer, refused, incoming))
    return Decision(
        key,
        state.names[row],
        row,
        score_in(int(answer.total_score[row])),
        placement.containers,
        placement.charges,
        by_amounts=placement.by_amounts,
        remark=profile.topology.remark(state, pod_class, row) if profile.topology else "",
        volumes=state.volumes.plan_for(pod, row),
    )


def assume(state: ClusterState, decision: Decision, pod: Pod) -> None:
    """Take the amounts of a decision, so that the next decision sees them."""
    pod_class = state.classes.of(pod)
    state.assume(
        decision.pod,
        decision.row,
        pod_class,
        decision.charges,
        by_amounts=decision.by_amounts,
        volumes=decision.volumes,
    )
    state.pod_placed(decision.pod, pod)


def _nominated_node(
    state: ClusterState, pod: Pod, pod_class: PodClass, profile: Profile, answer: Answer
) -> tuple[int, Placement]:
    """Return the row of `status.nominatedNodeName` and its zones if it takes the pod,
    as kube-scheduler does; else -1.
    """
    nominated = pod.status.nominated_node_name if pod.status else None
    row = state.rows.get(nominated, -1) if nominated else -1
    if row < 0 or answer.total_score[row] == NOT_USABLE:
        return -1, Placement()
    placement = profile.topology.place(state, pod_class, row) if profile.topology else Placement()
    if placement.refusal is None:
        return row, placement
    answer.refuse(row, placement.refusal)
    return -1, Placement()


def _best_node(
    state: ClusterState, pod: PodClass, profile: Profile, answer: Answer, choose: Choice | None = None
) -> tuple[int, Placement]:
    """Return the best row and its zones; row -1 if there is none. `choose` breaks ties, by default the lowest row wins.

    Counting can be wrong about a node whose containers depend on each other. If the kubelet's replay refuses the node,
    the answer remembers it and the next best is tried.
    """
    while len(answer.total_score):
        row = int(answer.total_score.argmax())
        if answer.total_score[row] == NOT_USABLE:
            break
        if choose is not None:
            row = choose(np.flatnonzero(answer.total_score == answer.total_score[row]).tolist())
        placement = profile.topology.place(state, pod, row) if profile.topology else Placement()
        if placement.refusal is None:
            return row, placement
        answer.refuse(row, placement.refusal)
    return -1, Placement()


def why_not_yet(pod: Pod, pod_class: PodClass) -> str:
    """Return why a pod must not be placed yet on any node; an empty string if it may."""
    gates = [gate.name for gate in pod.spec.scheduling_gates or []]
    if gates:
        return f"waits for scheduling gate{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
    if pod_class.not_understood:
        return f"asks for {', '.join(pod_class.not_understood)}, which this version of bayplan cannot judge yet"
    return f"waits for its volumes: {pod_class.volumes.problem}" if pod_class.volumes.problem else ""
