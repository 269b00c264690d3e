"""Preemption for single pods on full clusters, with the cheapest victims that an exhaustive search found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.preemption_cases import problem_of

if TYPE_CHECKING:
    from tests.conformance.conftest import Conformance


@pytest.mark.fixture_files("adversarial/preemption")
def test_cheapest_victims(conformance: Conformance) -> None:
    conformance.check_each(problem_of)
