"""Profiles from a `KubeSchedulerConfiguration` file, the same one kube-scheduler takes.

The decoded document of `--config FILE` comes in; profiles by `schedulerName` and `ServiceSettings`
(`service_settings.py`) go out. Plugins are enabled and disabled as upstream: `multiPoint` first, then `filter` and
`score`; `*` disables all. A profile for `default-scheduler` starts with all of kube-scheduler's default scores.
If `numa-aware` answers as Volcano does, `NodeResourceTopologyMatch` is off unless enabled by name. Unknown fields are
rejected with their path; unknown plugins are listed in one message. Volcano's configuration makes one profile
(`bayplan.compat`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.config.service_settings import (
    ServiceFields,
    ServiceSettings,
    Strict,
    check_percentage,
    service_settings,
)
from bayplan.extensions import CONFIGURATION, BrokenExtension, compat, compat_names
from bayplan.kube.errors import did_you_mean, field_and_problem, in_words
from bayplan.plugins.base import FilterPlugin, ScorePlugin
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.plugins.node_resource_topology_match import NAME as TOPOLOGY_MATCH
from bayplan.plugins.node_resource_topology_match import NodeResourceTopologyMatch, scores_of
from bayplan.plugins.numa_zone_limit import NAME as NUMA_ZONE_LIMIT
from bayplan.plugins.numa_zone_limit import NumaZoneLimit
from bayplan.plugins.registry import (
    ALWAYS_ON,
    DEFAULT_PREEMPTION,
    DEFAULT_WEIGHTS,
    FILTER_ORDER,
    ON_REQUEST,
    SCORE_ORDER,
    STOCK_ARGUMENTS,
    STOCK_NAME,
    STOCK_SCORES,
    WEIGHTS_ON_REQUEST,
    added_names,
    build_plugin,
    is_added,
)
from bayplan.plugins.volcano_numa_aware import AS_VOLCANO_ALONE, NumaAware, PolicyGate, answers_as_volcano
from bayplan.plugins.volcano_numa_aware import NAME as NUMA_AWARE
from bayplan.scheduling.profile import PreemptionMode, Profile

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_NAME = "bayplan"
# Weighted scores of all plugins must fit an int32 column.
LARGEST_WEIGHT = 1_000_000
# kube-scheduler's other plugins, which a file can disable. Any other unknown name is an error.
NEVER_ON = {
    "*",
    "AzureDiskLimits",
    "CinderLimits",
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "EBSLimits",
    "GCEPDLimits",
    "PrioritySort",
    "SchedulingGates",
}


# Scheduler-plugins' plugin for gangs, which every file of a cluster with PodGroups has.
COSCHEDULING = "Coscheduling"


class ConfigurationError(ValueError):
    """An unusable configuration; the message names the field."""


class PluginEntry(Strict, frozen=True):
    """A plugin by name; the weight counts if it scores."""

    name: str
    weight: int = 0


class PluginSet(Strict, frozen=True):
    """Plugins enabled and disabled at one extension point."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class PluginSets(Strict, frozen=True):
    """Extension points. Those that bayplan lacks are accepted, because upstream files name them."""

    multi_point: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_enqueue: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()


class PluginConfig(Strict, frozen=True):
    """Arguments of one plugin, decoded by the plugin itself."""

    name: str
    args: dict[str, Any] = msgspec.field(default_factory=dict)


class ProfileConfig(Strict, frozen=True):
    """One profile as written."""

    scheduler_name: str = DEFAULT_NAME
    plugins: PluginSets = PluginSets()
    plugin_config: tuple[PluginConfig, ...] = ()
    percentage_of_nodes_to_score: int | None = None
    preemption: str | bool | None = None


