"""The README's figures and picture are those of the command, to the byte. `make figures` writes them anew."""

from __future__ import annotations

from benchmarks import figures


def test_the_readme_shows_what_the_simulation_says() -> None:
    assert figures.main(["--check"]) == 0
