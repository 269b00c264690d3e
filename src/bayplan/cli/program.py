"""The program behind `main.py`: the table of commands, and how every run ends.

A command's module is imported only when that command runs, so that `--help` is there at once: nothing here may import
numpy, msgspec, yaml or rich. Exit codes are those of a question: 0 yes, 1 no, 2 the question could not be answered; 141
if the reader closed the pipe. Bad input is one line on stderr, never a traceback; so is a bug of ours, unless
BAYPLAN_DEBUG=1 asks for its traceback.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

from bayplan import __version__
from bayplan.cli.main import EXIT_BY_SIGNAL, EXIT_INTERRUPTED
from bayplan.cli.options.flags import COMPLETE_VARIABLE
from bayplan.cli.shared.output import complain, width_of
from bayplan.explain.folding import fitted, fitting, typed
from bayplan.kube.visible import short_values, visible_text

SUMMARY = 'bayplan places Kubernetes pods by topology, down to the NUMA zone, and explains every "no".'

EXAMPLES = (
    "place -f pod.yaml                        # on the cluster that kubectl asks",
    "why telco/upf-0 --cluster cluster.json   # on a dump of kubectl get -o json",
    "numa worker-3",
    "scheduler",
    "simulate scenario.yaml --report out.html",
)

EXIT_ERROR = 2
MOST_FAULTS = 10
DEBUG = "BAYPLAN_DEBUG"

# Command -> the line `--help` shows for it. `bayplan.cli.<command>` holds a click command of the same name,
# with an underscore for a dash.
COMMANDS = {
    "demo": "See bayplan at work, without a cluster.",
    "place": "Where would these pods and gangs go? A dry run.",
    "why": "Why does a pod or a gang wait, or why is it where it is?",
    "nodes": "List every node's NUMA zones: what is free, the largest aligned pod, fragmentation.",
    "numa": "Draw a node's NUMA zones: what is free, who is where.",
    "topology": "Show blocks and racks: what is free, what fits, who is outside.",
    "slots": "How many gangs of equal pods fit now, and where?",
    "web": "Show the cluster, its gangs and waiting pods on a live page.",
    "doctor": "What is wrong with this installation, and how to repair it?",
    "simulate": "How would schedulers fare on this cluster? Compared in memory.",
    "scheduler": "Schedule the pods of a real cluster.",
    "extender": "Add NUMA awareness to an unmodified kube-scheduler, over HTTP.",
    "extender-config": "Print the configuration that makes kube-scheduler call the extender.",
    "pod-grouper": "Make gangs of the workloads that users have.",
    "agent": "Report this node's NUMA zones, what is in them and what is free.",
    "agent-gc": "Remove the reports of nodes that are gone, mark those that are stale.",
    "kubelets": "Stand for nodes of a real API server, NUMA zones included.",
    "snapshot": "Keep a cluster and the decisions made on it, without secrets.",
    "replay": "Decide everything again that a snapshot recorded.",
    "completion": "Print the completion script of a shell.",
}
# Commands whose modules are in `cli/services/`.
SERVICES = {"web", "scheduler", "extender", "extender-config", "pod-grouper", "agent", "agent-gc", "kubelets"}


# Programs whose containers can be switched to bayplan's image, if that has links of these names to `bayplan`. Probes
# ask them at port 8080 if nothing is said, and the file that a DaemonSet names may come from an optional ConfigMap.
STANDS_IN_FOR = {
    "nfd-topology-updater": ("agent", "--health-address=:8080", "--config-optional"),
    "nfd-gc": ("agent-gc", "--health-address=:8080"),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        room = "bayplan.cli.services" if cmd_name in SERVICES else "bayplan.cli"
        command: click.Command = getattr(import_module(f"{room}.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name close matches for a command that does not exist."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1, cutoff=0.8)
            hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command '{args[0]}'{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Commands from the table, so that none has to be imported; and options."""
        commands = [CompletionItem(name, help=line) for name, line in COMMANDS.items() if name.startswith(incomplete)]
        return commands + (click.Command.shell_complete(self, ctx, incomplete) if incomplete.startswith("-") else [])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples first; the commands' own lines come from the table."""
        program = ctx.info_name or "bayplan"
        with fitting(width_of(sys.stdout)):
            lines = [
                *fitted(SUMMARY),
                "",
                "Examples:",
                *(line for each in EXAMPLES for line in typed(f"  {program} {each}")),
            ]
            ending = fitted(f"'{program} COMMAND --help' tells more. Exit code: 0 yes, 1 no, 2 error.")
        formatter.write("".join(f"{line}\n" for line in lines))
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        self.format_options(ctx, formatter)
        formatter.write("".join(f"{line}\n" for line in ("", *ending)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options without the list of commands, which is printed above."""
        click.Command.format_options(self, ctx, formatter)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bayplan", message="%(prog)s %(version)s")
def bayplan() -> None:
    """Place Kubernetes pods by topology."""


def prepare() -> None:
    """What has to be settled once in a process, before anything else is imported or printed."""
    # Before anything imports numpy: the engine's matrices are small, BLAS threads only get in each other's way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stdout is None:  # `bayplan ... >&-`
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")  # every write fails, as it would have
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Pictures have characters that an old locale does not know: better a question mark than an error.
            stream.reconfigure(errors="replace")


def run(argv: list[str]) -> int:
    """Run one command line, program name first, and return its exit code."""
    program = Path(argv[0]).stem
    if program in STANDS_IN_FOR:
        argv = ["bayplan", *STANDS_IN_FOR[program], *argv[1:]]
    # kubectl finds this plugin by the file name kubectl-bayplan; users type a space.
    name = "kubectl bayplan" if program == "kubectl-bayplan" else "bayplan"
    if COMPLETE_VARIABLE in os.environ:
        return shell_complete(bayplan, {}, name, COMPLETE_VARIABLE, os.environ[COMPLETE_VARIABLE])
    try:
        # click's own `main` would end with 1 on a closed pipe, which is an answer here.
        command_line = f"{name} {shlex.join(argv[1:])}"
        with bayplan.make_context(name, _words(argv[1:]), obj=command_line) as context:
            result = bayplan.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        return _fail(_one_line(error, name))
    except BrokenPipeError:
        # `bayplan ... | head -1` has read enough. Python would complain when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BY_SIGNAL + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or is_bad_input(error):
            return _fail(str(error))
        # An open stream: a full disk behind `>`, or `>&-`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"cannot write to standard output: {error.strerror}")
    except Exception as error:  # noqa: BLE001 - the last line of defence: every run ends with one of our codes
        if is_bad_input(error):
            return _fail(*_messages(error))
        # A bug of ours. Python would end with 1, which means "no" here.
        if os.environ.get(DEBUG):
            traceback.print_exc()
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _fail(f"internal error: {what} (please report; set {DEBUG}=1 for the traceback)")
    return result if isinstance(result, int) else 0


def _words(words: list[str]) -> list[str]:
    """The words of a command line.

    `help`, `help COMMAND` and `version` as options, for those who type them as with kubectl.
    """
    match words:
        case [] | ["help"]:
            return ["--help"]
        case ["help", *command]:
            return [*command, "--help"]
        case ["version"]:
            return ["--version"]
    return words


def _one_line(error: click.ClickException, program: str) -> str:
    """click's message with the command to ask for help, on one line."""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else program
        end = "" if message.endswith("?") else "."
        return f"{message.rstrip('.')}{end} See '{command} --help'."
    return message


def is_bad_input(error: Exception) -> bool:
    """Whether an error speaks about the user's files or packages; anything else is a bug."""
    from bayplan.config.configuration import ConfigurationError
    from bayplan.extensions import BrokenExtension
    from bayplan.kube.errors import InvalidObject
    from bayplan.plugins.node_resource_topology_args import ArgumentError
    from bayplan.simulate.scenario.lines import ScenarioError

    return isinstance(error, InvalidObject | ArgumentError | BrokenExtension | ConfigurationError | ScenarioError)


def _messages(error: Exception) -> list[str]:
    """What is wrong with the user's files: usually one sentence, all of them for an object with several faults."""
    from bayplan.kube.errors import InvalidObjects
    from bayplan.simulate.scenario.lines import ScenarioError

    if isinstance(error, ScenarioError):
        return str(error).split("\n")
    if not isinstance(error, InvalidObjects):
        return [str(error)]
    told = [str(fault) for fault in error.faults[:MOST_FAULTS]]
    return told + ([f"and {len(error.faults) - MOST_FAULTS} more"] if len(error.faults) > MOST_FAULTS else [])


def _fail(*messages: str) -> int:
    for message in messages:
        complain(f"error: {short_values(visible_text(message))}")
    return EXIT_ERROR