class SchedulerConfiguration(ServiceFields, frozen=True):
    """The file: profiles, and the settings of a running scheduler."""

    api_version: str = API_VERSION
    kind: str = "KubeSchedulerConfiguration"
    profiles: tuple[ProfileConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """A file that can be used."""

    profiles: dict[str, Profile]
    services: ServiceSettings
    remarks: tuple[str, ...] = ()
    """What the file asks for and does not get."""


def configuration_of(raw: object) -> Configuration:
    """Everything in a decoded configuration document, also of other systems."""
    reader = _foreign_reader(raw)
    if reader is not None:
        try:
            profile, remarks = reader.profile_of(raw)
        except ArgumentError as error:
            raise ConfigurationError(str(error)) from None
        return Configuration({profile.name: profile}, service_settings(ServiceFields()), remarks)
    try:
        configuration = msgspec.convert(raw, SchedulerConfiguration)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error, SchedulerConfiguration)
        raise ConfigurationError(f"{where or 'document'}: {problem}") from None
    if configuration.kind != KIND or configuration.api_version != API_VERSION:
        found = f"{configuration.api_version} {configuration.kind}"
        raise ConfigurationError(f"apiVersion, kind: {found!r}; expected {API_VERSION} {KIND}")
    try:
        profiles = _profiles(configuration)
        return Configuration(profiles, service_settings(configuration), tuple(_remarks(configuration, profiles)))
    except ArgumentError as error:
        raise ConfigurationError(str(error)) from None


def _foreign_reader(raw: object) -> Any:
    """The reader of another system's configuration that recognizes a document; None if there is none."""
    if isinstance(raw, dict) and raw.get("kind") == KIND:
        return None
    readers = (compat(CONFIGURATION, name) for name in compat_names(CONFIGURATION))
    return next((reader for reader in readers if reader.recognizes(raw)), None)


def _profiles(configuration: SchedulerConfiguration) -> dict[str, Profile]:
    profiles: dict[str, Profile] = {}
    for index, written in enumerate(configuration.profiles or (ProfileConfig(),)):
        if not written.scheduler_name:
            raise ConfigurationError(f"profiles[{index}].schedulerName: is empty: no pod can name it")
        if written.scheduler_name in profiles:
            raise ConfigurationError(f"profiles[{index}].schedulerName: {written.scheduler_name!r} appears twice")
        profiles[written.scheduler_name] = _profile(written, f"profiles[{index}]")
    return profiles


def _remarks(configuration: SchedulerConfiguration, profiles: dict[str, Profile]) -> Iterator[str]:
    """What is accepted and changes nothing."""
    for index, (written, profile) in enumerate(zip(configuration.profiles, profiles.values(), strict=False)):
        if any(entry.name == DEFAULT_PREEMPTION for entry in written.plugin_config):
            all_nodes = "all nodes are looked at, in the order of what victims there cost at least"
            yield f"profiles[{index}]: arguments of {DEFAULT_PREEMPTION} change nothing: {all_nodes}"
        ignored = profile.topology.arguments.without_effect if profile.topology is not None else ()
        if ignored:
            arguments = f"profiles[{index}]: {', '.join(ignored)} of {TOPOLOGY_MATCH}"
            yield f"{arguments} changes nothing: only filterMode Upstream has scheduler-plugins' caches"
        disabled = (*written.plugins.multi_point.disabled, *written.plugins.filter.disabled)
        asked_to_be_off = any(entry.name in (TOPOLOGY_MATCH, "*") for entry in disabled)
        is_on = any(plugin.name == TOPOLOGY_MATCH for plugin in profile.filters)
        plugins: list[FilterPlugin | ScorePlugin] = [*profile.filters, *(plugin for plugin, _ in profile.scores)]
        if answers_as_volcano(plugins) and not is_on and not asked_to_be_off:
            yield f"profiles[{index}]: {AS_VOLCANO_ALONE}; who wants both enables it by name"


