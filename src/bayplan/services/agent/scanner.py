"""One look at the node: sysfs, the kubelet's configuration, its pods and its notes, read together and made into a report.

    sysfs          machine       read when something may have changed it: timer, signal, start
    config         setup         the same; the last good one is kept
    podresources   pods          asked each time, with what can be handed out, so that devices that register late appear
    state files    notes         read before and after the question; if they differ, the kubelet was at work and it is asked again

Whatever is missing makes the look fail with `CannotSee` and a sentence: a report is whole or it is not made. So does a kubelet that has just started and
does not know yet what it can hand out. Only where there never was a socket do the notes stand in for it; such a report has no devices and no list of pods. `agent.py` decides when to look and what to do about a failure.
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
from bayplan.services.agent.report import Document, FingerprintMethod, topology_document, without_attributes
from bayplan.services.agent.report_size import fitting
from bayplan.services.agent.settings import ALL_NAMESPACES, AgentSettings
from bayplan.services.agent.sources.kubelet_config import KubeletSetup, as_noted
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
QUESTIONS = 3  # how often a kubelet that is at work is asked again within one look
WITHOUT_SOCKET = "there is no podresources socket: CPUs and memory come from state files, devices are not reported"
LEFT_ASIDE = "left aside, what finished init containers hold is not counted"
SOCKET_GRACE = 60.0  # seconds after the start in which a missing socket means a kubelet that restarts
_NOBODY = KnownPods(frozenset(), frozenset(), frozenset())
_OF_FINGERPRINT = frozenset({fingerprint.ATTRIBUTE, fingerprint.METHOD_ATTRIBUTE})


# State files, the field of `_Notes` each one fills, and who understands it.
_NOTES: Mapping[str, tuple[str, Callable[[bytes, str], object]]] = {
    "cpu_manager_state": ("cpu", cpu_state_of),
    "memory_manager_state": ("memory", memory_state_of),
    "device-plugins/kubelet_internal_checkpoint": ("devices", device_state_of),
}


class CannotSee(Exception):
    """No report could be made. `kind` and `cause` are words for a metric, the message is for people."""

    def __init__(self, kind: str, cause: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Scan:
    """A report, and what was odd about the things that it was made of. `old_setup`: why the kubelet's configuration is the one of an earlier look."""

    document: Document
    pods: int
    claims: int
    problems: tuple[str, ...] = ()
    without_socket: bool = False
    old_setup: str | None = None


@dataclass(frozen=True, slots=True)
class _Notes:
    """The kubelet's state files; None for one that is not there or makes no sense, `unreadable` then says why, by the field."""

    cpu: CpuState | None = None
    memory: MemoryState | None = None
    devices: DeviceState | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)


