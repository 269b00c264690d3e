"""Reports on their way into the state: by the ledger, or by one of scheduler-plugins' caches.

The node has two zones with 8 CPUs each; a report is written as what is left in them and the pods that it shows.
"""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.columns.columns import NO_TOPOLOGY, TOPOLOGY_STALE, TOPOLOGY_USABLE
from bayplan.cluster.reports.fingerprint import ATTRIBUTE, fingerprint_of
from bayplan.cluster.reports.intake import ReportIntake, ReportSettings, intake_for
from bayplan.cluster.state import ClusterState
from bayplan.compat.scheduler_plugins.cache.intake import CachedIntake
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from bayplan.plugins.node_resource_topology_args import read_arguments
from tests.builders.clusters import cluster, place
from tests.builders.objects import cpu_pod, cpu_zones, node, topology, zone
from tests.unit.cluster.one_node_world import left

NOON = 1_000_000.0
OVER_RESERVE = {"filterMode": "Upstream", "cacheResyncPeriodSeconds": 7}
DISCARD_RESERVED = {"filterMode": "Upstream", "discardReservedNodes": True}


def report(left: tuple[int, int], *shown: str, scope: str = "container") -> NodeResourceTopology:
    published = {ATTRIBUTE: fingerprint_of(("default", name) for name in shown)}
    return topology(*cpu_zones(*left), scope=scope, attributes=published)


def cpus(number: int, name: str = "web") -> Pod:
    return cpu_pod(number, name, schedulerName="ours")


def bound(waiting: Pod, scheduler: str = "ours") -> Pod:
    spec = msgspec.structs.replace(waiting.spec, node_name="n1", scheduler_name=scheduler)
    assert waiting.status is not None
    return msgspec.structs.replace(waiting, spec=spec, status=msgspec.structs.replace(waiting.status, phase="Running"))


def started(arguments: dict[str, object]) -> tuple[ReportIntake, ClusterState]:
    state = cluster(nodes=[node("n1", {"cpu": 16, "memory": "64Gi"})])
    intake = intake_for(state, read_arguments(arguments).reports, ["ours"])
    intake.topology(report((8, 8)), NOON)
    return intake, state


def run(intake: ReportIntake, waiting: Pod) -> None:
    """Decide, assume, bind, and see it bound."""
    state = intake.state
    place(state, waiting)
    intake.reserved("n1", waiting)
    intake.bound("n1", waiting)
    state.set_pod(bound(waiting), at=NOON)
    intake.pod_changed(bound(waiting))


class TestWhoKeepsTheBooks:
    @pytest.mark.parametrize(
        "arguments, books, period",
        [
            pytest.param({}, "Ledger", 5.0, id="nothing said"),
            pytest.param({"cacheResyncPeriodSeconds": 7}, "Ledger", 5.0, id="the ledger is better than a cache"),
            pytest.param({"filterMode": "Upstream"}, "Ledger", 5.0, id="no cache asked for"),
            pytest.param(OVER_RESERVE, "OverReserve", 7.0, id="a period"),
            pytest.param(DISCARD_RESERVED, "DiscardReserved", 5.0, id="nodes are to be discarded"),
            pytest.param({**OVER_RESERVE, **DISCARD_RESERVED}, "DiscardReserved", 7.0, id="both"),
        ],
    )
    def test_arguments(self, arguments: dict[str, object], books: str, period: float) -> None:
        settings = read_arguments(arguments).reports
        assert (settings.accounting, settings.resync_period) == (books, period)
        assert isinstance(intake_for(ClusterState(), settings), CachedIntake) is (books != "Ledger")

    @pytest.mark.parametrize("scope, follows", [(None, True), ("All", True), ("OnlyResources", False)])
    def test_resync_scope(self, scope: str | None, follows: bool) -> None:
        cache = {} if scope is None else {"resyncScope": scope}
        assert read_arguments({**OVER_RESERVE, "cache": cache}).reports.follows_configuration is follows


class TestTheLedger:
    def test_knows_the_zone_and_settles_by_fingerprint(self) -> None:
        intake, state = started({})
        run(intake, cpus(4))
        assert left(state) == (4, 8)
        intake.topology(report((4, 8), "web"), NOON + 1)
        assert (left(state), state.is_ahead_of_report(0)) == ((4, 8), False)

    def test_settles_in_time(self) -> None:
        intake, state = started({})
        run(intake, cpus(4))
        intake.topology(report((4, 5), "web", "unheard-of"), NOON + 1)
        intake.resync(NOON + 40)
        assert left(state) == (4, 5)

    def test_forgets_a_report_that_is_gone(self) -> None:
        intake, state = started({})
        intake.topology_gone("n1")
        assert state.columns.topology[0] == NO_TOPOLOGY

    def test_wants_to_hear_of_no_refusals(self) -> None:
        intake, _ = started({})
        assert not intake.counts_refusals


