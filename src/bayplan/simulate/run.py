"""What one simulated run came to, as data: counts, the time line, refusals, and the cluster at the end.

`simulate/simulation.py` fills it; `simulate/results/comparison.py` writes tables and documents from several runs, and
`simulate/results/page.py` the HTML page. Nothing here computes a placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.cluster.state import ClusterState
from bayplan.simulate.scenario.model import Seconds


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at one moment; the time line is made of these.

    `refused` counts all refusals so far. Shares are of what kubelets can give to pods in sum, 0 to 1.
    """

    at: Seconds
    running: int
    waiting: int
    refused: int
    finished: int
    cpu_share: float
    memory_share: float


@dataclass(frozen=True, slots=True)
class KubeletRefusal:
    """One pod that a kubelet sent back."""

    at: Seconds
    pod: str
    workload: str
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods of one workload that no node takes at the end, and the scheduler's reason in one sentence."""

    workload: str
    pods: int
    reason: str


@dataclass(frozen=True, slots=True)
class GangRun:
    """What became of one gang: when the last pod that it needs had arrived, when the last one had started, how many
    pods have, and where.

    `domains` are those of `level`, which is the preferred or else the required one; `gave_up` are wishes that it
    started without.
    """

    name: str
    workload: str
    arrived_at: Seconds | None
    whole_at: Seconds | None
    started: int
    level: str | None
    domains: tuple[str, ...]
    gave_up: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadResult:
    """How one workload fared: pods wanted, running at the end, finished, waiting, given up; refusals on the way."""

    name: str
    kind: str
    wanted: int
    running: int
    finished: int
    waiting: int
    given_up: int
    refused: int


@dataclass(frozen=True)
class Run:
    """One scheduler's run of a scenario; wide because tables, documents and the page show each figure.

    `wanted` = running + finished + waiting + given_up (+ pods that had not arrived when the run was interrupted).
    `attempts` are pods created in all; `retries` those beyond the wanted ones. `all_running_at` is the moment when all
    wanted pods had been started, None if that never happened. Zones per pod and distance are means over pods that own
    something in zones; distance is the mean over ordered pairs of a pod's zones, its own included (10 is local).
    `zones_decided` counts the admitted pods for which the scheduler decided the zones, `zones_not_as_decided` those of
    them that hold something elsewhere. `refusals` are the first ones; `refused` and `refused_by_node` count all of
    them, by reason and by node. `state` is the true cluster at the end: reports without delay, pods annotated with
    their zones.
    """

    scheduler: str
    nodes: int
    wanted: int
    arrived: int
    running: int
    finished: int
    waiting: int
    given_up: int
    attempts: int
    refused: Mapping[str, int]
    all_running_at: Seconds | None
    ended_at: Seconds
    interrupted: bool
    cpu_share: float
    memory_share: float
    peak_cpu_share: float
    zones_per_pod: float | None
    distance: float | None
    timeline: tuple[Moment, ...]
    refusals: tuple[KubeletRefusal, ...]
    waiting_pods: tuple[Waiting, ...]
    workloads: tuple[WorkloadResult, ...]
    state: ClusterState
    remarks: tuple[str, ...] = ()
    refused_by_node: Mapping[str, int] = field(default_factory=dict)
    gangs: int = 0
    gangs_whole: int = 0
    gangs_in_part: int = 0
    domains_per_gang: float | None = None
    gang_runs: tuple[GangRun, ...] = ()
    zones_decided: int = 0
    zones_not_as_decided: int = 0
    evicted: int | None = None
    """Pods evicted for more important ones, of them `evicted_in_vain`; None if the scenario has no preemption."""
    evicted_in_vain: int = 0
    gangs_crippled: int = 0
    """How often evictions left a gang with fewer pods than it needs, but with some."""

    @property
    def refusals_in_all(self) -> int:
        """How often a kubelet said no."""
        return sum(self.refused.values())

    @property
    def retries(self) -> int:
        """Pods that had to be created again."""
        return self.attempts - self.arrived
