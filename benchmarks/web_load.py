"""`bayplan web` under load, on a real API server: 50 open pages while the cluster changes 100 times a second, and the
scheduler's throughput with its page on and off.

A page here is a client that does what the page in a browser does: it follows the events, and after a change it asks for
what changed on the map and for the summary, at most once a second. Each has an address of its own, as users have.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks.measure import report
from benchmarks.scheduler import Arena, Backlog, Sizes
from benchmarks.scheduler_contestants import BAYPLAN_NUMA, Program, with_page
from benchmarks.scheduler_load import Load, create_nodes, create_reports, created, start_creating
from tests.kubernetes.control_plane.objects import remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import NoControlPlane, find_programs
from tests.kubernetes.deployed import deployed
from tests.running_commands import running
from tests.web.running_web import RunningWeb

NODES, PAGES = 1_000, 50
CHANGES, A_SECOND = 2_000, 100.0
ROUNDS, PAGES_OF_SCHEDULER = 3, 5
NODES_OF_SCHEDULER, BACKLOG = 500, 1_000
BETWEEN_UPDATES = 1.0
QUICK = bool(os.environ.get("BENCH_QUICK"))
NAMESPACE = "web-load"


@dataclass
class Pages:
    """Open pages: how many answers they have had, of how many bytes."""

    url: str
    number: int
    answers: int = 0
    sent: int = 0
    refused: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `stop`."""
        asyncio.run(self._all())

    def stop(self) -> None:
        """Close all pages."""
        self.stopped.set()

    async def _all(self) -> None:
        tasks = [asyncio.create_task(self._page(number)) for number in range(self.number)]
        await asyncio.to_thread(self.stopped.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _page(self, number: int) -> None:
        address = (f"127.0.{1 + number // 200}.{1 + number % 200}", 0)
        connector = aiohttp.TCPConnector(local_addr=address)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
            version = await self._asked(session, "")
            async with session.get(f"{self.url}/api/v1/events") as events:
                changed = asyncio.Event()

                async def read() -> None:
                    async for line in events.content:
                        if line.startswith(b"data:"):
                            changed.set()

                reading = asyncio.create_task(read())
                try:
                    while True:
                        await changed.wait()
                        changed.clear()
                        version = await self._asked(session, version)
                        await asyncio.sleep(BETWEEN_UPDATES)
                finally:
                    reading.cancel()

    async def _asked(self, session: aiohttp.ClientSession, version: str) -> str:
        since = {"since": version} if version else {}
        async with session.get(f"{self.url}/api/v1/map", params=since) as answer:
            self._count(answer, await answer.read())
            found = (await answer.json()).get("version", version) if answer.status == 200 else version
        async with session.get(f"{self.url}/api/v1/cluster") as answer:
            self._count(answer, await answer.read())
        return str(found)

    def _count(self, answer: aiohttp.ClientResponse, body: bytes) -> None:
        self.answers += 1
        self.refused += answer.status != 200
        self.sent += int(answer.headers.get("Content-Length", len(body)))


@contextmanager
def open_pages(url: str, number: int) -> Iterator[Pages]:
    """Pages that stay open while the context lasts."""
    pages = Pages(url, number)
    thread = threading.Thread(target=pages.run)
    thread.start()
    try:
        yield pages
    finally:
        pages.stop()
        thread.join()


def run() -> None:
    """Open pages on a busy cluster; nothing without a control plane."""
    with _control_plane(NODES) as found:
        if found is not None:
            plane, _, nodes = found
            _busy_cluster(plane, nodes, 500 if QUICK else CHANGES)


def run_scheduler() -> None:
    """The scheduler with its page on and off; nothing without a control plane."""
    with _control_plane(NODES_OF_SCHEDULER) as found:
        if found is not None:
            plane, account, nodes = found
            sizes = Sizes(nodes=(nodes,), backlog=300 if QUICK else BACKLOG)
            _scheduler(Arena(plane, account, nodes, sizes), 1 if QUICK else ROUNDS)


@contextmanager
def _control_plane(nodes: int) -> Iterator[tuple[ControlPlane, Path, int] | None]:
    """A control plane with nodes and their reports, the kubeconfig of bayplan's account, and the number of nodes."""
    try:
        find_programs()
    except NoControlPlane as problem:
        print(f"bench web on a real API server: left out: {problem}")
        yield None
        return
    nodes = 100 if QUICK else nodes
    with ControlPlane() as plane, deployed(plane) as account:
        create_nodes(plane.kubeconfig, nodes)
        create_reports(plane.kubeconfig, nodes)
        yield plane, account.kubeconfig, nodes


def _busy_cluster(plane: ControlPlane, nodes: int, changes: int) -> None:
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with running("web", "--address", "127.0.0.1:0", "--kubeconfig", str(plane.kubeconfig)) as process:
        url = process.until("/\n").strip().removeprefix("serving ").removesuffix("/")
        _wait_until_ready(url)
        program = Program(process.process.pid)
        for pages in (0, PAGES):
            with open_pages(url, pages) as opened:
                began, cpu = time.monotonic(), program.cpu_seconds()
                created(start_creating(plane.kubeconfig, Load(NAMESPACE, changes, rate=A_SECOND, on_nodes=nodes)))
                seconds = time.monotonic() - began
                cpu = program.cpu_seconds() - cpu
            about = f"web/{nodes} nodes, {changes / seconds:.0f} changes a second, {pages} pages"
            report(f"{about}/server", 100 * cpu / seconds, "% of a core")
            report(f"{about}/memory", program.most_megabytes(), "MB at most")
            if pages:
                report(f"{about}/answers", opened.answers / seconds, f"a second, {opened.refused} refused")
                report(f"{about}/sent", opened.sent / seconds / 1024, "KiB/s")
            remove_namespace(plane.api, NAMESPACE)
            plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


def _scheduler(arena: Arena, rounds: int) -> None:
    """Backlogs with and without the page, in turn."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    paged = with_page(f"127.0.0.1:{port}")
    off: list[Backlog] = []
    on: list[Backlog] = []

    def without() -> None:
        off.append(arena.backlog(BAYPLAN_NUMA))

    def with_pages() -> None:
        with open_pages_when_ready(f"http://127.0.0.1:{port}", PAGES_OF_SCHEDULER):
            on.append(arena.backlog(paged))

    # Both go first equally often: the machine may do other work meanwhile.
    for number in range(rounds):
        for measure in (without, with_pages) if number % 2 == 0 else (with_pages, without):
            measure()
    for name, backlogs in (("page off", off), (f"page on, {PAGES_OF_SCHEDULER} open", on)):
        report(f"web/scheduler, {name}/backlog", statistics.median(each.pods_per_second for each in backlogs), "pods/s")
        report(f"web/scheduler, {name}/backlog, best", max(each.pods_per_second for each in backlogs), "pods/s")
        cpu = statistics.median(each.cpu_per_thousand for each in backlogs)
        report(f"web/scheduler, {name}/cpu", cpu, "CPU s of the scheduler per 1,000 pods")


@contextmanager
def open_pages_when_ready(url: str, number: int) -> Iterator[None]:
    """Pages that open as soon as the server is there."""
    pages = Pages(url, number)

    def run() -> None:
        _wait_until_ready(url, pages)
        with suppress(aiohttp.ClientError):  # the scheduler ends before its pages
            pages.run()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        pages.stop()
        thread.join()


def _wait_until_ready(url: str, pages: Pages | None = None) -> None:
    web = RunningWeb(url)
    while pages is None or not pages.stopped.is_set():
        with suppress(OSError):
            if web.ask("/readyz").status == 200:
                return
        time.sleep(0.1)
