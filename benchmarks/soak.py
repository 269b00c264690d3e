"""The scheduler for an hour in bad weather, on a real API server: `python -m benchmarks soak`.

Two schedulers work behind a proxy that refuses, loses, delays and truncates requests and muddles watches
(`tests/kubernetes/faults/weather.py`). Pods and gangs come, end and are deleted. Now and then the leader is killed or
frozen, watches are cut or fall silent, etcd stops for seconds, the API server restarts, and the schedulers' clock jumps
by a day. All along it is checked that

    no pod is bound twice, and no node holds more than it has (no promise is lost)
    no gang is half bound for longer than it may be
    no pod waits for longer than `WAITS_AT_MOST` although there is room for it
    the memory of the schedulers stays flat after the first third

and at the end, in good weather, every pod that is left has a node.

    SOAK_SECONDS=300 SOAK_SEED=7 python -m benchmarks soak
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import report
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.control_plane.raw_api import ApiRefused
from tests.kubernetes.control_plane.waiting import wait_until
from tests.kubernetes.faults.aftermath import Witness, bound_twice, overcommitted_nodes, witness_of
from tests.kubernetes.faults.meddler import meddler_before
from tests.kubernetes.faults.weather import Weather
from tests.kubernetes.faults.workload import add_gang, add_levels, add_nodes, add_pods, pod
from tests.kubernetes.running_scheduler import RunningScheduler
from tests.kubernetes.workloads import CRDS, pods_in

NAMESPACE = "soak"
GANG = "bayplan.io/pod-group"
RACKS, NODES_A_RACK, CPUS = 5, 4, 8
# Less than half of the cluster is asked for, so that there is room for everybody at any time.
MOST_PODS = RACKS * NODES_A_RACK * CPUS // 3
HALF_BOUND_AT_MOST = 120.0
WAITS_AT_MOST = 150.0
CHECKED_EVERY = 2.0
ENDS_WITHIN = 120.0
# Memory may grow by so much from the second third to the last.
MOST_GROWTH = 1.15
TROUBLE = (OSError, ApiRefused, ValueError)

# The schedulers' wall clock is ahead by the seconds in a file.
CLOCK = """
import os, time
_real = time.time
def _jumping():
    try:
        with open(os.environ["SOAK_CLOCK"]) as file:
            return _real() + float(file.read() or 0)
    except (OSError, ValueError):
        return _real()
time.time = _jumping
"""


@dataclass
class Story:
    """What was seen so far."""

    violations: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    longest_wait: float = 0.0
    half_since: dict[str, float] = field(default_factory=dict)
    waits_since: dict[str, float] = field(default_factory=dict)


def run() -> None:
    """Print what came of it; raises if an invariant did not hold."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench soak: left out: {problem}")
        return
    seconds = float(os.environ.get("SOAK_SECONDS", "120" if os.environ.get("BENCH_QUICK") else "3600"))
    seed = int(os.environ.get("SOAK_SEED", "1"))
    with ControlPlane() as plane:
        story = soak(plane, seconds, seed)
    report("soak pods", story.pods, f"in {seconds:.0f} s, seed {seed}")
    report("soak longest wait", story.longest_wait, "s")
    for fault, times in sorted(story.faults.items()):
        report(f"soak fault {fault}", times, "times")
    for third, megabytes in enumerate(thirds(story.memory), start=1):
        report(f"soak memory in third {third}", megabytes, "MB, the larger scheduler")
    print(f"bench soak: {'; '.join(story.violations) or 'all invariants held'}")
    assert not story.violations


def soak(plane: ControlPlane, seconds: float, seed: int) -> Story:
    """Run the soak on a control plane that has nothing yet."""
    for crd in CRDS:
        plane.apply(crd)
    add_levels(plane)
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for rack in range(RACKS):
        add_nodes(plane, *(f"r{rack}-n{each}" for each in range(NODES_A_RACK)), cpus=CPUS, rack=f"r{rack}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        weather, kubeconfig = stack.enter_context(
            meddler_before(plane.kubeconfig, folder, lambda server, tls: Weather(server, tls, seed))
        )
        assert isinstance(weather, Weather)
        witness = stack.enter_context(witness_of(plane, NAMESPACE))
        schedulers = _Schedulers(kubeconfig, folder)
        stack.callback(schedulers.close)
        return _Soak(plane, weather, witness, schedulers, random.Random(seed)).run(seconds)


