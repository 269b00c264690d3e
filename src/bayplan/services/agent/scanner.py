"""One scan of the node: sysfs, the kubelet's configuration, its pods and its state files become a report.

    sysfs          machine       read on start, timer and signal
    config         setup         likewise; the last good one is kept
    podresources   pods          asked each time, with allocatable resources, so that late devices appear
    state files    state         read before and after the request; if they differ, the kubelet is asked again

A scan that misses something, or meets a kubelet that is still starting, fails with `CannotSee`: reports are complete.
Only if there never was a socket, state files replace it; such a report has no devices and no list of pods.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bayplan.cluster.reports import fingerprint
from bayplan.cluster.reports.inventory import cpu_list
from bayplan.kube.errors import InvalidObject
from bayplan.services.agent.accounting import account
from bayplan.services.agent.evidence import Evidence, not_started
from bayplan.services.agent.report import Document, FingerprintMethod, fitting, topology_document, without_attributes
from bayplan.services.agent.settings import ALL_NAMESPACES, AgentSettings
from bayplan.services.agent.sources.kubelet_config import KubeletSetup, as_running
from bayplan.services.agent.sources.kubelet_source import NoConfiguration, read_setup
from bayplan.services.agent.sources.own_pods import KnownPods
from bayplan.services.agent.sources.pod_resources import Allocatable, PodResources, matches_any, shared_pool_of
from bayplan.services.agent.sources.podresources import KubeletSilent, kubelet_at
from bayplan.services.agent.sources.state_files import (
    CpuState,
    DeviceState,
    MemoryState,
    cpu_state_of,
    device_state_of,
    memory_state_of,
)
from bayplan.services.agent.sources.sysfs import Hardware, read_hardware
from bayplan.services.agent.sources.sysfs_files import SysfsError

SETUP, UNREADABLE = "kubelet-config", "unreadable"
MAX_REQUESTS = 3  # to a kubelet whose state files keep changing
WITHOUT_SOCKET = "there is no podresources socket: CPUs and memory come from state files, devices are not reported"
IGNORED = "ignored; resources of finished init containers are not counted"
SOCKET_GRACE = 60.0  # seconds after the start in which a missing socket means a restarting kubelet
_NO_PODS = KnownPods(frozenset(), frozenset(), frozenset())
_FINGERPRINT_ATTRIBUTES = frozenset({fingerprint.ATTRIBUTE, fingerprint.METHOD_ATTRIBUTE})


# State files, the field of `_KubeletState` that each one fills, and its parser.
_STATE_FILES: Mapping[str, tuple[str, Callable[[bytes, str], object]]] = {
    "cpu_manager_state": ("cpu", cpu_state_of),
    "memory_manager_state": ("memory", memory_state_of),
    "device-plugins/kubelet_internal_checkpoint": ("devices", device_state_of),
}


class CannotSee(Exception):
    """No report could be made. `kind` and `cause` are metric labels."""

    def __init__(self, kind: str, cause: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Scan:
    """A report, and problems with its sources. `old_setup`: why the kubelet's configuration is from an earlier scan."""

    document: Document
    pods: int
    claims: int
    problems: tuple[str, ...] = ()
    without_socket: bool = False
    old_setup: str | None = None


@dataclass(frozen=True, slots=True)
class _KubeletState:
    """The kubelet's state files; None for a missing or unreadable file. `unreadable` says why, by field."""

    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: DeviceState | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)


