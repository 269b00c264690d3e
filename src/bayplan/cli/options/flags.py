"""Flags that several commands share: the output format, the colours of pictures, levels by labels,
and where a service answers probes.

Every port is clear of those that Kubernetes itself listens on (10248 to 10260),
so that bayplan starts on a control-plane node without any flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

if TYPE_CHECKING:
    from bayplan.explain.theme import Theme

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What `-o` prints documents as, wherever it prints them.
JSONPATH = "jsonpath"
DOCUMENTS = ("json", "yaml", JSONPATH)

# Shells set this to ask for completions.
COMPLETE_VARIABLE = "_BAYPLAN_COMPLETE"

SCHEDULER_PORT = 10361
AGENT_PORT = 10362
AGENT_GC_PORT = 10363
POD_GROUPER_PORT = 10364
EXTENDER_PORT = 10365
EXTENDER_HEALTH_PORT = 10366


class _Output(click.Choice[str]):
    """A format; `jsonpath` has a template behind it, as kubectl's has."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the template, too."""
        name, equals, template = str(value).partition("=")
        if name not in self.choices or name != JSONPATH:
            return super().convert(value, param, ctx)
        from bayplan.cli.options.jsonpath import JsonPathError, template_of

        if not equals:
            self.fail("jsonpath needs a template: -o jsonpath='{.items[*].node}'", param, ctx)
        try:
            template_of(template)
        except JsonPathError as error:
            self.fail(f"jsonpath: {error}", param, ctx)
        return str(value)


def output_option(*formats: str) -> Callable[[_Function], _Function]:
    """`-o`, with the first format as the default."""
    shown = "|".join(f"{each}=TEMPLATE" if each == JSONPATH else each for each in formats)
    return click.option(
        "-o",
        "--output",
        type=_Output(list(formats)),
        default=formats[0],
        show_default=True,
        metavar=f"[{shown}]",
        help="How to print.",
    )


def theme_option(function: _Function) -> _Function:
    """`--theme`: the colours of a picture."""
    return click.option("--theme", type=click.Choice(["light", "dark"]), help="Colours of the SVG. [default: light]")(
        function
    )


def theme_for(name: str | None, *, drawn: bool, drawn_by: str) -> Theme:
    """The theme of `--theme`, which is refused where nothing is `drawn`."""
    from bayplan.explain.theme import LIGHT, THEMES

    if name is not None and not drawn:
        raise click.UsageError(f"--theme is for pictures: needs {drawn_by}")
    return LIGHT if name is None else THEMES[name]


def resources_option(function: _Function) -> _Function:
    """`-r`: the resources that a table shows."""
    from bayplan.cli.completion import resource_names

    return click.option(
        "-r",
        "--resource",
        "resources",
        multiple=True,
        metavar="RESOURCE",
        shell_complete=resource_names,
        help="Show this resource; may be given several times [default: cpu, memory and devices].",
    )(function)


def tolerate_option(function: _Function) -> _Function:
    """`--tolerate`: taints that a pod described by options tolerates."""
    return click.option(
        "--tolerate",
        multiple=True,
        metavar="KEY[=VALUE]",
        help=(
            "A taint that pods of --requests tolerate, also as kubectl writes it: KEY=VALUE:EFFECT; may be given "
            "several times. Taints whose key is a resource that they ask for are tolerated anyway."
        ),
    )(function)


def access_options(function: _Function) -> _Function:
    """`--kubeconfig` and `--context`, for programs that also run inside a cluster."""
    context = click.option("--context", metavar="NAME", help="The kubeconfig context to use.")
    kubeconfig = click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Path to the kubeconfig. [default: as kubectl finds it; inside a cluster its service account]",
    )
    return kubeconfig(context(function))


def health_option(port: int) -> Callable[[_Function], _Function]:
    """`--health-address`, on this machine only unless it says otherwise."""
    return click.option(
        "--health-address",
        default=f"127.0.0.1:{port}",
        show_default=True,
        metavar="ADDRESS",
        help="Address to serve /livez, /readyz and /metrics on; port 0 picks a free one.",
    )


def file_size_option(function: _Function) -> _Function:
    """`--max-file-size`: how much of a file is read."""
    return click.option(
        "--max-file-size",
        metavar="SIZE",
        expose_value=False,
        callback=_limit_files,
        help="Reject files larger than this, unpacked if they are gzipped. [default: 512Mi]",
    )(function)


def _limit_files(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    from bayplan.kube.documents import LARGEST_FILE

    token = LARGEST_FILE.set(size_in_bytes(ctx, _param, value))
    ctx.call_on_close(lambda: LARGEST_FILE.reset(token))


def size_in_bytes(ctx: click.Context, _param: click.Parameter, value: str) -> int:
    """A callback for options with a size such as 2Gi."""
    from bayplan.kube import quantity

    try:
        size = quantity.parse(value).value()
    except ValueError:
        size = 0
    if size < 1:
        raise click.BadParameter(f'"{value}" is no size; expected a number of bytes such as 2Gi', ctx)
    return size


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--log-format` and `-v`: logs are set up before the command runs."""

    @wraps(function)
    def with_logs(*, log_format: Literal["text", "json"], verbose: int, **given: Any) -> Any:
        from bayplan.services.edges.logs import set_up_logs

        set_up_logs(log_format, verbose)
        return function(**given)

    log_format = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Log lines for people, or one JSON object per line.",
    )
    return log_format(click.option("-v", "--verbose", count=True, help="Say more in the log.")(with_logs))


def check_address(option: str, address: str) -> None:
    """Refuse what is no address to listen at."""
    from bayplan.services.edges.health import AddressError, host_and_port

    try:
        host_and_port(address)
    except AddressError as error:
        raise click.UsageError(f"{option}: {error}") from None


def cluster_scoped(function: _Function) -> _Function:
    """Accept `-A` and `-n` where they change nothing, as kubectl does for nodes:
    aliases and habits bring them along.
    """
    for option in (
        click.option("-A", "--all-namespaces", is_flag=True, expose_value=False, hidden=True),
        click.option("-n", "--namespace", expose_value=False, hidden=True),
    ):
        function = option(function)
    return function


def levels_option(function: _Function) -> _Function:
    """`--levels`: labels of nodes as a tree, without a Topology object."""
    from bayplan.cli.completion import labels_of_levels

    return click.option(
        "--levels",
        metavar="LABELS",
        shell_complete=labels_of_levels,
        help=(
            "Node labels as levels, the widest first, instead of a Topology object: block,rack or "
            "example.com/block,example.com/rack."
        ),
    )(function)


def with_equals_signs_removed(words: Sequence[str], parameters: Sequence[click.Parameter]) -> list[str]:
    """`-o=json` as `-o json`, the way kubectl takes it, for every short option that has a value."""
    short = {
        name
        for each in parameters
        if isinstance(each, click.Option) and not each.is_flag and not each.count
        for name in each.opts
        if len(name) == len("-o")
    }
    found: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return [*found, *words[position:]]
        name, equals, value = word.partition("=")
        found += [name, value] if equals and name in short else [word]
    return found
