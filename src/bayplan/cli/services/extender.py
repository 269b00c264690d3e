"""`bayplan extender`: answer an unmodified kube-scheduler about NUMA zones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.flags import (
    EXTENDER_HEALTH_PORT,
    EXTENDER_PORT,
    access_options,
    check_address,
    health_option,
    log_options,
    size_in_bytes,
)
from bayplan.cli.services.scheduler import finite
from bayplan.cli.shared.output import warn
from bayplan.cli.shared.reading import access_by

if TYPE_CHECKING:
    from bayplan.services.extender.tls import ServingFiles

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(
    cls=ExampleCommand,
    examples=(
        "extender",
        "extender --address :10365 --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca-file ca.crt",
        "extender --config scheduler.yaml --kubeconfig admin.conf --log-format json",
    ),
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help=(
        "A KubeSchedulerConfiguration, or a ConfigMap that holds one: arguments and weights of the NUMA plugins. "
        "[default: bayplan's own]"
    ),
)
@access_options
@click.option(
    "--address",
    default=f"127.0.0.1:{EXTENDER_PORT}",
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve kube-scheduler on; port 0 picks a free one.",
)
@health_option(EXTENDER_HEALTH_PORT)
@click.option("--tls-cert-file", metavar="FILE", help="Serve kube-scheduler over TLS with this certificate.")
@click.option("--tls-private-key-file", metavar="FILE", help="The certificate's key.")
@click.option("--client-ca-file", metavar="FILE", help="Require client certificates of this authority (mutual TLS).")
@click.option("--token-file", metavar="FILE", help="Require the bearer token in this file.")
@click.option(
    "--allow-anonymous",
    is_flag=True,
    help="Serve other machines without --client-ca-file and --token-file. Then any client can bind waiting pods.",
)
@click.option(
    "--max-request-size",
    default="32Mi",
    show_default=True,
    callback=size_in_bytes,
    metavar="SIZE",
    help="Reject larger requests. Whole node objects (nodeCacheCapable: false) take about 16Ki each.",
)
@click.option(
    "--request-timeout",
    type=click.FloatRange(0, min_open=True),
    callback=finite,
    default=4.0,
    show_default=True,
    metavar="SECONDS",
    help="Timeout for reading a request or waiting for a bind; keep it below kube-scheduler's httpTimeout.",
)
@click.option(
    "--wait-for-bind",
    type=click.FloatRange(0),
    callback=finite,
    default=0.1,
    show_default=True,
    metavar="SECONDS",
    help=("Longest wait for the bind of the previous pod. With 0 pods do not wait, and two can get the same zone."),
)
@click.option(
    "--spread-scores",
    is_flag=True,
    help=(
        "Give the best candidate 10 and the worst 0, to tell close scores apart. [default: the share of the highest "
        "possible score]"
    ),
)
@log_options
def extender(
    *,
    config: Path | None,
    kubeconfig: str | None,
    context: str | None,
    address: str,
    health_address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    token_file: str | None,
    allow_anonymous: bool,
    max_request_size: int,
    request_timeout: float,
    wait_for_bind: float,
    spread_scores: bool,
) -> int:
    """Filter, score, preempt and bind for kube-scheduler by the NUMA zones of nodes.

    `bayplan extender-config` prints the configuration for kube-scheduler. Ctrl-C or SIGTERM stops the
    extender after the requests in progress.
    """
    from bayplan.cli.options.configuration_file import configuration_in
    from bayplan.services.edges.health import AddressError, host_and_port
    from bayplan.services.extender.run import ExtenderOptions, run_extender
    from bayplan.services.extender.service import ExtenderSettings

    configuration = configuration_in(config)
    warn(configuration.services.notices)
    files = _files(tls_cert_file, tls_private_key_file, client_ca_file, token_file)
    check_address("--address", address)
    check_address("--health-address", health_address)
    if host_and_port(address)[0] not in LOOPBACK and not (files.authenticates or allow_anonymous):
        raise click.UsageError(
            "--address: other machines need authentication: add --client-ca-file or --token-file, or accept any "
            "client with --allow-anonymous"
        )
    access = access_by(kubeconfig or configuration.services.client.kubeconfig, context)
    settings = ExtenderSettings(request_timeout, wait_for_bind, spread_scores)
    try:
        run_extender(access, configuration, ExtenderOptions(address, health_address, files, settings, max_request_size))
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0


def _files(certificate: str | None, key: str | None, client_ca: str | None, token: str | None) -> ServingFiles:
    from bayplan.services.extender.tls import ServingFiles

    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together")
    if client_ca is not None and certificate is None:
        raise click.UsageError("--client-ca-file needs --tls-cert-file")
    return ServingFiles(certificate, key, client_ca, token)
