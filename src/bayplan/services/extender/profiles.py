"""The part of a profile that an extender answers for: NUMA zones. kube-scheduler runs all other plugins itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayplan.config.configuration import ConfigurationError
from bayplan.plugins.base import FilterPlugin, ScorePlugin
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch
from bayplan.plugins.numa_zone_limit import NAME as NUMA_ZONE_LIMIT
from bayplan.plugins.registry import is_added
from bayplan.plugins.volcano_numa_aware import NAME as NUMA_AWARE
from bayplan.scheduling.profile import Profile

LARGEST_SCORE = 100
VOLUMES = frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"})


def zone_profile(profile: Profile) -> Profile:
    """The plugins of a profile that kube-scheduler does not have; raises `ConfigurationError` if there are none."""
    filters = tuple(plugin for plugin in profile.filters if _is_ours(plugin))
    scores = tuple((plugin, weight) for plugin, weight in profile.scores if _is_ours(plugin))
    if not filters:
        raise ConfigurationError(
            f"profile {profile.name}: no filter for NUMA zones is enabled; enable NodeResourceTopologyMatch"
        )
    return replace(profile, filters=filters, scores=scores)


def eviction_profile(profile: Profile) -> Profile:
    """The plugins that judge evictions: also those of kube-scheduler, but for volumes, which an extender does not
    watch.
    """
    return replace(profile, filters=tuple(plugin for plugin in profile.filters if plugin.name not in VOLUMES))


def largest_score(profile: Profile) -> int:
    """The highest weighted sum of scores that a node can reach, at least 1."""
    return max(LARGEST_SCORE * sum(weight for _, weight in profile.scores), 1)


def profile_for(profiles: Mapping[str, Profile], scheduler_name: str | None) -> Profile:
    """The profile of the pod's scheduler; the first one serves all other schedulers."""
    return profiles.get(scheduler_name or "") or next(iter(profiles.values()))


def _is_ours(plugin: FilterPlugin | ScorePlugin) -> bool:
    return (
        isinstance(plugin, NodeResourceTopologyMatch)
        or plugin.name in (NUMA_AWARE, NUMA_ZONE_LIMIT)
        or is_added(plugin.name)
    )
