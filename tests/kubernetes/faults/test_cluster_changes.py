"""The cluster changes in the middle of a bind: a node goes, a pod is replaced by one of the same name, a kind comes or
goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders.bodies import report_body
from tests.builders.objects import cpu_zones
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import Json
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_books, check_cluster, check_placed
from tests.kubernetes.faults.conftest import DEFINITIONS
from tests.kubernetes.faults.inside import InsideScheduler, inside_scheduler
from tests.kubernetes.faults.meddler import Fate, Kind, Meddler, refused
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, bound, pod, wait_until_bound

REPORTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REPORT_KIND = "noderesourcetopologies.topology.node.k8s.io"


class TestANodeIsDeletedWhilePodsAreAssumedOnIt:
    def test_a_bind_that_has_not_been_taken_yet_goes_to_another_node(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", cpus=4)
        with inside_scheduler(kubeconfig) as scheduler:
            meddler.decide(Kind.BIND, first(refused(503), lambda: remove_node(plane, scheduler, "a1")))
            add_pods(plane, namespace, [pod("p0"), pod("p1")])
            wait_until(lambda: not plane.get("/api/v1/nodes")["items"], "the node is gone")
            add_nodes(plane, "a2", cpus=4)
            check_placed(plane, namespace, 2)
            check_books(scheduler)
        assert set(bound(plane, namespace).values()) == {"a2"}
        check_cluster(plane, namespace, witness)

    def test_a_gang_that_loses_a_node_is_completed_on_the_others(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", "a2", "a3", "a4", rack="a", cpus=2)

        def remove_a_node_without_pods() -> None:
            taken = scheduler.service.dispatcher.state.rows.keys() - set(bound(plane, namespace).values())
            remove_node(plane, scheduler, min(taken))

        with inside_scheduler(kubeconfig) as scheduler:
            meddler.decide(
                Kind.BIND,
                lambda count: (
                    Fate(reaches=False, status=503, before=remove_a_node_without_pods) if count == 1 else Fate()
                ),
            )
            add_gang(plane, namespace, "gang", 3, cpus=2)
            check_placed(plane, namespace, 3)
            check_books(scheduler)
        check_cluster(plane, namespace, witness)

    def test_a_node_that_comes_back_has_its_pods_and_no_others(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", cpus=2)
        with inside_scheduler(kubeconfig) as scheduler:
            # The node goes, and the bind is taken all the same: the API server does not mind.
            meddler.decide(Kind.BIND, first(Fate(), lambda: remove_node(plane, scheduler, "a1")))
            add_pods(plane, namespace, [pod("p0")])
            wait_until_bound(plane, namespace, 1)
            add_nodes(plane, "a1", cpus=2)
            add_pods(plane, namespace, [pod("p1"), pod("p2")])
            wait_until_bound(plane, namespace, 2)
            check_books(scheduler)
        assert len(bound(plane, namespace)) == 2
        check_cluster(plane, namespace, witness)


class TestAPodIsReplacedByOneOfTheSameNameDuringItsBind:
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_each_of_them_counts_for_itself(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path], moment: str
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", "a2", cpus=2)

        def exchange() -> None:
            replace_pod(plane, namespace, pod("twin", cpus=2))

        with inside_scheduler(kubeconfig) as scheduler:
            fate = Fate(before=exchange) if moment == "before" else Fate(after=exchange)
            meddler.decide(Kind.BIND, lambda count: fate if count == 0 else Fate())
            add_pods(plane, namespace, [pod("twin", cpus=2)])
            wait_until(lambda: meddler.counts[Kind.BIND] >= 2, "the second one is bound, too")
            add_pods(plane, namespace, [pod("other", cpus=2)])
            check_placed(plane, namespace, 2)
            check_books(scheduler)
        check_cluster(plane, namespace, witness, replaced={"twin"})

    def test_the_end_of_the_first_ones_bind_is_not_taken_for_the_end_of_the_second_ones(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", "a2", cpus=2)

        def replace_and_wait() -> None:
            known = scheduler.service.dispatcher.waiting[f"{namespace}/twin"].metadata.uid
            replace_pod(plane, namespace, pod("twin", cpus=2))
            wait_until(lambda: is_assumed_anew(scheduler, f"{namespace}/twin", known), "the second one has its place")

        with inside_scheduler(kubeconfig) as scheduler:
            fates = {0: Fate(before=replace_and_wait), 1: refused(409)}
            meddler.decide(Kind.BIND, lambda count: fates.get(count, Fate()))
            add_pods(plane, namespace, [pod("twin", cpus=2)])
            check_placed(plane, namespace, 1)
            check_books(scheduler)
        check_cluster(plane, namespace, witness, replaced={"twin"})

    def test_a_gang_that_is_replaced_as_a_whole_is_placed_as_a_whole(
        self, plane: ControlPlane, namespace: str, witness: Witness, meddled: tuple[Meddler, Path]
    ) -> None:
        meddler, kubeconfig = meddled
        add_nodes(plane, "a1", "a2", "a3", rack="a", cpus=2)

        def replace_all() -> None:
            for number in range(3):
                replace_pod(plane, namespace, pod(f"gang-{number}", cpus=2, gang="gang"))

        with inside_scheduler(kubeconfig) as scheduler:
            meddler.decide(Kind.BIND, lambda count: Fate(after=replace_all) if count == 1 else Fate())
            add_gang(plane, namespace, "gang", 3, cpus=2)
            wait_until(lambda: meddler.counts[Kind.BIND] > 3, "those of the second gang are bound")
            check_placed(plane, namespace, 3)
            check_books(scheduler)
        check_cluster(plane, namespace, witness, replaced={"gang-0", "gang-1", "gang-2"})


class TestTheKindOfReportsComesAndGoes:
    def test_without_it_nodes_are_judged_as_nodes_without_reports(
        self, plane: ControlPlane, namespace: str, witness: Witness
    ) -> None:
        add_nodes(plane, "a1", cpus=8)
        plane.post(REPORTS, report_body("a1", *cpu_zones(4, 4, of=4)))
        with inside_scheduler(plane.kubeconfig) as scheduler:
            # Six CPUs are in none of the zones, and the node's kubelet gives CPUs of one zone only.
            add_pods(plane, namespace, [pod("large", cpus=6)])
            wait_until(lambda: zones_of(scheduler, "a1") == 2, "the report is known")
            plane.delete(f"{KINDS}/{REPORT_KIND}")
            wait_until_bound(plane, namespace, 1)
            check_books(scheduler)
            plane.apply(DEFINITIONS / f"{REPORT_KIND}.yaml")
            plane.delete(f"/api/v1/namespaces/{namespace}/pods/large")
            plane.post(REPORTS, report_body("a1", *cpu_zones(4, 4, of=4)))
            wait_until(lambda: zones_of(scheduler, "a1") == 2, "the report is known again")
            add_pods(plane, namespace, [pod("large", cpus=6), pod("small", cpus=4)])
            wait_until_bound(plane, namespace, 1)
        assert set(bound(plane, namespace)) == {"small"}
        check_cluster(plane, namespace, witness)


def first(fate: Fate, before: Callable[[], None]) -> Callable[[int], Fate]:
    """Something happens before the first bind, which has this fate; the others pass."""
    return lambda count: replace(fate, before=before) if count == 0 else Fate()


def remove_node(plane: ControlPlane, scheduler: InsideScheduler, name: str) -> None:
    """Delete a node and wait until the scheduler has heard of it."""
    plane.delete(f"/api/v1/nodes/{name}")
    wait_until(lambda: name not in scheduler.service.dispatcher.state.rows, f"the scheduler knows that {name} is gone")


def replace_pod(plane: ControlPlane, namespace: str, successor: Json) -> None:
    """Delete a pod and create another one of its name."""
    plane.delete(f"/api/v1/namespaces/{namespace}/pods/{successor['metadata']['name']}")
    add_pods(plane, namespace, [successor])


def is_assumed_anew(scheduler: InsideScheduler, key: str, before: str) -> bool:
    """Whether another pod of that name is known and has its place."""
    dispatcher = scheduler.service.dispatcher
    known = dispatcher.waiting.get(key)
    return known is not None and known.metadata.uid != before and key in dispatcher.state.pods


def zones_of(scheduler: InsideScheduler, node: str) -> int:
    """How many zones the scheduler knows of a node."""
    state = scheduler.service.dispatcher.state
    return int(state.columns.zone_count[state.rows[node]])
