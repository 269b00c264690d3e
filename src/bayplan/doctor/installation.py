"""An installation as it was read: everything that the checks look at, and nothing that they have to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bayplan.cluster.reports.topology_report import TopologyReport, read_report, unreadable
from bayplan.doctor.rights import Right
from bayplan.kube.client.versions import Served
from bayplan.kube.errors import InvalidObject
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.resources import Resource
from bayplan.kube.wire.coordination_v1 import LeaseSpec
from bayplan.kube.wire.core_v1 import Pod

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class InstalledNames:
    """What the installation is called."""

    namespace: str = "bayplan-system"
    agent_namespace: str = "bayplan-agent"
    scheduler: str = "bayplan-scheduler"
    pod_grouper: str = "bayplan-pod-grouper"
    agent: str = "bayplan-agent"


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """A Deployment or DaemonSet of bayplan's: how many pods it wants, and how many are ready."""

    kind: str
    namespace: str
    name: str
    wanted: int
    ready: int
    images: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """`deployment/bayplan-system/bayplan-scheduler`."""
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Election:
    """The configuration's lease and profiles, and the lease itself; None if it does not exist."""

    namespace: str = "bayplan-system"
    name: str = "bayplan"
    enabled: bool = True
    lease: LeaseSpec | None = None
    problem: str = ""
    """Why the configuration could not be used; empty if it could."""

    @property
    def shown(self) -> str:
        """`lease/bayplan-system/bayplan`."""
        return f"lease/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Installation:
    """One look at a cluster.

    `now` is the API server's time, and `ahead` the seconds by which the clock of this machine is ahead of it, None if
    it is unknown. `denied` are rights that the API server answered with no, `unasked` says why rights could not be
    asked for. `written` has the time of an agent's last write, by report.
    """

    now: float
    names: InstalledNames = field(default_factory=InstalledNames)
    ahead: float | None = None
    server_version: str = ""
    served: Mapping[Resource[Any], Served] = field(default_factory=dict)
    objects: ObjectSet = field(default_factory=ObjectSet)
    programs: tuple[InstalledProgram, ...] = ()
    denied: tuple[Right, ...] = ()
    unasked: str = ""
    election: Election = field(default_factory=Election)
    profiles: tuple[str, ...] = ("bayplan",)
    written: Mapping[str, float] = field(default_factory=dict)
    flavors: Mapping[str, str] = field(default_factory=dict)
    """The Topology of each of Kueue's ResourceFlavors that has one."""
    is_dump: bool = False
    """Whether nothing is known but objects."""

    @cached_property
    def reports(self) -> dict[str, TopologyReport]:
        """Reports by node, as the scheduler reads them; those that cannot be read are unreadable."""
        found = {name: unreadable(name) for name in self.objects.unreadable_topologies}
        for topology in self.objects.topologies:
            name = topology.metadata.name
            try:
                found[name] = read_report(topology)
            except InvalidObject:
                found[name] = unreadable(name)
        return found

    @cached_property
    def running_by_node(self) -> dict[str, list[Pod]]:
        """Unfinished pods by their node."""
        found: dict[str, list[Pod]] = {}
        for pod in self.objects.pods:
            if pod.spec.node_name and not is_finished(pod):
                found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    def program(self, name: str) -> InstalledProgram | None:
        """The Deployment or DaemonSet of a name."""
        return next((each for each in self.programs if each.name == name), None)


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended, well or badly."""
    return pod.status is not None and pod.status.phase in FINISHED


def shown_pod(pod: Pod) -> str:
    """`pod/namespace/name`."""
    return f"pod/{pod.metadata.namespace}/{pod.metadata.name}"
