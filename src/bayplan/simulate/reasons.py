"""Why pods still wait at the end of a simulation, in the scheduler's own words, asked once for each workload.

`simulate/simulation.py` asks when a run is over or interrupted; `results/` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.dialects.members import Incomplete
from bayplan.explain.refusal import refusal_of
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.cycle import schedule_one
from bayplan.simulate.gangs import SimulatedGang
from bayplan.simulate.run import Waiting
from bayplan.simulate.scenario.remarks import claims_of
from bayplan.simulate.waiting import WaitingUnit


def reasons_to_wait(scheduler: GangScheduler, units: Iterable[WaitingUnit]) -> tuple[Waiting, ...]:
    """How many pods of each workload wait, and why the first of them does; pods that stand alone before gangs."""
    of_workload: dict[tuple[bool, str], list[WaitingUnit]] = {}
    for unit in units:
        of_workload.setdefault((unit.gang is not None, unit.pods[0][0].workload.name), []).append(unit)
    told = (
        Waiting(name, sum(len(unit.pods) for unit in found), _reason(scheduler, found[0]))
        for (_, name), found in sorted(of_workload.items(), key=lambda entry: entry[0][0])
    )
    return tuple(each for each in told if each.reason)


def _reason(scheduler: GangScheduler, unit: WaitingUnit) -> str:
    return _of_pod(scheduler, unit.pods[0][1]) if unit.gang is None else _of_gang(scheduler, unit.gang)


def _of_gang(scheduler: GangScheduler, simulated: SimulatedGang) -> str:
    gang = simulated.as_gang()
    if isinstance(gang, Incomplete):
        return gang.reason
    if not gang.pods:
        return "not all pods of their group have arrived"
    decision = schedule_gang(scheduler, gang)
    return decision.waits or decision.bound


def _of_pod(scheduler: GangScheduler, pod: Pod) -> str:
    """Empty for a pod that fits and has only not had its turn."""
    if claim := next(claims_of(pod), None):
        return f"asks for {claim}, which a simulation does not support"
    decision = schedule_one(scheduler.state, pod, scheduler.profile, scheduler.answers)
    if decision.shortfall is None:
        return decision.held_back
    pod_class = scheduler.state.classes.of(pod)
    return refusal_of(scheduler.state, pod_class, scheduler.profile, decision, ()).sentence
