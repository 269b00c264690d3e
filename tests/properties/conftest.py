"""How many simulated placements are checked: few by default, very many with `make proof`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.summaries import gathered

PLACEMENTS = 20_000
PROPERTY = "placements"
PREEMPTIONS = 400
PREEMPTING = "preemptions"
IMMEDIATE = "with immediate reports"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--placements",
        type=int,
        default=PLACEMENTS,
        help=f"simulated placements with immediate reports, and half as many with late ones [default: {PLACEMENTS}]",
    )
    parser.addoption(
        "--preemptions", type=int, default=PREEMPTIONS, help=f"simulated preemptions [default: {PREEMPTIONS}]"
    )
    parser.addoption(
        "--random-gangs", type=int, default=5_200, help="random gangs to compare with exhaustive search [default: 5200]"
    )
    parser.addoption("--gangs", type=int, default=200, help="random gangs to compare with other systems [default: 200]")
    parser.addoption("--corruptions", type=int, default=25, help="corrupt files to try for each command [default: 25]")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per kind of report, and one about preemptions.

    Runs once, in the process that gathers the reports of all workers.
    """
    preempting = gathered(terminalreporter, PREEMPTING)
    if preempting:
        total = {key: sum(each[key] for each in preempting) for key in ("preemptions", "evictions", "in_vain")}
        line = (
            f"preemptions: {total['preemptions']:,} in {len(preempting)} clusters, {total['evictions']:,} evictions, "
        )
        terminalreporter.write_line(line + f"{total['in_vain']} of them in vain")
    outcomes = gathered(terminalreporter, PROPERTY)
    for kind in sorted({outcome["reports"] for outcome in outcomes}):
        of_kind = [outcome for outcome in outcomes if outcome["reports"] == kind]
        placed, refused = (sum(outcome[key] for outcome in of_kind) for key in ("placed", "refused"))
        seeds = {outcome["seed"] for outcome in of_kind}
        line = f"placements {kind}: {placed:,} in {len(seeds)} clusters, {refused} refused by a kubelet, cpu in use "
        line += f"{_mean_cpu(of_kind, seeds):.1%}"
        if kind != IMMEDIATE:
            immediate = [outcome for outcome in outcomes if outcome["reports"] == IMMEDIATE]
            line += f" (the same clusters {IMMEDIATE}: {_mean_cpu(immediate, seeds):.1%})"
        terminalreporter.write_line(line)


def _mean_cpu(outcomes: list[dict[str, Any]], seeds: set[int]) -> float:
    shares = [outcome["cpu"] for outcome in outcomes if outcome["seed"] in seeds]
    return sum(shares) / len(shares) if shares else 0.0