class Scanner:
    """Scans one node repeatedly.

    `known_pods` says which pods are alive, if known (`sources/own_pods.py`). `clock` is monotonic, `now` is seconds
    since the epoch.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        known_pods: Callable[[], KnownPods | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._known_pods = known_pods
        self._clock = clock
        self._now = now
        self._started = clock()
        self._hardware: Hardware | None = None
        self._setup: KubeletSetup | None = None
        self._setup_problem: str | None = None
        self._socket_seen = False

    async def scan(self, *, rescan: bool = True) -> Scan:
        """Scan once; `rescan` also reads the machine and the configuration. Raises `CannotSee`."""
        if rescan or self._hardware is None:
            self._hardware = self._read_hardware()
        if rescan or (self._setup is None and self._settings.kubelet_config):
            await self._read_setup()
        if self._settings.kubelet_config and self._setup is None:
            raise CannotSee(SETUP, UNREADABLE, str(self._setup_problem))
        return await self._report(self._hardware)

    def _read_hardware(self) -> Hardware:
        try:
            return read_hardware(self._settings.sysfs)
        except (SysfsError, OSError) as error:
            raise CannotSee("sysfs", UNREADABLE, str(error)) from None

    async def _read_setup(self) -> None:
        """Read the kubelet's configuration; keep the last one if that fails."""
        settings = self._settings
        if not settings.kubelet_config:
            return
        try:
            self._setup = await read_setup(settings.kubelet_config, settings.kubelet_flags, settings.token_file)
            self._setup_problem = None
        except NoConfiguration as error:
            self._setup_problem = str(error)

    async def _report(self, hardware: Hardware) -> Scan:
        try:
            made_at, pods, allocatable, state = await self._ask(hardware)
            self._socket_seen = True
        except KubeletSilent as error:
            state = self._parsed(self._state_texts(), hardware)
            why_not = self._why_state_files_do_not_suffice(error, state)
            if why_not is not None:
                raise CannotSee("podresources", error.kind, why_not) from None
            made_at, pods, allocatable = self._now(), (), None
        setup, contradictions = self._setup_in_use(state)
        known = self._known_pods() or _NO_PODS
        pods = tuple(pod for pod in pods if pod.key not in known.ended_names)
        counted = [pod for pod in pods if self._counts(pod)]
        evidence = Evidence(
            hardware=hardware,
            setup=setup,
            allocatable=allocatable,
            pods=counted,
            shared_cpus=self._shared_cpus(pods),
            cpu_state=state.cpu,
            memory_state=state.memory,
            # It has only held devices: without the allocatable ones, none would seem to be left.
            device_state=state.devices if allocatable is not None else None,
            alive=known.alive,
            ended=known.ended,
        )
        why_not = not_started(evidence)
        if why_not is not None:
            raise CannotSee("podresources", "starting", why_not)
        found = account(evidence, self._settings.excluded_resources)
        names = [pod.key for pod in pods if not matches_any(pod.key, self._settings.excluded_pods)]
        document = topology_document(
            self._settings.node,
            found,
            hardware,
            setup,
            made_at=made_at,
            all_pods=names if self._settings.fingerprint is FingerprintMethod.ALL else None,
            version=self._settings.report_format,
            pods_known=allocatable is not None,
        )
        if self._settings.fingerprint is None:
            document = without_attributes(document, _FINGERPRINT_ATTRIBUTES)
        document, too_much = fitting(document)
        without_socket = allocatable is None
        # State files that replace the socket are readable.
        ignored = () if without_socket else tuple(f"{why}; {IGNORED}" for why in state.unreadable.values())
        problems = (*ignored, *contradictions, *found.problems, *too_much, *self._missing_reference(pods))
        claims = sum(len(container.claims) for pod in pods for container in pod.containers)
        return Scan(document, len(pods), claims, problems, without_socket, self._setup_problem)

    async def _ask(self, hardware: Hardware) -> tuple[float, tuple[PodResources, ...], Allocatable, _KubeletState]:
        """The kubelet's answers and state files, from one moment if possible."""
        socket = self._settings.socket
        if socket is None:
            raise KubeletSilent("missing", "no podresources socket is given")
        async with kubelet_at(socket, patience=self._settings.patience) as kubelet:
            asked = 0
            while True:
                before = self._state_texts()
                made_at = self._now()
                pods, allocatable = await kubelet.pods(), await kubelet.allocatable()
                after = self._state_texts()
                asked += 1
                # If the kubelet never stops, the newest answer counts; the next scan is already due.
                if after == before or asked == MAX_REQUESTS:
                    return made_at, pods, allocatable, self._parsed(after, hardware)

    def _why_state_files_do_not_suffice(self, error: KubeletSilent, state: _KubeletState) -> str | None:
        """None if state files can replace the socket: there never was one, and they have all CPUs and memory."""
        if self._settings.no_kubelet:
            return None
        restarts = self._settings.socket is not None and self._clock() - self._started < SOCKET_GRACE
        if error.kind != "missing" or self._socket_seen or restarts:
            return str(error)
        if state.cpu is None:
            return f"{error}, and it is unknown which pods hold CPUs: {self._why_missing('cpu', state)}"
        memory_is_shared = self._setup is not None and not self._setup.settings.memory_static
        if state.memory is None and not memory_is_shared:
            return f"{error}, and it is unknown which pods hold memory: {self._why_missing('memory', state)}"
        return None

    def _why_missing(self, wanted: str, state: _KubeletState) -> str:
        name = next(file for file, (filled, _) in _STATE_FILES.items() if filled == wanted)
        return state.unreadable.get(
            wanted, f"there is no {name} in {self._settings.state_folder or 'any state folder'}"
        )

    def _state_texts(self) -> dict[str, bytes | None]:
        """The state files; None for a missing one.

        The kubelet replaces its files by renaming. A mount of a single file keeps showing the old one, which then has
        no links and is outdated.
        """
        folder = self._settings.state_folder
        if folder is None or self._settings.namespace != ALL_NAMESPACES or self._settings.excluded_pods:
            # State files have only UIDs, so pods cannot be excluded by name.
            return {}
        found: dict[str, bytes | None] = {}
        for name in _STATE_FILES:
            try:
                with (folder / name).open("rb") as file:
                    found[name] = file.read() if os.fstat(file.fileno()).st_nlink else None
            except OSError:
                found[name] = None
        return found

    def _parsed(self, texts: dict[str, bytes | None], hardware: Hardware) -> _KubeletState:
        found: dict[str, Any] = {}
        unreadable = {}
        for file, text in texts.items():
            if text is None:
                continue
            filled, read = _STATE_FILES[file]
            try:
                found[filled] = read(text, f"{self._settings.state_folder}/{file}")
            except InvalidObject as error:
                unreadable[filled] = str(error)
        return _of_this_machine(_KubeletState(**found, unreadable=unreadable), hardware)

    def _counts(self, pod: PodResources) -> bool:
        settings = self._settings
        if settings.namespace not in (ALL_NAMESPACES, pod.namespace):
            return False
        return not matches_any(pod.key, settings.excluded_pods)

    def _setup_in_use(self, state: _KubeletState) -> tuple[KubeletSetup | None, tuple[str, ...]]:
        if self._setup is None:
            return None, ()
        return as_running(
            self._setup, state.cpu.policy if state.cpu else "", state.memory.policy if state.memory else ""
        )

    def _missing_reference(self, pods: tuple[PodResources, ...]) -> tuple[str, ...]:
        """A problem if the reference container is not here: shared CPUs then look as if they were in use."""
        wanted = self._settings.reference_container
        if wanted is None:
            return ()
        containers = {(*pod.key, container.name) for pod in pods for container in pod.containers}
        if (wanted.namespace, wanted.pod, wanted.container) in containers:
            return ()
        name = f"{wanted.namespace}/{wanted.pod}/{wanted.container}"
        return (f"reference container {name}: is not on this node, so the shared CPUs are unknown",)

    def _shared_cpus(self, pods: tuple[PodResources, ...]) -> frozenset[int]:
        reference = self._settings.reference_container
        if reference is None:
            return frozenset()
        return shared_pool_of(pods, reference.namespace, reference.pod, reference.container)


def _of_this_machine(state: _KubeletState, hardware: Hardware) -> _KubeletState:
    """The state without the memory file if that names unknown zones: its amounts are another machine's."""
    elsewhere = (state.memory.zones.keys() if state.memory else set()) - hardware.zone_ids
    if not elsewhere:
        return state
    zones = cpu_list(hardware.zone_ids)
    why = f"memory_manager_state: NUMA node {cpu_list(elsewhere)} does not exist (there are {zones})"
    return replace(state, memory=None, unreadable={**state.unreadable, "memory": why})
