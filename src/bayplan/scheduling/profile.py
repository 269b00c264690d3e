"""A profile: its filters in order, and its weighted scores.

Filters that only look at node objects run first and are cached apart, so placing a pod never asks them again. A node's
`blocked` number encodes the first filter that refused it and that filter's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayplan.cluster.pods.pod_class import PodClass
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.rows import Rows, Scores, count
from bayplan.plugins.base import ComparingPlugin, FilterPlugin, RelationPlugin, ScorePlugin
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, scores_of
from bayplan.plugins.pod_topology_spread import PodTopologySpread
from bayplan.plugins.registry import DEFAULT_WEIGHTS, FILTER_ORDER, build_plugin
from bayplan.plugins.volcano_numa_aware import NAME as NUMA_AWARE

Blocked = NDArray[np.int16]

CODES_PER_FILTER = 256
PASSES = 0


class PreemptionMode(Enum):
    """Whether pods of a profile evict less important ones: not at all, only as a plan that events show, or for real."""

    OFF = "Off"
    DRY_RUN = "Dry-run"
    ON = "On"


@dataclass(frozen=True)
class Profile:
    """A named set of plugins."""

    name: str
    filters: tuple[FilterPlugin, ...]
    scores: tuple[tuple[ScorePlugin, int], ...]
    preemption: PreemptionMode = PreemptionMode.OFF

    @cached_property
    def topology(self) -> NodeResourceTopologyMatch | None:
        """The plugin that chooses zones, if the profile has it."""
        return next((plugin for plugin in self.filters if isinstance(plugin, NodeResourceTopologyMatch)), None)

    @cached_property
    def assumptions(self) -> Assumptions:
        """The settings to assume for kubelets that do not report them."""
        return self.topology.arguments.assumptions if self.topology is not None else Assumptions()

    @cached_property
    def spread(self) -> PodTopologySpread | None:
        """The plugin that scores pods by default spread constraints, if the profile has any."""
        found = (plugin for plugin, weight in self.scores if weight and isinstance(plugin, PodTopologySpread))
        return next((plugin for plugin in found if plugin.defaults), None)

    @cached_property
    def compares_policies(self) -> bool:
        """True if Volcano's policy annotation is honoured; False if `numa-aware` is disabled."""
        return NUMA_AWARE in self.filter_names

    @cached_property
    def filter_names(self) -> frozenset[str]:
        """The names of the filters."""
        return frozenset(plugin.name for plugin in self.filters)

    @cached_property
    def relation_filters(self) -> tuple[tuple[int, RelationPlugin], ...]:
        """Filters by the pods on the nodes, with their positions."""
        return tuple((at, plugin) for at, plugin in enumerate(self.filters) if isinstance(plugin, RelationPlugin))

    @cached_property
    def relation_scores(self) -> tuple[tuple[RelationPlugin, int], ...]:
        """Scores by the pods on the nodes, with their weights."""
        return tuple((each, weight) for each, weight in self.scores if weight and isinstance(each, RelationPlugin))

    @cached_property
    def comparing_scores(self) -> tuple[tuple[ComparingPlugin, int], ...]:
        """Scores that compare the remaining nodes, with their weights."""
        return tuple((each, weight) for each, weight in self.scores if weight and isinstance(each, ComparingPlugin))

    def for_class(self, pod: PodClass) -> ClassProfile:
        """Return the plugins that make a difference for one class of pods."""
        filters = [(position, plugin) for position, plugin in enumerate(self.filters) if plugin.applies(pod)]
        return ClassProfile(
            pod,
            node_filters=tuple([entry for entry in filters if not entry[1].reads_usage]),
            usage_filters=tuple([entry for entry in filters if entry[1].reads_usage]),
            scores=self.scores,
        )

    def cause(self, pod: PodClass, blocked: int) -> tuple[str, str]:
        """Return the plugin's name and message for a `blocked` number."""
        plugin = self.filter_of(blocked)
        return plugin.name, plugin.cause(pod, blocked % CODES_PER_FILTER)

    def filter_of(self, blocked: int) -> FilterPlugin:
        """Return the filter that a `blocked` number stands for."""
        return self.filters[blocked // CODES_PER_FILTER]


@dataclass(frozen=True)
class ClassProfile:
    """The filters (with their position in the profile) for one class of pods, and all scores of the profile.

    Which scores apply is worked out at first use: gangs never score a node.
    """

    pod: PodClass
    node_filters: tuple[tuple[int, FilterPlugin], ...]
    usage_filters: tuple[tuple[int, FilterPlugin], ...]
    scores: tuple[tuple[ScorePlugin, int], ...]

    @cached_property
    def _node_scores(self) -> Sequence[tuple[ScorePlugin, int]]:
        return [entry for entry in self.scores if self._applies(*entry) and not entry[0].reads_usage]

    @cached_property
    def _usage_scores(self) -> Sequence[tuple[ScorePlugin, int]]:
        return [entry for entry in self.scores if self._applies(*entry) and entry[0].reads_usage]

    def _applies(self, plugin: ScorePlugin, weight: int) -> bool:
        return bool(weight) and plugin.applies_score(self.pod)

    def blocked_by_node(self, state: ClusterState, rows: Rows) -> Blocked | None:
        """Return the first refusal by filters on node objects; None if no row is refused."""
        return _first_refusal(self.node_filters, state, self.pod, rows)

    def blocked_by_usage(self, state: ClusterState, rows: Rows) -> Blocked | None:
        """Return the first refusal by filters on usage; None if no row is refused."""
        return _first_refusal(self.usage_filters, state, self.pod, rows)

    def blocked_by_usage_of_one(self, state: ClusterState, row: int) -> int:
        """Return the `blocked` number of one node by filters on usage."""
        for position, plugin in self.usage_filters:
            code = plugin.refusal(state, self.pod, row)
            if code:
                return position * CODES_PER_FILTER + code
        return PASSES

    def score_of_usage_of_one(self, state: ClusterState, row: int) -> int:
        """Return the weighted sum of scores on usage for one node."""
        return sum(weight * plugin.score(state, self.pod, row) for plugin, weight in self._usage_scores)

    def score_of_node(self, state: ClusterState, rows: Rows) -> Scores:
        """Return the weighted sum of scores on node objects."""
        return _weighted_sum(self._node_scores, state, self.pod, rows)

    def score_of_usage(self, state: ClusterState, rows: Rows) -> Scores:
        """Return the weighted sum of scores on usage."""
        return _weighted_sum(self._usage_scores, state, self.pod, rows)


def default_profile(topology: NodeResourceTopologyMatch | None = None) -> Profile:
    """Return the profile used without a configuration: all plugins with their default weights."""
    built = ((name, build_plugin(name, None)) for name in FILTER_ORDER)
    plugins = {name: plugin for name, plugin in built if isinstance(plugin, FilterPlugin)}
    if topology is not None:
        plugins[topology.name] = topology
    scoring = tuple(
        scored
        for plugin in plugins.values()
        if isinstance(plugin, ScorePlugin)
        for scored in scores_of(plugin, DEFAULT_WEIGHTS[plugin.name])
    )
    return Profile("bayplan", tuple(plugins.values()), scoring)


def _first_refusal(
    filters: tuple[tuple[int, FilterPlugin], ...], state: ClusterState, pod: PodClass, rows: Rows
) -> Blocked | None:
    blocked: Blocked | None = None
    for position, plugin in filters:
        codes = plugin.refusals(state, pod, rows)
        if codes is None or not codes.any():
            continue
        numbers: Blocked = (codes != 0) * np.int16(position * CODES_PER_FILTER) + codes
        blocked = numbers if blocked is None else np.where(blocked == PASSES, numbers, blocked)
    return blocked


def _weighted_sum(scores: Sequence[tuple[ScorePlugin, int]], state: ClusterState, pod: PodClass, rows: Rows) -> Scores:
    total = np.zeros(count(rows), dtype=np.int32)
    for plugin, weight in scores:
        score = plugin.scores(state, pod, rows)
        # The array may be the plugin's own, or a view of a column; and 100 times a weight is beyond a small type.
        total += score if weight == 1 else np.multiply(score, weight, dtype=np.int32)
    return total
