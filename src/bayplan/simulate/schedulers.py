"""The schedulers that a simulation compares, each as a profile of the same plugins and the same cycle.

They differ in what they look at, not in how they are run: `blind` sees nodes as one number per resource, `upstream`
asks NodeResourceTopologyMatch as scheduler-plugins answers, with its cache, `bayplan` is bayplan with its ledger.
`volcano` and `numa-aware` are for pods that ask for a topology policy; both keep bayplan's ledger, which is kinder to
Volcano than its own.

Volcano decides in sessions of a second and binds what it has decided all at once, each pod in a goroutine of its own. A
kubelet that finds several new pods takes them by age, whatever the order of decisions. `unordered` is `numa-aware` with
such binds: what the order is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.plugins.base import FilterPlugin
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, topology_match
from bayplan.plugins.numa_zone_limit import NumaZoneLimit
from bayplan.plugins.volcano_numa_aware import KUBELET as KUBELET_RULES
from bayplan.plugins.volcano_numa_aware import VOLCANO as VOLCANO_RULES
from bayplan.plugins.volcano_numa_aware import NumaAwareArgs, PolicyGate, numa_aware
from bayplan.scheduling.profile import Profile, default_profile
from bayplan.simulate.scenario.model import Seconds

BLIND, UPSTREAM, BAYPLAN = "blind", "upstream", "bayplan"
UNCACHED = "upstream-uncached"
VOLCANO, UNORDERED, NUMA_AWARE = "volcano", "unordered", "numa-aware"
# The plugin's weight in Volcano's user guide.
NUMA_AWARE_WEIGHT = 10
# scheduler-plugins' README asks for a cache that is looked through every 5 seconds, and for the plugin at Reserve.
UPSTREAM_RESYNC = 5
# Volcano's schedule period.
SESSION: Seconds = 1.0

SCHEDULERS = {
    BLIND: "the stock scheduler without topology: node fit and least allocated",
    UPSTREAM: (
        "scheduler-plugins' NodeResourceTopologyMatch as its README configures it: LeastAllocated, "
        "OverReserve cache, resync every 5 s"
    ),
    BAYPLAN: "judges every node as its kubelet would, and remembers what it promised",
}
# Compared only where they are asked for. Volcano's and those after it make a difference to pods that ask for a topology
# policy.
ON_REQUEST = {
    UNCACHED: "the same without its cache: it sees what reports show, and nothing of what it has just decided",
    VOLCANO: "Volcano's plugin numa-aware, which looks at the CPUs of main containers; binds all of a second at once",
    UNORDERED: "numa-aware, but with binds that reach kubelets together, which take them by age",
    NUMA_AWARE: (
        "bayplan with the plugin numa-aware: nodes by the policy that a pod asks for, binds in the order of decisions"
    ),
}


@dataclass(frozen=True)
class Scheduler:
    """A profile and how far it looks.

    `reads_reports`: nodes' reports reach it. `keeps_ledger`: it remembers what it promised until a report shows it.
    `knows_gangs`: pods that start together are placed together. `session`: what it decides within so many seconds
    reaches kubelets together; 0 if each bind arrives by itself, in the order of decisions.
    """

    name: str
    profile: Profile
    reads_reports: bool
    keeps_ledger: bool
    knows_gangs: bool = False
    session: Seconds = 0.0


def scheduler_named(name: str) -> Scheduler:
    """One of `SCHEDULERS` or `ON_REQUEST`."""
    if name == BLIND:
        return Scheduler(name, _without_topology(default_profile()), reads_reports=False, keeps_ledger=False)
    if name in (UPSTREAM, UNCACHED):
        cache = {"cacheResyncPeriodSeconds": UPSTREAM_RESYNC} if name == UPSTREAM else {}
        topology = topology_match(read_arguments({"filterMode": "Upstream", **cache}))
        as_upstream = default_profile(topology)
        as_upstream = Profile(as_upstream.name, _foreign(as_upstream), as_upstream.scores)
        return Scheduler(name, as_upstream, reads_reports=True, keeps_ledger=False)
    if name == VOLCANO:
        profile = _with_numa_aware(_without_topology(default_profile()), VOLCANO_RULES)
        return Scheduler(name, profile, reads_reports=True, keeps_ledger=True, session=SESSION)
    profile = default_profile() if name == BAYPLAN else _with_numa_aware(default_profile(), KUBELET_RULES)
    session = SESSION if name == UNORDERED else 0.0
    return Scheduler(name, profile, reads_reports=True, keeps_ledger=True, knows_gangs=True, session=session)


def _with_numa_aware(profile: Profile, rules: str) -> Profile:
    plugin = numa_aware(NumaAwareArgs(weight=NUMA_AWARE_WEIGHT, compatibility=rules))
    return Profile(plugin.name, (*_others(profile), plugin), (*profile.scores, (plugin, 1)))


def _foreign(profile: Profile) -> tuple[FilterPlugin, ...]:
    """Filters without those for annotations that other schedulers do not know."""
    return tuple(plugin for plugin in _others(profile) if not isinstance(plugin, NumaZoneLimit))


def _others(profile: Profile) -> tuple[FilterPlugin, ...]:
    """Filters without the one for the policies that pods ask for."""
    return tuple(plugin for plugin in profile.filters if not isinstance(plugin, PolicyGate))


def _without_topology(profile: Profile) -> Profile:
    return Profile(
        BLIND,
        tuple(plugin for plugin in _foreign(profile) if plugin.name != TOPOLOGY_MATCH),
        tuple(
            (plugin, weight) for plugin, weight in profile.scores if not isinstance(plugin, NodeResourceTopologyMatch)
        ),
    )
