"""`bayplan web`: the cluster, its gangs, its NUMA zones and its reasons as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options.common import STANDARD_INPUT, ExampleCommand, cluster_options
from bayplan.cli.options.flags import log_options
from bayplan.cli.shared.session import ClusterSession

if TYPE_CHECKING:
    from bayplan.cluster.state import ClusterState
    from bayplan.services.extender.tls import ServingFiles

WEB_PORT = 10369


@click.command(
    cls=ExampleCommand,
    examples=(
        "web                                            # the cluster that kubectl asks, at http://127.0.0.1:10369",
        "web --cluster cluster.json                     # a dump; read again whenever it changes",
        (
            "web --address :10369 --tls-cert-file tls.crt --tls-private-key-file tls.key    # for others, with their "
            "tokens"
        ),
    ),
)
@cluster_options
@click.option(
    "--address",
    default=f"127.0.0.1:{WEB_PORT}",
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve the page on; port 0 picks a free one.",
)
@click.option("--tls-cert-file", metavar="FILE", help="Serve over TLS with this certificate.")
@click.option("--tls-private-key-file", metavar="FILE", help="The certificate's key.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Require the bearer token in this file, and show everything to its bearers. [default: on the loopback none, "
    "elsewhere tokens of the cluster]",
)
@click.option(
    "--beside", is_flag=True, hidden=True, help="Yield to the program that started this one, and end with it."
)
@log_options
def web(
    *,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    address: str,
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    token_file: str | None,
    beside: bool,
) -> int:
    """Show the cluster as a page: what is free where, the zones of every node, every gang, and why pods wait.

    The page is read-only and follows the cluster, or the files of --cluster. On the loopback it needs no token. On
    other addresses it needs TLS, and viewers need a token of the cluster: viewers who may list nodes see them; pods
    have names only for viewers who may list them, and are anonymous amounts for others.

    Ctrl-C or SIGTERM stops it.
    """
    from bayplan.cli.shared.reading import live_access, read_cluster_files
    from bayplan.cli.web_answers.answers import ClusterAnswers, quiet
    from bayplan.cli.web_answers.scene import Scene
    from bayplan.cli.web_answers.sources import follow_files, follow_live
    from bayplan.kube.object_set import ObjectSet
    from bayplan.services.edges.health import AddressError
    from bayplan.services.web.run import Source, WebOptions, run_web

    if STANDARD_INPUT in (*cluster, config):
        raise click.UsageError("the page reads its files again when they change; give a file instead of '-'")
    files = _files(tls_cert_file, tls_private_key_file, token_file)
    try:
        reviewed = _needs_reviews(address, files, live=not cluster)
    except AddressError as error:
        raise click.UsageError(f"--address: {error}") from None
    context = click.get_current_context()

    def open_session(objects: ObjectSet, *, owners: bool, state: ClusterState | None = None) -> ClusterSession:
        return ClusterSession.open(cluster, config, scheduler_name, objects, owners=owners, state=state)

    def read() -> ClusterAnswers:
        with quiet(context):
            return ClusterAnswers(context, Scene(read_cluster_files(cluster), open_session))

    source: Source
    access = None
    if cluster:
        first = read()
        source = lambda board: follow_files(board, first, read, cluster)  # noqa: E731
    else:
        access = live_access()
        live = access
        source = lambda board: follow_live(board, live, context, open_session)  # noqa: E731
    if beside:
        from bayplan.services.edges.companion import accompany

        accompany()
    scheme = "https" if files.certificate else "http"
    host = address.rpartition(":")[0] or "localhost"
    try:
        run_web(
            source,
            WebOptions(address, files, access if reviewed else None),
            lambda port: click.echo(f"serving {scheme}://{host}:{port}/"),
        )
    except AddressError as error:
        raise click.ClickException(str(error)) from None
    return 0


def _files(certificate: str | None, key: str | None, token: str | None) -> ServingFiles:
    from bayplan.services.extender.tls import ServingFiles

    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together")
    return ServingFiles(certificate, key, None, token)


def _needs_reviews(address: str, files: ServingFiles, *, live: bool) -> bool:
    """Whether viewers need tokens of the cluster; a page for others without TLS or without tokens is an error."""
    from bayplan.services.edges.health import host_and_port
    from bayplan.services.web.server import is_loopback

    if is_loopback(host_and_port(address)[0]):
        return False
    if files.certificate is None:
        raise click.UsageError("--address: other machines need TLS: add --tls-cert-file and --tls-private-key-file")
    if not live and files.token is None:
        raise click.UsageError("--address: a dump has no API server that knows its viewers: add --token-file")
    return files.token is None