class _Schedulers:
    """Two schedulers; one that ends is started again, as a Deployment would."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(CLOCK)
        self._clock = folder / "clock"
        self._clock.write_text("0")
        self._kubeconfig = kubeconfig
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
        self._environment = {"PYTHONPATH": path, "SOAK_CLOCK": str(self._clock)}
        configuration = folder / "scheduler.yaml"
        configuration.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s, resourceNamespace: soak}\n"
            "profiles: [{schedulerName: bayplan}]\n"
        )
        self._options = ("--config", str(configuration), "--gangs-complete-in", "20")
        self.running = [self._start(), self._start()]

    def _start(self) -> RunningScheduler:
        return RunningScheduler(self._kubeconfig, self._options, self._environment)

    def keep_running(self) -> int:
        """Start again what has ended; how many that were."""
        ended = [index for index, each in enumerate(self.running) if each.process.poll() is not None]
        for index in ended:
            self.running[index].close()
            self.running[index] = self._start()
        return len(ended)

    def leader(self) -> RunningScheduler | None:
        """The one that leads."""
        return next((each for each in self.running if each.metric("leader_election_master_status") == 1), None)

    def set_clock(self, ahead: float) -> None:
        """The schedulers' wall clock is so far ahead from now on."""
        self._clock.write_text(str(ahead))

    def megabytes(self) -> float:
        """Resident memory of the larger one."""
        return max((_resident(each.process.pid) for each in self.running), default=0.0)

    def close(self) -> None:
        """End both."""
        for each in self.running:
            with suppress(ProcessLookupError):
                each.process.send_signal(signal.SIGCONT)
            each.close()


