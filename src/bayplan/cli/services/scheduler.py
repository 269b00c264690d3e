"""`bayplan scheduler`: schedule pods on a real cluster, beside the stock scheduler or instead of it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.flags import SCHEDULER_PORT, access_options, check_address, health_option, log_options
from bayplan.cli.options.grouping import grouping_options, grouping_settings
from bayplan.cli.program import EXIT_ERROR
from bayplan.cli.shared.output import print_answer, warn
from bayplan.cli.shared.reading import access_by

if TYPE_CHECKING:
    from bayplan.config.configuration import Configuration
    from bayplan.kube.wire.core_v1 import Pod
    from bayplan.scheduling.profile import Profile

logger = logging.getLogger(__name__)

# Each is a series per level of each Topology.
MOST_SHAPES = 8


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
@click.option("--check-config", is_flag=True, help="Check the configuration, print what it means, and exit.")
@access_options
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Use leader election, so that one of several replicas is active. [default: as configured; yes]",
)
@health_option(SCHEDULER_PORT)
@click.option("--tls-cert-file", metavar="FILE", help="Serve health over TLS with this certificate.")
@click.option("--tls-private-key-file", metavar="FILE", help="The certificate's key.")
@click.option(
    "--authenticate-metrics",
    is_flag=True,
    help="Authorize requests to /metrics by their bearer token (TokenReview and SubjectAccessReview); needs TLS.",
)
@click.option(
    "--gangs-complete-in",
    type=click.FloatRange(0),
    callback=finite,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds until a partially bound gang that cannot be completed is released.",
)
@click.option(
    "--keep-room-for",
    type=click.FloatRange(0),
    callback=finite,
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to keep room for late or lost members of a started gang; 0 keeps none.",
)
@click.option(
    "--events-per-second",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=50.0,
    show_default=True,
    metavar="NUMBER",
    help="Limit on events written. Events beyond it are delayed; binds never wait for events.",
)
@click.option(
    "--pod-grouper/--no-pod-grouper",
    "groups_pods",
    default=True,
    show_default=True,
    help=(
        "Create gangs of workloads here, or leave that to a separate `bayplan pod-grouper`; pods of "
        "workloads then wait for it."
    ),
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
    help=(
        "Append one JSON line per decision: nodes refused by cause, the choice, the time it took; '-' for standard "
        "output."
    ),
)
@click.option(
    "--slot-metrics",
    multiple=True,
    metavar="AMOUNTS",
    help="Expose as a metric how many pods of this shape fit into one domain of each level: "
    "cpu=8,memory=64Gi,nvidia.com/gpu=8. Up to 8 times.",
)
@click.option(
    "--web-address",
    metavar="ADDRESS",
    help="Also serve the page of `bayplan web` there, from a separate process at lower priority; "
    "addresses other than loopback use the certificate above.",
)
@log_options
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
    keep_room_for: float,
    events_per_second: float,
    groups_pods: bool,
    place_ungrouped: bool,
    grouping: str,
    grouping_rules: Path | None,
    trace_decisions: TextIO | None,
    slot_metrics: tuple[str, ...],
    web_address: str | None,
) -> int:
    """Schedule pods whose spec.schedulerName is a profile of the configuration.

    Judges every node as its kubelet would, places gangs completely or not at all, and explains why pods wait. Ctrl-C
    or SIGTERM stops it after the binds in flight.
    """
    from bayplan.services.edges.companion import companion
    from bayplan.services.edges.health import AddressError, Certificate
    from bayplan.services.edges.leader import LeadershipLost
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
    shapes = _shapes(slot_metrics)
    certificate = Certificate(tls_cert_file, tls_private_key_file or "") if tls_cert_file else None
    check_address("--health-address", health_address)
    access = access_by(kubeconfig or configuration.services.client.kubeconfig, context)
    options = Options(
        health_address,
        certificate,
        gangs_complete_in,
        keep_room_for,
        events_per_second,
        groups,
        place_ungrouped,
        authenticates_metrics=authenticate_metrics,
        trace=trace_decisions,
        gang_shapes=shapes,
    )
    page = [] if web_address is None else _page_options(web_address, tls_cert_file, tls_private_key_file)
    log_format = click.get_current_context().params["log_format"]
    page += [*(("--config", str(config)) if config else ()), "--log-format", log_format]
    page += [
        part
        for name, value in (("--kubeconfig", kubeconfig), ("--context", context))
        if value
        for part in (name, value)
    ]
    try:
        with companion("web", ["web", "--beside", *page]) if web_address is not None else nullcontext():
            run_scheduler(access, configuration, options)
    except LeadershipLost as error:
        # Log this too, so that it appears in the configured log format.
        logger.error("the lease is lost", extra={"problem": str(error)})  # noqa: TRY400 - no bug, so no traceback
        return EXIT_ERROR
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0


def _shapes(texts: tuple[str, ...]) -> dict[str, Pod]:
    """Pods by the texts that describe them."""
    from bayplan.cli.shared.shapes import amounts_in, pod_requesting

    if len(texts) > MOST_SHAPES:
        raise click.UsageError(f"--slot-metrics: {len(texts)} shapes are given; at most {MOST_SHAPES} are allowed")
    return {text: pod_requesting(amounts_in(text, "--slot-metrics"), "--slot-metrics") for text in texts}


def _page_options(address: str, certificate: str | None, key: str | None) -> list[str]:
    from bayplan.services.edges.health import host_and_port
    from bayplan.services.web.server import is_loopback

    check_address("--web-address", address)
    local = is_loopback(host_and_port(address)[0])
    if local:
        return ["--address", address]
    if certificate is None or key is None:
        raise click.UsageError("--web-address: other machines need TLS: add --tls-cert-file and --tls-private-key-file")
    return ["--address", address, "--tls-cert-file", certificate, "--tls-private-key-file", key]


def _configuration(file: Path | None, *, leader_elect: bool | None) -> Configuration:
    """The file's configuration, or the default one; the flag has the last word about leader election."""
    from dataclasses import replace

    from bayplan.cli.options.configuration_file import configuration_in

    configuration = configuration_in(file)
    if leader_elect is None:
        return configuration
    services = configuration.services
    election = replace(services.leader_election, enabled=leader_elect)
    return replace(configuration, services=replace(services, leader_election=election))


