"""Binding against a client that follows a script: every ending, the order on each node, and how many at once.

Time is virtual: seconds pass as soon as everybody waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import msgspec
import pytest

from bayplan.kube.client.client import KubeClient, Unreachable
from bayplan.kube.wire.core_v1 import Pod
from bayplan.services.scheduler.binding.binder import (
    GIVEN_UP,
    MAX_WAIT,
    NOT_WANTED,
    PATIENT_TRIES,
    USUAL_TRIES,
    Binder,
    BindResult,
    Ending,
    UnitBinds,
)
from tests.builders.gangs import member
from tests.builders.services import api_error, in_virtual_time, now

LOST = Unreachable("no answer")


@dataclass
class ScriptedClient:
    """Answers binds one after the other as written down, the last answer endlessly; None is 201.

    `found` is what a look at the pod gives.
    """

    answers: list[Exception | None] = field(default_factory=lambda: [None])
    found: list[Pod | Exception] = field(default_factory=list)
    seconds: float = 0.0
    sent: list[tuple[float, str, str]] = field(default_factory=list)
    looks: int = 0
    under_way: int = 0
    most_under_way: int = 0

    async def bind(self, namespace: str, pod: str, uid: str, node: str, annotations: object) -> None:
        self.sent.append((now(), pod, node))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer

    async def get(self, resource: object, name: str, namespace: str) -> Pod:
        self.looks += 1
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found


def pod(name: str = "a", *, node: str = "", uid: str = "1", going: bool = False) -> Pod:
    return member(name, node=node, uid=uid, leaving=going)


def binder_of(
    client: ScriptedClient, *, at_once: int = 64, still_wanted: Callable[[Pod, str], bool] = lambda pod, node: True
) -> Binder:
    return Binder(cast("KubeClient", client), at_once=at_once, still_wanted=still_wanted)


def bind(client: ScriptedClient, *, patient: bool = False) -> BindResult:
    async def story() -> BindResult:
        return await binder_of(client).bind(pod(), "n1", {}, UnitBinds(patient=patient))

    return in_virtual_time(story())


@pytest.mark.parametrize(
    "answers, found, ending",
    [
        ([None], [], Ending.BOUND),
        # Unknown: the same bind is sent again.
        ([LOST, None], [], Ending.BOUND),
        ([LOST] * 20 + [None], [], Ending.BOUND),
        ([api_error(500), api_error(503), api_error(429), None], [], Ending.BOUND),
        # It has a node already; the pod itself says whose bind that was.
        ([LOST, api_error(409)], [pod(node="n1")], Ending.BOUND),
        ([api_error(409)], [pod(node="n1")], Ending.BOUND),
        ([api_error(409)], [pod(node="n2")], Ending.ELSEWHERE),
        ([api_error(409)], [pod(uid="2")], Ending.GONE),
        ([api_error(409)], [pod(uid="2", node="n1")], Ending.GONE),
        ([api_error(409)], [api_error(404)], Ending.GONE),
        ([api_error(409)], [pod(going=True)], Ending.GONE),
        ([api_error(409)], [pod()], Ending.REFUSED),
        # A look is repeated until there is an answer.
        ([api_error(409)], [LOST, api_error(500), LOST, pod(node="n1")], Ending.BOUND),
        ([api_error(404)], [], Ending.GONE),
        ([api_error(403)], [pod()], Ending.REFUSED),
        ([api_error(500)], [pod()], Ending.REFUSED),
        # The server said that it failed, and had done it.
        ([api_error(500)], [pod(node="n1")], Ending.BOUND),
    ],
)
def test_every_ending(answers: list[Exception | None], found: list[Pod | Exception], ending: Ending) -> None:
    assert bind(ScriptedClient(list(answers), list(found))).ending is ending


@pytest.mark.parametrize(
    "status, patient, tries",
    [
        (500, False, USUAL_TRIES),
        (429, False, USUAL_TRIES),
        (409, False, 1),
        (403, False, 1),
        (422, False, 1),
        # The others of a gang have their nodes: its place is kept, and it is tried again, unless time does not heal the
        # refusal.
        (500, True, PATIENT_TRIES),
        (429, True, PATIENT_TRIES),
        (409, True, PATIENT_TRIES),
        (403, True, 1),
        (422, True, 1),
    ],
)
def test_how_often_a_refused_bind_is_tried(status: int, patient: bool, tries: int) -> None:
    client = ScriptedClient([api_error(status)], [pod()])
    outcome = bind(client, patient=patient)
    assert (len(client.sent), outcome) == (tries, BindResult(Ending.REFUSED, "no"))


@pytest.mark.parametrize("asked, waited", [(3.0, 3.0), (3600.0, MAX_WAIT)])
def test_retry_after_counts_within_limits(asked: float, waited: float) -> None:
    later = api_error(429)
    later.retry_after = asked
    client = ScriptedClient([later, None])
    assert bind(client).ending is Ending.BOUND
    assert client.sent[1][0] == waited


@pytest.mark.parametrize(
    "answers, ending", [([api_error(500), pod(node="n1")], Ending.BOUND), ([api_error(403)], Ending.REFUSED)]
)
def test_polling_is_logged_once_and_ends_if_forbidden(
    answers: list[Pod | Exception], ending: Ending, caplog: pytest.LogCaptureFixture
) -> None:
    client = ScriptedClient([api_error(409)], [LOST, *answers])
    assert bind(client).ending is ending
    assert [record.message for record in caplog.records] == ["bind outcome unknown, polling pod"]


def test_a_bind_that_is_no_longer_wanted_is_not_sent() -> None:
    async def story() -> None:
        client = ScriptedClient(found=[pod()])
        outcome = await binder_of(client, still_wanted=lambda pod, node: False).bind(pod(), "n1", {})
        assert (outcome, client.sent) == (BindResult(Ending.UNSENT, NOT_WANTED), [])

    in_virtual_time(story())


def test_a_bind_that_may_have_been_taken_before_it_was_unwanted_is_looked_for() -> None:
    async def story() -> None:
        client = ScriptedClient([LOST], [pod(node="n1")])
        wanted = iter([True, False])
        outcome = await binder_of(client, still_wanted=lambda pod, node: next(wanted)).bind(pod(), "n1", {})
        assert (outcome.ending, client.looks) == (Ending.BOUND, 1)

    in_virtual_time(story())


def test_binds_are_serial_on_one_node_and_concurrent_across_nodes() -> None:
    async def story() -> None:
        client = ScriptedClient(seconds=1.0)
        binder = binder_of(client)
        places = [("a", "n1"), ("b", "n2"), ("c", "n1"), ("d", "n1"), ("e", "n2")]
        await asyncio.gather(*(binder.bind(pod(name), node, {}) for name, node in places))
        assert client.sent == [(0, "a", "n1"), (0, "b", "n2"), (1, "c", "n1"), (1, "e", "n2"), (2, "d", "n1")]

    in_virtual_time(story())


def test_a_later_bind_waits_for_a_failing_one_on_its_node() -> None:
    async def story() -> None:
        client = ScriptedClient([LOST, None])
        binder = binder_of(client)
        await asyncio.gather(binder.bind(pod("a"), "n1", {}), binder.bind(pod("b"), "n1", {}))
        assert [name for _, name, _ in client.sent] == ["a", "a", "b"]

    in_virtual_time(story())


def test_no_more_than_so_many_at_once() -> None:
    async def story() -> None:
        client = ScriptedClient(seconds=1.0)
        binder = binder_of(client, at_once=3)
        await asyncio.gather(*(binder.bind(pod(f"p{number}"), f"n{number}", {}) for number in range(9)))
        assert (client.most_under_way, now()) == (3, 3.0)

    in_virtual_time(story())


def test_a_bind_that_waits_for_a_retry_does_not_block_other_nodes() -> None:
    async def story() -> None:
        client = ScriptedClient([api_error(500), None])
        binder = binder_of(client, at_once=1)
        first = asyncio.create_task(binder.bind(pod("a"), "n1", {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert binder.resting.total() == 1
        await binder.bind(pod("b"), "n2", {})
        await first
        assert ([name for _, name, _ in client.sent], binder.resting.total()) == (["a", "b", "a"], 0)

    in_virtual_time(story())


class RefusingOne(ScriptedClient):
    """Never takes the pod `bad`; takes all others, unless `answers` says otherwise."""

    async def bind(self, namespace: str, pod: str, uid: str, node: str, annotations: object) -> None:
        if pod == "bad":
            self.sent.append((now(), pod, node))
            raise api_error(403)
        await super().bind(namespace, pod, uid, node, annotations)


def binds_of_a_gang(client: ScriptedClient, places: list[tuple[str, str]], at_once: int = 64) -> list[BindResult]:
    async def story() -> list[BindResult]:
        binder, together = binder_of(client, at_once=at_once), UnitBinds(patient=True)
        return await asyncio.gather(*(binder.bind(pod(name), node, {}, together) for name, node in places))

    return in_virtual_time(story())


def test_when_one_of_a_gang_is_refused_for_good_those_not_sent_yet_are_not_sent() -> None:
    client = RefusingOne(seconds=1.0, found=[pod()])
    outcomes = binds_of_a_gang(client, [("a", "n1"), ("bad", "n2"), ("c", "n1"), ("d", "n2")])
    assert [each.ending for each in outcomes] == [Ending.BOUND, Ending.REFUSED, Ending.UNSENT, Ending.UNSENT]
    assert outcomes[2].message == GIVEN_UP
    assert [name for _, name, _ in client.sent] == ["a", "bad"]


def test_a_waiting_retry_ends_when_its_gang_is_given_up() -> None:
    later = api_error(503)
    later.retry_after = 4.0
    client = RefusingOne([later], seconds=1.0, found=[pod()])

    async def story() -> None:
        binder, together = binder_of(client), UnitBinds(patient=True)
        waiting = asyncio.create_task(binder.bind(pod("a"), "n1", {}, together))
        await asyncio.sleep(2)
        await binder.bind(pod("bad"), "n2", {}, together)
        assert ((await waiting).ending, now()) == (Ending.UNSENT, 2.0)

    in_virtual_time(story())


def test_a_bind_of_unknown_outcome_is_settled_though_its_gang_is_given_up() -> None:
    client = RefusingOne([LOST, None], found=[pod()])
    outcomes = binds_of_a_gang(client, [("a", "n1"), ("bad", "n2")])
    assert [each.ending for each in outcomes] == [Ending.BOUND, Ending.REFUSED]


def test_the_first_and_the_final_refusal_of_a_gang_are_reported() -> None:
    heard: list[tuple[str, str]] = []
    client = ScriptedClient([api_error(500), api_error(500), api_error(403)], [pod()])

    async def story() -> None:
        together = UnitBinds(
            patient=True,
            on_refusal=lambda pod, message: heard.append(("first", pod.metadata.name)),
            on_end=lambda pod, message: heard.append(("end", pod.metadata.name)),
        )
        await binder_of(client).bind(pod("a"), "n1", {}, together)

    in_virtual_time(story())
    assert heard == [("first", "a"), ("end", "a")]


def test_cancelling_a_waiting_bind_does_not_affect_others() -> None:
    async def story() -> None:
        client = ScriptedClient(seconds=1.0)
        binder = binder_of(client)
        first, second, third = (asyncio.create_task(binder.bind(pod(name), "n1", {})) for name in "abc")
        await asyncio.sleep(0.5)
        second.cancel()
        assert (await first).ending is Ending.BOUND
        assert (await third).ending is Ending.BOUND
        assert [(when, name) for when, name, _ in client.sent] == [(0, "a"), (1, "c")]

    in_virtual_time(story())


def test_the_pod_is_bound_as_this_very_pod() -> None:
    """With its uid, so that a successor of the same name is never bound in its place."""

    class Asserting(ScriptedClient):
        async def bind(self, namespace: str, pod: str, uid: str, node: str, annotations: object) -> None:
            assert (namespace, pod, uid, node, annotations) == ("ml", "a", "1", "n1", {"x": "y"})

    async def story() -> None:
        wanted = msgspec.structs.replace(pod(), status=None)
        outcome = await binder_of(Asserting()).bind(wanted, "n1", {"x": "y"})
        assert outcome.ending is Ending.BOUND

    in_virtual_time(story())


def test_ten_thousand_binds_of_one_tenant_delay_anothers_by_one() -> None:
    def of(namespace: str, name: str) -> Pod:
        named = pod(name)
        return msgspec.structs.replace(named, metadata=msgspec.structs.replace(named.metadata, namespace=namespace))

    async def story() -> None:
        client = ScriptedClient(seconds=1.0)
        binder = binder_of(client, at_once=2)
        large = [asyncio.create_task(binder.bind(of("large", f"l{n}"), f"n{n}", {})) for n in range(100)]
        await asyncio.sleep(0.5)
        other = asyncio.create_task(binder.bind(of("other", "x"), "m", {}))
        assert (await other).ending is Ending.BOUND
        assert asyncio.get_running_loop().time() <= 2.0
        await asyncio.gather(*large)

    in_virtual_time(story())


def test_a_slot_is_given_back_by_one_that_is_cancelled_while_it_waits() -> None:
    async def story() -> None:
        client = ScriptedClient(seconds=1.0)
        binder = binder_of(client, at_once=1)
        first, second, third = (asyncio.create_task(binder.bind(pod(name), name, {})) for name in "abc")
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.gather(first, third)
        assert [name for _, name, _ in client.sent] == ["a", "c"]

    in_virtual_time(story())
