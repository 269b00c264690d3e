"""Arguments of NodeResourceTopologyMatch: those of scheduler-plugins, unchanged, and two of our own.

`filterMode` selects the verdict: `Kubelet` (default) is what the kubelet admits, `Upstream` what scheduler-plugins
answers. `assume` fills in settings that kubelets do not report. Errors name the field's path.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from bayplan.cluster.reports.intake import LEDGER_PERIOD, ReportSettings
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, SCOPE_BY_TEXT, Assumptions, MissingReport
from bayplan.cluster.reports.reported_settings import folded
from bayplan.engine.numa.allocation_scores import STRATEGIES as ALLOCATION_STRATEGIES
from bayplan.kube.errors import did_you_mean, field_and_problem
from bayplan.kube.validation.names import qualified_name
from bayplan.kube.validation.resources import resource_name_problem

LEAST_NUMA_NODES = "LeastNUMANodes"
SCORING_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated", LEAST_NUMA_NODES)
PREEMPTION_MODES = ("Disabled", "Enabled")
# Upstream's message does not list the allowed values of these fields.
_ALLOWED = {"scoringStrategy.type": SCORING_STRATEGIES, "preemptionMode": PREEMPTION_MODES}
# Upstream takes any value of these, and most misspelt ones mean the opposite of what was meant.
_CACHE_VALUES = {
    "foreignPodsDetect": ("All", "OnlyExclusiveResources", "None"),
    "resyncMethod": ("Autodetect", "All", "OnlyExclusiveResources"),
    "informerMode": ("Dedicated", "Shared"),
    "resyncScope": ("All", "OnlyResources"),
}
# Keeps weighted sums of scores exact in 64 bits.
LARGEST_WEIGHT = 2**31 - 1

assert set(ALLOCATION_STRATEGIES) | {LEAST_NUMA_NODES} == set(SCORING_STRATEGIES)

_MISSING_REPORT = {folded(each.value): each for each in MissingReport}


class FilterMode(Enum):
    """Which verdict the filter gives."""

    KUBELET = "Kubelet"
    UPSTREAM = "Upstream"


class ArgumentError(ValueError):
    """An invalid configuration; the message starts with the field's path."""


