"""What wakes the agent: files as a kubelet writes them, in real folders; timers and bursts in virtual time."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from shutil import rmtree

import pytest

from bayplan.services.agent.sources import wakers as module
from bayplan.services.agent.sources.folder_watch import FolderWatch
from bayplan.services.agent.sources.wakers import Wakers, reason_of
from tests.builders.services import in_virtual_time, now
from tests.scripted_api_server import asynchronous

SOON = 0.02
IN_TIME = 5.0


def a_half() -> float:
    """Chance that moves the timer neither way."""
    return 0.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kubelet's folder."""
    for name in ("device-plugins", "pod-resources"):
        (tmp_path / name).mkdir()
    return tmp_path


def replace_file(file: Path, text: str = "{}") -> None:
    """Write as the kubelet does: another file first, then it is renamed."""
    temporary = file.with_name(f".{file.name}123")
    temporary.write_text(text)
    temporary.rename(file)


def make(folder: Path) -> None:
    folder.mkdir()


def touch(file: Path) -> None:
    file.touch()


def watching(folder: Path) -> Wakers:
    socket = folder / "pod-resources/kubelet.sock"
    return Wakers(folder, socket=socket, interval=0, calm=SOON, longest_wait=4 * SOON, signals=())


async def reasons(wakers: Wakers) -> frozenset[str]:
    async with asyncio.timeout(IN_TIME):
        return await wakers.next()


async def hears_nothing(wakers: Wakers) -> bool:
    try:
        async with asyncio.timeout(5 * SOON):
            await wakers.next()
    except TimeoutError:
        return True
    return False


@pytest.mark.parametrize(
    "file, reason",
    [
        ("cpu_manager_state", "cpu_manager_state"),
        ("memory_manager_state", "memory_manager_state"),
        ("device-plugins/kubelet_internal_checkpoint", "kubelet_internal_checkpoint"),
        ("device-plugins/gpu.sock", "device-plugin"),
        ("pod-resources/kubelet.sock", "podresources-socket"),
        ("config.yaml", "config.yaml"),
        ("device-plugins", "folder"),
        ("pod-resources", "folder"),
        (".cpu_manager_state123", None),
        ("actuated_pods_state", None),
        ("pods/web.sock", None),
    ],
)
def test_files_that_matter(file: str, reason: str | None) -> None:
    folder = Path("/var/lib/kubelet")
    assert reason_of(folder / file, folder / "pod-resources/kubelet.sock") == reason


@pytest.mark.parametrize(
    "file", ["cpu_manager_state", "memory_manager_state", "device-plugins/kubelet_internal_checkpoint"]
)
@asynchronous
async def test_a_state_file_that_is_replaced_wakes(folder: Path, file: str) -> None:
    async with watching(folder) as wakers:
        assert await reasons(wakers) == {"start"}
        replace_file(folder / file)
        assert await reasons(wakers) == {Path(file).name}


@asynchronous
async def test_a_device_plugin_that_registers_late_wakes(folder: Path) -> None:
    async with watching(folder) as wakers:
        await reasons(wakers)
        (folder / "device-plugins/gpu.sock").touch()
        assert await reasons(wakers) == {"device-plugin"}


@asynchronous
async def test_a_kubelet_that_restarts_wakes(folder: Path) -> None:
    socket = folder / "pod-resources/kubelet.sock"
    socket.touch()
    async with watching(folder) as wakers:
        await reasons(wakers)
        socket.unlink()
        assert await reasons(wakers) == {"podresources-socket"}
        socket.touch()
        assert await reasons(wakers) == {"podresources-socket"}


@asynchronous
async def test_the_socket_may_be_anywhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    socket = tmp_path_factory.mktemp("podresources") / "kubelet.sock"
    async with Wakers(folder, socket=socket, interval=0, calm=SOON, signals=()) as wakers:
        await reasons(wakers)
        touch(socket)
        assert await reasons(wakers) == {"podresources-socket"}


@asynchronous
async def test_irrelevant_files_do_not_wake_the_agent(folder: Path) -> None:
    async with watching(folder) as wakers:
        await reasons(wakers)
        replace_file(folder / "actuated_pods_state")
        assert await hears_nothing(wakers)


@asynchronous
async def test_a_folder_may_come_later(folder: Path) -> None:
    rmtree(folder / "device-plugins")
    async with watching(folder) as wakers:
        await reasons(wakers)
        (folder / "device-plugins").mkdir()
        assert await reasons(wakers) == {"folder"}
        (folder / "device-plugins/gpu.sock").touch()
        assert await reasons(wakers) == {"device-plugin"}


@asynchronous
async def test_the_kubelets_whole_folder_may_go_and_come_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_FOR_FOLDERS_EVERY", SOON)
    async with watching(folder) as wakers:
        await reasons(wakers)
        rmtree(folder)
        await reasons(wakers)
        make(folder)
        assert "folder" in await reasons(wakers)
        replace_file(folder / "cpu_manager_state")
        assert await reasons(wakers) == {"cpu_manager_state"}


@asynchronous
async def test_a_signal_wakes(folder: Path) -> None:
    async with Wakers(None, interval=0, calm=SOON) as wakers:
        await reasons(wakers)
        os.kill(os.getpid(), signal.SIGHUP)
        assert await reasons(wakers) == {"signal"}


def test_nothing_is_left_open(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with FolderWatch([folder]):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_without_news_the_timer_wakes() -> None:
    async def story() -> list[tuple[float, frozenset[str]]]:
        async with Wakers(None, interval=60, calm=0.2, signals=(), chance=a_half) as wakers:
            return [(now(), await wakers.next()) for _ in range(3)]

    times = [(at, set(why)) for at, why in in_virtual_time(story())]
    assert times == [(0.0, {"start"}), (0.0, {"timer"}), (60.2, {"timer"})]


def test_agents_that_start_together_do_not_stay_together() -> None:
    async def moment(chance: float) -> float:
        async with Wakers(None, interval=60, calm=0, signals=(), chance=lambda: chance) as wakers:
            await wakers.next()
            await wakers.next()
            return now()

    assert in_virtual_time(moment(0.0)) == pytest.approx(54)
    assert in_virtual_time(moment(1.0)) == pytest.approx(66)


def test_a_burst_is_one_reason_to_look() -> None:
    async def story() -> tuple[float, frozenset[str]]:
        async with Wakers(None, interval=0, calm=0.2, longest_wait=1.0, signals=()) as wakers:
            await wakers.next()
            loop = asyncio.get_running_loop()
            for number in range(4):
                loop.call_later(0.1 * number, wakers.wake, f"file-{number % 2}")
            why = await wakers.next()
            return now(), why

    at, why = in_virtual_time(story())
    assert why == {"file-0", "file-1"}
    assert at == pytest.approx(0.6)


def test_a_source_that_never_calms_down_still_wakes_the_agent() -> None:
    async def story() -> list[float]:
        times = []
        async with Wakers(None, interval=0, calm=0.2, longest_wait=1.0, signals=()) as wakers:
            await wakers.next()

            async def chatter() -> None:
                while True:
                    wakers.wake("file")
                    await asyncio.sleep(0.05)

            chattering = asyncio.create_task(chatter())
            for _ in range(3):
                await wakers.next()
                times.append(now())
            chattering.cancel()
        return times

    assert in_virtual_time(story()) == pytest.approx([1.0, 2.0, 3.0], abs=0.1)
