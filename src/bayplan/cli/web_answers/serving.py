"""`bayplan simulate --serve`: the page about a simulation, on the loopback."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from bayplan.cli.web_answers.simulated import Showing, comparison_of
from bayplan.services.edges.health import AddressError, host_and_port
from bayplan.services.web.run import WebOptions, run_web
from bayplan.services.web.server import is_loopback
from bayplan.simulate.results.comparison import Comparison
from bayplan.simulate.scenario.model import Scenario


def serve_simulation(
    scenario: Scenario,
    schedulers: Sequence[str],
    address: str,
    pace: float | None,
    finish: Callable[[Comparison], None],
    *,
    quiet: bool,
) -> Comparison:
    """Serve until a signal; `finish` is called at the end of the simulation. Returns what has happened until then.

    With `quiet`, standard output is left to the result.
    """
    try:
        if not is_loopback(host_and_port(address)[0]):
            raise click.UsageError("--address: a simulation is shown on the loopback only")
        showing = Showing(scenario, schedulers, pace, finish)
        host = address.rpartition(":")[0] or "localhost"
        run_web(
            showing.follow,
            WebOptions(address),
            lambda port: click.echo(f"serving http://{host}:{port}/simulation", err=quiet),
        )
    except AddressError as error:
        raise click.UsageError(f"--address: {error}") from None
    return comparison_of(showing.recordings)
