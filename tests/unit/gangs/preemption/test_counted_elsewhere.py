"""Plans for gangs whose room depends on pods in other domains: these are not victims, so such plans are not proven."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.gangs.model import Gang, Group
from bayplan.gangs.preemption.plan import GangPreemption, plan_gang_preemption
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.preemption.candidates import EvictionRules
from bayplan.scheduling.preemption.freeable import Freeable
from tests.builders.bodies import Json
from tests.builders.clusters import cluster
from tests.builders.gangs import gang_scheduler
from tests.builders.neighbourhoods import RACK, apart, app_pod, on, spread
from tests.builders.objects import node

POWER = "power"


def standing(name: str, app: str, at: str, priority: int, cpu: int, **spec: Any) -> Pod:
    return on(at, app_pod(name, app, cpu=cpu, priority=priority, **spec))


@pytest.mark.parametrize(
    "asked, outside, proven",
    [
        pytest.param({}, {}, True, id="nothing is asked of others"),
        pytest.param(spread("x", POWER, skew=2), {}, False, id="members are counted with a pod in another rack"),
        pytest.param({}, apart("x", POWER), False, id="a pod in another rack keeps members away"),
    ],
)
def test_a_plan_is_proven_only_if_no_pod_elsewhere_has_a_say(asked: Json, outside: Json, proven: bool) -> None:
    racks = {"n1": (2, "a", "p"), "n2": (4, "b", "p"), "n3": (2, "c", "q")}
    state = cluster(
        nodes=[
            node(name, {"cpu": cpu}, labels={RACK: rack, POWER: power}) for name, (cpu, rack, power) in racks.items()
        ],
        pods=[
            standing("low", "x", "n2", 0, 1, **outside),
            standing("vip", "filler", "n2", 50, 3),
            standing("high", "filler", "n3", 5, 2),
            *([] if asked or outside else [standing("own", "filler", "n1", 7, 1)]),
        ],
    )
    pods = tuple(app_pod(f"m-{number}", "x", priority=10, **asked) for number in range(2))
    gang = Gang("default/gang", Group(pods=pods, required=RACK), "network")
    found = plan_gang_preemption(gang_scheduler(state, RACK), gang, Freeable(state), EvictionRules())
    assert isinstance(found, GangPreemption)
    assert ([each.key for each in found.victims], found.proven) == (["default/high"], proven)
