"""The soak of `python -m benchmarks soak`, for a minute; `SOAK_SECONDS` makes it longer."""

from __future__ import annotations

import os

from benchmarks.soak import soak
from tests.kubernetes.control_plane.plane import ControlPlane

SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
SEED = int(os.environ.get("SOAK_SEED", "3"))


def test_under_faults_every_gang_is_completely_bound_and_every_pod_bound_once() -> None:
    with ControlPlane() as plane:
        story = soak(plane, SECONDS, SEED)
    assert story.violations == []
    assert story.pods > 10
    assert sum(story.faults.values()) >= 1
