"""The cluster as an extender knows it: the scheduler's columns and ledger, without its queue.

Watch events come in through `entries`. Pods that kube-scheduler asked about are remembered by uid: a bind request names
only the uid, and a pod that another client binds holds the zones that its kubelet picks, as if bayplan had bound it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.cluster.pods.disruption_budgets import DisruptionBudgets
from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.intake import LEDGER, ReportSettings, intake_for
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import TERMINAL_PHASES, ClusterState, pod_key
from bayplan.dialects.registry import dialect_written_as
from bayplan.dispatch.roster import GangRoster
from bayplan.engine.kubelet import Admission
from bayplan.engine.numa.placement import Placement
from bayplan.kube.errors import InvalidObject
from bayplan.kube.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS, Resource, pod_groups
from bayplan.kube.wire.core_v1 import Namespace, Pod
from bayplan.scheduling.answers import Answer, ClassAnswers
from bayplan.scheduling.cycle import assume
from bayplan.scheduling.decision import Decision
from bayplan.scheduling.profile import PASSES, Profile
from bayplan.scheduling.relations import answer_for
from bayplan.services.edges.bounded_dict import BoundedDict
from bayplan.services.extender.counted import CountedRows
from bayplan.services.extender.profiles import eviction_profile, profile_for, zone_profile
from bayplan.services.scheduler.intake import ALIVE, Entry, node_entry, report_entries

# Pods that are remembered between `filter` and `bind`. kube-scheduler has a few in flight.
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod that kube-scheduler asks about, with its class and the plugins that judge it."""

    pod: Pod
    pod_class: PodClass
    profile: Profile

    @property
    def takes_zones(self) -> bool:
        """Whether its kubelet aligns anything for it."""
        return self.profile.topology is not None and self.profile.topology.applies(self.pod_class)

    @property
    def depends_on_others(self) -> bool:
        """Whether pods on a node can make a filter refuse it."""
        return any(plugin.reads_usage and plugin.applies(self.pod_class) for plugin in self.profile.filters)