def _profile(written: ProfileConfig, where: str) -> Profile:
    is_stock = written.scheduler_name == STOCK_NAME
    arguments = {entry.name: entry.args for entry in written.plugin_config}
    if is_stock:
        for name, usual in STOCK_ARGUMENTS.items():
            arguments[name] = {**usual, **arguments.get(name, {})}
    _refuse_unknown_plugins(written, where)
    _refuse_arguments_of_others(written, where)
    _refuse_absurd_weights(written, where)
    check_percentage(written.percentage_of_nodes_to_score, f"{where}.percentageOfNodesToScore")
    added = tuple(dict.fromkeys(name for name in _named(written) if is_added(name)))
    filters = _enabled(written.plugins.multi_point, written.plugins.filter, FILTER_ORDER, added)
    usual_scores = (*SCORE_ORDER, *STOCK_SCORES) if is_stock else SCORE_ORDER
    others = tuple(name for name in (*WEIGHTS_ON_REQUEST, *added) if name not in usual_scores)
    scores = _enabled(written.plugins.multi_point, written.plugins.score, usual_scores, others)
    plugins: dict[str, FilterPlugin | ScorePlugin] = {}
    for name in {**filters, **scores}:
        try:
            on_request = name in STOCK_SCORES or _is_named(written, name)
            plugins[name] = build_plugin(name, arguments.get(name), on_request=on_request)
        except ArgumentError as error:
            configured = [i for i, entry in enumerate(written.plugin_config) if entry.name == name]
            # An argument may be missing because nothing is written about the plugin.
            field = f"{where}.pluginConfig[{configured[0]}].args." if configured else f"{where}: {name}: "
            raise ConfigurationError(f"{field}{error}") from None
        except BrokenExtension as error:
            raise ConfigurationError(f"{where}: {error}") from None
    for name in [each for each in added if each in plugins]:
        _keep_where_it_belongs(name, plugins[name], filters, scores)
    gate, topology = plugins.get(NUMA_AWARE), plugins.get(TOPOLOGY_MATCH)
    if isinstance(gate, PolicyGate) and isinstance(topology, NodeResourceTopologyMatch):
        plugins[NUMA_AWARE] = PolicyGate(topology.arguments.assumptions)
    if NUMA_ZONE_LIMIT in plugins and isinstance(topology, NodeResourceTopologyMatch):
        plugins[NUMA_ZONE_LIMIT] = NumaZoneLimit(topology.arguments.assumptions)
    usual = {**DEFAULT_WEIGHTS, **WEIGHTS_ON_REQUEST, **dict.fromkeys(added, 1)}
    if answers_as_volcano(plugins.values()):
        for kept, here in ((filters, written.plugins.filter), (scores, written.plugins.score)):
            if all(entry.name != TOPOLOGY_MATCH for entry in (*written.plugins.multi_point.enabled, *here.enabled)):
                kept.pop(TOPOLOGY_MATCH, None)
    scoring = tuple(
        scored
        for name, weight in scores.items()
        for scored in scores_of(_scoring(plugins[name]), weight or usual[name])
    )
    _refuse_multiplied_weights(scoring, where)
    chosen = tuple(plugin for plugin in map(plugins.__getitem__, filters) if isinstance(plugin, FilterPlugin))
    return Profile(written.scheduler_name, chosen, scoring, _preemption(written, where))


def _preemption(written: ProfileConfig, where: str) -> PreemptionMode:
    """The mode; if none is written, On where the file enables `DefaultPreemption` by name.

    YAML 1.1 reads `On` as true.
    """
    points = (written.plugins.multi_point, written.plugins.post_filter)
    if written.preemption is None:
        named = any(entry.name == DEFAULT_PREEMPTION for point in points for entry in point.enabled)
        return PreemptionMode.ON if named else PreemptionMode.OFF
    if isinstance(written.preemption, bool):
        return PreemptionMode.ON if written.preemption else PreemptionMode.OFF
    modes = {mode.value: mode for mode in PreemptionMode}
    if written.preemption not in modes:
        raise ConfigurationError(f"{where}.preemption: {written.preemption!r} must be one of {', '.join(modes)}")
    return modes[written.preemption]


def _keep_where_it_belongs(name: str, plugin: object, filters: dict[str, int], scores: dict[str, int]) -> None:
    """Keep a plugin of another package among the filters if it filters, and among the scores if it scores."""
    if not isinstance(plugin, FilterPlugin):
        filters.pop(name, None)
    if not isinstance(plugin, ScorePlugin):
        scores.pop(name, None)


