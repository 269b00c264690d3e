"""`bayplan extender-config`: print the KubeSchedulerConfiguration that makes kube-scheduler call the extender."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.flags import EXTENDER_PORT, output_option

LARGEST_WEIGHT = 1000


@click.command(
    "extender-config",
    cls=ExampleCommand,
    examples=(
        "extender-config",
        (
            "extender-config --url-prefix https://bayplan-extender.bayplan-system.svc:10365 --ca-file "
            "/etc/kubernetes/bayplan/ca.crt"
        ),
        "extender-config --ignorable --no-bind",
    ),
)
@click.option(
    "--url-prefix",
    default=f"http://127.0.0.1:{EXTENDER_PORT}",
    show_default=True,
    metavar="URL",
    help="URL at which kube-scheduler reaches the extender.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file of `bayplan extender --config`, for the weight.",
)
@click.option(
    "--weight",
    type=click.IntRange(1, LARGEST_WEIGHT),
    metavar="NUMBER",
    help="The weight of the extender's scores. [default: the sum of the weights of the NUMA scores]",
)
@click.option(
    "--http-timeout", default="5s", show_default=True, metavar="DURATION", help="kube-scheduler's httpTimeout."
)
@click.option(
    "--node-cache-capable/--no-node-cache-capable",
    default=True,
    show_default=True,
    help="Send node names, or whole node objects, which costs several times as much.",
)
@click.option(
    "--ignorable/--no-ignorable",
    default=False,
    show_default=True,
    help="Continue scheduling while the extender does not answer. kube-scheduler then also ignores a refused bind.",
)
@click.option("--bind/--no-bind", "binds", default=True, show_default=True, help="Whether the extender binds pods.")
@click.option(
    "--preempt/--no-preempt", "preempts", default=True, show_default=True, help="Whether the extender checks evictions."
)
@click.option("--ca-file", default="", metavar="FILE", help="CA of the extender's certificate.")
@click.option("--cert-file", default="", metavar="FILE", help="kube-scheduler's client certificate.")
@click.option("--key-file", default="", metavar="FILE", help="The key of the client certificate.")
@output_option("yaml", "json")
def extender_config(
    *,
    url_prefix: str,
    config: Path | None,
    weight: int | None,
    http_timeout: str,
    node_cache_capable: bool,
    ignorable: bool,
    binds: bool,
    preempts: bool,
    ca_file: str,
    cert_file: str,
    key_file: str,
    output: str,
) -> None:
    """Print a KubeSchedulerConfiguration with the extender.

    Copy its `extenders` into the file of your kube-scheduler.
    """
    import msgspec
    import yaml

    from bayplan.cli.options.configuration_file import configuration_in
    from bayplan.kube.duration import NUMBER, NoDuration, seconds_of
    from bayplan.services.extender.profiles import zone_profile
    from bayplan.services.extender.stanza import Stanza

    if not url_prefix.startswith(("http://", "https://")):
        raise click.UsageError(
            f'--url-prefix: "{url_prefix}" is not a URL; expected http://HOST:PORT or https://HOST:PORT'
        )
    if bool(cert_file) != bool(key_file):
        raise click.UsageError("--cert-file and --key-file belong together")
    if (ca_file or cert_file) and not url_prefix.startswith("https:"):
        raise click.UsageError("--ca-file and --cert-file need an https --url-prefix")
    try:
        timeout = seconds_of(http_timeout)
    except NoDuration as error:
        raise click.UsageError(f"--http-timeout: {error}") from None
    if not timeout:
        raise click.UsageError("--http-timeout: must be more than 0s")
    if NUMBER.fullmatch(http_timeout):
        http_timeout += "s"  # kube-scheduler knows no duration without a unit
    if weight is None:
        profile = zone_profile(next(iter(configuration_in(config).profiles.values())))
        weight = min(max(sum(each for _, each in profile.scores), 1), LARGEST_WEIGHT)
    document = Stanza(
        url_prefix,
        weight,
        http_timeout,
        node_cache_capable,
        ignorable,
        binds,
        preempts,
        ca_file,
        cert_file,
        key_file,
    ).document()
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
