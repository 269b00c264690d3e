"""Listen on an address for as long as a context lasts; shared by the servers that users choose an `--address` for."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bayplan.services.edges.health import AddressError, host_and_port


@asynccontextmanager
async def listening(
    runner: web.AppRunner | web.ServerRunner, address: str, context: ssl.SSLContext | None
) -> AsyncIterator[int]:
    """Serve with a runner; yields the port. Raises `AddressError` if the address cannot be had."""
    host, port = host_and_port(address)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise AddressError(f"cannot listen on {address}: {reason}; choose another with --address") from None
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
