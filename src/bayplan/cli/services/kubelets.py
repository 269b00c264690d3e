"""`bayplan kubelets`: nodes on a real API server whose kubelets admit and refuse pods by NUMA zone, without any
hardware.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import click

from bayplan.cli.options.common import FILE_OR_FOLDER, STANDARD_INPUT, STDIN, ExampleCommand
from bayplan.cli.options.flags import output_option
from bayplan.cli.shared.output import show_progress, warn
from bayplan.kube.visible import visible, visible_json

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access
    from bayplan.services.kubelets.model import KubeletsSettings, News
    from bayplan.simulate.scenario.model import Seconds, SimulatedNode

_Value = TypeVar("_Value")

SECONDS_BETWEEN_NEWS = 0.1
BAR_WIDTH = 24
MACHINE = "pack:2 numa:1 core:16 pu:2 mem:64Gi"


@click.command(
    cls=ExampleCommand,
    examples=(
        'kubelets --nodes 200 --machine "pack:2 numa:2 core:16 pu:2 mem:64Gi gpu:2@numa"',
        'kubelets --machine "core:8 mem:32Gi" --nodes 50 --machine "pack:2 core:32 mem:128Gi" --nodes 50',
        'kubelets --nodes 128 --tree "zone:2 block:4 rack:4" --kubelet policy=restricted,scope=pod --report-delay 5s',
        "kubelets --scenario examples/scenarios/demo.yaml",
    ),
)
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="TEXT",
    help=f"The hardware in one line, as in scenarios. Repeatable. [default: {MACHINE}]",
)
@click.option(
    "--nodes",
    "counts",
    type=click.IntRange(1),
    multiple=True,
    metavar="NUMBER",
    help="How many nodes: once for all machines, or once for each --machine. [default: 1]",
)
@click.option(
    "--kubelet",
    "kubelets_",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="How kubelets are set: policy, scope, cpu, memory, or any key of a scenario's kubelet; once for all machines, "
    "or once for each. [default: policy=single-numa-node,cpu=static,memory=Static]",
)
@click.option(
    "--scenario", type=FILE_OR_FOLDER, metavar="FILE", help="Take nodes, kubelets and reportDelay from a scenario."
)
@click.option(
    "--tree",
    default="",
    metavar="LEVELS",
    help='Labels that lay the nodes out in a tree, such as "zone:2 block:4 rack:16": '
    "16 racks in each of 4 blocks in each of 2 zones.",
)
@click.option("--labels", multiple=True, metavar="KEY=VALUE", help="A label for all nodes. Repeatable.")
@click.option(
    "--taint",
    "taints",
    multiple=True,
    metavar="KEY=VALUE:EFFECT",
    help="A taint for all nodes, to keep other pods off them. Repeatable.",
)
@click.option("--name-prefix", metavar="NAME", help="Nodes are called NAME-0, NAME-1, ... [default: virtual]")
@click.option(
    "--report-delay", metavar="DURATION", help="Delay between a change and the node's report of it. [default: 0s]"
)
@click.option(
    "--report",
    type=click.Choice(["complete", "plain"]),
    default="complete",
    show_default=True,
    help="NodeResourceTopologies with each pod's place, or with what node agents write today.",
)
@click.option(
    "--runs-for", metavar="DURATION", help="Pods succeed after this time; annotation bayplan.io/runs-for overrules it."
)
@click.option(
    "--heartbeat",
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="Interval at which each node renews its Lease; 0 writes it once.",
)
@click.option(
    "--status-qps",
    type=click.FloatRange(0),
    default=0.0,
    metavar="NUMBER",
    help="At most this many requests a second. [default: no limit]",
)
@click.option("--keep", is_flag=True, help="Leave nodes, Leases and reports in the cluster on exit.")
@click.option("--kubeconfig", metavar="FILE", help="Path to the kubeconfig. [default: as kubectl finds it]")
@click.option("--context", metavar="NAME", help="The kubeconfig context to use.")
@output_option("text", "json")
def kubelets(
    *,
    machines: tuple[str, ...],
    counts: tuple[int, ...],
    kubelets_: tuple[str, ...],
    scenario: Path | None,
    tree: str,
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    name_prefix: str | None,
    report_delay: str | None,
    report: str,
    runs_for: str | None,
    heartbeat: str,
    status_qps: float,
    keep: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Register virtual nodes and act as their kubelets: they admit or reject pods as kubelet v1.36 does.

    Refused pods become Failed with the kubelet's reason (TopologyAffinityError), admitted ones Running, deleted ones
    go, and each node publishes a NodeResourceTopology if the API server knows that kind. No container ever runs. Ctrl-C
    ends it and removes the nodes.
    """
    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.credentials import AccessError
    from bayplan.services.kubelets.layout import LayoutError
    from bayplan.services.kubelets.model import KubeletsSettings

    try:
        if scenario is None:
            nodes = _laid_out(machines, counts, kubelets_, name_prefix, tree, labels, taints)
            usual_delay = 0.0
        else:
            _refuse_beside_scenario(machines=machines, nodes=counts, kubelet=kubelets_, name_prefix=name_prefix)
            nodes, usual_delay = _from_scenario(scenario, tree, labels, taints)
        settings = KubeletsSettings(
            nodes=nodes,
            report_delay=usual_delay if report_delay is None else _duration("--report-delay", report_delay),
            complete=report == "complete",
            runs_for=None if runs_for is None else _duration("--runs-for", runs_for),
            heartbeat=_duration("--heartbeat", heartbeat),
            keep=keep,
        )
        access = find_access(kubeconfig, context)
    except (LayoutError, AccessError) as error:
        raise click.ClickException(str(error)) from None
    asyncio.run(_run(access, settings, status_qps, output))
    return 0


