"""docs/cli.md: every command with its arguments and options, from the program itself."""

from __future__ import annotations

import inspect
import re

import click

from bayplan.cli.program import COMMANDS, bayplan

HEAD = """# Command reference

Written from the code by `make reference`; do not edit. [commands.md](commands.md) has examples with output.

Exit codes of commands that answer a question: 0 yes, 1 no, 2 the question could not be answered.
Services end with 0 after SIGTERM.
"""


def command_pages() -> str:
    """The page."""
    context = click.Context(bayplan, info_name="bayplan")
    index = "\n".join(
        [
            "| command | answers |",
            "|---|---|",
            *(f"| [{name}](#bayplan-{name}) | {line} |" for name, line in COMMANDS.items()),
        ]
    )
    parts = [HEAD, index + "\n"]
    for name in COMMANDS:
        command = bayplan.get_command(context, name)
        assert command is not None
        parts.append(_section(name, command, click.Context(command, info_name=name, parent=context)))
    return "\n".join(parts)


def _section(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## bayplan {name}\n", f"    bayplan {name} {usage}\n", _prose(command.help or "")]
    examples = getattr(command, "examples", ())
    if examples:
        lines += ["\n".join(f"    bayplan {each}" for each in examples) + "\n"]
    rows = []
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
            shown = option.get_help_record(context)
            rows.append(f"| {names} | {_cell(shown[1] if shown else '')} |")
    return "\n".join([*lines, "| option | meaning |", "|---|---|", *rows]) + "\n"


def _prose(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(_escaped(" ".join(each.split())) for each in paragraphs if each.strip()) + "\n"


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Angle brackets and underscores as they are, not as markup."""
    return text.replace("<", "&lt;").replace("*", "\\*")
