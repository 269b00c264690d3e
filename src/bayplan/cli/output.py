"""What goes to the terminal: answers to stdout, warnings to stderr, colour only where somebody looks.

Colour is used on a terminal and never when NO_COLOR is set; what it says, the text says too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bayplan.explain.styled import StyledLine

MOST_WARNINGS = 10

_RICH_STYLES = {
    "title": "bold",
    "frame": "bright_black",
    "dim": "bright_black",
    "free": "cyan",
    "used": "yellow",
    "new": "bold blue",
}


def use_colour() -> bool:
    """Colour on a terminal, unless NO_COLOR is set to anything."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def print_answer(text: str, *, good: bool) -> None:
    """Text whose first line is the answer."""
    if use_colour():
        first, newline, rest = text.partition("\n")
        text = click.style(first, fg="green" if good else "red", bold=True) + newline + rest
    click.echo(text)


def print_document(document: Mapping[str, Any], output: str) -> None:
    """A document as JSON or YAML."""
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        import json

        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_styled(lines: Sequence[StyledLine]) -> None:
    """A picture in characters: through rich on a terminal, as plain text elsewhere. The layout is the same."""
    if not use_colour():
        for line in lines:
            click.echo(line.plain.rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, _RICH_STYLES.get(span.style, "")) for span in line.spans)))


def terminal_width() -> int:
    """The width to draw for: the terminal's, or 100 where there is none."""
    import shutil

    return shutil.get_terminal_size(fallback=(100, 24)).columns


def warn(messages: Sequence[str]) -> None:
    """Say on stderr what was odd about the input; after ten lines only how much more there was."""
    for message in messages[:MOST_WARNINGS]:
        click.echo(f"warning: {message}", err=True)
    if len(messages) > MOST_WARNINGS:
        click.echo(f"warning: and {len(messages) - MOST_WARNINGS} more", err=True)
