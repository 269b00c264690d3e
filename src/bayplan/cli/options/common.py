"""The options that commands share, and their help with examples first.

`shared/reading.py` reads what the options name, `shared/session.py` is a cluster with the profiles to judge by. Nothing
here imports a room below: a `--help` must not wait for numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bayplan.cli.options.flags import file_size_option, with_equals_signs_removed
from bayplan.cli.shared.output import width_of
from bayplan.explain.folding import fitting, typed

_Function = TypeVar("_Function", bound=Callable[..., Any])

STDIN = Path("/dev/stdin")
STANDARD_INPUT = Path("-")


class _FileOrFolder(click.Path):
    """A path, or `-` for standard input, which is there only once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Whether the path can be read is found out, with a better message, when it is read."""
        path = super().convert(value, param, ctx)
        if ctx is not None and path == STANDARD_INPUT:
            if ctx.meta.get(__name__):
                raise click.UsageError("'-' is standard input, which can be read only once: give it to one option", ctx)
            ctx.meta[__name__] = True
        return path


FILE_OR_FOLDER = _FileOrFolder(path_type=Path, allow_dash=True)


class ExampleCommand(click.Command):
    """A command whose help begins with what people type most."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Short options take their value as kubectl's do, `-o=json` included."""
        return super().parse_args(ctx, with_equals_signs_removed(args, self.params))

    def invoke(self, ctx: click.Context) -> Any:
        """Lines fit the terminal, if there is one."""
        with fitting(width_of(sys.stdout)):
            return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples, then the text."""
        program = ctx.find_root().info_name or "bayplan"
        formatter.write("\nExamples:\n")
        with fitting(width_of(sys.stdout)):
            lines = [line for example in self.examples for line in typed(f"  {program} {example}")]
        formatter.write("".join(f"{line}\n" for line in lines))
        super().format_help_text(ctx, formatter)


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep it for `kept`, so that no command has to pass it on."""
    ctx.meta[f"{__name__}.{param.name}"] = value


def kept(option: str) -> Any:
    """The value of an option that no command passes on; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(f"{__name__}.{option}")


def pods_option(*, required: bool, help_text: str) -> Callable[[_Function], _Function]:
    """`-f`: files or folders with pods; `--validate`: what becomes of fields in them that Kubernetes does not know."""
    files = click.option(
        "-f",
        "--filename",
        "files",
        type=FILE_OR_FOLDER,
        multiple=True,
        required=required,
        metavar="PATH",
        help=help_text,
    )
    validate = click.option(
        "--validate",
        type=click.Choice(["strict", "warn", "ignore"]),
        default="strict",
        show_default=True,
        expose_value=False,
        callback=_keep,
        help="Unknown and repeated fields in -f: an error, a warning, or nothing. All else that an API server would "
        "refuse is always an error, and so are unknown fields of bayplan's own PodGroup.",
    )
    return lambda function: files(validate(function))


_kubeconfig_option = click.option(
    "--kubeconfig",
    metavar="FILE",
    expose_value=False,
    callback=_keep,
    help="Path to the kubeconfig, if no --cluster is given. [default: as kubectl finds it]",
)
_context_option = click.option(
    "--context", metavar="NAME", expose_value=False, callback=_keep, help="The kubeconfig context to use."
)


_cluster_option = click.option(
    "--cluster",
    "cluster",
    type=FILE_OR_FOLDER,
    multiple=True,
    metavar="PATH",
    help="File or folder with nodes, pods, NodeResourceTopologies, Topologies and PodGroups (JSON or YAML, also .gz); "
    "'-' for standard input. Repeatable. Without it: the cluster that kubectl would ask.",
)


def source_options(function: _Function) -> _Function:
    """What to look at: a dump, or a running cluster, which `asked_live` reads."""
    return _cluster_option(_kubeconfig_option(_context_option(function)))


def cluster_options(function: _Function) -> _Function:
    """The options of every command that judges pods on a cluster: a dump of one, or one that runs."""
    for option in reversed(
        (
            _cluster_option,
            _kubeconfig_option,
            _context_option,
            click.option(
                "--config",
                type=FILE_OR_FOLDER,
                metavar="FILE",
                help=(
                    "A KubeSchedulerConfiguration, or a ConfigMap that holds one. Without it: bayplan's default "
                    "profile."
                ),
            ),
            click.option(
                "--scheduler-name",
                metavar="NAME",
                help="The profile of --config to use. Default: the one that a pod names, else the first.",
            ),
            click.option(
                "--grouping-rules",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                expose_value=False,
                callback=_keep,
                help="Grouping rules that add or override kinds of workloads.",
            ),
            file_size_option,
        )
    ):
        function = option(function)
    return function
