"""`bayplan pod-grouper`: make gangs of the workloads that users have, for schedulers that run elsewhere."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from bayplan.cli.program import EXIT_ERROR
from bayplan.cli.shared.flags import POD_GROUPER_PORT, access_options, health_option, log_format_option
from bayplan.cli.shared.grouping_options import grouping_options, grouping_settings
from bayplan.cli.shared.options import ExampleCommand

logger = logging.getLogger(__name__)


@click.command(
    "pod-grouper",
    cls=ExampleCommand,
    examples=(
        "pod-grouper",
        "pod-grouper --scheduler-name bayplan --scheduler-name batch",
        "pod-grouper --grouping-rules kinds.yaml --kubeconfig admin.conf",
    ),
)
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    default=("bayplan",),
    show_default=True,
    metavar="NAME",
    help="Whose pods are grouped, by spec.schedulerName; may be given several times.",
)
@grouping_options
@access_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Whether a Lease says which of several instances works.",
)
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Where the Lease is; all instances must name the same.",
)
@health_option(POD_GROUPER_PORT)
@log_format_option
@click.option("-v", "--verbose", count=True, help="Say more in the log.")
def pod_grouper(
    *,
    scheduler_names: tuple[str, ...],
    grouping: str,
    grouping_rules: Path | None,
    kubeconfig: str | None,
    context: str | None,
    leader_elect: bool,
    lease_namespace: str,
    health_address: str,
    log_format: str,
    verbose: int,
) -> int:
    """Make a PodGroup for each workload whose pods are a gang, and label its pods.

    `bayplan scheduler` does this by itself; start it with --no-pod-grouper where this command runs: pods of workloads
    then wait until this command has looked at them. Ctrl-C or SIGTERM ends it.
    """
    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.credentials import AccessError
    from bayplan.services.edges.health import AddressError, host_and_port
    from bayplan.services.edges.leader import LeadershipLost
    from bayplan.services.edges.logs import set_up_logs
    from bayplan.services.pod_grouper.run import GrouperOptions, run_pod_grouper

    settings = grouping_settings(grouping, grouping_rules)
    try:
        host_and_port(health_address)
    except AddressError as error:
        raise click.UsageError(f"--health-address: {error}") from None
    try:
        access = find_access(kubeconfig, context)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    set_up_logs("json" if log_format == "json" else "text", verbose)
    options = GrouperOptions(
        settings, scheduler_names, health_address, leader_elect=leader_elect, lease_namespace=lease_namespace
    )
    try:
        asyncio.run(run_pod_grouper(access, options))
    except LeadershipLost as error:
        logger.error("the lease is lost", extra={"problem": str(error)})  # noqa: TRY400 - no bug, so no traceback
        return EXIT_ERROR
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0
