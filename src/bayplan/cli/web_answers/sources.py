"""Where the page's cluster comes from: files that are read again when they change, or a cluster that is watched.

A cluster that cannot be read is reported on the board and tried again, with the last state still shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

import click

from bayplan.cli.program import is_bad_input
from bayplan.cli.shared.watching import SECONDS_BETWEEN_LOOKS, signature_of
from bayplan.cli.web_answers.answers import ClusterAnswers, quiet
from bayplan.cli.web_answers.live_scene import LiveScene
from bayplan.cli.web_answers.scene import Opener
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
from bayplan.kube.client.live import follow_news
from bayplan.services.web.board import Board

# Seconds between two states of a cluster that changes all the time, and before a lost cluster is tried again.
SETTLE = 1.0
RETRY = 2.0

# A cluster that says nothing for a while is asked whether it is there: a dead connection is silent for 100 s before its
# watch gives up. Seconds between two such questions, and how long one may take.
BETWEEN_SIGNS = 10.0
PATIENCE = 10.0

# How the report of a watch begins that is being resumed.
INTERRUPTED = "the cluster cannot be read at the moment"


async def follow_files(
    board: Board, first: ClusterAnswers, read: Callable[[], ClusterAnswers], paths: Sequence[Path]
) -> None:
    """Publish the files, and again whenever one of them changes, without end."""
    seen = signature_of(paths)
    await board.publish(first)
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        now = await asyncio.to_thread(signature_of, paths)
        if now == seen:
            continue
        seen = now
        try:
            await board.publish(await asyncio.to_thread(read))
        except click.ClickException as error:
            await board.report(error.format_message())
        except Exception as error:
            if not is_bad_input(error) and not isinstance(error, OSError):
                raise
            await board.report(str(error))


async def follow_live(board: Board, access: Access, context: click.Context, open_session: Opener) -> None:
    """Publish the cluster, and again after changes, without end."""
    loop = asyncio.get_running_loop()
    reports: set[asyncio.Task[None]] = set()

    def opened() -> LiveScene:
        with quiet(context):
            scene = LiveScene(open_session, lambda: show(scene))
        return scene

    def show(scene: LiveScene) -> None:
        told = board.publish(ClusterAnswers(context, scene))
        asyncio.run_coroutine_threadsafe(told, loop).result()

    def on_error(trouble: str) -> None:
        reports.add(task := loop.create_task(board.report(f"{INTERRUPTED}: {trouble}")))
        task.add_done_callback(reports.discard)

    recovering = loop.create_task(_look_for_signs_of_life(board, access))
    try:
        while True:
            try:
                await follow_news(access, opened(), settle=SETTLE, on_error=on_error)
            except (ApiError, Unreachable) as error:
                await board.report(f"the cluster cannot be read: {error}")
            await asyncio.sleep(RETRY)
    finally:
        recovering.cancel()


async def _look_for_signs_of_life(board: Board, access: Access) -> None:
    """Report an API server that does not answer, and take that back once it does: a quiet cluster brings no new state.

    This also takes back the report of an interrupted watch.
    """
    loop = asyncio.get_running_loop()
    asked_at = loop.time()
    async with KubeClient(access, timeout=PATIENCE) as client:
        while True:
            await asyncio.sleep(RETRY)
            interrupted = board.notice.trouble.startswith(INTERRUPTED)
            if not interrupted and loop.time() - asked_at < BETWEEN_SIGNS:
                continue
            trouble = await _trouble_of(client)
            asked_at = loop.time()
            if trouble and not board.notice.trouble:
                await board.report(f"{INTERRUPTED}: {trouble}")
            elif not trouble and board.notice.trouble.startswith(INTERRUPTED):
                await board.report("")


async def _trouble_of(client: KubeClient) -> str:
    """What is wrong with an API server; empty if it answers, if only with a refusal."""
    try:
        await client.request("GET", "/version")
    except ApiError as error:
        return str(error) if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
    except Unreachable as error:
        return str(error)
    return ""