class _Arguments(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    pass


class ResourceWeight(_Arguments, frozen=True):
    """The weight of a resource in a score; values below 1 count as 1."""

    name: str
    weight: int = 0


class ScoringStrategy(_Arguments, frozen=True):
    """A scoring strategy and the weights of its resources."""

    type: str = ""
    resources: list[ResourceWeight] = []


class CacheArguments(_Arguments, frozen=True):
    """How scheduler-plugins keeps its reports current."""

    foreign_pods_detect: str = "All"
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str | UnsetType = UNSET


class AssumeArguments(_Arguments, frozen=True):
    """Settings to assume for a kubelet that does not report them."""

    cpu_manager_policy: str = "static"
    memory_manager_policy: str = "Static"
    memory_groups: str = "Ignore"
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    missing_report: str = MissingReport.PREFER_REPORTED.value
    first_report_seconds: int = 120


class NodeResourceTopologyMatchArgs(_Arguments, frozen=True):
    """Arguments as written; `read_arguments` fills in the defaults."""

    api_version: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    scoring_strategy: ScoringStrategy | UnsetType = UNSET
    cache_resync_period_seconds: int | UnsetType = UNSET
    discard_reserved_nodes: bool | UnsetType = UNSET
    cache: CacheArguments = CacheArguments()
    preemption_mode: str = "Disabled"
    filter_mode: FilterMode | UnsetType = UNSET
    assume: AssumeArguments | UnsetType = UNSET

    @property
    def strategy(self) -> ScoringStrategy:
        """The scoring strategy after defaulting."""
        return ScoringStrategy(type="LeastAllocated") if self.scoring_strategy is UNSET else self.scoring_strategy

    @property
    def mode(self) -> FilterMode:
        """The filter mode after defaulting."""
        return FilterMode.KUBELET if self.filter_mode is UNSET else self.filter_mode

    @property
    def assumptions(self) -> Assumptions:
        """The settings to assume for kubelets that do not report them."""
        assume = AssumeArguments() if self.assume is UNSET else self.assume
        return Assumptions(
            cpu_manager_static=assume.cpu_manager_policy == "static",
            memory_manager_static=assume.memory_manager_policy == "Static",
            strict_memory_groups=assume.memory_groups == "Strict",
            policy=POLICY_BY_TEXT.get(assume.topology_manager_policy),
            scope=SCOPE_BY_TEXT.get(assume.topology_manager_scope),
            missing_report=_MISSING_REPORT.get(folded(assume.missing_report), MissingReport.PREFER_REPORTED),
            first_report_within=float(assume.first_report_seconds),
        )

    @property
    def cache_implementation(self) -> str:
        """The scheduler-plugins cache that these arguments select."""
        if self.discard_reserved_nodes is True:
            return "DiscardReserved"
        period = self.cache_resync_period_seconds
        return "OverReserve" if period is not UNSET and period > 0 else "Passthrough"

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Given arguments without effect: those of scheduler-plugins' caches while bayplan's ledger is in use."""
        if self.mode is FilterMode.UPSTREAM:
            return ()
        given = {
            "cacheResyncPeriodSeconds": self.cache_resync_period_seconds not in (UNSET, 0),
            "discardReservedNodes": self.discard_reserved_nodes is True,
            "cache": self.cache != CacheArguments(),
        }
        return tuple(name for name, is_given in given.items() if is_given)

    @property
    def reports(self) -> ReportSettings:
        """How reports are accounted for: by scheduler-plugins' cache in `Upstream` mode, else by the ledger."""
        if self.mode is FilterMode.KUBELET or self.cache_implementation == "Passthrough":
            return ReportSettings()
        period = self.cache_resync_period_seconds
        return ReportSettings(
            accounting=self.cache_implementation,
            resync_period=float(period) if period is not UNSET and period > 0 else LEDGER_PERIOD,
            resync_method=self.cache.resync_method,
            informer_mode=self.cache.informer_mode,
            preemption_mode=self.preemption_mode,
            foreign_pods_detect=self.cache.foreign_pods_detect,
            follows_configuration=self.cache.resync_scope in (UNSET, "All"),
        )


def read_arguments(raw: dict[str, Any] | None) -> NodeResourceTopologyMatchArgs:
    """Decode, default and validate; raises `ArgumentError` naming the field."""
    arguments = decode_arguments(raw)
    error = validation_error(arguments)
    if error:
        field = error.partition(":")[0]
        allowed = _ALLOWED.get(field)
        raise ArgumentError(f"{error}: must be {_or(allowed)}" if allowed else error)
    period = arguments.cache_resync_period_seconds
    if period is not UNSET and period < 0:
        raise ArgumentError(f"cacheResyncPeriodSeconds: {period} is not allowed: must be 0 or more")
    for field, allowed in _CACHE_VALUES.items():
        value = msgspec.to_builtins(arguments.cache).get(field, allowed[0])
        if value not in allowed:
            hint = did_you_mean(value, allowed)
            raise ArgumentError(f'cache.{field}: "{value}" is not allowed: must be {_or(allowed)}{hint}')
    for index, entry in enumerate(arguments.strategy.resources):
        refuse_unknown_resource(entry.name, f"scoringStrategy.resources[{index}].name")
        if entry.weight > LARGEST_WEIGHT:
            where = f"scoringStrategy.resources[{index}].weight"
            raise ArgumentError(f"{where}: {entry.weight} is not allowed: must be at most {LARGEST_WEIGHT}")
    return arguments


def decode_arguments(raw: dict[str, Any] | None) -> NodeResourceTopologyMatchArgs:
    """Decode and default as the API machinery does, without validating values."""
    try:
        arguments = msgspec.convert(raw or {}, NodeResourceTopologyMatchArgs)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error, NodeResourceTopologyMatchArgs)
        if where == "filterMode":
            problem = f"{problem}: must be {_or([mode.value for mode in FilterMode])}"
        raise ArgumentError(f"{where}: {problem}" if where else problem) from None
    strategy = arguments.strategy
    weights = [ResourceWeight(name=entry.name, weight=entry.weight or 1) for entry in strategy.resources]
    defaults = [ResourceWeight(name="cpu", weight=1), ResourceWeight(name="memory", weight=1)]
    return msgspec.structs.replace(
        arguments, scoring_strategy=ScoringStrategy(type=strategy.type, resources=weights or defaults)
    )


def validation_error(arguments: NodeResourceTopologyMatchArgs) -> str | None:
    """Return the first problem, in scheduler-plugins' words where it has some; None if valid."""
    strategy = arguments.strategy.type
    if strategy not in SCORING_STRATEGIES:
        return f'scoringStrategy.type: Invalid value: "{strategy}": invalid ScoringStrategyType'
    if arguments.preemption_mode not in PREEMPTION_MODES:
        return f'preemptionMode: Invalid value: "{arguments.preemption_mode}": invalid PreemptionMode'
    if arguments.assume is not UNSET:
        allowed = {
            "cpuManagerPolicy": (arguments.assume.cpu_manager_policy, ("static", "none")),
            "memoryManagerPolicy": (arguments.assume.memory_manager_policy, ("Static", "None")),
            "memoryGroups": (arguments.assume.memory_groups, ("Ignore", "Strict")),
            "topologyManagerPolicy": (arguments.assume.topology_manager_policy, ("", *POLICY_BY_TEXT)),
            "topologyManagerScope": (arguments.assume.topology_manager_scope, ("", *SCOPE_BY_TEXT)),
        }
        for field, (value, values) in allowed.items():
            if value not in values:
                return f'assume.{field}: Invalid value: "{value}": must be {_or([each for each in values if each])}'
        written = arguments.assume.missing_report
        if folded(written) not in _MISSING_REPORT:
            allowed_words = _or([each.value for each in MissingReport])
            return f'assume.missingReport: Invalid value: "{written}": must be {allowed_words}'
        if arguments.assume.first_report_seconds < 0:
            seconds = arguments.assume.first_report_seconds
            return f"assume.firstReportSeconds: Invalid value: {seconds}: must be 0 or more"
    return None


def refuse_unknown_resource(name: str, where: str) -> None:
    """Raise `ArgumentError` for a name that no resource of a container can have."""
    problem = next(qualified_name(name), None) or resource_name_problem(name)
    if problem:
        raise ArgumentError(f"{where}: {problem}" if name in problem else f'{where}: "{name}" {problem}')


def _or(values: Sequence[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}"