class Scanner:
    """Looks at one node, again and again.

    `known_pods` tells which pods live, if anybody knows (`services/agent/sources/own_pods.py`). `clock` is monotonic, `now` counts from 1970; both in seconds.
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

    async def scan(self, *, anew: bool = True) -> Scan:
        """One look. `anew`: also at what seldom changes. Raises `CannotSee`."""
        if anew or self._hardware is None:
            self._hardware = self._read_hardware()
        if anew or (self._setup is None and self._settings.kubelet_config):
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
        """What the kubelet runs with; what was known before stays if it cannot be read."""
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
            made_at, pods, allocatable, notes = await self._ask(hardware)
            self._socket_seen = True
        except KubeletSilent as error:
            notes = self._understood(self._state_texts(), hardware)
            why_not = self._why_notes_do_not_stand_in(error, notes)
            if why_not is not None:
                raise CannotSee("podresources", error.kind, why_not) from None
            made_at, pods, allocatable = self._now(), (), None
        setup, contradictions = self._setup_as_noted(notes)
        known = self._known_pods() or _NOBODY
        pods = tuple(pod for pod in pods if pod.key not in known.ended_names)
        counted = [pod for pod in pods if self._counts(pod)]
        evidence = Evidence(
            hardware=hardware,
            setup=setup,
            allocatable=allocatable,
            pods=counted,
            shared_cpus=self._shared_cpus(pods),
            cpu_state=notes.cpu,
            memory_state=notes.memory,
            # It tells only which devices are held: without the others that would read as if none were left.
            device_state=notes.devices if allocatable is not None else None,
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
            document = without_attributes(document, _OF_FINGERPRINT)
        document, too_much = fitting(document)
        without_socket = allocatable is None
        # Where notes stand in for the socket, those that are needed could be read.
        left_aside = () if without_socket else tuple(f"{why}; {LEFT_ASIDE}" for why in notes.unreadable.values())
        odd = (*left_aside, *contradictions, *found.problems, *too_much, *self._missing_reference(pods))
        claims = sum(len(container.claims) for pod in pods for container in pod.containers)
        return Scan(document, len(pods), claims, odd, without_socket, self._setup_problem)

    async def _ask(self, hardware: Hardware) -> tuple[float, tuple[PodResources, ...], Allocatable, _Notes]:
        """What the kubelet says and what it has noted, at one moment, as far as that can be had."""
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
                # A kubelet that never stops is taken at its newest word; the next look is already due.
                if after == before or asked == QUESTIONS:
                    return made_at, pods, allocatable, self._understood(after, hardware)

    def _why_notes_do_not_stand_in(self, error: KubeletSilent, notes: _Notes) -> str | None:
        """None if the notes may speak for a kubelet that cannot be asked: there never was a socket, and they say who has which CPU and memory."""
        if self._settings.no_kubelet:
            return None
        restarts = self._settings.socket is not None and self._clock() - self._started < SOCKET_GRACE
        if error.kind != "missing" or self._socket_seen or restarts:
            return str(error)
        if notes.cpu is None:
            return f"{error}, and nobody tells who holds CPUs: {self._what_is_wrong_with('cpu', notes)}"
        nobody_holds_memory = self._setup is not None and not self._setup.settings.memory_static
        if notes.memory is None and not nobody_holds_memory:
            return f"{error}, and nobody tells who holds memory: {self._what_is_wrong_with('memory', notes)}"
        return None

    def _what_is_wrong_with(self, wanted: str, notes: _Notes) -> str:
        name = next(file for file, (filled, _) in _NOTES.items() if filled == wanted)
        return notes.unreadable.get(
            wanted, f"there is no {name} in {self._settings.state_folder or 'any state folder'}"
        )

    def _state_texts(self) -> dict[str, bytes | None]:
        """The state files as they are; None for one that is not there.

        The kubelet writes a new file and gives it the old one's name. Where a single file is mounted, the mount goes on showing the old one, which has no name
        any more: what it says is no longer true.
        """
        folder = self._settings.state_folder
        if folder is None or self._settings.namespace != ALL_NAMESPACES or self._settings.excluded_pods:
            # The state files know pods only by UID, so pods cannot be excluded from them.
            return {}
        found: dict[str, bytes | None] = {}
        for name in _NOTES:
            try:
                with (folder / name).open("rb") as file:
                    found[name] = file.read() if os.fstat(file.fileno()).st_nlink else None
            except OSError:
                found[name] = None
        return found

    def _understood(self, texts: dict[str, bytes | None], hardware: Hardware) -> _Notes:
        found: dict[str, Any] = {}
        unreadable = {}
        for file, text in texts.items():
            if text is None:
                continue
            filled, read = _NOTES[file]
            try:
                found[filled] = read(text, f"{self._settings.state_folder}/{file}")
            except InvalidObject as error:
                unreadable[filled] = str(error)
        return _of_this_machine(_Notes(**found, unreadable=unreadable), hardware)

    def _counts(self, pod: PodResources) -> bool:
        settings = self._settings
        if settings.namespace not in (ALL_NAMESPACES, pod.namespace):
            return False
        return not matches_any(pod.key, settings.excluded_pods)

    def _setup_as_noted(self, notes: _Notes) -> tuple[KubeletSetup | None, tuple[str, ...]]:
        if self._setup is None:
            return None, ()
        return as_noted(self._setup, notes.cpu.policy if notes.cpu else "", notes.memory.policy if notes.memory else "")

    def _missing_reference(self, pods: tuple[PodResources, ...]) -> tuple[str, ...]:
        """Without the container that shows what is shared, shared CPUs look as if they were in use."""
        wanted = self._settings.reference_container
        if wanted is None:
            return ()
        containers = {(*pod.key, container.name) for pod in pods for container in pod.containers}
        if (wanted.namespace, wanted.pod, wanted.container) in containers:
            return ()
        name = f"{wanted.namespace}/{wanted.pod}/{wanted.container}"
        return (f"reference container {name}: is not on this node, so nobody shows which CPUs are shared",)

    def _shared_cpus(self, pods: tuple[PodResources, ...]) -> frozenset[int]:
        reference = self._settings.reference_container
        if reference is None:
            return frozenset()
        return shared_pool_of(pods, reference.namespace, reference.pod, reference.container)


def _of_this_machine(notes: _Notes, hardware: Hardware) -> _Notes:
    """The notes without those about memory if they speak of zones that are not here: then all their amounts are another machine's."""
    elsewhere = (notes.memory.zones.keys() if notes.memory else set()) - hardware.zone_ids
    if not elsewhere:
        return notes
    zones = cpu_list(hardware.zone_ids)
    why = f"memory_manager_state: NUMA node {cpu_list(elsewhere)} does not exist (there are {zones})"
    return replace(notes, memory=None, unreadable={**notes.unreadable, "memory": why})
