"""Flags as Go programs take them, so that the arguments of nfd-topology-updater work here: `-oneshot`,
`-no-publish=false`, `-v=4`.

Input: the words of a command line. Output: the words that click understands. A long name may have one dash; a switch
may say `=true` or `=false`; `-v` may have a number (`-v=4`, `-v 4`). Flags that only configure Go logging are dropped,
and named to avoid confusion.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.shared.output import warn

TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
# How klog logs: flags that may stand alone, and flags that need a value.
LOGGING_SWITCHES = frozenset(
    {
        "add_dir_header",
        "alsologtostderr",
        "legacy_stderr_threshold_behavior",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
    }
)
LOGGING_VALUES = frozenset(
    {"log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold", "vmodule"}
)
DETAILS = 4  # from this klog level on we say more, too


class GoFlagsCommand(ExampleCommand):
    """A command that takes its options also in Go's spelling."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate first, then parse as always."""
        words, dropped = translated(args, self.params)
        if dropped:
            warn([f"{', '.join(dropped)}: has no meaning here and is ignored"])
        return super().parse_args(ctx, words)


def translated(words: Sequence[str], parameters: Sequence[click.Parameter]) -> tuple[list[str], list[str]]:
    """The words in click's spelling, and the flags that were dropped."""
    options = {name: each for each in parameters if isinstance(each, click.Option) for name in each.opts}
    short = {"-h"} | {name for name in options if not name.startswith("--")}
    found: list[str] = []
    dropped: list[str] = []
    waiting = iter(enumerate(words))
    for position, word in waiting:
        name, equals, value = word.lstrip("-").partition("=")
        option = options.get(f"--{name}")
        if not word.startswith("-") or not name:
            found.append(word)
        elif name in LOGGING_SWITCHES or name in LOGGING_VALUES:
            dropped.append(f"-{name}")
            if not equals and name in LOGGING_VALUES:
                next(waiting, None)
        elif word in ("-v", "--v") and _is_number(words[position + 1 :]):
            found += _details(next(waiting)[1])
        elif name == "v" and equals:
            found += _details(value)
        elif option is None:
            # A long name with one dash: click would take it for several short options, and complain about its first
            # letter.
            found.append(word if word.startswith("--") or word[:2] in short else f"-{word}")
        elif option.is_flag:
            found += _switch(option, name, value if equals else "true")
        else:
            found.append(f"--{name}{equals}{value}")
    return found, dropped


def _is_number(words: Sequence[str]) -> bool:
    return bool(words) and words[0].isdecimal()


def _details(level: str) -> list[str]:
    return ["-v"] if level.isdecimal() and int(level) >= DETAILS else []


def _switch(option: click.Option, name: str, value: str) -> list[str]:
    if value in TRUE:
        return [f"--{name}"]
    if value in FALSE:
        return option.secondary_opts[:1]
    raise click.UsageError(f"--{name}: '{value}' is neither true nor false")
