"""Command lines in documents name commands and options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from bayplan.cli.program import COMMANDS, bayplan

ROOT = Path(__file__).parents[3]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "deploy" / "README.md"]
# A line of code that begins with the program, perhaps behind a prompt or a path.
_LINE = re.compile(r"\s*(?:\$ )?(?:\.venv/bin/)?(?:kubectl )?bayplan ([a-z-]+)(?= |$)(.*)")
_QUOTED = re.compile(r"`(?:kubectl )?bayplan ([a-z-]+)(?= |`)([^`]*)`")


def command_lines(text: str) -> list[tuple[str, str]]:
    """Commands and the rest of their lines, continuation lines joined, comments left out."""
    found = [(match[1], match[2]) for match in _QUOTED.finditer(text)]
    fenced = False
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        match = _LINE.match(line) if fenced or line.startswith("    ") else None
        if match is not None:
            found.append((match[1], match[2].partition(" #")[0]))
    return found


def options_of(command: str) -> set[str]:
    context = click.Context(bayplan)
    found = bayplan.get_command(context, command)
    assert found is not None
    return {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_is_one_that_the_program_takes(page: Path) -> None:
    for command, rest in command_lines(page.read_text()):
        assert command in COMMANDS, f"bayplan {command}{rest}"
        words = [each for each in re.split(r"[\s=]+", rest) if re.fullmatch(r"--[a-z][a-z-]*", each)]
        unknown = set(words) - options_of(command)
        assert not unknown, f"bayplan {command}{rest}: {unknown}"


def test_there_are_command_lines_to_check() -> None:
    found = [line for page in PAGES for line in command_lines(page.read_text())]
    assert len(found) > 100
    assert {command for command, _ in found} >= {"place", "why", "doctor", "scheduler", "agent"}
