"""`bayplan pod-grouper`: make gangs of the workloads that users have, for schedulers that run elsewhere."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.flags import POD_GROUPER_PORT, access_options, check_address, health_option, log_options
from bayplan.cli.options.grouping import grouping_options, grouping_settings
from bayplan.cli.program import EXIT_ERROR
from bayplan.cli.shared.reading import access_by

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
    help="Group pods with this spec.schedulerName; repeatable.",
)
@grouping_options
@access_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Use leader election, so that one of several replicas is active.",
)
@click.option(
    "--lease-namespace",
    default="kube-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the Lease; the same for all replicas.",
)
@health_option(POD_GROUPER_PORT)
@log_options
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
) -> int:
    """Create a PodGroup for each workload whose pods form a gang, and label its pods.

    `bayplan scheduler` does this by itself; start it with --no-pod-grouper where this command runs: pods of workloads
    then wait until this command has looked at them. Ctrl-C or SIGTERM stops it.
    """
    from bayplan.services.edges.health import AddressError
    from bayplan.services.edges.leader import LeadershipLost
    from bayplan.services.pod_grouper.run import GrouperOptions, run_pod_grouper

    settings = grouping_settings(grouping, grouping_rules)
    check_address("--health-address", health_address)
    access = access_by(kubeconfig, context)
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
