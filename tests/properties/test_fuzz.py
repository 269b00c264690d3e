"""A short run of the fuzzer (`make fuzz`): nothing falls over, nothing takes too long, and the books add up."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import TARGETS, fuzz

# How many objects of each target a run of the tests can afford.
OBJECTS = {
    "world": 4_000,
    "honest": 240,
    "command": 200,
    "configuration": 15,
    "scenario": 10,
    "node": 6,
    "extender": 800,
}
# The same every time: what another seed finds must not fail an unrelated change. The long run draws its own.
SEED = 20_260_101


@pytest.mark.parametrize("target", TARGETS)
def test_spoiled_examples_bring_nothing_down(target: str) -> None:
    findings = fuzz(SEED, OBJECTS[target], (target,))
    assert findings.told == []
    assert findings.objects >= OBJECTS[target]


@pytest.mark.parametrize(
    "seed, target, number",
    [
        pytest.param(12, "honest", 3749, id="half a billion CPUs where whole cores are handed out"),
        pytest.param(11, "world", 271, id="a member of a parked gang that changes into what cannot be"),
        pytest.param(3, "world", 5, id="a member that becomes another scheduler's pod"),
    ],
)
def test_what_long_runs_have_found_stays_fixed(seed: int, target: str, number: int) -> None:
    assert fuzz(seed, 10, (target,), number).told == []


def test_the_fuzzer_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that fails for some pods, and books that lose a pod."""
    from bayplan.cluster.state import ClusterState
    from bayplan.dispatch import pod_units

    def fails(*_: object, **__: object) -> None:
        raise IndexError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(pod_units, "schedule_one", fails)
        assert any("IndexError: planted" in each for each in fuzz(SEED, 300, ("world",)).told)
    with monkeypatch.context() as planted:
        planted.setattr(ClusterState, "remove_pod", lambda *_, **__: None)
        assert any("still there" in each for each in fuzz(SEED, 300, ("world",)).told)
