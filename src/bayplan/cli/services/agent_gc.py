"""`bayplan agent-gc`: remove the reports of nodes that are gone, mark those that no agent renews.

Flags of nfd-gc work under their names.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from bayplan import __version__
from bayplan.cli.options.flags import AGENT_GC_PORT, health_option, log_options
from bayplan.cli.options.go_flags import GoFlagsCommand
from bayplan.cli.services.agent import duration_of
from bayplan.cli.shared.reading import access_by
from bayplan.kube.visible import visible

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access


@click.command(
    "agent-gc",
    cls=GoFlagsCommand,
    examples=("agent-gc --oneshot", "agent-gc --gc-interval 10m --stale-after 15m --health-address :8080"),
)
@click.option("--oneshot/--no-oneshot", help="Run one round, print the result and exit.")
@click.option("--gc-interval", default="10m", show_default=True, metavar="DURATION", help="Interval between rounds.")
@click.option(
    "--stale-after",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="Age at which a report counts as stale: several heartbeats of the agents.",
)
@click.option(
    "--list-size",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    metavar="NUMBER",
    help="Page size for listing reports; 0: all at once.",
)
@click.option("--kubeconfig", metavar="FILE", help="Path to the kubeconfig. [default: as kubectl finds it]")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use.")
@health_option(AGENT_GC_PORT)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="NUMBER",
    help="The same on all addresses: --health-address :NUMBER.",
)
@log_options
@click.version_option(__version__, prog_name="bayplan", message="%(prog)s %(version)s")
def agent_gc(
    *,
    oneshot: bool,
    gc_interval: str,
    stale_after: str,
    list_size: int,
    kubeconfig: str | None,
    context: str | None,
    health_address: str,
    port: int | None,
) -> None:
    """Remove NodeResourceTopologies of nodes that are gone, and mark those that are stale.

    Stale ones get the annotation bayplan.io/stale-since, and lose it once they are renewed. Ctrl-C or SIGTERM stops it.
    """
    from bayplan.kube.client.credentials import AccessError
    from bayplan.services.edges.health import AddressError

    interval = duration_of("--gc-interval", gc_interval)
    patience = duration_of("--stale-after", stale_after)
    if not interval or not patience:
        raise click.UsageError("--gc-interval and --stale-after must be more than 0")
    address = health_address if port is None else f":{port}"
    access = access_by(kubeconfig, context)
    try:
        if oneshot:
            asyncio.run(_once(access, patience, list_size))
        else:
            asyncio.run(_always(access, interval, patience, list_size, address))
    except (AccessError, AddressError) as error:
        raise click.ClickException(str(error)) from None


async def _once(access: Access, stale_after: float, page: int) -> None:
    from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
    from bayplan.services.agent.gc import Collector, NotServed, explain

    try:
        async with KubeClient(access, connections=2) as client:
            done = await Collector(client, stale_after=stale_after, page=page).round()
    except (ApiError, Unreachable, NotServed) as error:
        _, sentence = explain(error)
        raise click.ClickException(sentence) from None
    told = {"deleted": done.deleted, "marked as stale": done.marked, "fresh again": done.unmarked}
    for what, names in told.items():
        for name in names:
            click.echo(visible(f"{name}: {what}"))
    if done.failures:
        raise click.ClickException("; ".join(done.failures))


async def _always(access: Access, interval: float, stale_after: float, page: int, address: str) -> None:
    from bayplan.kube.client.client import KubeClient
    from bayplan.services.agent.gc import Collector
    from bayplan.services.agent.metrics import CollectorMetrics
    from bayplan.services.agent.troubles import Troubles
    from bayplan.services.edges.health import serve_health
    from bayplan.services.edges.process import run_until_signal

    troubles = Troubles()
    metrics = CollectorMetrics(troubles)
    async with KubeClient(access, connections=2) as client:
        collector = Collector(
            client,
            interval=interval,
            stale_after=stale_after,
            page=page,
            on_round=metrics.round,
            troubles=troubles,
        )
        async with serve_health(address, live={}, ready={"rounds": lambda: collector.problem}, metrics=metrics.text):
            await run_until_signal(collector.run())
