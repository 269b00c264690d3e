"""The schedulers that a simulation compares, each as a profile of the same plugins and the same cycle.

They differ in what they look at, not in how they are run: `blind` sees nodes as one number per resource, `upstream` asks
NodeResourceTopologyMatch as scheduler-plugins answers and knows only what reports show, `bayplan` is bayplan with its ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.scheduling.profile import Profile, default_profile

BLIND, UPSTREAM, BAYPLAN = "blind", "upstream", "bayplan"

SCHEDULERS = {
    BLIND: "the stock scheduler without topology: node fit and least allocated",
    UPSTREAM: "scheduler-plugins' NodeResourceTopologyMatch, without its cache",
    BAYPLAN: "judges every node as its kubelet would, and remembers what it promised",
}


@dataclass(frozen=True)
class Scheduler:
    """A profile and how far it looks.

    `reads_reports`: nodes' reports reach it. `keeps_ledger`: it remembers what it promised until a report shows it.
    `knows_gangs`: pods that start together are placed together.
    """

    name: str
    profile: Profile
    reads_reports: bool
    keeps_ledger: bool
    knows_gangs: bool = False


def scheduler_named(name: str) -> Scheduler:
    """One of `SCHEDULERS`."""
    if name == BLIND:
        return Scheduler(name, _without_topology(default_profile()), reads_reports=False, keeps_ledger=False)
    if name == UPSTREAM:
        topology = NodeResourceTopologyMatch(read_arguments({"filterMode": "Upstream"}))
        return Scheduler(name, default_profile(topology), reads_reports=True, keeps_ledger=False)
    return Scheduler(name, default_profile(), reads_reports=True, keeps_ledger=True, knows_gangs=True)


def _without_topology(profile: Profile) -> Profile:
    return Profile(
        BLIND,
        tuple(plugin for plugin in profile.filters if plugin.name != TOPOLOGY_MATCH),
        tuple((plugin, weight) for plugin, weight in profile.scores if plugin.name != TOPOLOGY_MATCH),
    )