def _named(written: ProfileConfig) -> list[str]:
    """The plugins that a profile enables or configures by name."""
    points = (written.plugins.multi_point, written.plugins.filter, written.plugins.score)
    enabled = [entry.name for point in points for entry in point.enabled]
    return enabled + [entry.name for entry in written.plugin_config]


def _is_named(written: ProfileConfig, name: str) -> bool:
    """True if a profile enables or configures a plugin by name."""
    return name in _named(written)


def _scoring(plugin: FilterPlugin | ScorePlugin) -> ScorePlugin:
    """The plugin as a score."""
    assert isinstance(plugin, ScorePlugin)
    return plugin


def _enabled(
    everywhere: PluginSet, here: PluginSet, usual: tuple[str, ...], on_request: tuple[str, ...]
) -> dict[str, int]:
    """Names and weights at one extension point: defaults, minus disabled, plus enabled."""
    known = (*usual, *on_request)
    weights = dict.fromkeys(usual, 0)
    for plugins in (everywhere, here):
        for entry in plugins.disabled:
            for name in list(weights):
                if entry.name in (name, "*"):
                    del weights[name]
        for entry in plugins.enabled:
            if entry.name in known:
                weights[entry.name] = entry.weight
    return {name: weights[name] for name in known if name in weights}


def _refuse_absurd_weights(written: ProfileConfig, where: str) -> None:
    for point, plugins in (("multiPoint", written.plugins.multi_point), ("score", written.plugins.score)):
        for index, entry in enumerate(plugins.enabled):
            if not 0 <= entry.weight <= LARGEST_WEIGHT:
                field = f"{where}.plugins.{point}.enabled[{index}].weight"
                raise ConfigurationError(f"{field}: {entry.weight} is not allowed: must be 0 to {LARGEST_WEIGHT}")


def _refuse_multiplied_weights(scoring: tuple[tuple[ScorePlugin, int], ...], where: str) -> None:
    """Reject a weight in the profile if numa-aware's arguments have one: they would multiply."""
    for plugin, weight in scoring:
        if isinstance(plugin, NumaAware) and plugin.settings.weight * weight > LARGEST_WEIGHT:
            product = f"weight {plugin.settings.weight} in its arguments times weight {weight}"
            raise ConfigurationError(f"{where}: {plugin.name}: {product} is not allowed: must be 0 to {LARGEST_WEIGHT}")


def _refuse_unknown_plugins(written: ProfileConfig, where: str) -> None:
    switched_off = [
        entry.name
        for point in (written.plugins.multi_point, written.plugins.filter, written.plugins.score)
        for entry in point.disabled
        if entry.name not in NEVER_ON
    ]
    known = {*FILTER_ORDER, *SCORE_ORDER, *ON_REQUEST, *added_names()}
    accepted = {*known, *ALWAYS_ON, DEFAULT_PREEMPTION}
    unknown = sorted({name for name in [*_named(written), *switched_off] if name not in accepted})
    if COSCHEDULING in unknown:
        raise ConfigurationError(f"{where}: {COSCHEDULING}: gangs need no plugin; remove it")
    if unknown:
        has = ", ".join(sorted(known))
        hint = did_you_mean(unknown[0], accepted, alike=0.8)
        raise ConfigurationError(f"{where}: bayplan has no plugin {', '.join(unknown)}; it has {has}{hint}")


def _refuse_arguments_of_others(written: ProfileConfig, where: str) -> None:
    """Reject arguments whose kind belongs to another plugin."""
    for index, entry in enumerate(written.plugin_config):
        kind, own = entry.args.get("kind"), f"{entry.name}Args"
        if kind not in (None, own) and not is_added(entry.name):
            field = f"{where}.pluginConfig[{index}].args.kind"
            raise ConfigurationError(f"{field}: {in_words(kind)} is not allowed: must be {own}")
