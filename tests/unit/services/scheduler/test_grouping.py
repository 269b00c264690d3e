"""A scheduler that looks at no owners: which pods it holds back, and that they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import msgspec
import pytest

from bayplan.dispatch.actions import Unschedulable
from bayplan.dispatch.units import Unit
from bayplan.grouping.group import asks_for_group, awaits_look
from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.resources import NODES, PODS
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.meta_v1 import Change
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.grouping import WHY_IT_WAITS, GroupedElsewhere
from bayplan.services.scheduler.intake import News
from tests.unit.services.pod_grouper.small_cluster import TOPOLOGY, job, pod_of

LABEL = "bayplan.io/pod-group"


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ({"annotations": TOPOLOGY}, True),
        ({"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}, True),
        ({"annotations": {"bayplan.io/gang": "true"}}, True),
        ({}, False),
        ({"annotations": {**TOPOLOGY, "bayplan.io/gang": "false"}}, False),
        ({"annotations": TOPOLOGY, "labels": {LABEL: "g"}}, False),
        ({"annotations": TOPOLOGY, "ownerReferences": []}, False),
    ],
    ids=["a level", "Kueue's level", "a gang", "nothing", "no gang", "in a gang already", "without an owner"],
)
def test_pods_that_ask_for_a_group(metadata: dict[str, object], expected: bool) -> None:
    assert asks_for_group(pod_of(job(), 0, **metadata)) is expected


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ({}, True),
        ({"annotations": TOPOLOGY}, True),
        ({"annotations": {"bayplan.io/grouped": "alone"}}, False),
        ({"annotations": {"bayplan.io/grouped": "perhaps"}}, True),
        ({"labels": {LABEL: "g"}}, False),
        ({"annotations": TOPOLOGY, "ownerReferences": []}, False),
    ],
    ids=["nothing said", "a level", "alone", "an unknown word", "in a gang already", "without an owner"],
)
def test_pods_that_wait_for_a_grouper(metadata: dict[str, object], expected: bool) -> None:
    assert awaits_look(pod_of(job(), 0, **metadata)) is expected


def with_spec(pod: Pod, **spec: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **spec))


@dataclass
class Reports:
    """Takes the place of the announcer."""

    waiting: list[tuple[str, str]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)

    def not_grouped(self, refusal: Unschedulable, now: float) -> None:
        self.waiting.append((str(refusal.unit), refusal.reason))

    def withdraw(self, unit: Unit) -> None:
        self.withdrawn.append(str(unit))

    def as_announcer(self) -> Announcer:
        return cast("Announcer", self)


def test_our_waiting_pods_are_reported() -> None:
    reports = Reports()
    told = reports.waiting
    elsewhere = GroupedElsewhere(["bayplan"], asks_for_group, reports.as_announcer(), lambda: 0.0)
    asks = pod_of(job(), 0, annotations=TOPOLOGY)
    others = [pod_of(job(), 1), with_spec(asks, scheduler_name="another"), with_spec(asks, node_name="n1")]
    list(elsewhere.take_in_steps(PODS, Listed([asks, *others], "1", [])))
    assert told == [("ml/train-0", WHY_IT_WAITS[asks_for_group])]
    list(elsewhere.take_in_steps(PODS, Changes([Change("MODIFIED", asks), Change("DELETED", asks)], [])))
    assert len(told) == 2
    list(elsewhere.take_in_steps(NODES, Listed([], "1", [])))
    assert len(told) == 2


ASKS = pod_of(job(), 0, annotations=TOPOLOGY)


@pytest.mark.parametrize(
    "news",
    [
        Changes([Change("DELETED", ASKS)], []),
        Changes([Change("MODIFIED", pod_of(job(), 0, annotations=TOPOLOGY, labels={LABEL: "g"}))], []),
        Changes([Change("MODIFIED", pod_of(job(), 0, annotations={"bayplan.io/grouped": "alone"}))], []),
        Changes([Change("MODIFIED", with_spec(ASKS, node_name="n1"))], []),
        Listed([], "2", []),
    ],
    ids=["deleted", "grouped", "alone", "bound", "deleted while the watch was down"],
)
def test_reports_on_pods_that_no_longer_wait_are_withdrawn(news: News) -> None:
    reports = Reports()
    elsewhere = GroupedElsewhere(["bayplan"], awaits_look, reports.as_announcer(), lambda: 0.0)
    list(elsewhere.take_in_steps(PODS, Listed([ASKS], "1", [])))
    for _ in range(2):
        list(elsewhere.take_in_steps(PODS, news))
    assert reports.withdrawn == ["ml/train-0"]