def _laid_out(
    machines: Sequence[str],
    counts: Sequence[int],
    kubelet_texts: Sequence[str],
    name_prefix: str | None,
    tree: str,
    labels: Sequence[str],
    taints: Sequence[str],
) -> tuple[SimulatedNode, ...]:
    from bayplan.services.kubelets.layout import NodeGroup, lay_out

    machines = machines or (MACHINE,)
    number = len(machines)
    groups = [
        NodeGroup(machine, count, kubelet)
        for machine, count, kubelet in zip(
            machines,
            _for_each("--nodes", counts or (1,), number),
            _for_each("--kubelet", kubelet_texts or ("",), number),
            strict=True,
        )
    ]
    return lay_out(
        groups, name_prefix=name_prefix or "virtual", tree=tree, labels=_pairs("--labels", labels), taints=taints
    )


def _from_scenario(
    path: Path, tree: str, labels: Sequence[str], taints: Sequence[str]
) -> tuple[tuple[SimulatedNode, ...], Seconds]:
    """A scenario's nodes and how late they report."""
    from bayplan.services.kubelets.layout import with_more
    from bayplan.simulate.scenario.reader import read_scenario

    read = read_scenario(STDIN if path == STANDARD_INPUT else path)
    return with_more(read.nodes, tree=tree, labels=_pairs("--labels", labels), taints=taints), read.report_delay


def _refuse_beside_scenario(**options: object) -> None:
    for name, value in options.items():
        if value:
            option = name.replace("_", "-").replace("machines", "machine")
            raise click.UsageError(f"--{option} does not go with --scenario, which says that itself")


def _for_each(option: str, given: Sequence[_Value], machines: int) -> Sequence[_Value]:
    """An option that is given once holds for all machines."""
    if len(given) == 1:
        return [given[0]] * machines
    if len(given) != machines:
        raise click.UsageError(
            f"{option} is given {len(given)} times for {machines} of --machine: must be once, or once for each"
        )
    return given


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE`, several of them also separated by commas."""
    pairs: dict[str, str] = {}
    for text in (part for each in texts for part in each.split(",")):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option}: '{text}' is not understood: must be KEY=VALUE")
        pairs[key] = value
    return pairs


def _duration(option: str, text: str) -> Seconds:
    from bayplan.kube.duration import NoDuration, seconds_of

    try:
        return seconds_of(text)
    except NoDuration as error:
        raise click.UsageError(f"{option}: {error}") from None


async def _run(access: Access, settings: KubeletsSettings, qps: float, output: str) -> None:
    """Be the kubelets until a signal comes; a second one ends at once."""
    from bayplan.kube.client.client import ApiError, KubeClient, Unreachable
    from bayplan.services.kubelets.registration import NotOurs
    from bayplan.services.kubelets.run import run_kubelets

    loop = asyncio.get_running_loop()
    async with KubeClient(access, qps=qps, burst=int(qps) or 1, connections=settings.writers) as client:
        running = asyncio.ensure_future(
            run_kubelets(client, settings, tell=lambda news: _tell(news, output), progress=_Progress())
        )

        def stop() -> None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            running.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            await running
        except asyncio.CancelledError:
            pass
        except (ApiError, Unreachable, NotOurs) as error:
            raise click.ClickException(str(error)) from None


def _tell(news: News, output: str) -> None:
    from bayplan.services.kubelets.model import Trouble, news_document, news_line

    show_progress("")
    if output == "json":
        click.echo(visible_json(json.dumps(news_document(news), ensure_ascii=False)))
    elif isinstance(news, Trouble):
        warn([news_line(news)])
    else:
        click.echo(visible(news_line(news)))


class _Progress:
    """A bar while nodes are registered or removed, drawn anew a few times a second."""

    def __init__(self) -> None:
        self._drawn = 0.0

    def __call__(self, done: int, of: int) -> None:
        """So many are done."""
        if done < of and monotonic() - self._drawn < SECONDS_BETWEEN_NEWS:
            return
        self._drawn = monotonic()
        filled = done * BAR_WIDTH // of
        bar = "█" * filled + "░" * (BAR_WIDTH - filled)
        show_progress(f"nodes  {bar} {done:,} of {of:,}" if done < of else "")
