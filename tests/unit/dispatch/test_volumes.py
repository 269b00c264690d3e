"""Pods with claims in the queue: they wait for what is missing, and events about it wake them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from bayplan.dispatch.actions import Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.dispatch.pod_units import MANY_USERS, REST_PER_USER
from bayplan.kube.wire.core_v1 import ClaimVolumeSource, Pod, Volume
from tests.builders.storage import Json, claim, storage_class, struct, volume
from tests.builders.units import add_node, dispatcher, on_node, pod

PROVISIONED = storage_class(provisioner="csi.example.com")
OF_ML = claim(namespace="ml")


def with_claim(name: str = "web", claims: str = "data") -> Pod:
    """A pod that uses a claim."""
    source = Volume(name="v", persistent_volume_claim=ClaimVolumeSource(claim_name=claims))
    made = pod(name)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, volumes=[source]))


def told(to: Dispatcher, now: float) -> str:
    """Why the next unit waits; empty if it has a place."""
    to.wake(now)
    action = to.decide(now)
    assert isinstance(action, Bind | Unschedulable), action
    if isinstance(action, Bind):
        return ""
    return action.reason or "no node"


def sent(*bodies: Json) -> Callable[[Dispatcher], None]:
    def send(to: Dispatcher) -> None:
        for body in bodies:
            to.set_storage(struct(body))

    return send


@pytest.mark.parametrize(
    "before, event",
    [
        pytest.param([PROVISIONED], sent(OF_ML), id="its claim is created"),
        pytest.param([OF_ML], sent(PROVISIONED), id="the class of its claim is created"),
        pytest.param(
            [claim(namespace="ml"), storage_class(mode="Immediate")],
            sent(volume(claim="ml/data"), claim(namespace="ml", volume="pv")),
            id="its claim is bound",
        ),
        pytest.param([claim(namespace="ml", volume="pv")], sent(volume(claim="ml/data")), id="its volume is created"),
        pytest.param([OF_ML, storage_class()], sent(volume(on="n1")), id="a free volume is created"),
        pytest.param(
            [OF_ML, storage_class(), volume(on="n2")], lambda to: add_node(to, "n2"), id="a node that reaches it comes"
        ),
    ],
)
def test_an_event_that_helps_wakes_a_pod(before: list[Json], event: Callable[[Dispatcher], None]) -> None:
    core = dispatcher("n1")
    for body in before:
        core.set_storage(struct(body))
    core.set_pod(with_claim(), 0.0)
    assert told(core, 0.0)
    core.wake(5.0)
    assert core.decide(5.0) is None
    event(core)
    assert told(core, 20.0) == ""


def test_an_event_about_another_claim_wakes_no_pod() -> None:
    core = dispatcher("n1")
    core.set_pod(with_claim(), 0.0)
    assert told(core, 0.0)
    core.set_storage(struct(claim("other", namespace="ml")))
    core.wake(20.0)
    assert core.decide(20.0) is None


def test_a_claim_for_one_pod_is_free_when_that_pod_is_gone() -> None:
    core = dispatcher("n1")
    once = claim(modes=["ReadWriteOncePod"], volume="pv", namespace="ml")
    for body in (once, volume(claim="ml/data", modes=["ReadWriteOncePod"])):
        core.set_storage(struct(body))
    core.set_pod(on_node(with_claim("first"), "n1"), 0.0)
    core.set_pod(with_claim("second"), 0.0)
    assert told(core, 0.0) == "no node"
    core.remove_pod("ml/first", 10.0)
    assert told(core, 20.0) == ""


def test_a_bind_that_fails_gives_the_volume_to_the_next() -> None:
    core = dispatcher("n1")
    for body in (storage_class(), volume(on="n1"), *(claim(name, namespace="ml") for name in ("a", "b"))):
        core.set_storage(struct(body))
    core.set_pod(with_claim("first", "a"), 0.0)
    bind = core.decide(0.0)
    assert isinstance(bind, Bind)
    assert bind.assignments[0].decision.volumes.bindings == (("ml/a", "pv"),)
    core.set_pod(with_claim("second", "b"), 1.0)
    assert told(core, 1.0) == "no node"
    core.remove_pod("ml/first", 10.0)
    core.not_bound(bind, bind.assignments, 10.0)
    assert told(core, 20.0) == ""


def test_a_claim_of_many_pods_that_keeps_changing_is_asked_about_after_a_pause() -> None:
    """300 changes of a label of a claim with 3,000 users took nine seconds of CPU."""
    core = dispatcher("n1")
    users = MANY_USERS + 1
    for number in range(users):
        core.set_pod(with_claim(f"pod-{number}"), 0.0)
    decided: list[int] = []
    for now in (0.0, 20.0, 20.0 + users * REST_PER_USER / 2, 40.0):
        core.set_storage(struct(claim(namespace="ml", labels={"changed": f"{now}"})))
        decided.append(0)
        while core.decide(now) is not None:
            decided[-1] += 1
    assert decided == [users, users, 0, users]