class _Soak:
    def __init__(
        self, plane: ControlPlane, weather: Weather, witness: Witness, schedulers: _Schedulers, dice: random.Random
    ) -> None:
        self._plane = plane
        self._weather = weather
        self._witness = witness
        self._schedulers = schedulers
        self._dice = dice
        self._story = Story()
        self._made = 0
        self._faults: dict[str, Callable[[], None]] = {
            "leader killed": self._kill_leader,
            "leader frozen": self._freeze_leader,
            "watches cut": weather.cut_watches,
            "watches silent": weather.mute_watches,
            "etcd stopped": self._stop_etcd,
            "API server restarted": plane.apiserver.restart,
            "clock a day back": lambda: self._schedulers.set_clock(-86_400.0),
            "clock a day ahead": lambda: self._schedulers.set_clock(86_400.0),
        }

    def run(self, seconds: float) -> Story:
        began = time.monotonic()
        next_fault = began + 15.0
        while time.monotonic() - began < seconds:
            with suppress(*TROUBLE):
                self._churn()
            if time.monotonic() >= next_fault:
                self._meet_fault()
                next_fault = time.monotonic() + self._dice.uniform(8, 25)
            self._schedulers.keep_running()
            with suppress(*TROUBLE):
                self._check(time.monotonic() - began)
            time.sleep(self._dice.uniform(0, CHECKED_EVERY))
        self._end()
        return self._story

    def _churn(self) -> None:
        """Pods and gangs come, and pods that have a node may go."""
        pods = pods_in(self._plane, NAMESPACE)
        room = MOST_PODS - len(pods)
        for _ in range(self._dice.randint(0, 4)):
            self._made += 1
            if self._dice.random() < 0.3 and room >= 4:
                size = self._dice.randint(2, 4)
                add_gang(self._plane, NAMESPACE, f"gang-{self._made}", size, cpus=2)
                room -= size
                self._story.pods += size
            elif room >= 1:
                add_pods(self._plane, NAMESPACE, [pod(f"pod-{self._made}", cpus=self._dice.randint(1, 3))])
                room -= 1
                self._story.pods += 1
        for each in self._dice.sample(pods, min(len(pods), self._dice.randint(0, 4))):
            if each["spec"].get("nodeName"):
                self._remove(each)

    def _remove(self, each: dict[str, Any]) -> None:
        """A pod ends; a gang ends with all of its pods."""
        gang = each["metadata"].get("labels", {}).get(GANG)
        names = [each["metadata"]["name"]]
        if gang:
            members = [other for other in pods_in(self._plane, NAMESPACE) if _gang_of(other) == gang]
            names = [other["metadata"]["name"] for other in members]
            self._plane.delete(f"/apis/bayplan.io/v1alpha1/namespaces/{NAMESPACE}/podgroups/{gang}")
        for name in names:
            self._plane.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    # -- faults ---------------------------------------------------------------------------------------------------

    def _meet_fault(self) -> None:
        name = self._dice.choice(list(self._faults))
        self._story.faults[name] = self._story.faults.get(name, 0) + 1
        self._faults[name]()

    def _kill_leader(self) -> None:
        leader = self._schedulers.leader()
        if leader is not None:
            leader.kill()

    def _freeze_leader(self) -> None:
        leader = self._schedulers.leader()
        if leader is not None:
            leader.process.send_signal(signal.SIGSTOP)
            time.sleep(self._dice.uniform(2, 10))
            leader.process.send_signal(signal.SIGCONT)

    def _stop_etcd(self) -> None:
        self._plane.etcd.pause()
        try:
            time.sleep(self._dice.uniform(1, 5))
        finally:
            self._plane.etcd.resume()

    # -- invariants -----------------------------------------------------------------------------------------------

    def _check(self, now: float) -> None:
        story = self._story
        story.memory.append((now, self._schedulers.megabytes()))
        pods = pods_in(self._plane, NAMESPACE)
        by_uid = {each["metadata"]["uid"] for each in pods}
        self._note("bound twice", bound_twice(self._witness.seen, {each.name for each in self._witness.seen}))
        self._note("more than a node has", overcommitted_nodes(self._plane))
        gangs: dict[str, list[bool]] = {}
        for each in pods:
            gangs.setdefault(_gang_of(each), []).append(bool(each["spec"].get("nodeName")))
        half = {gang for gang, placed in gangs.items() if gang and any(placed) and not all(placed)}
        story.half_since = {gang: story.half_since.get(gang, now) for gang in half}
        self._note("half bound", [gang for gang, at in story.half_since.items() if now - at > HALF_BOUND_AT_MOST])
        waiting = {each["metadata"]["uid"] for each in pods if not each["spec"].get("nodeName")}
        story.waits_since = {uid: story.waits_since.get(uid, now) for uid in waiting & by_uid}
        story.longest_wait = max((story.longest_wait, *(now - at for at in story.waits_since.values())))
        self._note("waits too long", [uid for uid, at in story.waits_since.items() if now - at > WAITS_AT_MOST])

    def _note(self, what: str, found: object) -> None:
        told = f"{what}: {found}"
        if found and told not in self._story.violations:
            self._story.violations.append(told)

    def _end(self) -> None:
        """In good weather everything comes to rest."""
        self._weather.clears()
        self._schedulers.set_clock(0.0)

        def all_placed() -> bool:
            self._schedulers.keep_running()
            with suppress(*TROUBLE):
                return all(each["spec"].get("nodeName") for each in pods_in(self._plane, NAMESPACE))
            return False

        try:
            wait_until(all_placed, "every pod has a node", timeout=ENDS_WITHIN)
        except AssertionError as problem:
            self._story.violations.append(str(problem))
        self._check(self._story.memory[-1][0] + 1.0 if self._story.memory else 0.0)
        _, second, last = thirds(self._story.memory)
        if second and last > second * MOST_GROWTH:
            self._story.violations.append(f"memory grew from {second:.0f} to {last:.0f} MB")


def thirds(memory: list[tuple[float, float]]) -> tuple[float, float, float]:
    """The median of the memory in each third of the time."""
    if not memory:
        return 0.0, 0.0, 0.0
    end = memory[-1][0] or 1.0
    parts = [[each for at, each in memory if third <= 3 * at / end <= third + 1] for third in range(3)]
    first, second, last = (statistics.median(part) if part else 0.0 for part in parts)
    return first, second, last


def _gang_of(each: dict[str, Any]) -> str:
    return str(each["metadata"].get("labels", {}).get(GANG, ""))


def _resident(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "VmRSS: 0")
    return int(line.split()[1]) / 1024
