"""The kubelet settings that a report states: policy, scope and manager options.

Two readings of one object. `settings_of` is bayplan's: names count in any spelling (`SingleNumaNode`,
`single-numa-node`, `SINGLE_NUMA_NODE`), and a policy or scope that no kubelet has is replaced by the assumption, with a
note that says so. `upstream_settings_of` is scheduler-plugins' recorded reading, for filter mode `Upstream`: exact
spelling, and only the six names with a level count in `topologyPolicies`.

Both follow the same precedence: `topologyPolicies[0]` first, then each valid attribute overrides it field by field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeVar

from bayplan.cluster.reports.kubelet_settings import (
    POLICY_BY_TEXT,
    SCOPE_BY_TEXT,
    Assumptions,
    KubeletSettings,
    Policy,
    Scope,
)
from bayplan.kube.errors import ObjectPath
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, NodeResourceTopology

MOST_NUMA_NODES = 1024
# Longer names are not kept.
LONGEST_FOLDED = 128

# The kubelet's options of the static CPU Manager.
CPU_OPTIONS = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)

POLICY, SCOPE = "topologyManagerPolicy", "topologyManagerScope"
# The one feature gate of kubelets that decides about pods: with it, pods with resources of their own are aligned, too.
POD_LEVEL_GATE = "PodLevelResourceManagers"
_ATTRIBUTES = (
    POLICY,
    SCOPE,
    "topologyManagerMaxNUMANodes",
    "topologyManagerOptionPreferClosestNumaNodes",
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "memoryManagerPolicy",
    "featureGates",
    "bayplan.io/threads-per-core",
)
_BOOLEANS = {"true": True, "false": False}
_CPU_POLICIES = {"none": False, "static": True}
_MEMORY_POLICIES = {"None": False, "Static": True}
_THREADS = {"1": 1, "2": 2, "4": 4, "8": 8}

# scheduler-plugins' names for policy and scope together, the only ones that it reads in `topologyPolicies`.
_LEVELS = {
    "SingleNUMANodeContainerLevel": (Policy.SINGLE_NUMA_NODE, Scope.CONTAINER),
    "SingleNUMANodePodLevel": (Policy.SINGLE_NUMA_NODE, Scope.POD),
    "RestrictedContainerLevel": (Policy.RESTRICTED, Scope.CONTAINER),
    "RestrictedPodLevel": (Policy.RESTRICTED, Scope.POD),
    "BestEffortContainerLevel": (Policy.BEST_EFFORT, Scope.CONTAINER),
    "BestEffortPodLevel": (Policy.BEST_EFFORT, Scope.POD),
}
_PLAIN = {
    "None": Policy.NONE,
    "BestEffort": Policy.BEST_EFFORT,
    "Restricted": Policy.RESTRICTED,
    "SingleNumaNode": Policy.SINGLE_NUMA_NODE,
}
_GO_INTEGER = re.compile(r"[+-]?[0-9]+")

Note = Callable[[ObjectPath, str], None]
_Value = TypeVar("_Value")


def folded(text: str) -> str:
    """A name without the differences that spelling makes: case, dashes, underscores and blanks.

    >>> folded("Single-NUMA_node")
    'singlenumanode'
    """
    return _folded(text) if len(text) <= LONGEST_FOLDED else _folded.__wrapped__(text)


@lru_cache(maxsize=1024)
def _folded(text: str) -> str:
    return re.sub(r"[-_\s]", "", text).lower()


_BY_FOLD = {folded(name): name for name in _ATTRIBUTES}
_POLICY_AND_SCOPE: dict[str, tuple[Policy, Scope | None]] = {
    **{folded(name): (policy, None) for name, policy in _PLAIN.items()},
    **{folded(name): pair for name, pair in _LEVELS.items()},
}


def policy_and_scope(text: str) -> tuple[Policy, Scope | None] | None:
    """The policy that a text names in any spelling, and the scope if the name has a level.

    None if there is no such policy.
    """
    return _POLICY_AND_SCOPE.get(folded(text))


@dataclass(slots=True)
class _Said:
    """What the object said last about policy and scope, in names that kubelets have, and whether some other name was
    given.
    """

    policy: Policy | None = None
    scope: Scope | None = None
    odd_policy: bool = False
    odd_scope: bool = False

    def settings(self, rest: KubeletSettings, assumptions: Assumptions) -> KubeletSettings:
        policy, scope = self.policy, self.scope
        if policy is None:
            policy = assumptions.policy_if(odd=self.odd_policy)
        if scope is None:
            scope = assumptions.scope_if(odd=self.odd_scope)
        return replace(rest, policy=policy, scope=scope)


def settings_of(topology: NodeResourceTopology, assumptions: Assumptions, note: Note) -> KubeletSettings:
    """Policy, scope and options as the node's kubelet has them, as far as the object tells.

    `note` hears what it does not.
    """
    at = ObjectPath.of(topology)
    said = _Said()
    odd: list[tuple[ObjectPath, str, str]] = []
    policies = topology.topology_policies or []
    # A kubelet has one policy. Entries that name none, such as HyperThreading, stand beside it.
    counts = next((index for index, each in enumerate(policies) if policy_and_scope(each)), 0)
    if policies and folded(policies[counts]):
        _hear_policy(said, policies[counts], odd, at.child("topologyPolicies").item(counts), tuple(_PLAIN))
        # A name that is not known may have had a level, too.
        said.odd_scope = said.odd_policy
    for index, other in enumerate(policies):
        if index != counts and folded(other) != folded(policies[counts]):
            known = "only the first entry counts" if policy_and_scope(other) else "it names no policy of a kubelet"
            note(at.child("topologyPolicies").item(index), f'"{other}" is ignored: {known}')
    settings = KubeletSettings()
    for attribute in topology.attributes or []:
        name, value = _BY_FOLD.get(folded(attribute.name), attribute.name), attribute.value
        where = at.child("attributes").key(attribute.name)
        if name == POLICY and folded(value):
            _hear_policy(said, value, odd, where, tuple(POLICY_BY_TEXT))
        elif name == SCOPE and folded(value):
            _hear_scope(said, value, odd, where)
        elif name in (POLICY, SCOPE):
            note(where, "is empty: the kubelet's default counts")
        else:
            settings = _with_option(settings, name, value, where, note)
    settings = said.settings(settings, assumptions)
    for where, value, expected in odd:
        note(where, f'"{value}" is not known: {_what_happens(said, settings)}; expected {expected}')
    return settings


def _hear_policy(
    said: _Said, value: str, odd: list[tuple[ObjectPath, str, str]], at: ObjectPath, expected: tuple[str, ...]
) -> None:
    found = policy_and_scope(value)
    if found is None:
        said.odd_policy = True
        odd.append((at, value, ", ".join(expected)))
        return
    said.policy = found[0]
    said.scope = said.scope if found[1] is None else found[1]


def _hear_scope(said: _Said, value: str, odd: list[tuple[ObjectPath, str, str]], at: ObjectPath) -> None:
    scope = SCOPE_BY_TEXT.get(folded(value))
    if scope is None:
        said.odd_scope = True
        odd.append((at, value, ", ".join(SCOPE_BY_TEXT)))
    else:
        said.scope = scope


def _what_happens(said: _Said, settings: KubeletSettings) -> str:
    """By what the node is judged, and which of that is assumed."""
    judged = f"the node is judged as {settings.policy.text}, scope {settings.scope.text}"
    assumed = [
        f"assume.{name}"
        for name, is_assumed in (
            (POLICY, said.policy is None and said.odd_policy),
            (SCOPE, said.scope is None and said.odd_scope),
        )
        if is_assumed
    ]
    return f"{judged} ({' and '.join(assumed)})" if assumed else f"{judged}, which the object states elsewhere"


def upstream_settings_of(topology: NodeResourceTopology) -> KubeletSettings:
    """Policy, scope and limit as scheduler-plugins reads them."""
    settings = upstream_policies(KubeletSettings(), topology.topology_policies or [])
    return upstream_attributes(settings, topology.attributes or [])


def upstream_policies(settings: KubeletSettings, policies: list[str]) -> KubeletSettings:
    """The deprecated `topologyPolicies`: only the first entry counts, and only if it names policy and scope."""
    if not policies or policies[0] not in _LEVELS:
        return settings
    policy, scope = _LEVELS[policies[0]]
    return replace(settings, policy=policy, scope=scope)


def upstream_attributes(settings: KubeletSettings, attributes: Iterable[Attribute]) -> KubeletSettings:
    """Each valid attribute overrides its own setting; an invalid value leaves the previous one."""
    for attribute in attributes:
        name, value = attribute.name, attribute.value
        if name == POLICY:
            settings = replace(settings, policy=POLICY_BY_TEXT.get(value, settings.policy))
        elif name == SCOPE:
            settings = replace(settings, scope=SCOPE_BY_TEXT.get(value, settings.scope))
        elif name == "topologyManagerMaxNUMANodes":
            settings = replace(settings, max_numa_nodes=_numa_node_limit(value) or settings.max_numa_nodes)
    return settings


class _NotAllowed(ValueError):
    """The text says what would be allowed."""


def _with_option(settings: KubeletSettings, name: str, value: str, at: ObjectPath, note: Note) -> KubeletSettings:
    """The settings after one attribute that is not policy or scope.

    An invalid value leaves the previous one and is noted.
    """
    try:
        match name:
            case "topologyManagerMaxNUMANodes":
                return replace(settings, max_numa_nodes=_limit_in(value))
            case "topologyManagerOptionPreferClosestNumaNodes":
                return replace(settings, prefer_closest=_one_of(_BOOLEANS, value))
            case "cpuManagerPolicy":
                return replace(settings, cpu_static=_one_of(_CPU_POLICIES, value))
            case "memoryManagerPolicy":
                return replace(settings, memory_static=_one_of(_MEMORY_POLICIES, value))
            case "bayplan.io/threads-per-core":
                return replace(settings, threads_per_core=_one_of(_THREADS, value))
            case "featureGates":
                gates = dict(_pairs(value))
                return replace(settings, pod_level_managers=_one_of(_BOOLEANS, gates.get(POD_LEVEL_GATE, "false")))
            case "cpuManagerPolicyOptions":
                _check_cpu_options(value, at, note)
                return replace(
                    settings, cpu_options=frozenset(option for option, text in _pairs(value) if text == "true")
                )
    except _NotAllowed as error:
        note(at, f'"{value}" is ignored: expected {error}')
        return settings
    meant = _meant(name)
    if meant:
        note(at, f"is not known and has no effect; did you mean {meant}?")
    return settings


# Every report of a node names the same attributes; comparing one with all known ones takes 30 us.
@lru_cache(maxsize=256)
def _meant(name: str) -> str:
    """The attribute that a name is a misspelling of; empty for the many that are about something else."""
    close = get_close_matches(folded(name), _BY_FOLD, n=1, cutoff=0.9)
    return _BY_FOLD[close[0]] if close else ""


def _pairs(text: str) -> list[tuple[str, str]]:
    """`a=true,b=false` as pairs."""
    written = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return [(name.strip(), value.strip()) for name, _, value in written]


def _check_cpu_options(text: str, at: ObjectPath, note: Note) -> None:
    for name, value in _pairs(text):
        if value not in ("true", "false"):
            note(at, f'"{name}" is ignored: expected {name}=true or {name}=false')
        elif name not in CPU_OPTIONS:
            note(at, f'"{name}" has no effect; these have: {", ".join(CPU_OPTIONS)}')


def _one_of(allowed: Mapping[str, _Value], text: str) -> _Value:
    for name, value in allowed.items():
        if folded(name) == folded(text):
            return value
    raise _NotAllowed(", ".join(allowed))


def _limit_in(text: str) -> int:
    limit = _numa_node_limit(text)
    if limit is None:
        raise _NotAllowed("an integer above 1")
    return limit


def _numa_node_limit(text: str) -> int | None:
    """As Go reads it: no blanks, no fraction; None if it is not above 1."""
    number = int(text) if _GO_INTEGER.fullmatch(text) and len(text) < 20 else 0
    return min(number, MOST_NUMA_NODES) if number > 1 else None
