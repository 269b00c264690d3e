"""Room is made by moving: the fewest pods, everybody has a place afterwards, and the state is not touched."""

from __future__ import annotations

import msgspec

from bayplan.cluster.state import ClusterState, pod_key
from bayplan.gangs.cycle import schedule_gang
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.scheduler import GangScheduler
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import gang_scheduler
from tests.builders.objects import GPU, bound, node, simple_pod, simple_pods
from tests.conformance.consolidation import Movable, consolidate

RACK = "x/rack"


def gpu_pod(name: str, to: str, gpus: int = 1) -> Pod:
    return bound(simple_pod({GPU: gpus}, name), to)


def movable(*pods: Pod) -> Movable:
    anew = tuple(
        msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, node_name=None)) for each in pods
    )
    return Movable(Gang(f"ml/{pods[0].metadata.name}", Group(pods=anew)), pods)


def scheduler(*pods: Pod, gpus: int = 2) -> GangScheduler:
    """Two racks of one node each."""
    state = ClusterState()
    for name in ("n1", "n2"):
        state.set_node(node(name, {GPU: gpus}, labels={RACK: f"rack-{name}"}))
    for pod in pods:
        state.set_pod(pod)
    return gang_scheduler(state, RACK, tree="net")


def gang(size: int) -> Gang:
    return Gang("ml/new", Group(pods=simple_pods({GPU: 1}, size, "new"), required=RACK), "net")


def test_one_pod_moves_so_that_a_rack_is_free() -> None:
    one, other = gpu_pod("one", "n1"), gpu_pod("other", "n2")
    placing = scheduler(one, other)
    assert not schedule_gang(placing, gang(2)).placed
    found = consolidate(placing, gang(2), [movable(one), movable(other)])
    assert found is not None
    assert len({seat.node for seat in found.decision.seats}) == 1
    assert [(seat.pod, seat.node) for move in found.moves for seat in move.seats] == [("default/one", "n2")]


def test_the_fewest_pods_move() -> None:
    large = [gpu_pod("large-0", "n1"), gpu_pod("large-1", "n1")]
    small = gpu_pod("small", "n2")
    found = consolidate(scheduler(*large, small, gpus=4), gang(4), [movable(*large), movable(small)])
    assert found is not None
    assert [move.gang for move in found.moves] == ["ml/small"]


def test_no_pod_is_left_without_a_place() -> None:
    full = [gpu_pod("one", "n1", 2), gpu_pod("other", "n2", 2)]
    assert consolidate(scheduler(*full), gang(2), [movable(each) for each in full]) is None


def test_the_state_is_as_it_was() -> None:
    one, other = gpu_pod("one", "n1"), gpu_pod("other", "n2")
    placing = scheduler(one, other)
    free = placing.state.columns.free.copy()
    logs = placing.state.usage_log.end, placing.state.node_log.end
    consolidate(placing, gang(2), [movable(one), movable(other)])
    assert (placing.state.columns.free == free).all()
    assert (placing.state.usage_log.end, placing.state.node_log.end) == logs
    assert sorted(placing.state.pods) == sorted(map(pod_key, (one, other)))
