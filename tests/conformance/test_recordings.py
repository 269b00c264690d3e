"""Which recordings this checkout does not have: one line for all of them."""

from __future__ import annotations

import pytest

from tests.conformance.conftest import ABSENT, fixtures_root


def test_every_recording_is_here(pytestconfig: pytest.Config) -> None:
    absent = pytestconfig.stash[ABSENT]
    if absent:
        pytest.skip(f"not in {fixtures_root(pytestconfig).name}: {', '.join(sorted(set(absent)))}")
