"""Wake the agent: changed state files, device plugins that come and go, a new socket, the timer, a signal.

`next()` returns the reasons to scan, debounced: a kubelet that admits ten pods writes its files thirty times within a
second. A source that never calms down wakes the agent once per `longest_wait`.

    async with Wakers(state_folder, interval=60) as wakers:
        while True:
            reasons = await wakers.next()    # {"cpu_manager_state"}, {"timer"}, ...
            scan()
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bayplan.services.agent.sources.folder_watch import CannotWatch, FolderWatch
from bayplan.services.agent.sources.kubelet_source import KUBEADM_FLAGS

logger = logging.getLogger(__name__)

TIMER, SIGNAL, START, FOLDER, POD = "timer", "signal", "start", "folder", "pod"
DEVICE_PLUGIN, SOCKET = "device-plugin", "podresources-socket"
STATE_FILES = frozenset({"cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint"})
CONFIGURATION_FILES = frozenset({"config.yaml", KUBEADM_FLAGS})
DEVICE_PLUGINS = "device-plugins"
CALM = 0.2  # seconds without a change
LONGEST_WAIT = 1.0  # seconds from the first change
LOOK_FOR_FOLDERS_EVERY = 10.0
JITTER = 0.1  # of the interval, so that agents spread out


def reason_of(file: Path, socket: Path | None = None) -> str | None:
    """The reason that a changed file gives, or None; `socket` is the kubelet's.

    >>> reason_of(Path("/var/lib/kubelet/cpu_manager_state")), reason_of(Path("/var/lib/kubelet/.cpu_manager_state123"))
    ('cpu_manager_state', None)
    """
    name = file.name
    if name in STATE_FILES or name in CONFIGURATION_FILES:
        return name
    if file == socket:
        return SOCKET
    if name == DEVICE_PLUGINS or (socket is not None and file == socket.parent):
        return FOLDER
    if name.endswith(".sock") and file.parent.name == DEVICE_PLUGINS:
        return DEVICE_PLUGIN
    return None


class Wakers:
    """Reasons to scan, inside an `async with` block.

    `interval` 0 disables the timer. `socket` is the kubelet's. `chance` draws from 0 to 1.
    """

    def __init__(
        self,
        state_folder: Path | None,
        *,
        socket: Path | None = None,
        interval: float = 60.0,
        calm: float = CALM,
        longest_wait: float = LONGEST_WAIT,
        signals: tuple[signal.Signals, ...] = (signal.SIGHUP,),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._folders = [state_folder, state_folder / DEVICE_PLUGINS] if state_folder is not None else []
        if socket is not None and socket.parent not in self._folders:
            self._folders.append(socket.parent)
        self._socket = socket
        self._interval = interval
        self._calm = calm
        self._longest_wait = longest_wait
        self._signals = signals
        self._chance = chance
        self._reasons: set[str] = {START}
        self._news = asyncio.Event()
        self._news.set()
        self._stack = AsyncExitStack()

    def wake(self, reason: str) -> None:
        """Add a reason to scan."""
        self._reasons.add(reason)
        self._news.set()

    async def next(self) -> frozenset[str]:
        """Wait for a reason and for calm; returns all reasons since the last call. The first is `START`."""
        try:
            async with asyncio.timeout(self._next_interval()):
                await self._news.wait()
        except TimeoutError:
            self.wake(TIMER)
        if self._reasons != {START}:
            await self._until_calm()
        reasons = frozenset(self._reasons)
        self._reasons.clear()
        self._news.clear()
        return reasons

    async def _until_calm(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_wait):
                while self._news.is_set():
                    self._news.clear()
                    await asyncio.sleep(self._calm)

    def _next_interval(self) -> float | None:
        return self._interval * (1 - JITTER + 2 * JITTER * self._chance()) if self._interval else None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, self.wake, SIGNAL)
            self._stack.callback(loop.remove_signal_handler, number)
        if self._folders:
            self._watch(loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            watch = self._stack.enter_context(FolderWatch(self._folders))
        except CannotWatch as error:
            logger.warning("cannot watch files, relying on the timer", extra={"problem": error.strerror})
            return
        loop.add_reader(watch.fileno(), self._files_changed, watch)
        self._stack.callback(loop.remove_reader, watch.fileno())
        looking = asyncio.create_task(self._look_for_folders(watch))
        self._stack.callback(looking.cancel)

    def _files_changed(self, watch: FolderWatch) -> None:
        for file in watch.changed():
            reason = reason_of(file, self._socket)
            if reason is not None:
                self.wake(reason)
            if reason == FOLDER:
                watch.look_again()

    async def _look_for_folders(self, watch: FolderWatch) -> None:
        """Poll for missing folders: the creation of an unwatched folder triggers no event."""
        while True:
            await asyncio.sleep(LOOK_FOR_FOLDERS_EVERY)
            with suppress(CannotWatch):
                if watch.missing and watch.look_again():
                    self.wake(FOLDER)
