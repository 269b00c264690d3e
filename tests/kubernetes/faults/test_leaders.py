"""Two schedulers, one lease: the leader dies, stops gracefully, or is frozen and wakes up when another one leads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, check_cluster, check_placed
from tests.kubernetes.faults.meddler import Fate, Kind, Meddler, at
from tests.kubernetes.faults.workload import add_gang, add_nodes, add_pods, bound, pod
from tests.kubernetes.running_scheduler import RunningScheduler, running_scheduler

PODS = 30


@pytest.fixture
def two_schedulers(
    plane: ControlPlane, namespace: str, meddled: tuple[Meddler, Path], tmp_path: Path
) -> Iterator[tuple[RunningScheduler, RunningScheduler]]:
    """The one that leads, behind a meddler, and the one that stands by."""
    _, kubeconfig = meddled
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaseDuration: 3s
  renewDeadline: 2s
  retryPeriod: 500ms
  resourceNamespace: {namespace}
profiles:
- schedulerName: bayplan
""")
    options = ("--config", str(configuration))
    with running_scheduler(plane, *options, kubeconfig=kubeconfig) as leader:
        leader.wait_until_leading()
        with running_scheduler(plane, *options) as standby:
            yield leader, standby
            for each in (leader, standby):
                each.process.send_signal(
                    signal.SIGCONT
                )  # one that is frozen cannot end; one that has ended does not mind


@contextmanager
def pods_arriving(plane: ControlPlane, namespace: str, number: int) -> Iterator[None]:
    """So many pods are created, one after the other, while the block runs."""
    arriving = threading.Thread(target=add_pods, args=(plane, namespace, [pod(f"p{count}") for count in range(number)]))
    arriving.start()
    try:
        yield
    finally:
        arriving.join()


def test_the_standby_goes_on_where_a_leader_died_under_load(
    plane: ControlPlane,
    namespace: str,
    witness: Witness,
    two_schedulers: tuple[RunningScheduler, RunningScheduler],
) -> None:
    leader, standby = two_schedulers
    # Exactly enough room: who does not know what the other one did gives some of it away twice.
    add_nodes(plane, *(f"n{number}" for number in range(6)), cpus=6)
    with pods_arriving(plane, namespace, PODS):
        add_gang(plane, namespace, "gang", 6)
        wait_until(lambda: len(bound(plane, namespace)) >= 5, "the leader is at work")
        leader.kill()
    check_placed(plane, namespace, PODS + 6)
    assert standby.metric("leader_election_master_status") == 1
    check_cluster(plane, namespace, witness)


def test_a_leader_that_was_frozen_and_wakes_up_behind_its_successor_binds_nothing(
    plane: ControlPlane,
    namespace: str,
    witness: Witness,
    meddled: tuple[Meddler, Path],
    two_schedulers: tuple[RunningScheduler, RunningScheduler],
) -> None:
    leader, standby = two_schedulers
    meddler, _ = meddled
    add_nodes(plane, *(f"n{number}" for number in range(6)), cpus=6)
    with pods_arriving(plane, namespace, PODS // 2):
        wait_until(lambda: len(bound(plane, namespace)) >= 2, "the leader is at work")
        leader.process.send_signal(signal.SIGSTOP)
    standby.wait_until_leading()
    meddler.decide(Kind.BIND, lambda _: Fate())  # count anew
    # The successor is frozen for a moment, so that the zombie sees unbound pods and is tempted.
    standby.process.send_signal(signal.SIGSTOP)
    add_pods(plane, namespace, (pod(f"q{count}") for count in range(PODS // 2)))
    leader.process.send_signal(signal.SIGCONT)
    wait_until(lambda: leader.process.poll() is not None, "the former leader has ended")
    # A bind that was on its way out when it froze may still be sent. It is about a pod that has its node by now.
    assert meddler.taken[Kind.BIND] == 0
    assert "lease" in leader.log.splitlines()[-1]
    standby.process.send_signal(signal.SIGCONT)
    # The standby was frozen for a few seconds, too. It may have lost the lease for that, which is right: then its
    # Deployment restarts it.
    with ExitStack() as stack:
        wait_until(
            lambda: standby.process.poll() is not None or len(bound(plane, namespace)) == PODS, "it goes on or ends"
        )
        if standby.process.poll() is not None:
            stack.enter_context(running_scheduler(plane, "--no-leader-elect"))
        check_placed(plane, namespace, PODS)
    check_cluster(plane, namespace, witness)


def test_a_leader_that_is_told_to_stop_in_the_middle_of_a_gang_finishes_the_gang(
    plane: ControlPlane,
    namespace: str,
    witness: Witness,
    meddled: tuple[Meddler, Path],
    two_schedulers: tuple[RunningScheduler, RunningScheduler],
) -> None:
    leader, standby = two_schedulers
    meddler, _ = meddled
    add_nodes(plane, "a1", "a2", "a3", rack="a", cpus=2)
    meddler.decide(Kind.BIND, at(1, Fate(before=leader.process.terminate)))
    add_gang(plane, namespace, "gang", 3, cpus=2)
    wait_until(lambda: leader.process.poll() is not None, "the leader has stopped")
    assert leader.process.returncode == 0
    assert meddler.counts[Kind.BIND] == 3
    check_placed(plane, namespace, 3, within=0.5)
    # The lease was given up and not left to run out.
    standby.wait_until_leading()
    add_nodes(plane, "a4", cpus=2)
    add_pods(plane, namespace, [pod("later", cpus=2)])
    check_placed(plane, namespace, 4)
    check_cluster(plane, namespace, witness)