def _scoring_strategies(profile: Profile) -> Iterator[str]:
    """Those that the file sets, with the weights of their resources."""
    from bayplan.plugins.node_resource_topology_args import LEAST_NUMA_NODES
    from bayplan.plugins.node_resources_fit import NodeResourcesFit

    for plugin in profile.filters:
        if isinstance(plugin, NodeResourcesFit) and plugin.strategy is not None:
            yield f"{plugin.strategy.kind} of {plugin.name}{_weights(plugin.strategy.resources)}"
        elif isinstance(plugin, NodeResourcesFit) and plugin.most_allocated:
            yield f"MostAllocated of {plugin.name}"
    topology = profile.topology
    if topology is not None and topology.names_strategy:
        strategy = topology.arguments.strategy
        weights = [(each.name, each.weight) for each in strategy.resources if strategy.type != LEAST_NUMA_NODES]
        yield f"{strategy.type} of {topology.name}{_weights(weights)}"


def _weights(resources: Sequence[tuple[str, int]]) -> str:
    return f": {', '.join(f'{name} x{weight}' for name, weight in resources)}" if resources else ""


def _say_what_it_means(configuration: Configuration) -> None:
    from bayplan.explain.amounts import count

    services = configuration.services
    lines = [f"the configuration can be used: {count(len(configuration.profiles), 'profile')}"]
    for name, profile in configuration.profiles.items():
        filters = ", ".join(plugin.name for plugin in profile.filters)
        scores = ", ".join(f"{plugin.name} x{weight}" for plugin, weight in profile.scores)
        lines += [f"  {name}", f"    filters  {filters}", f"    scores   {scores}"]
        if profile.topology is not None:
            lines.append(f"    NUMA     filterMode {profile.topology.arguments.mode.value}")
        for strategy in _scoring_strategies(profile):
            lines.append(f"    scoringStrategy  {strategy}")
        lines.append(f"    preemption  {profile.preemption.value}")
    election = services.leader_election
    lease = (
        f"lease {election.namespace}/{election.name}, {election.lease_duration:g} s"
        if election.enabled
        else "none: one instance only"
    )
    lines.append(f"  leader election  {lease}")
    client = services.client
    limit = f"{client.qps:g} requests a second, at once {client.burst}" if client.qps else "no limit of its own"
    reached = f"kubeconfig {client.kubeconfig}" if client.kubeconfig else "as kubectl finds it, or in the cluster"
    lines.append(f"  API server       {reached}; {limit}")
    lines.append(f"  backoff          {services.initial_backoff:g} to {services.max_backoff:g} s")
    print_answer("\n".join(lines), good=True)
