"""Settings of an agent, from the command line and from `--config`.

The file has NFD's or RTE's form: `excludeList` (NFD) or `resourceExclude` (RTE) by node name or `*`, and `podExclude`
(RTE). Out go `AgentSettings` for `scanner.py` and `run.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
from bayplan.services.agent.accounting import excluded_on
from bayplan.services.agent.report import FingerprintMethod, ReportFormat
from bayplan.services.agent.sources.pod_resources import PodPattern

ALL_NAMESPACES = "*"
HEARTBEAT = 300.0
INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class ReferenceContainer:
    """A container without exclusive CPUs: its CPUs are the shared pool."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Where an agent reads and what it reports; wide because each flag is a field.

    Times are in seconds; `interval` 0 means only the heartbeat.

    Without `kubelet_flags`, the agent uses flags beside the configuration, if there are any. `no_kubelet` shows a
    machine as if no pod ran, to look at and not to publish.
    """

    node: str
    sysfs: Path = Path("/sys")
    socket: Path | None = None
    state_folder: Path | None = None
    kubelet_config: str = ""
    kubelet_flags: Path | None = None
    token_file: Path | None = None
    report_format: ReportFormat = ReportFormat.V1ALPHA2
    fingerprint: FingerprintMethod | None = FingerprintMethod.EXCLUSIVE
    namespace: str = ALL_NAMESPACES
    excluded_resources: frozenset[str] = frozenset()
    excluded_pods: tuple[PodPattern, ...] = ()
    reference_container: ReferenceContainer | None = None
    interval: float = INTERVAL
    heartbeat: float = HEARTBEAT
    patience: float = 10.0
    watch_pods: bool | None = None  # None: if RBAC allows it
    no_kubelet: bool = False

    @property
    def timer(self) -> float:
        """Seconds between scans without any event: each heartbeat requires a scan."""
        return min(self.interval or self.heartbeat, self.heartbeat or self.interval)


class _PodExclude(msgspec.Struct, rename="camel", frozen=True):
    namespace_pattern: str = "*"
    name_pattern: str = "*"


class _Exclusions(msgspec.Struct, rename="camel", frozen=True):
    """The keys of NFD's and RTE's files that an agent understands."""

    exclude_list: dict[str, list[str]] | None = None
    resource_exclude: dict[str, list[str]] | None = None
    pod_exclude: list[_PodExclude] | None = None


def exclusions_of(document: object, source: str, node: str) -> tuple[frozenset[str], tuple[PodPattern, ...]]:
    """The resources and pods that a configuration file excludes on this node."""
    try:
        found = msgspec.convert(document or {}, _Exclusions)
    except msgspec.ValidationError as error:
        where, problem = field_and_problem(error, _Exclusions)
        at = ObjectPath(f"file {source}")
        raise InvalidObject(at.child(where) if where else at, problem) from None
    resources = excluded_on(node, found.exclude_list or {}) | excluded_on(node, found.resource_exclude or {})
    pods = tuple(PodPattern(each.namespace_pattern, each.name_pattern) for each in found.pod_exclude or ())
    return resources, pods


def reference_container_of(text: str) -> ReferenceContainer | None:
    """Parse `namespace/pod/container`; None for an empty text.

    >>> reference_container_of("agents/rte-x7/shared").pod
    'rte-x7'
    """
    if not text:
        return None
    parts = text.split("/")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f'"{text}": must be NAMESPACE/POD/CONTAINER')
    return ReferenceContainer(*parts)
