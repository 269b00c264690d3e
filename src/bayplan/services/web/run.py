"""Start the page and stop it on a signal: a source that publishes to the board, and the server that shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from bayplan.kube.client.access import Access as ClusterAccess
from bayplan.kube.client.client import KubeClient
from bayplan.services.edges.process import run_until_signal
from bayplan.services.extender.tls import ServingFiles, ServingTls, Token, reload_on_change
from bayplan.services.web.access import Access, OpenAccess, ReviewedAccess, TokenAccess
from bayplan.services.web.board import Board
from bayplan.services.web.server import serve_web

Source = Callable[[Board], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Options of the command line. `reviewer`: the API server that is asked about viewers."""

    address: str
    files: ServingFiles = field(default_factory=ServingFiles)
    reviewer: ClusterAccess | None = None


def run_web(source: Source, options: WebOptions, serving: Callable[[int], None]) -> None:
    """Run until a signal; raises `AddressError` if it cannot serve. `serving` learns the port."""
    asyncio.run(_run(source, options, serving))


async def _run(source: Source, options: WebOptions, serving: Callable[[int], None]) -> None:
    files, board = options.files, Board()
    tls = ServingTls(files) if files.certificate else None
    async with AsyncExitStack() as stack:
        access = await _access(options, stack)
        serving(await stack.enter_async_context(serve_web(options.address, board, access, tls=tls)))
        parts = [source(board)]
        if isinstance(access, TokenAccess) and files.token is not None:
            parts.append(reload_on_change([files.token], access.token.reload, what="token"))
        if tls is not None:
            parts.append(reload_on_change([name for name in (files.certificate, files.key) if name], tls.reload))
        await run_until_signal(*parts)


async def _access(options: WebOptions, stack: AsyncExitStack) -> Access:
    if options.files.token is not None:
        return TokenAccess(Token(options.files.token))
    if options.reviewer is None:
        return OpenAccess()
    return ReviewedAccess(await stack.enter_async_context(KubeClient(options.reviewer)))
