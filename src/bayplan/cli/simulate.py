"""`bayplan simulate`: what would schedulers make of this cluster and these pods?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import click

from bayplan import __version__
from bayplan.cli.completion import scenarios, scheduler_names
from bayplan.cli.main import EXIT_INTERRUPTED
from bayplan.cli.options.common import FILE_OR_FOLDER, STANDARD_INPUT, STDIN, ExampleCommand
from bayplan.cli.options.flags import DOCUMENTS, file_size_option, output_option, theme_for, theme_option
from bayplan.cli.options.reserved_file import ReservedFile
from bayplan.cli.services.web import WEB_PORT
from bayplan.cli.shared.output import print_answer, print_document, show_progress, warn, working
from bayplan.cli.shared.packaged import scenario_file, scenario_names

if TYPE_CHECKING:
    from bayplan.simulate.results.comparison import Comparison
    from bayplan.simulate.run import Run
    from bayplan.simulate.scenario.model import Scenario, Seconds

OUTPUT_FILE = click.Path(path_type=Path)
# As reproducible builds name it, https://reproducible-builds.org/specs/source-date-epoch/
FIXED_DATE = "SOURCE_DATE_EPOCH"
SECONDS_BETWEEN_NEWS = 0.1
BAR_WIDTH = 24


@click.command(
    cls=ExampleCommand,
    examples=(
        "simulate scenario.yaml",
        (
            "simulate demo                                          # a scenario that comes with bayplan: demo, gangs, "
            "two-nodes, ..."
        ),
        "simulate scenario.yaml --compare upstream,bayplan --report-delay 5s",
        "simulate scenario.yaml --report out.html               # one page with pictures",
        "simulate demo --serve --pace 60s                       # watch it in a browser, a simulated minute per second",
    ),
)
@click.argument("scenario", metavar="SCENARIO", type=FILE_OR_FOLDER, shell_complete=scenarios)
@click.option(
    "--compare",
    metavar="NAMES",
    shell_complete=scheduler_names,
    help="Schedulers to compare, separated by commas; the answer is about the last one. Also upstream-uncached, "
    "volcano, unordered, numa-aware. [default: blind,upstream,bayplan]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="NUMBER",
    help="Seed for arrivals and run times; overrides the scenario's seed.",
)
@click.option(
    "--report-delay",
    metavar="DURATION",
    help="Delay of a node's report, such as 5s; instead of the scenario's reportDelay.",
)
@click.option("--report", type=OUTPUT_FILE, metavar="FILE", help="Write one self-contained HTML page.")
@click.option("--picture", type=OUTPUT_FILE, metavar="FILE", help="Write one SVG with the time lines.")
@click.option("--serve", is_flag=True, help="Serve the simulation as a page while it runs, until Ctrl-C.")
@click.option(
    "--address",
    metavar="ADDRESS",
    default=f"127.0.0.1:{WEB_PORT}",
    show_default=True,
    help="Loopback address for --serve; port 0 picks a free one.",
)
@click.option(
    "--pace",
    metavar="DURATION",
    help="With --serve: simulated time per second. [default: as much as can be computed]",
)
@theme_option
@output_option("text", *DOCUMENTS)
@file_size_option
def simulate(
    *,
    scenario: Path,
    compare: str | None,
    seed: int | None,
    report_delay: str | None,
    report: Path | None,
    picture: Path | None,
    serve: bool,
    address: str,
    pace: str | None,
    theme: str | None,
    output: str,
) -> int:
    """Run a scenario in memory, once for each scheduler: the same nodes, the same pods at the same moments.

    Kubelets admit and refuse pods as real ones do. `blind` knows only what nodes have in sum, `upstream` is
    scheduler-plugins' NodeResourceTopologyMatch with its cache, `bayplan` asks for the kubelet's verdict. The same
    scenario gives the same result, byte for byte. Ctrl-C stops the simulation; what has happened until then is still
    shown and written.

    Exit code, about the last scheduler: 0 all pods ran and no kubelet refused one, 1 some were refused, wait, were
    given up or had not arrived, 2 invalid input, 130 interrupted.
    """
    schedulers = _schedulers(compare)
    colours = theme_for(theme, drawn=picture is not None, drawn_by="--picture")
    if report and picture and _are_one_file(report, picture):
        raise click.UsageError(f"--report and --picture both name {report}: must be two files")
    written = _moment_of_writing()
    delay = None if report_delay is None else _duration("--report-delay", report_delay)
    passing = None if pace is None else _duration("--pace", pace)
    if passing is not None and (passing <= 0 or not serve):
        raise click.UsageError("--pace: must be more than 0s, and needs --serve")
    with ExitStack() as files:
        report_file = files.enter_context(ReservedFile(report, "--report")) if report else None
        picture_file = files.enter_context(ReservedFile(picture, "--picture")) if picture else None

        def finish(comparison: Comparison) -> None:
            if report_file:
                from bayplan.simulate.results.page import Origin, page
                from bayplan.simulate.schedulers import ON_REQUEST, SCHEDULERS

                origin = Origin(__version__, written, click.get_current_context().find_root().obj)
                report_file.write(page(comparison, {**SCHEDULERS, **ON_REQUEST}, origin))
            if picture_file:
                from bayplan.simulate.results.picture import simulation_svg

                picture_file.write(simulation_svg(comparison.runs, colours))
            warn(comparison.remarks)
            _show(comparison, output)

        read = _scenario(scenario, seed, delay)
        if serve:
            from bayplan.cli.web_answers.serving import serve_simulation

            comparison = serve_simulation(read, schedulers, address, passing, finish, quiet=output != "text")
        else:
            comparison = _compared(read, schedulers)
            finish(comparison)
    if comparison.interrupted:
        return EXIT_INTERRUPTED
    return 0 if comparison.good else 1


def _schedulers(compare: str | None) -> list[str]:
    """The names of `--compare`, checked."""
    from bayplan.simulate.schedulers import ON_REQUEST, SCHEDULERS

    if compare is None:
        return list(SCHEDULERS)
    names = [name.strip() for name in compare.split(",")]
    for name in names:
        if name not in (*SCHEDULERS, *ON_REQUEST):
            known = ", ".join((*SCHEDULERS, *ON_REQUEST))
            raise click.UsageError(f"--compare: '{name}' is not a scheduler; known: {known}")
        if names.count(name) > 1:
            raise click.UsageError(f"--compare: '{name}' appears twice")
    return names


def _moment_of_writing() -> datetime:
    """Now, or what SOURCE_DATE_EPOCH says: with it the same scenario gives the same page, byte for byte."""
    fixed = os.environ.get(FIXED_DATE)
    if not fixed:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(fixed), UTC)
    except (ValueError, OverflowError, OSError):
        raise click.ClickException(
            f'{FIXED_DATE}: "{fixed}" is not a moment: must be whole seconds since 1970'
        ) from None


def _are_one_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file. A terminal or /dev/null may well take both texts."""
    return one.resolve() == other.resolve() and (one.is_file() or not one.exists())


