"""Parse a kubelet's configuration, from `configz`, its file or its flags.

Flags become the equivalent document (`from_flags`), and `setup_of` parses all three. Out go the scheduler's
`KubeletSettings`, and the kubelet's reservations. A value that would prevent a kubelet from starting raises
`InvalidObject`, with source, field and value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

import msgspec

from bayplan.cluster.pods.request import CPU, HUGEPAGES_PREFIX, MEMORY, amounts_of
from bayplan.cluster.reports.inventory import NotUnderstood, cpu_set
from bayplan.cluster.reports.kubelet_settings import POLICY_BY_TEXT, SCOPE_BY_TEXT, KubeletSettings, Policy, Scope
from bayplan.engine.kubelet.cpu_assignment import take
from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.services.agent.sources.sysfs import Hardware
from bayplan.services.agent.sources.sysfs_files import members

_Value = TypeVar("_Value")
_Quantities = dict[str, str | int | float]

DEFAULT_MAX_NUMA_NODES = 8
CPU_POLICIES = {"none": False, "static": True}
MEMORY_POLICIES = {"None": False, "Static": True}
_TRUE = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class KubeletSetup:
    """A kubelet's settings. Reserved CPUs are named (`reserved_cpus`) or only counted (`reserved_cpu_milli`)."""

    settings: KubeletSettings
    reserved_cpus: frozenset[int] = frozenset()
    reserved_cpu_milli: int = 0
    reserved_memory: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


class _ReservedMemory(msgspec.Struct, rename="camel", frozen=True):
    numa_node: Annotated[int, msgspec.Meta(ge=0)] = 0
    limits: _Quantities = msgspec.field(default_factory=dict)


class _Configuration(msgspec.Struct, rename="camel", frozen=True):
    """The relevant fields of KubeletConfiguration; the kubelet's own defaults replace missing ones."""

    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    topology_manager_policy_options: dict[str, str] | None = None
    cpu_manager_policy: str = ""
    cpu_manager_policy_options: dict[str, str] | None = None
    memory_manager_policy: str = ""
    reserved_memory: list[_ReservedMemory] | None = None
    reserved_system_cpus: str = msgspec.field(default="", name="reservedSystemCPUs")
    kube_reserved: _Quantities | None = None
    system_reserved: _Quantities | None = None
    feature_gates: dict[str, bool] | None = None


def setup_of(document: object, source: str) -> KubeletSetup:
    """Parse a KubeletConfiguration, or the answer of `configz` that contains one."""
    at = ObjectPath(f"kubelet configuration ({source})")
    if isinstance(document, Mapping) and "kubeletconfig" in document:
        document = document["kubeletconfig"]
    try:
        parsed = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error)
        raise InvalidObject(at.child(where) if where else at, problem) from None
    return KubeletSetup(
        settings=_settings(parsed, at),
        reserved_cpus=_reserved_cpus(parsed, at),
        reserved_cpu_milli=_reserved_cpu_milli(parsed, at),
        reserved_memory=_reserved_memory(parsed, at),
    )


def as_running(setup: KubeletSetup, cpu_policy: str, memory_policy: str) -> tuple[KubeletSetup, tuple[str, ...]]:
    """The setup with the managers' policies from the state files ("" for a missing file), and contradictions.

    A kubelet does not start with another policy than its state file's; the configuration may lack its flags.
    """
    settings = setup.settings
    running = replace(
        settings,
        cpu_static=CPU_POLICIES.get(cpu_policy, settings.cpu_static),
        memory_static=MEMORY_POLICIES.get(memory_policy, settings.memory_static),
    )
    problems = []
    if running.cpu_static != settings.cpu_static:
        problems.append(_contradiction("cpu_manager_state", cpu_policy))
    if running.memory_static != settings.memory_static:
        problems.append(_contradiction("memory_manager_state", memory_policy))
    return replace(setup, settings=running), tuple(problems)


def _contradiction(file: str, policy: str) -> str:
    return (
        f"{file} says policy {policy}, the kubelet's configuration does not: "
        "using the state file; if the kubelet has flags, name them with --kubelet-flags"
    )


