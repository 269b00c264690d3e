"""Place a whole gang: the counterpart of `scheduling/cycle.py` for pods that start together or not at all.

    classes of the pods -> slots per node (what kubelets admit, other pods allow) -> search in the tree -> seats by rank

`schedule_gang` changes nothing; `assume_gang` takes all seats with their zones, or none. What is optional is dropped in
this order: preferred segments, extra members, groups beyond the minimum.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import WORK_OF_A_DECISION, Budget
from bayplan.engine.gangs.problem import Status, domains_used
from bayplan.extensions import PLACEMENT_STYLE, compat
from bayplan.gangs.attempt import LEAST_SLOTS_COUNTED, GangAttempt
from bayplan.gangs.checks import problem_of
from bayplan.gangs.model import BAYPLAN, Gang, GangDecision, Group, LaterSeat, patience_left
from bayplan.gangs.numa_level import bound_with_zones, split_bundle
from bayplan.gangs.parts import PartOutcome
from bayplan.gangs.plans import best_part
from bayplan.gangs.ranks.late_segments import by_segments
from bayplan.gangs.ranks.parallelism import preferring_groups
from bayplan.gangs.relations.shared_claims import SharedVolumes
from bayplan.gangs.room import as_later, room_for, with_room
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.seats import Seats, SeatTaker
from bayplan.scheduling.decision import Decision


def schedule_gang(
    scheduler: GangScheduler,
    gang: Gang,
    waited: float = 0.0,
    parent: Budget | None = None,
    *,
    room_is_kept: bool = False,
) -> GangDecision:
    """Decide where a gang goes, without changing the state. `waited` is for how many seconds it has waited.

    With `room_is_kept`, later members need no more room than they have.

    The decision spends at most `WORK_OF_A_DECISION`, within the budget `parent`. Beyond that, its status is
    `LIMIT_REACHED`.
    """
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    wrong = problem_of(gang, tree, scheduler.trees.topologies)
    if wrong or tree is None:
        return GangDecision(gang.name, Status.INFEASIBLE, wrong, problem=wrong)
    relations = scheduler.relations(gang)
    if relations.problem:
        return GangDecision(gang.name, Status.INFEASIBLE, relations.problem, problem=relations.problem)
    if gang.style != BAYPLAN:
        if relations.fellows.rules:
            problem = (
                f"its pods ask for {relations.fellows} among themselves, which style {gang.style} does not support"
            )
            return GangDecision(gang.name, Status.INFEASIBLE, problem, problem=problem)
        place = compat(PLACEMENT_STYLE, gang.style)
        decision: GangDecision = place(scheduler.state, tree, gang, scheduler.profile, scheduler.answers)
        return decision

    budget = Budget(WORK_OF_A_DECISION if parent is None else min(WORK_OF_A_DECISION, parent.left), parent, hard=True)
    root = _preferring_groups(scheduler, gang, by_segments(gang), tree)
    attempt = GangAttempt(scheduler, gang, root, tree, budget, relations)
    for stricter in attempt.stricter():
        outcome = PartOutcome(root, stricter.place(root))
        if outcome.found:
            return _decision(gang, root, outcome if room_is_kept else with_room(stricter, outcome), waited)
    outcome = best_part(attempt)
    if outcome.tried.outline.problem:
        reason = outcome.tried.outline.problem
        return GangDecision(gang.name, Status.INFEASIBLE, reason, problem=reason)
    if outcome.found:
        return _decision(gang, root, outcome if room_is_kept else with_room(attempt, outcome), waited)
    if outcome.status is Status.LIMIT_REACHED:
        for looser in attempt.looser():
            joined = PartOutcome(root, looser.place(root))
            if joined.found:
                return _decision(gang, root, joined if room_is_kept else with_room(looser, joined), waited)
    bound = bound_with_zones(scheduler.state, tree, gang, outcome.tried.solution.bound)
    return GangDecision(gang.name, outcome.status, bound)


def _preferring_groups(scheduler: GangScheduler, gang: Gang, root: Group, tree: Tree) -> Group:
    """Return the gang with its innermost parallel groups as preferred segments."""
    if not gang.parallelism or not root.pods:
        return root
    pod = scheduler.state.classes.of(root.pods[0])
    slots = scheduler.slots(pod, tree, max(len(root.pods), LEAST_SLOTS_COUNTED))
    return preferring_groups(root, gang, tree, slots)


def _decision(gang: Gang, root: Group, outcome: PartOutcome, waited: float) -> GangDecision:
    tried = outcome.tried
    used = None if gang.root.preferred is None else domains_used(tried.problem, tried.solution, 0)
    left = 0.0 if used is None else patience_left(gang, used, len(tried.problem.used(0)), waited)
    waits = ""
    if left and gang.patience is not None:
        waits = f"{used} preferred domains, waits for {gang.patience.domains} up to {gang.patience.seconds:g} s"
    return GangDecision(
        gang.name,
        outcome.status,
        tried.solution.bound if outcome.is_largest else f"{tried.solution.bound}; a larger part may also fit",
        Seats(gang, tried),
        tried.solution.gap,
        outcome.left_out(root),
        outcome.relaxed(root),
        used,
        waits,
        left,
        objective=gang.objective,
        parallelism=gang.parallelism,
        later=outcome.later,
    )


def later_seats(scheduler: GangScheduler, gang: Gang) -> Sequence[LaterSeat]:
    """Return where members of a gang that has started find room: those that wait, then those that are still to come.

    As many as possible; none if the gang asks for no level, or if other rules than bayplan's place it.
    """
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is None or gang.style != BAYPLAN or problem_of(gang, tree, scheduler.trees.topologies):
        return ()
    relations = scheduler.relations(gang)
    if relations.problem:
        return ()
    root = by_segments(gang)
    budget = Budget(WORK_OF_A_DECISION, hard=True)
    return room_for(GangAttempt(scheduler, gang, as_later(root), tree, budget, relations))


def assume_gang(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> list[Decision] | None:
    """Take every seat of a decision with its zones; None, with nothing taken, if a node refuses."""
    taker = _take_all(scheduler, gang, decision)
    if taker.refusal:
        return None
    taken = {each.pod: each for each in taker.taken}
    return [taken[seat.pod] for seat in decision.seats]


def refused_after_all(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> str:
    """Say which seat `assume_gang` does not get, and why. Nothing is taken."""
    taker = _take_all(scheduler, gang, decision)
    taker.give_back()
    found = "counting found a place" if gang.style == BAYPLAN else f"{gang.style} would place it"
    return f"{found}, but {taker.refusal}"


def _take_all(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> SeatTaker:
    """Take the seats of a decision. With a `refusal`, none is taken."""
    pods = {pod_key(pod): pod for pod in gang.pods}
    taker = SeatTaker(scheduler.state, scheduler.profile, scheduler.answers)
    shared = SharedVolumes(scheduler.state, ((seat, pods[seat.pod]) for seat in decision.seats))
    try:
        if not shared.take():
            taker.refusal = "the claims that its pods share find no volumes there"
        elif all(taker.take(seat, pods[seat.pod]) for seat in decision.seats):
            taken = {each.pod: each for each in taker.taken}
            tree = scheduler.trees.get(scheduler.trees.name_for(gang))
            taker.refusal = "" if tree is None else split_bundle(gang, decision.seats, taken, tree.levels)
    finally:
        shared.release()
    if taker.refusal:
        taker.give_back()
    return taker
