"""A simulation that is watched happens as one that is not, and its frames are the time line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from bayplan.cluster.loading import load_state
from bayplan.simulate.recording import Recording
from bayplan.simulate.scenario.reader import read_scenario
from bayplan.simulate.simulation import Simulation

SCENARIOS = Path(__file__).parents[3] / "examples" / "scenarios"


def recorded(name: str, scheduler: str) -> Recording:
    recording = Recording(read_scenario(SCENARIOS / name, None), scheduler)
    while recording.step():
        pass
    return recording


@pytest.mark.parametrize("scheduler", ["blind", "bayplan"])
def test_watching_changes_nothing(scheduler: str) -> None:
    recording = recorded("late-reports.yaml", scheduler)
    plain = Simulation(recording.scenario, scheduler)
    while plain.step():
        pass
    watched, expected = recording.result(), plain.result()
    for each in fields(expected):
        if each.name != "state":
            assert getattr(watched, each.name) == getattr(expected, each.name), each.name
    assert tuple(frame.moment for frame in recording.frames) == expected.timeline


def test_frames_say_what_nodes_have_in_use_and_who_refused() -> None:
    recording = recorded("two-nodes.yaml", "blind")
    first, last = recording.frames[0], recording.frames[-1]
    assert set(first.used["cpu"]) == {0}
    assert max(last.used["cpu"]) > 0
    assert sum(last.refused.values()) == last.moment.refused > 0
    assert all(frame.fragmentation is None or 0 <= frame.fragmentation <= 1 for frame in recording.frames)


def test_the_cluster_of_a_moment_can_be_loaded_with_pods_gangs_and_refusals() -> None:
    recording = Recording(read_scenario(SCENARIOS / "gangs.yaml", None), "bayplan")
    while recording.simulation.now < 300 and recording.step():
        pass
    objects = recording.objects()
    state = load_state(objects)
    moment = recording.simulation.view().tally
    assert (len(state.pods), len(state.waiting)) == (moment.running, moment.waiting)
    assert not list(state.remarks)
    named = {pod.metadata.labels.get("bayplan.io/pod-group") for pod in objects.pods if pod.metadata.labels}
    assert {gang.metadata.name for gang in objects.gangs} >= named - {None}
    assert named - {None}