def reserved_cpus_on(hardware: Hardware, setup: KubeletSetup) -> frozenset[int]:
    """The CPUs that a static CPU Manager never assigns; none under policy none.

    If the configuration has only their number, the kubelet's choice follows from the CPU layout.
    """
    if not setup.settings.cpu_static:
        return frozenset()
    if setup.reserved_cpus or not setup.reserved_cpu_milli or hardware.layout is None:
        return setup.reserved_cpus
    count = -(-setup.reserved_cpu_milli // 1000)
    everything = sum(hardware.layout.by_zone.values())
    return members(take(hardware.layout, setup.settings.cpu_options, everything, count))


# -- the document ------------------------------------------------------------------------------------------------------


def _settings(parsed: _Configuration, at: ObjectPath) -> KubeletSettings:
    options = parsed.topology_manager_policy_options or {}
    option_path = at.child("topologyManagerPolicyOptions")
    cpu_options = parsed.cpu_manager_policy_options or {}
    chosen = frozenset(
        name
        for name, value in cpu_options.items()
        if _one_of(_TRUE, value.lower(), at.child("cpuManagerPolicyOptions").key(name))
    )
    gates = parsed.feature_gates or {}
    return KubeletSettings(
        policy=_one_of(
            POLICY_BY_TEXT, parsed.topology_manager_policy or Policy.NONE.text, at.child("topologyManagerPolicy")
        ),
        scope=_one_of(
            SCOPE_BY_TEXT, parsed.topology_manager_scope or Scope.CONTAINER.text, at.child("topologyManagerScope")
        ),
        max_numa_nodes=_count(
            options.get("max-allowable-numa-nodes", str(DEFAULT_MAX_NUMA_NODES)),
            option_path.key("max-allowable-numa-nodes"),
        ),
        prefer_closest=_one_of(
            _TRUE,
            options.get("prefer-closest-numa-nodes", "false").lower(),
            option_path.key("prefer-closest-numa-nodes"),
        ),
        cpu_static=_one_of(CPU_POLICIES, parsed.cpu_manager_policy or "none", at.child("cpuManagerPolicy")),
        cpu_options=chosen,
        memory_static=_one_of(MEMORY_POLICIES, parsed.memory_manager_policy or "None", at.child("memoryManagerPolicy")),
        pod_level_managers=gates.get("PodLevelResourceManagers", False),
    )


def _reserved_cpus(parsed: _Configuration, at: ObjectPath) -> frozenset[int]:
    try:
        return members(cpu_set(parsed.reserved_system_cpus.strip()))
    except NotUnderstood as error:
        raise InvalidObject(
            at.child("reservedSystemCPUs"), f'"{parsed.reserved_system_cpus}": must be {error}'
        ) from None


def _reserved_cpu_milli(parsed: _Configuration, at: ObjectPath) -> int:
    """kubeReserved plus systemReserved; a list of CPUs takes precedence."""
    kube = amounts_of(parsed.kube_reserved, at.child("kubeReserved"))
    system = amounts_of(parsed.system_reserved, at.child("systemReserved"))
    return kube.get(CPU, 0) + system.get(CPU, 0)


def _reserved_memory(parsed: _Configuration, at: ObjectPath) -> dict[int, dict[str, int]]:
    return {
        reserved.numa_node: amounts_of(reserved.limits, at.child("reservedMemory").item(index).child("limits"))
        for index, reserved in enumerate(parsed.reserved_memory or ())
    }


def _one_of(allowed: Mapping[str, _Value], text: str, at: ObjectPath) -> _Value:
    if text not in allowed:
        raise InvalidObject(at, f'"{text}": must be one of {", ".join(allowed)}')
    return allowed[text]


def _count(text: str, at: ObjectPath) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1024:
        raise InvalidObject(at, f'"{text}": must be a number from 1 to 1024')
    return int(text)


# -- flags -------------------------------------------------------------------------------------------------------------

_TEXT_FLAGS = {
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "cpu-manager-policy": "cpuManagerPolicy",
    "memory-manager-policy": "memoryManagerPolicy",
    "reserved-cpus": "reservedSystemCPUs",
}
_PAIR_FLAGS = {
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
}


def from_flags(arguments: Sequence[str]) -> dict[str, object]:
    """The document that is equivalent to a kubelet's command line; irrelevant flags are skipped.

    Flags override the file: `{**file, **from_flags(arguments)}`.
    """
    document: dict[str, object] = {}
    for name, value in _flags(arguments):
        if name in _TEXT_FLAGS:
            document[_TEXT_FLAGS[name]] = value
        elif name in _PAIR_FLAGS:
            document[_PAIR_FLAGS[name]] = _pairs(value)
        elif name == "reserved-memory":
            document["reservedMemory"] = _reserved_memory_flag(value)
        elif name == "feature-gates":
            document["featureGates"] = {gate: text.lower() == "true" for gate, text in _pairs(value).items()}
    return document


def _flags(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """`--name=value` and `--name value` alike."""
    found = []
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        if not argument.startswith("--"):
            continue
        name, equals, value = argument.removeprefix("--").partition("=")
        found.append((name, value if equals else following))
    return found


def _pairs(text: str) -> dict[str, str]:
    """`a=1,b=2`."""
    written = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return {name.strip(): value.strip() for name, _, value in written}


def _reserved_memory_flag(text: str) -> list[dict[str, object]]:
    """`0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=1Gi`."""
    found: list[dict[str, object]] = []
    for part in text.split(";"):
        zone, colon, limits = part.partition(":")
        if not colon or not zone.strip().isdecimal():
            raise InvalidObject(
                ObjectPath("kubelet flags: --reserved-memory"),
                f'"{part}": must be like 0:{MEMORY}=1Gi,{HUGEPAGES_PREFIX}2Mi=64Mi',
            )
        found.append({"numaNode": int(zone), "limits": _pairs(limits)})
    return found
