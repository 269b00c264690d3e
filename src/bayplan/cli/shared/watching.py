"""`--watch`: show an answer again whenever what it is made from changes.

A live cluster is followed by watches; files are read again when they change. On a terminal the answer is drawn over the
last one; elsewhere lines that are new are appended, and documents are appended whole, as `kubectl get --watch` does.
Ctrl-C ends it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.options.common import STANDARD_INPUT
from bayplan.cli.shared.output import can_redraw, complain, width_of, working
from bayplan.cli.shared.reading import asked_live, warn_unused
from bayplan.cli.shared.session import ClusterSession
from bayplan.explain.folding import fitting

if TYPE_CHECKING:
    from bayplan.kube.object_set import ObjectSet

_Function = TypeVar("_Function", bound=Callable[..., Any])

SECONDS_BETWEEN_LOOKS = 0.5
WHOLE = ("json", "yaml", "svg")
CLEAR = "\x1b[H\x1b[2J"

Signature = frozenset[tuple[str, int, int]]


def watch_option(function: _Function) -> _Function:
    """`-w`."""
    return click.option(
        "-w", "--watch", is_flag=True, help="Keep watching, and show the answer again when it changes. Ctrl-C ends it."
    )(function)


def answered(
    draw: Callable[[ClusterSession], int],
    cluster: Sequence[Path],
    config: Path | None,
    scheduler_name: str | None,
    *,
    watch: bool,
    output: str,
    files: Sequence[Path] = (),
    owners: bool = False,
) -> int:
    """Open the session that the options name and draw the answer;
    with `watch` again after every change, also of `files`.

    Answers about pods of the cluster need their `owners`.
    """

    def session(objects: ObjectSet | None = None) -> ClusterSession:
        with working("reading the cluster"):
            return ClusterSession.open(cluster, config, scheduler_name, objects, owners=owners)

    if not watch:
        return draw(session())
    if STANDARD_INPUT in (*cluster, *files, config):
        raise click.UsageError("--watch cannot read standard input again; give a file")
    screen = _Screen(whole=output in WHOLE)
    watched = (*cluster, *files, *([config] if config else ()))
    before = signature_of(watched)
    # Errors of the first answer end the command; later ones are shown, and the next change may heal them.
    screen.first(lambda: draw(session()))
    if cluster:
        _watch_files(watched, before, lambda: screen.again(lambda: draw(session())))
    else:
        _watch_cluster(lambda objects, problems: screen.again(lambda: _live(draw, session, objects, problems)), screen)
    return 0


def _live(
    draw: Callable[[ClusterSession], int],
    session: Callable[[ObjectSet], ClusterSession],
    objects: ObjectSet,
    problems: list[str],
) -> int:
    warn_unused(problems)
    return draw(session(objects))


def _watch_cluster(show: Callable[[ObjectSet, list[str]], None], screen: _Screen) -> None:
    from bayplan.kube.client.live import follow_cluster

    context = click.get_current_context()

    def with_options(objects: ObjectSet, problems: list[str]) -> None:
        """click knows the running command only in the thread that began it."""
        with context.scope(cleanup=False):
            show(objects, problems)

    def on_error(trouble: str) -> None:
        screen.say([f"warning: {trouble}"])

    asked_live(lambda access: follow_cluster(access, with_options, on_error=on_error))


def _watch_files(paths: Sequence[Path], seen: Signature, show: Callable[[], None]) -> None:
    """Show again when files are not as they were `seen`, which was before they were read."""
    while True:
        sleep(SECONDS_BETWEEN_LOOKS)
        now = signature_of(paths)
        if now != seen:
            seen = now
            show()


def signature_of(paths: Sequence[Path]) -> Signature:
    """What changes when a file is written, comes or goes."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,))]
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((str(file), status.st_mtime_ns, status.st_size))
    return frozenset(found)


class _Kept(io.TextIOWrapper):
    """Text that is not shown yet, for those who ask whether they write to a terminal."""

    def __init__(self, *, on_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="replace")
        self._on_terminal = on_terminal

    def isatty(self) -> bool:
        return self._on_terminal

    def lines(self) -> list[str]:
        self.flush()
        self.seek(0)
        return self.read().splitlines()


class _Screen:
    """Where answers appear, and what is there already."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._redraws = can_redraw() and not whole
        self._shown: list[str] = []
        self._said: set[str] = set()

    def first(self, draw: Callable[[], int]) -> None:
        """The first answer."""
        self._draw(draw)

    def again(self, draw: Callable[[], int]) -> None:
        """Another answer; what is wrong with its input is shown instead."""
        from bayplan.cli.program import is_bad_input

        try:
            self._draw(draw)
        except click.ClickException as error:
            self.say([f"error: {error.format_message()}"])
        except Exception as error:
            if not is_bad_input(error):
                raise
            self.say([f"error: {error}"])

    def say(self, lines: Sequence[str]) -> None:
        """Warnings and errors, each once."""
        for line in lines:
            if line not in self._said:
                self._said.add(line)
                complain(line)

    def _draw(self, draw: Callable[[], int]) -> None:
        out, err = _Kept(on_terminal=sys.stdout.isatty()), _Kept(on_terminal=False)
        try:
            with fitting(width_of(sys.stdout)), redirect_stdout(out), redirect_stderr(err):
                draw()
        finally:
            warnings = err.lines()
        lines = out.lines()
        if lines != self._shown:
            self._show(lines)
        self.say(warnings)
        self._said &= set(warnings)
        self._shown = lines

    def _show(self, lines: list[str]) -> None:
        if self._redraws:
            click.echo(CLEAR + "\n".join(_fitting(lines)), color=True)
        elif self._whole:
            click.echo("\n".join([*(["---"] if self._shown and lines[:1] != ["{"] else []), *lines]))
        else:
            known = set(self._shown)
            click.echo("\n".join(line for line in lines if line not in known or not self._shown), color=None)
        sys.stdout.flush()


def _fitting(lines: list[str]) -> list[str]:
    """As many lines as the terminal has, the last one saying how many there are besides."""
    import shutil

    height = shutil.get_terminal_size().lines - 1
    if len(lines) <= height:
        return lines
    return [*lines[: height - 1], f"... and {len(lines) - height + 1} more lines"]
