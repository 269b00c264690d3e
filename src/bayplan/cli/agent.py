"""`bayplan agent`: what this node really has and who holds it, as the report that schedulers read."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options import ExampleCommand
from bayplan.cli.output import print_document, warn

if TYPE_CHECKING:
    from bayplan.services.agent.report import Document
    from bayplan.services.agent.settings import AgentSettings

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
STATE_FOLDER = Path("/var/lib/kubelet")


@click.command(
    cls=ExampleCommand,
    examples=(
        "agent --oneshot --no-publish",
        "agent --oneshot --no-publish --kubelet-config /var/lib/kubelet/config.yaml",
        "agent --oneshot --no-publish --sysfs-root copied/sys --format numatopology",
    ),
)
@click.option("--oneshot", is_flag=True, help="Look once, and end.")
@click.option("--no-publish", is_flag=True, help="Print the report and write nothing to the API server.")
@click.option(
    "--sysfs-root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("/sys"),
    show_default=True,
    metavar="FOLDER",
    help="Where sysfs is mounted, or a copy of it.",
)
@click.option(
    "--podresources-socket",
    type=click.Path(path_type=Path),
    default=SOCKET,
    show_default=True,
    metavar="FILE",
    help="The kubelet's socket that tells who holds what. Without it the report is of an idle machine.",
)
@click.option(
    "--kubelet-config",
    default="",
    metavar="SOURCE",
    help="The kubelet's configuration: a file, or https://HOST:10250/configz. [default: unknown]",
)
@click.option("--node-name", metavar="NAME", help="Whose report it is. [default: $NODE_NAME, else the host's name]")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["v1alpha2", "v1alpha1", "numatopology"]),
    default="v1alpha2",
    show_default=True,
    help="A NodeResourceTopology in one of its versions, or Volcano's Numatopology.",
)
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def agent(
    *,
    oneshot: bool,
    no_publish: bool,
    sysfs_root: Path,
    podresources_socket: Path,
    kubelet_config: str,
    node_name: str | None,
    report_format: str,
    output: str,
) -> int:
    """Report this node's NUMA zones: what there is, what pods may use, what is left.

    Exit code: 0 the report was made, 2 error.
    """
    from bayplan.services.agent.report import ReportFormat
    from bayplan.services.agent.settings import AgentSettings

    if not (oneshot and no_publish):
        raise click.UsageError("so far it can look once and print: give --oneshot --no-publish")
    settings = AgentSettings(
        node=node_name or os.environ.get("NODE_NAME") or socket.gethostname(),
        sysfs=sysfs_root,
        socket=podresources_socket,
        state_folder=STATE_FOLDER if podresources_socket == SOCKET else None,
        kubelet_config=kubelet_config,
        report_format=ReportFormat(report_format),
    )
    if podresources_socket.exists():
        document, problems = _seen(settings)
    else:
        warn([f"no podresources socket {podresources_socket}: this is what an idle machine would report"])
        document, problems = _idle(settings)
    warn(problems)
    print_document(document, output)
    return 0


def _seen(settings: AgentSettings) -> tuple[Document, list[str]]:
    """The report of a node whose kubelet can be asked."""
    from bayplan.services.agent.run import look_once
    from bayplan.services.agent.scanner import CannotSee

    try:
        scan = asyncio.run(look_once(settings))
    except CannotSee as error:
        raise click.ClickException(str(error)) from None
    return scan.document, list(scan.problems)


def _idle(settings: AgentSettings) -> tuple[Document, list[str]]:
    """The report of the machine alone, with what the kubelet's configuration keeps back."""
    from bayplan.services.agent.accounting import account
    from bayplan.services.agent.evidence import Evidence
    from bayplan.services.agent.kubelet_source import NoConfiguration, read_setup
    from bayplan.services.agent.report import topology_document
    from bayplan.services.agent.sysfs import read_hardware
    from bayplan.services.agent.sysfs_files import SysfsError

    try:
        hardware = read_hardware(settings.sysfs)
        setup = asyncio.run(read_setup(settings.kubelet_config)) if settings.kubelet_config else None
    except (SysfsError, NoConfiguration) as error:
        raise click.ClickException(str(error)) from None
    found = account(Evidence(hardware, setup))
    document = topology_document(
        settings.node,
        found,
        hardware,
        setup,
        made_at=time.time(),
        version=settings.report_format,
        pods_known=False,
    )
    return document, list(found.problems)
