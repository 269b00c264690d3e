"""What goes to the terminal: answers to stdout, warnings to stderr, colour only where people look.

Colour carries no meaning that the text does not. NO_COLOR turns it off, FORCE_COLOR on, TERM=dumb off; else a terminal
decides.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from bayplan.cli.options.flags import JSONPATH
from bayplan.explain.folding import HANG, fitted, folded
from bayplan.kube.visible import short_values, visible, visible_json, visible_text

if TYPE_CHECKING:
    from bayplan.explain.styled import StyledLine

MOST_WARNINGS = 10
WARNINGS = f"{__name__}.warnings"
# In the meta of a context: how the cluster of the answer differs from the one that was read.
ASSUMING = f"{__name__}.assuming"
# In the meta of a context whose warnings are kept and not printed.
QUIET = f"{__name__}.quiet"

# The line that has to be taken away before anything else is printed.
_on_screen = {"progress": ""}

_RICH_STYLES = {
    "title": "bold",
    "frame": "bright_black",
    "dim": "bright_black",
    "free": "cyan",
    "used": "yellow",
    "new": "bold blue",
}


def use_colour() -> bool:
    """The first of these that is set decides: NO_COLOR, FORCE_COLOR, TERM=dumb, the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return can_redraw()


def can_redraw() -> bool:
    """Whether the output is a terminal on which something can be drawn over."""
    return sys.stdout.isatty() and not _is_dumb()


def _is_dumb() -> bool:
    """True if the terminal understands no control sequences."""
    return os.environ.get("TERM") == "dumb"


def print_answer(text: str, *, good: bool) -> None:
    """Text whose first line is the answer; its line breaks are ours. What is assumed is the second line."""
    lines = visible_text(text).split("\n")
    assuming = "; ".join(assumptions())
    lines[1:1] = [f"Assuming: {visible(assuming)}"] if assuming else []
    show_progress("")
    first, *others = ("\n".join(fitted(line)) for line in lines)
    if use_colour():
        first = click.style(first, fg="green" if good else "red", bold=True)
    click.echo("\n".join((first, *others)), color=use_colour())


def print_document(document: Mapping[str, Any], output: str) -> None:
    """A document as JSON, YAML or by a JSONPath template, with the warnings that were given on the way."""
    show_progress("")
    document = with_told(document)
    if output == "yaml":
        import yaml

        written = yaml.dump(document, Dumper=_yaml_dumper(), sort_keys=False, allow_unicode=True)
        click.echo(visible_text(written), nl=False)
    elif output.startswith(f"{JSONPATH}="):
        from bayplan.cli.options.jsonpath import template_of

        text = "".join(template_of(output.removeprefix(f"{JSONPATH}=")).pieces(document))
        click.echo(text, nl=bool(text) and not text.endswith("\n"))
    else:
        import json

        click.echo(visible_json(json.dumps(document, indent=2, ensure_ascii=False)))


def with_told(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with what is assumed in it, and with the warnings that were given on the way."""
    told = {"assuming": assumptions(), "warnings": _told(WARNINGS)}
    return {**document, **{field: lines for field, lines in told.items() if lines}}


def assumptions() -> list[str]:
    """How the cluster of the answer differs from the one that was read."""
    return _told(ASSUMING)


def _told(what: str) -> list[str]:
    context = click.get_current_context(silent=True)
    return [] if context is None else context.meta.get(what, [])


@functools.cache
def _yaml_dumper() -> Any:
    """A dumper that quotes invisible characters, so that they can be escaped."""
    import yaml

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')

    dumper: Any = type("VisibleDumper", (yaml.SafeDumper,), {})
    dumper.add_representer(str, text)
    return dumper


def print_styled(lines: Sequence[StyledLine]) -> None:
    """A picture in characters: through rich on a terminal, as plain text elsewhere. The layout is the same."""
    if not use_colour():
        for line in lines:
            click.echo(line.plain.rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True, force_terminal=True)
    for line in lines:
        console.print(Text.assemble(*((span.text, _RICH_STYLES.get(span.style, "")) for span in line.spans)))


def no_resources(namespace: str | None = None) -> int:
    """What kubectl says where there is nothing to list, and its exit code."""
    show_progress("")
    found = f"No resources found in {visible(namespace)} namespace." if namespace else "No resources found."
    complain(found)
    return 0


def width_of(stream: TextIO) -> int | None:
    """The width that lines must fit: the terminal's; None if the output goes elsewhere."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # not a terminal after all, or one that does not know
        return None


def complain(line: str) -> None:
    """A line on stderr, folded if that is a terminal."""
    width = width_of(sys.stderr)
    click.echo("\n".join([line] if width is None else folded(line, "", HANG, width)), err=True)


def warn(messages: Sequence[str]) -> None:
    """Say on stderr what was odd about the input, once for each cause; after ten lines only how much more there was."""
    messages = [short_values(visible(message)) for message in messages]
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(WARNINGS, []).extend(messages)
        if context.meta.get(QUIET):
            return
    lines = _grouped(messages)
    show_progress("")
    for line, _ in lines[:MOST_WARNINGS]:
        complain(f"warning: {line}")
    if len(lines) > MOST_WARNINGS:
        complain(f"warning: and {sum(number for _, number in lines[MOST_WARNINGS:])} more")


def show_progress(text: str) -> None:
    """Show the current activity on a line that the next call overwrites; an empty text clears it.

    Only on a terminal: progress is of no use in a log.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(QUIET):
        return
    if sys.stderr.isatty() and not _is_dumb() and (text or _on_screen["progress"]):
        click.echo(f"\r\x1b[K{visible(text)}", err=True, nl=False)
        _on_screen["progress"] = text


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show what is being done while it is being done, also if it fails."""
    show_progress(text)
    try:
        yield
    finally:
        show_progress("")


def _grouped(messages: Sequence[str]) -> list[tuple[str, int]]:
    """Messages with how many each stands for. Those that differ only in the object's name become one with all names."""
    from bayplan.explain.topology.hostlist import hostlist

    names: dict[tuple[str, str], list[str]] = {}
    for message in messages:
        kind, _, rest = message.partition(" ")
        name, separator, problem = rest.partition(": ")
        # Without an object's name in front, the whole message is what counts.
        key = (kind, problem) if separator and " " not in name else (message, "")
        names.setdefault(key, []).append(name)
    return [
        (f"{kind} {hostlist(same, 60)}: {problem}" if problem else kind, len(same))
        for (kind, problem), same in names.items()
    ]
