"""Families whose recordings wait for their part of bayplan: listed in the summary, all cases set aside, none judged.

To build a family, delete its line here and writes a test that answers for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conformance.conftest import Conformance


@pytest.mark.fixture_files(
    "kai/idle_gpus_*",
    "kai/plugin_[!s]*",
    "kai/plugin_so*",
    "kueue/assignment_u*",
    "kueue/balanced_*",
    "kueue/domain_*",
    "kueue/topology_*",
    "volcano/allocate_*",
    "volcano/hypernode_*",
    "volcano/session_*",
    chunks=1,
)
def test_waits_for_its_family(conformance: Conformance) -> None:
    conformance.set_all_aside()
