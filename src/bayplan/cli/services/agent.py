"""`bayplan agent`: what this node really has and who holds it, as the report that schedulers read.

In come flags: bayplan's own, and those of nfd-topology-updater and resource-topology-exporter under their names. Out
goes an `AgentSettings`; `services/agent/` does the work.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan import __version__
from bayplan.cli.options.flags import AGENT_PORT, check_address, health_option, log_options
from bayplan.cli.options.go_flags import GoFlagsCommand
from bayplan.cli.shared.output import print_document, warn
from bayplan.cli.shared.reading import access_by

if TYPE_CHECKING:
    from bayplan.kube.client.access import Access
    from bayplan.services.agent.report import Document
    from bayplan.services.agent.scanner import Scan
    from bayplan.services.agent.settings import AgentSettings
    from bayplan.services.agent.sources.pod_resources import PodPattern

# In a container the node's folders are usually mounted beside its own.
SYSFS = ("/host-sys", "/sys")
STATE_FOLDERS = ("/host-var/lib/kubelet", "/var/lib/kubelet")
TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - where it is, not what it is
NFD_CONFIG = "/etc/kubernetes/node-feature-discovery/nfd-topology-updater.conf"
FORMATS = ("v1alpha2", "v1alpha1", "numatopology")
METHODS = ("with-exclusive-resources", "all")


@click.command(
    cls=GoFlagsCommand,
    examples=(
        "agent --oneshot --no-publish",
        "agent --oneshot --no-publish --sysfs-root copied/sys --format numatopology",
        "agent --kubelet-config /var/lib/kubelet/config.yaml --health-address :8080 --log-format json",
        "agent --pod telco/upf-0",
    ),
)
@click.option(
    "--node-name",
    "--hostname",
    envvar="NODE_NAME",
    metavar="NAME",
    help="Name of the node to report. [default: $NODE_NAME, else the host's name]",
)
@click.option("--oneshot/--no-oneshot", help="Scan once and exit.")
@click.option("--no-publish/--publish", help="Print the report and write nothing to the API server.")
@click.option("--pod", metavar="NAMESPACE/NAME", help="Print what the kubelet says one pod holds, and exit.")
@click.option(
    "--sysfs-root",
    "--sysfs",
    metavar="FOLDER",
    help=f"Where sysfs is mounted, or a copy of it. [default: {' or '.join(SYSFS)}]",
)
@click.option(
    "--podresources-socket",
    metavar="FILE",
    help="The kubelet's podresources socket; empty: none. [default: pod-resources/kubelet.sock in --kubelet-state-dir]",
)
@click.option(
    "--kubelet-config",
    "--kubelet-config-uri",
    "--kubelet-config-file",
    metavar="SOURCE",
    help="The kubelet's configuration: a path, file:///PATH or https://HOST:10250/configz; empty: not read. "
    "[default: configz at $NODE_ADDRESS if that is set, else config.yaml in --kubelet-state-dir]",
)
@click.option(
    "--kubelet-flags",
    metavar="FILE",
    help="The kubelet's flags; they overrule its file. "
    "[default: kubeadm-flags.env beside the configuration, if it exists; /dev/null: none]",
)
@click.option(
    "--kubelet-state-dir",
    metavar="FOLDER",
    help=f"Where the kubelet keeps its state files; empty: not watched. [default: {' or '.join(STATE_FOLDERS)}]",
)
@click.option("--api-auth-token-file", metavar="FILE", help=f"Shown to the kubelet at configz. [default: {TOKEN_FILE}]")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="Resources and pods to leave out: excludeList, resourceExclude, podExclude. "
    f"[default: {NFD_CONFIG}, if it exists]",
)
@click.option(
    "--config-optional/--config-required",
    help=(
        "Go on without --config where the file does not exist. [default: when called nfd-topology-updater, which does]"
    ),
)
@click.option(
    "--watch-namespace", default="*", show_default=True, metavar="NAME", help="Count only pods of this namespace."
)
@click.option(
    "--watch-pods/--no-watch-pods",
    "--exclude-terminal-pods/--no-exclude-terminal-pods",
    default=None,
    help="Follow this node's pods at the API server (--oneshot: ask once), to know which have ended and which only "
    "wait. [default: if the API server lets the agent read pods]",
)
@click.option(
    "--reference-container",
    default="",
    metavar="NAMESPACE/POD/CONTAINER",
    help="A container that is known to use the shared CPUs, for kubelets that list these as its own.",
)
@click.option(
    "--interval",
    "--sleep-interval",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Scan at least this often; 0: only after changes.",
)
@click.option(
    "--heartbeat",
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="Write the report at least this often; 0: only when it changes.",
)
@click.option(
    "--format",
    "report_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="A NodeResourceTopology in one of its versions, or Volcano's Numatopology.",
)
@click.option(
    "--pods-fingerprint/--no-pods-fingerprint",
    default=True,
    show_default=True,
    help="Say which pods the report shows, as a fingerprint.",
)
@click.option(
    "--pods-fingerprint-method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="Pods that the fingerprint covers.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Path to the kubeconfig. [default: as kubectl finds it; inside a cluster its service account]",
)
@click.option("--context", metavar="NAME", help="The kubeconfig context to use.")
@health_option(AGENT_PORT)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="NUMBER",
    help="The same on all addresses: --health-address :NUMBER.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How what is printed is written.",
)
@log_options
@click.version_option(__version__, prog_name="bayplan", message="%(prog)s %(version)s")
def agent(*, oneshot: bool, no_publish: bool, pod: str | None, **given: Any) -> None:
    """Report this node's NUMA zones: what there is, what pods may use, what is left.

    It reads sysfs, the kubelet's podresources socket, configuration and state files, and writes a NodeResourceTopology
    when something has changed. SIGHUP triggers a scan. Ctrl-C or SIGTERM stops it.
    """
    try:
        from bayplan.services.agent.sources.podresources import KubeletSilent
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: the agent needs grpcio; try: pip install 'bayplan[agent]'") from None
    from bayplan.services.agent.run import NotPublished
    from bayplan.services.agent.scanner import CannotSee
    from bayplan.services.edges.health import AddressError

    settings = _settings(given)
    try:
        if pod is not None:
            asyncio.run(_show_pod(settings, pod, given["output"]))
        elif no_publish:
            settings = _perhaps_without_kubelet(settings, given)
            access = _perhaps_access(settings, given)
            asyncio.run((_print_once if oneshot else _print_always)(settings, access, given["output"]))
        else:
            _publish(settings, given, oneshot=oneshot)
    except (CannotSee, NotPublished, KubeletSilent, AddressError) as error:
        raise click.ClickException(str(error)) from None


# -- settings --------------------------------------------------------------------------------------------------------


def _settings(given: dict[str, Any]) -> AgentSettings:
    from bayplan.services.agent.report import FingerprintMethod, ReportFormat
    from bayplan.services.agent.settings import AgentSettings, reference_container_of
    from bayplan.services.agent.sources.podresources import socket_path

    node = given["node_name"] or socket.gethostname()
    folder = given["kubelet_state_dir"]
    folder = _first_there(STATE_FOLDERS) if folder is None else folder
    asked = given["podresources_socket"]
    asked = f"{folder or STATE_FOLDERS[-1]}/pod-resources/kubelet.sock" if asked is None else asked
    resources, pods = _left_out(given["config_file"], node, optional=given["config_optional"])
    try:
        reference = reference_container_of(given["reference_container"])
    except ValueError as error:
        raise click.UsageError(f"--reference-container: {error}") from None
    method = FingerprintMethod(given["pods_fingerprint_method"])
    return AgentSettings(
        node=node,
        sysfs=Path(given["sysfs_root"] or _first_there(SYSFS)),
        socket=socket_path(asked) if asked else None,
        state_folder=Path(folder) if folder else None,
        kubelet_config=_kubelet_config(given["kubelet_config"], folder),
        kubelet_flags=Path(given["kubelet_flags"]) if given["kubelet_flags"] else None,
        token_file=_token_file(given["api_auth_token_file"]),
        report_format=ReportFormat(given["report_format"]),
        fingerprint=method if given["pods_fingerprint"] else None,
        namespace=given["watch_namespace"] or "*",
        excluded_resources=resources,
        excluded_pods=pods,
        reference_container=reference,
        watch_pods=given["watch_pods"],
        interval=duration_of("--interval", given["interval"]),
        heartbeat=duration_of("--heartbeat", given["heartbeat"]),
    )


def _perhaps_without_kubelet(settings: AgentSettings, given: dict[str, Any]) -> AgentSettings:
    """To look at a machine there need not be a kubelet, unless one was named."""
    if given["podresources_socket"] is not None or settings.socket is None or _is_there(settings.socket):
        return settings
    warn([f"no podresources socket {settings.socket}: this is what an idle machine would report"])
    config = settings.kubelet_config if given["kubelet_config"] else ""
    return replace(settings, no_kubelet=True, state_folder=None, kubelet_config=config)


def _is_there(path: str | Path) -> bool:
    """False also where permissions prevent the check, for which `Path.exists` would raise."""
    return os.path.exists(path)  # noqa: PTH110


def _first_there(folders: tuple[str, ...]) -> str:
    return next((folder for folder in folders if _is_there(folder)), folders[-1])


def _kubelet_config(given: str | None, state_folder: str) -> str:
    from bayplan.services.agent.sources.kubelet_source import checked_source

    address = os.environ.get("NODE_ADDRESS", "")
    if given is None and address:
        given = f"https://{f'[{address}]' if ':' in address else address}:10250/configz"
    elif given is None:
        given = f"{state_folder}/config.yaml" if state_folder else ""
    try:
        return checked_source(given)
    except ValueError as error:
        raise click.UsageError(f"--kubelet-config: {error}") from None


def _token_file(given: str | None) -> Path | None:
    if given:
        return Path(given)
    return Path(TOKEN_FILE) if _is_there(TOKEN_FILE) else None


def _left_out(given: str | None, node: str, *, optional: bool) -> tuple[frozenset[str], tuple[PodPattern, ...]]:
    from bayplan.kube.documents import in_place
    from bayplan.kube.errors import InvalidObject
    from bayplan.kube.files import read_document
    from bayplan.services.agent.settings import exclusions_of

    file = Path(given or NFD_CONFIG)
    if not _is_there(file) and given in (None, NFD_CONFIG):
        return frozenset(), ()
    if not _is_there(file) and optional:
        warn([f"file {file}: does not exist: no resource and no pod is left out"])
        return frozenset(), ()
    try:
        return exclusions_of(read_document(file), str(file), node)
    except InvalidObject as error:
        raise in_place(error, file) from None


def duration_of(option: str, text: str) -> float:
    """The seconds of an option such as `1h30m`; a usage error that names it if it is no duration."""
    from bayplan.kube.duration import NoDuration, seconds_of

    try:
        return seconds_of(text)
    except NoDuration as error:
        raise click.UsageError(f"{option}: {error}") from None


# -- what it does ----------------------------------------------------------------------------------------------------


async def _show_pod(settings: AgentSettings, pod: str, output: str) -> None:
    import msgspec

    from bayplan.services.agent.sources.podresources import KubeletSilent, kubelet_at

    namespace, slash, name = pod.partition("/")
    if not slash or not namespace or not name:
        raise click.UsageError(f"--pod: '{pod}' is not understood: must be NAMESPACE/NAME")
    if settings.socket is None:
        raise KubeletSilent("missing", "no podresources socket is given")
    async with kubelet_at(settings.socket) as kubelet:
        found = await kubelet.pod(namespace, name)
    if found is None:
        raise click.ClickException(f"pod {pod} is not on this node")
    print_document(msgspec.to_builtins(found), output)


async def _print_once(settings: AgentSettings, access: Access | None, output: str) -> None:
    from bayplan.services.agent.run import look_once

    scan = await look_once(settings, access)
    _warn_of_oddities(scan, settings)
    print_document(scan.document, output)


def _warn_of_oddities(scan: Scan, settings: AgentSettings) -> None:
    from bayplan.services.agent.scanner import WITHOUT_SOCKET

    warn(scan.problems)
    if scan.without_socket and not settings.no_kubelet:
        warn([WITHOUT_SOCKET])


async def _print_always(settings: AgentSettings, access: Access | None, output: str) -> None:
    from bayplan.services.agent.run import print_reports

    def show(document: Document) -> None:
        if output == "yaml":
            click.echo("---")
        print_document(document, output)

    await print_reports(settings, show, access)


def _perhaps_access(settings: AgentSettings, given: dict[str, Any]) -> Access | None:
    """To print a report there need not be an API server, unless one was named; but only it knows which pods live."""
    from bayplan.services.agent.sources.own_pods import WITHOUT

    if settings.no_kubelet or settings.watch_pods is False:
        return None
    try:
        return access_by(given["kubeconfig"], given["context"])
    except click.ClickException as error:
        if given["kubeconfig"] or given["context"] or settings.watch_pods:
            raise
        warn([f"pods of this node are not known ({error.message}): {WITHOUT}"])
        return None


def _publish(settings: AgentSettings, given: dict[str, Any], *, oneshot: bool) -> None:
    from bayplan.services.agent.run import HealthSettings, publish_once, run_agent

    address = given["health_address"] if given["port"] is None else f":{given['port']}"
    check_address("--health-address", address)
    access = access_by(given["kubeconfig"], given["context"])
    if oneshot:
        _warn_of_oddities(asyncio.run(publish_once(access, settings)), settings)
    else:
        asyncio.run(run_agent(access, settings, HealthSettings(address)))