class ExtenderCluster:
    """Cluster state, profiles and cached answers. No I/O and no clock: events carry their time."""

    def __init__(self, profiles: Mapping[str, Profile], on_bound: Callable[[str], None] = lambda _: None) -> None:
        self._eviction_profiles = {name: eviction_profile(profile) for name, profile in profiles.items()}
        self.profiles = {name: zone_profile(profile) for name, profile in profiles.items()}
        topology = next((each.topology for each in self.profiles.values() if each.topology is not None), None)
        self.state = ClusterState(topology.arguments.assumptions if topology is not None else Assumptions())
        settings = topology.arguments.reports if topology is not None else ReportSettings()
        freshness = self.state.freshness
        freshness.waits_for_reports = freshness.hears_late = settings.accounting == LEDGER
        self.reports = intake_for(self.state, settings, set(profiles))
        self.answers = ClassAnswers(self.state)
        self.counted = CountedRows(self.state)
        self.budgets = DisruptionBudgets()
        self.roster = GangRoster()
        self.remembered: BoundedDict[str, Pod] = BoundedDict(MOST_REMEMBERED)
        self._on_bound = on_bound

    # -- watch events ---------------------------------------------------------------------------------------------

    def entries(self) -> tuple[Entry, ...]:
        """What is watched, in list order."""
        return (
            node_entry(self.state),
            Entry(
                NAMESPACES,
                self._put_namespace,
                lambda name, _: self.state.neighbours.remove_namespace(name),
                required=True,
            ),
            Entry(PODS, self.set_pod, self.remove_pod, required=True, field_selector=ALIVE),
            *report_entries(self.reports),
            Entry(
                POD_DISRUPTION_BUDGETS,
                lambda budget, _: self.budgets.set(budget),
                lambda key, _: self.budgets.remove(key),
                foreign=True,
            ),
            *(self._group_entry(resource) for resource in pod_groups().values()),
        )

    def _group_entry(self, resource: Resource[Any]) -> Entry:
        """PodGroups: what running gangs need. Where they are missing or forbidden,
        gangs go as a whole or not at all.
        """
        dialect = dialect_written_as(resource.type)
        return Entry(
            resource,
            lambda group, _: self.roster.set_group(group),
            lambda name, _: self.roster.remove_group(dialect.key(name)),
            lambda name, problem, _: self.roster.remove_group(dialect.key(name), problem),
            foreign=True,
        )

    def _put_namespace(self, namespace: Namespace, _: float) -> None:
        self.state.neighbours.set_namespace(namespace.metadata.name, namespace.metadata.labels or {})

    def set_pod(self, pod: Pod, now: float) -> None:
        """A pod was created or changed. Waiting pods are not kept: kube-scheduler sends them."""
        key, state = pod_key(pod), self.state
        known = state.bound.get(key)
        has_ended = pod.status is not None and pod.status.phase in TERMINAL_PHASES
        if has_ended or (known is not None and known.metadata.uid != pod.metadata.uid):
            self.remove_pod(key, now)
        if has_ended or not pod.spec.node_name:
            return
        seen = self.remembered.pop(pod.metadata.uid, None)
        if seen is not None and key not in state.pods:
            self._assume_bound_elsewhere(seen, pod.spec.node_name)
        state.set_pod(pod, at=now)
        self.roster.set_member(pod)
        self.reports.pod_changed(pod)
        self._on_bound(pod.metadata.uid)

    def remove_pod(self, key: str, now: float) -> None:
        """A pod ended or was deleted."""
        bound = self.state.bound.get(key)
        self.state.remove_pod(key, at=now)
        self.roster.remove_member(key)
        if bound is not None:
            self.remembered.pop(bound.metadata.uid, None)
            self.reports.pod_changed(bound)

    def resync(self, now: float) -> None:
        """Time has passed; call this every `reports.resync_period` seconds."""
        self.state.time_passed(now)
        self.reports.resync(now)

    # -- decisions of kube-scheduler --------------------------------------------------------------------------------

    def asked(self, pod: Pod) -> AskedPod:
        """What judges a pod; raises `InvalidObject` if it is invalid."""
        return AskedPod(pod, self.state.classes.of(pod), self.profile_of(pod))

    def answer_for(self, asked: AskedPod) -> Answer:
        """The nodes that refuse a pod, and the scores of the others."""
        return answer_for(self.state, asked.pod, asked.pod_class, asked.profile, self.answers)

    def profile_of(self, pod: Pod) -> Profile:
        """The NUMA plugins for a pod."""
        return profile_for(self.profiles, pod.spec.scheduler_name)

    def eviction_profile_of(self, pod: Pod) -> Profile:
        """The plugins that evictions for a pod must satisfy, kube-scheduler's own included."""
        return profile_for(self._eviction_profiles, pod.spec.scheduler_name)

    def remember(self, pod: Pod) -> None:
        """Keep a pod until it is bound."""
        if pod.metadata.uid:
            self.remembered[pod.metadata.uid] = pod

    def take(self, pod: Pod, node: str) -> Decision | str:
        """Take the zones of a pod on the node that kube-scheduler chose; a text if the kubelet would refuse it."""
        state, row = self.state, self.state.rows.get(node)
        if row is None:
            return f"node {node} is not known to the extender yet"
        asked = self.asked(pod)
        pod_class, profile, answer = asked.pod_class, asked.profile, self.answer_for(asked)
        if answer.blocked[row] != PASSES:
            plugin, cause = profile.cause(pod_class, int(answer.blocked[row]))
            return f"{node} no longer has room: {cause} ({plugin})"
        placement = profile.topology.place(state, pod_class, row) if profile.topology else Placement()
        if placement.refusal is not None:
            answer.refuse(row, placement.refusal)
            return f"{node} would refuse the pod: {_words(placement.refusal)}"
        decision = _decision(pod, node, row, placement)
        assume(state, decision, pod)
        self.reports.reserved(node, pod)
        return decision

    def give_back(self, pod: Pod, node: str) -> None:
        """The bind failed: free the zones again."""
        self.state.forget(pod_key(pod))
        self.reports.unreserved(node, pod)

    def _assume_bound_elsewhere(self, pod: Pod, node: str) -> None:
        """Another client bound the pod; its kubelet admits it next, into the zones that a placement names now."""
        state, row = self.state, self.state.rows.get(node)
        topology = self.profile_of(pod).topology
        if row is None or topology is None:
            return
        try:
            placement = topology.place(state, state.classes.of(pod), row)
        except InvalidObject:
            return
        if placement.refusal is None:
            assume(state, _decision(pod, node, row, placement), pod)


def _decision(pod: Pod, node: str, row: int, placement: Placement) -> Decision:
    return Decision(
        pod_key(pod),
        node,
        row,
        containers=placement.containers,
        charges=placement.charges,
        by_amounts=placement.by_amounts,
    )


def _words(refusal: Admission) -> str:
    return f"{refusal.reason}: {refusal.message}" if refusal.message else refusal.reason
