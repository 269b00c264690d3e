"""`bayplan scheduler`: schedule pods on a real cluster, beside the stock scheduler or instead of it."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from bayplan.cli.program import EXIT_ERROR
from bayplan.cli.shared.flags import SCHEDULER_PORT, access_options, health_option, log_format_option
from bayplan.cli.shared.grouping_options import grouping_options, grouping_settings
from bayplan.cli.shared.options import ExampleCommand
from bayplan.cli.shared.output import warn

if TYPE_CHECKING:
    from bayplan.config.configuration import Configuration

logger = logging.getLogger(__name__)


def finite(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    """No range of numbers excludes nan, which is neither below nor above anything."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not allowed: must be a finite number")
    return value


@click.command(
    cls=ExampleCommand,
    examples=(
        "scheduler",
        "scheduler --config scheduler.yaml --check-config",
        "scheduler --config scheduler.yaml --kubeconfig admin.conf --log-format json",
    ),
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration, or a ConfigMap that holds one. [default: one profile called bayplan]",
)
@click.option("--check-config", is_flag=True, help="Only say whether the configuration can be used, and what it means.")
@access_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Whether a Lease says which of several instances works. [default: as configured; yes]",
)
@health_option(SCHEDULER_PORT)
@click.option("--tls-cert-file", metavar="FILE", help="Serve health over TLS with this certificate.")
@click.option("--tls-private-key-file", metavar="FILE", help="The certificate's key.")
@click.option(
    "--authenticate-metrics",
    is_flag=True,
    help="Ask the API server who may read /metrics, by the bearer token of each request; needs TLS.",
)
@click.option(
    "--gangs-complete-in",
    type=click.FloatRange(0),
    callback=finite,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="After how long the pods of a gang that began and cannot be completed are released.",
)
@click.option(
    "--events-per-second",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=50.0,
    show_default=True,
    metavar="NUMBER",
    help="How many events are written at most. Those that cannot be written yet wait; binds never wait for them.",
)
@click.option(
    "--pod-grouper/--no-pod-grouper",
    "groups_pods",
    default=True,
    show_default=True,
    help="Whether it makes gangs of workloads itself, or leaves that to `bayplan pod-grouper`, for which pods of workloads then wait.",
)
@click.option(
    "--place-ungrouped",
    is_flag=True,
    help="With --no-pod-grouper: pods of workloads wait for no pod grouper; for clusters without one.",
)
@grouping_options
@click.option(
    "--trace-decisions",
    type=click.File("a", encoding="utf-8", lazy=False),
    metavar="FILE",
    help="Append one JSON line per decision: nodes refused by cause, the choice, the time it took; '-' for standard output.",
)
@log_format_option
@click.option("-v", "--verbose", count=True, help="Say more in the log.")
def scheduler(
    *,
    config: Path | None,
    check_config: bool,
    kubeconfig: str | None,
    context: str | None,
    leader_elect: bool | None,
    health_address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    authenticate_metrics: bool,
    gangs_complete_in: float,
    events_per_second: float,
    groups_pods: bool,
    place_ungrouped: bool,
    grouping: str,
    grouping_rules: Path | None,
    trace_decisions: TextIO | None,
    log_format: str,
    verbose: int,
) -> int:
    """Schedule pods whose spec.schedulerName is a profile of the configuration.

    Every node is judged as its kubelet would, gangs are placed whole or not at all, and every pod that waits is told
    why. Ctrl-C or SIGTERM ends it after the binds that are under way.
    """
    from bayplan.kube.client.access import find_access
    from bayplan.kube.client.credentials import AccessError
    from bayplan.services.edges.health import AddressError, Certificate, host_and_port
    from bayplan.services.edges.leader import LeadershipLost
    from bayplan.services.edges.logs import set_up_logs
    from bayplan.services.scheduler.run import Options, run_scheduler

    configuration = _configuration(config, leader_elect=leader_elect)
    if place_ungrouped and groups_pods:
        raise click.UsageError(
            "--place-ungrouped goes with --no-pod-grouper: the pod grouper that is built in looks at every pod"
        )
    groups = grouping_settings(grouping, grouping_rules) if groups_pods else None
    warn(configuration.services.notices)
    if check_config:
        _say_what_it_means(configuration)
        return 0
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together")
    if authenticate_metrics and tls_cert_file is None:
        raise click.UsageError("--authenticate-metrics needs --tls-cert-file: tokens must not travel in clear text")
    certificate = Certificate(tls_cert_file, tls_private_key_file or "") if tls_cert_file else None
    try:
        host_and_port(health_address)
    except AddressError as error:
        raise click.UsageError(f"--health-address: {error}") from None
    try:
        access = find_access(kubeconfig or configuration.services.client.kubeconfig, context)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    set_up_logs("json" if log_format == "json" else "text", verbose)
    options = Options(
        health_address,
        certificate,
        gangs_complete_in,
        events_per_second,
        groups,
        place_ungrouped,
        authenticates_metrics=authenticate_metrics,
        trace=trace_decisions,
    )
    try:
        run_scheduler(access, configuration, options)
    except LeadershipLost as error:
        # Log this too, so that it appears in the configured log format.
        logger.error("the lease is lost", extra={"problem": str(error)})  # noqa: TRY400 - no bug, so no traceback
        return EXIT_ERROR
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0


def _configuration(file: Path | None, *, leader_elect: bool | None) -> Configuration:
    """The file's configuration, or the default one; the flag has the last word about leader election."""
    from dataclasses import replace

    from bayplan.cli.shared.configuration_file import configuration_in

    configuration = configuration_in(file)
    if leader_elect is None:
        return configuration
    services = configuration.services
    election = replace(services.leader_election, enabled=leader_elect)
    return replace(configuration, services=replace(services, leader_election=election))


def _say_what_it_means(configuration: Configuration) -> None:
    from bayplan.explain.amounts import count

    services = configuration.services
    click.echo(f"the configuration can be used: {count(len(configuration.profiles), 'profile')}")
    for name, profile in configuration.profiles.items():
        filters = ", ".join(plugin.name for plugin in profile.filters)
        scores = ", ".join(f"{plugin.name} x{weight}" for plugin, weight in profile.scores)
        click.echo(f"  {name}\n    filters  {filters}\n    scores   {scores}")
        if profile.topology is not None:
            click.echo(f"    NUMA     filterMode {profile.topology.arguments.mode.value}")
        click.echo(f"    preemption  {profile.preemption.value}")
    election = services.leader_election
    lease = (
        f"lease {election.namespace}/{election.name}, {election.lease_duration:g} s"
        if election.enabled
        else "none: one instance only"
    )
    click.echo(f"  leader election  {lease}")
    client = services.client
    limit = f"{client.qps:g} requests a second, at once {client.burst}" if client.qps else "no limit of its own"
    reached = f"kubeconfig {client.kubeconfig}" if client.kubeconfig else "as kubectl finds it, or in the cluster"
    click.echo(f"  API server       {reached}; {limit}")
    click.echo(f"  backoff          {services.initial_backoff:g} to {services.max_backoff:g} s")
