"""Which pods a fingerprint stands for, told as the events of one node."""

from __future__ import annotations

from bayplan.cluster.pods.request import PodRequest, effective_request
from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.cluster.reports.shown_pods import MOST_EVENTS, Meaning, Reading, ShownPods
from tests.builders.objects import simple_pod

REQUEST = effective_request(simple_pod({"cpu": 1}))
ROW = 0


class Node:
    """Pods by name, and what a report over some of them stands for."""

    def __init__(self) -> None:
        self.pods: dict[str, PodRequest] = {}
        self.shown = ShownPods()
        assert self.read() == Reading(Meaning.SET)

    def came(self, *names: str) -> None:
        for name in names:
            self.pods[f"default/{name}"] = REQUEST
            self.shown.came(ROW, f"default/{name}", REQUEST)

    def went(self, name: str) -> None:
        del self.pods[f"default/{name}"]
        self.shown.went(ROW, f"default/{name}", REQUEST)

    def read(self, *names: str) -> Reading:
        published = fingerprint_of(("default", name) for name in names)
        return self.shown.read(ROW, published, self.pods, lambda _: True)


def a_set(*names: str) -> Reading:
    return Reading(Meaning.SET, frozenset(f"default/{name}" for name in names))


def test_a_report_may_be_some_events_late() -> None:
    node = Node()
    node.came("a", "b", "c")
    assert node.read("a") == a_set("a")
    assert node.read("a", "b", "c") == a_set("a", "b", "c")


def test_a_pod_that_ended_since_was_shown_but_is_not_here() -> None:
    node = Node()
    node.came("a", "b")
    node.went("a")
    assert node.read("a", "b") == a_set("b")


def test_the_same_report_again_says_the_same() -> None:
    node = Node()
    node.came("a", "b")
    assert node.read("a") == a_set("a")
    assert node.read("a") == a_set("a")


def test_a_set_of_before_the_last_report_is_early_or_old() -> None:
    node = Node()
    node.came("a", "b")
    node.read("a", "b")
    assert node.read("a") == Reading(Meaning.EARLY_OR_OLD)
    node.went("b")
    assert node.read("a") == a_set("a"), "it was early"


def test_unknown_names_are_reported() -> None:
    node = Node()
    node.came("a")
    assert node.read("a", "static-pod") == Reading(Meaning.UNKNOWN)


def test_of_two_pods_with_one_name_the_older_one_is_believed_to_be_shown() -> None:
    node = Node()
    node.came("a")
    node.went("a")
    node.came("a")
    assert node.read("a") == Reading(Meaning.SET), "which is to say: not the pod that is here"
    assert node.read() == Reading(Meaning.SET)
    assert node.read("a") == a_set("a")


def test_only_the_latest_events_are_kept() -> None:
    node = Node()
    node.came(*(f"pod-{number}" for number in range(MOST_EVENTS + 1)))
    assert node.read() == Reading(Meaning.UNKNOWN)
    assert node.read("pod-0") == a_set("pod-0")


def test_nothing_is_kept_where_no_report_publishes_a_fingerprint() -> None:
    shown = ShownPods()
    shown.came(ROW, "default/a", REQUEST)
    no_pods = fingerprint_of([])
    assert shown.read(ROW, no_pods, {"default/a": REQUEST}, lambda _: True) == Reading(Meaning.UNKNOWN)


def test_pods_that_do_not_count_change_no_fingerprint() -> None:
    node = Node()
    node.came("a")
    no_pods = fingerprint_of([])
    assert node.shown.read(ROW, no_pods, node.pods, lambda _: False) == Reading(Meaning.SET)