def _duration(option: str, text: str) -> Seconds:
    """A duration in the spelling of scenarios."""
    from bayplan.kube.duration import NoDuration, seconds_of

    try:
        return seconds_of(text)
    except NoDuration as error:
        raise click.UsageError(f"{option}: {error}") from None


def _scenario(path: Path, seed: int | None, report_delay: Seconds | None) -> Scenario:
    from bayplan.kube.errors import did_you_mean
    from bayplan.simulate.scenario.reader import LARGEST_SEED, read_scenario

    if seed is not None and seed > LARGEST_SEED:
        raise click.UsageError(f"--seed: {seed} is not allowed: must be 0 to {LARGEST_SEED}")
    packaged = None if path.exists() or path.suffix else scenario_file(path.name)
    if packaged is None and not path.exists() and str(path) == path.stem:
        known = scenario_names()
        hint = did_you_mean(path.name, known)
        raise click.UsageError(
            f"'{path}' is neither a file nor a scenario that comes with bayplan{hint or ': ' + ', '.join(known)}"
        )
    with working("reading the scenario"):
        scenario = read_scenario(STDIN if path == STANDARD_INPUT else packaged or path, seed)
    return scenario if report_delay is None else replace(scenario, report_delay=report_delay)


def _compared(scenario: Scenario, schedulers: Sequence[str]) -> Comparison:
    """Run one scheduler after another, until interrupted."""
    from bayplan.simulate.results.comparison import Comparison

    runs: list[Run] = []
    with working(""), _first_interrupt() as interrupt:
        for name in schedulers:
            if not (runs and interrupt.asked):
                runs.append(_run(scenario, name, interrupt))
    return Comparison(scenario, tuple(runs), tuple(schedulers[len(runs) :]))


def _run(scenario: Scenario, scheduler: str, interrupt: _Interrupt) -> Run:
    from bayplan.simulate.simulation import Simulation

    show_progress(progress_line(scheduler, 0.0, 0.0))
    simulation = Simulation(scenario, scheduler)
    told = monotonic()
    over = False
    while not over and not interrupt.asked:
        over = not simulation.step()
        if monotonic() - told >= SECONDS_BETWEEN_NEWS:
            told = monotonic()
            show_progress(progress_line(scheduler, simulation.progress, simulation.now))
    return simulation.result(interrupted=not over)


def progress_line(scheduler: str, share: float, now: Seconds) -> str:
    """`bayplan   ███████████████░░░░░░░░░  61 %  simulated 3m12s`."""
    from bayplan.simulate.results.numbers import clock

    filled = int(min(share, 1.0) * BAR_WIDTH)
    bar = "█" * filled + "░" * (BAR_WIDTH - filled)
    return f"{scheduler:8}  {bar} {int(min(share, 1.0) * 100):3d} %  simulated {clock(now)}"


@dataclass
class _Interrupt:
    asked: bool = False


@contextmanager
def _first_interrupt() -> Iterator[_Interrupt]:
    """Ctrl-C is noted, so that the event under way is finished; a second one ends the program as usual."""
    interrupt = _Interrupt()

    def note(_number: int, _frame: FrameType | None) -> None:
        interrupt.asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _show(comparison: Comparison, output: str) -> None:
    if output == "text":
        from bayplan.simulate.results.comparison_text import comparison_text

        print_answer(comparison_text(comparison), good=comparison.good)
    else:
        from bayplan.simulate.results.comparison import comparison_document

        print_document(comparison_document(comparison), output)
