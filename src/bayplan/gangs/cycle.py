"""Place a whole gang: the counterpart of `scheduling/cycle.py` for pods that start together or not at all.

    classes of the gang's pods -> slots per node (what kubelets would admit, and pods beside them leave) -> search in the tree
    -> seats in the order of ranks

`schedule_gang` changes nothing. `assume_gang` takes the seats one by one, with the zones of each pod, and gives everything back if one of
them cannot be had after all. Optional things are given up in this order: segments that are only preferred, extra members, groups
beyond the minimum. What is required is never given up. Of the places that are left, one with room for members that are still to come is taken (`gangs/room.py`).
"""

from __future__ import annotations

from dataclasses import replace

from bayplan.cluster.state import pod_key
from bayplan.cluster.topology.tree import Tree
from bayplan.engine.budget import WORK_OF_A_DECISION, Budget
from bayplan.engine.gangs.problem import Status, domains_used
from bayplan.extensions import PLACEMENT_STYLE, compat
from bayplan.gangs.assuming import SeatTaker
from bayplan.gangs.attempt import TELLS_NODES_APART, GangAttempt
from bayplan.gangs.checks import problem_of
from bayplan.gangs.model import BAYPLAN, Gang, GangDecision, Group
from bayplan.gangs.numa_level import in_zone_words, torn_unit
from bayplan.gangs.patience import patience_left
from bayplan.gangs.plans import Outcome, best_part
from bayplan.gangs.ranks.late_segments import by_segments
from bayplan.gangs.ranks.parallelism import preferring_groups
from bayplan.gangs.room import with_room
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.seats import Seats
from bayplan.scheduling.decision import Decision


def schedule_gang(
    scheduler: GangScheduler, gang: Gang, waited: float = 0.0, around: Budget | None = None
) -> GangDecision:
    """Decide where a gang goes. The state stays as it is; `waited` is for how many seconds the gang has been waiting.

    The decision takes no more than `WORK_OF_A_DECISION`, nor than is left of the budget `around` it. A gang that needs more has the status `LIMIT_REACHED`.
    """
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    wrong = problem_of(gang, tree, scheduler.trees.names)
    if wrong or tree is None:
        return GangDecision(gang.name, Status.INFEASIBLE, wrong, problem=wrong)
    relations = scheduler.relations(gang)
    if relations.problem:
        return GangDecision(gang.name, Status.INFEASIBLE, relations.problem, problem=relations.problem)
    if gang.style != BAYPLAN:
        if relations.fellows.rules:
            problem = f"its pods ask for {relations.fellows} among themselves, which style {gang.style} cannot judge"
            return GangDecision(gang.name, Status.INFEASIBLE, problem, problem=problem)
        place = compat(PLACEMENT_STYLE, gang.style)
        decision: GangDecision = place(scheduler.state, tree, gang, scheduler.profile, scheduler.answers)
        return decision

    budget = Budget(WORK_OF_A_DECISION if around is None else min(WORK_OF_A_DECISION, around.left), around, hard=True)
    whole = _preferring_groups(scheduler, gang, by_segments(gang), tree)
    attempt = GangAttempt(scheduler, gang, whole, tree, budget, relations)
    if attempt.prefers_reported:
        # Nodes without a report only if some member has no place elsewhere.
        on_reported = replace(attempt, reported_only=True)
        outcome = Outcome(whole, on_reported.place(whole))
        if outcome.found:
            return _decision(gang, whole, with_room(on_reported, outcome), waited)
    outcome = best_part(attempt)
    if outcome.tried.outline.problem:
        reason = outcome.tried.outline.problem
        return GangDecision(gang.name, Status.INFEASIBLE, reason, problem=reason)
    if outcome.found:
        return _decision(gang, whole, with_room(attempt, outcome), waited)
    return GangDecision(gang.name, outcome.status, in_zone_words(gang, tree.levels, outcome.tried.solution.bound))


def _preferring_groups(scheduler: GangScheduler, gang: Gang, whole: Group, tree: Tree) -> Group:
    """A gang that prefers to keep its innermost parallel groups together."""
    if not gang.parallelism or not whole.pods:
        return whole
    pod = scheduler.state.classes.of(whole.pods[0])
    slots = scheduler.slots(pod, tree, max(len(whole.pods), TELLS_NODES_APART))
    return preferring_groups(whole, gang, tree, slots)


def _decision(gang: Gang, whole: Group, outcome: Outcome, waited: float) -> GangDecision:
    tried = outcome.tried
    used = None if gang.whole.preferred is None else domains_used(tried.problem, tried.solution, 0)
    left = 0.0 if used is None else patience_left(gang, used, len(tried.problem.used(0)), waited)
    waits = ""
    if left and gang.patience is not None:
        waits = f"{used} preferred domains, waits for {gang.patience.domains} up to {gang.patience.seconds:g} s"
    return GangDecision(
        gang.name,
        outcome.status,
        tried.solution.bound if outcome.complete else f"{tried.solution.bound}; more of it may have a place",
        Seats(gang, tried),
        tried.solution.gap,
        outcome.left_out(whole),
        outcome.relaxed(whole),
        used,
        waits,
        left,
        objective=gang.objective,
        parallelism=gang.parallelism,
    )


def assume_gang(scheduler: GangScheduler, gang: Gang, decision: GangDecision) -> list[Decision] | None:
    """Take every seat of a decision with the zones there; None, and nothing taken, if a node says no after all."""
    pods = {pod_key(pod): pod for pod in gang.pods}
    taker = SeatTaker(scheduler.state, scheduler.profile, scheduler.answers)
    for seat in decision.seats:
        if not taker.take(seat, pods[seat.pod]):
            taker.give_back()
            return None
    taken = {each.pod: each for each in taker.taken}
    tree = scheduler.trees.get(scheduler.trees.name_for(gang))
    if tree is not None and torn_unit(gang, decision.seats, taken, tree.levels):
        taker.give_back()
        return None
    return [taken[seat.pod] for seat in decision.seats]