class TestOverReserve:
    def test_takes_a_pod_from_every_zone_and_once_only(self) -> None:
        intake, state = started(OVER_RESERVE)
        run(intake, cpus(4))
        assert left(state) == (4, 4)

    def test_gives_back_what_is_not_bound(self) -> None:
        intake, state = started(OVER_RESERVE)
        place(state, cpus(4))
        intake.reserved("n1", cpus(4))
        state.forget("default/web")
        intake.unreserved("n1", cpus(4))
        assert left(state) == (8, 8)

    def test_takes_over_a_report_when_it_was_refused_and_shows_the_pods(self) -> None:
        intake, state = started(OVER_RESERVE)
        run(intake, cpus(4))
        intake.topology(report((4, 8), "web"), NOON + 1)
        intake.resync(NOON + 2)
        assert left(state) == (4, 4), "no pod was refused"
        assert intake.counts_refusals
        intake.refused("n1")
        intake.resync(NOON + 9)
        assert left(state) == (4, 8)

    def test_hides_a_node_with_a_foreign_pod_until_its_report_shows_it(self) -> None:
        intake, state = started(OVER_RESERVE)
        theirs = bound(cpus(6, "theirs"), "default-scheduler")
        state.set_pod(theirs, at=NOON)
        intake.pod_changed(theirs)
        assert state.columns.topology[0] == TOPOLOGY_STALE
        intake.topology(report((8, 2), "theirs"), NOON + 1)
        assert state.columns.topology[0] == TOPOLOGY_STALE
        intake.resync(NOON + 7)
        assert (state.columns.topology[0], left(state)) == (TOPOLOGY_USABLE, (8, 2))

    def test_looks_at_no_foreign_pods_if_told_so(self) -> None:
        intake, state = started({**OVER_RESERVE, "cache": {"foreignPodsDetect": "None"}})
        intake.pod_changed(bound(cpus(6, "theirs"), "default-scheduler"))
        assert state.columns.topology[0] == TOPOLOGY_USABLE

    def test_takes_over_another_configuration(self) -> None:
        intake, state = started(OVER_RESERVE)
        intake.topology(report((3, 3), scope="pod"), NOON + 1)
        assert left(state) == (8, 8)
        intake.resync(NOON + 7)
        assert left(state) == (3, 3)

    def test_follows_reports_that_appear_late_and_vanish(self) -> None:
        intake, state = started(OVER_RESERVE)
        intake.topology_gone("n1")
        assert state.columns.topology[0] == NO_TOPOLOGY
        intake.topology(report((5, 5)), NOON + 1)
        assert left(state) == (5, 5)

    def test_refuses_a_report_that_cannot_be_read_and_keeps_the_last_one(self) -> None:
        intake, state = started(OVER_RESERVE)
        with pytest.raises(InvalidObject, match="many"):
            intake.topology(topology(zone(0, {"cpu": "many"})), NOON + 1)
        run(intake, cpus(4))
        assert left(state) == (4, 4)

    def test_hides_a_node_that_becomes_known_later(self) -> None:
        state = ClusterState()
        intake = intake_for(state, ReportSettings(accounting="OverReserve"), ["ours"])
        intake.topology(report((8, 8)), NOON)
        intake.pod_changed(bound(cpus(6, "theirs"), "default-scheduler"))
        state.set_node(node("n1", {"cpu": 16, "memory": "64Gi"}))
        intake.resync(NOON + 5)
        assert state.columns.topology[0] == TOPOLOGY_STALE


class TestDiscardReserved:
    def test_hides_a_node_from_the_decision_to_the_bind(self) -> None:
        intake, state = started(DISCARD_RESERVED)
        place(state, cpus(4))
        intake.reserved("n1", cpus(4))
        assert state.columns.topology[0] == TOPOLOGY_STALE
        intake.bound("n1", cpus(4))
        assert (state.columns.topology[0], left(state)) == (TOPOLOGY_USABLE, (8, 8))

    def test_shows_every_report_at_once(self) -> None:
        intake, state = started(DISCARD_RESERVED)
        intake.topology(report((4, 8), "web"), NOON + 1)
        assert left(state) == (4, 8)
