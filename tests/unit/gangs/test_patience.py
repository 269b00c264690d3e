"""How long a gang has waited: since the youngest of the pods that wait was created."""

from __future__ import annotations

import pytest

from bayplan.gangs.model import Gang, Group, Patience, patience_left, waited_for
from bayplan.kube.times import moment_of
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.objects import simple_pod

MIDNIGHT = "2026-01-31T00:00:00Z"


def at(text: str) -> float:
    moment = moment_of(text)
    assert moment is not None
    return moment.timestamp()


def gang(*created: str | None, running: tuple[str, ...] = ()) -> Gang:
    def pods(name: str, moments: tuple[str | None, ...]) -> tuple[Pod, ...]:
        return tuple(
            simple_pod({"cpu": 1}, f"{name}-{number}", created=moment) for number, moment in enumerate(moments)
        )

    root = Group(pods=pods("p", created), running=pods("r", running), preferred="rack")
    return Gang("ml/g", root, patience=Patience(2, 60))


@pytest.mark.parametrize(
    "story, waiting, waited",
    [
        ("the last to come", gang(MIDNIGHT, "2026-01-31T00:01:00Z"), 540.0),
        ("a replacement, however old the others are", gang("2026-01-31T00:09:50Z", running=(MIDNIGHT,)), 10.0),
        ("made ahead of our clock", gang("2026-01-31T00:11:00Z"), 0.0),
        ("no pod says when", gang(None), 600.0),
        ("some do not", gang(None, "2026-01-31T00:05:00Z"), 300.0),
    ],
)
def test_since_when_a_gang_waits(story: str, waiting: Gang, waited: float) -> None:
    assert waited_for(waiting, at("2026-01-31T00:10:00Z"), otherwise=at(MIDNIGHT)) == waited


def test_unknown_since_when() -> None:
    assert waited_for(gang(None), at(MIDNIGHT), otherwise=None) is None


@pytest.mark.parametrize(
    "domains, running_at, waited, left",
    [
        (3, 0, 10.0, 50.0),
        (3, 2, 10.0, 50.0),
        (3, 0, 61.0, 0.0),
        (2, 0, 10.0, 0.0),
        (3, 3, 10.0, 0.0),
        (4, 3, 10.0, 0.0),
    ],
)
def test_patience_is_for_domains_that_can_be_saved(domains: int, running_at: int, waited: float, left: float) -> None:
    assert patience_left(gang(None), domains, running_at, waited) == left
