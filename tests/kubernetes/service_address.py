"""A Service with `sessionAffinity: ClientIP` on the loopback: connections go to the first endpoint that answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.kubernetes.control_plane.ports import LOOPBACK


@contextmanager
def service_address(endpoints: Sequence[str]) -> Iterator[str]:
    """An address in front of these; connections end with their endpoint."""
    ports: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.new_event_loop()
    serving = loop.create_task(_serve(endpoints, ports))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"{LOOPBACK}:{asyncio.run_coroutine_threadsafe(ports.get(), loop).result(10)}"
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()


async def _serve(endpoints: Sequence[str], ports: asyncio.Queue[int]) -> None:
    connections: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        connections.add(asyncio.create_task(_connect(reader, writer, endpoints, writers)))

    server = await asyncio.start_server(accept, LOOPBACK, 0)
    ports.put_nowait(server.sockets[0].getsockname()[1])
    try:
        await asyncio.Event().wait()
    finally:
        server.close()
        # A client may connect again meanwhile, and a task that is cancelled before its first step closes nothing.
        while pending := {each for each in connections if not each.done()}:
            for each in pending:
                each.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def _connect(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    endpoints: Sequence[str],
    writers: list[asyncio.StreamWriter],
) -> None:
    try:
        for endpoint in endpoints:
            host, _, port = endpoint.rpartition(":")
            with suppress(OSError):
                from_endpoint, to_endpoint = await asyncio.open_connection(host, int(port))
                break
        else:
            return
        writers.append(to_endpoint)
        async with asyncio.TaskGroup() as copying:
            copying.create_task(_copy(reader, to_endpoint))
            copying.create_task(_copy(from_endpoint, writer))
    finally:
        writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Until one side closes; then the other is closed too, which ends the copy in the other direction."""
    try:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
    finally:
        target.close()
