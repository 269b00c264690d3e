"""Caches that do not grow: by number, and by the length of their keys."""

from __future__ import annotations

import gc
import weakref

import msgspec

from bayplan.cluster.pods.pod_class import PodClasses, kept_with_class
from bayplan.cluster.reports.recent import MOST_BYTES, Recent
from bayplan.plugins.node_resources_fit import asked_of_node
from tests.builders.objects import container, pod


def test_the_latest_are_kept() -> None:
    recent: Recent[int] = Recent(2)
    for number in range(4):
        recent.put(f"k{number}", number)
    assert [recent.get(f"k{number}") for number in range(4)] == [None, None, 2, 3]


def test_few_are_kept_if_their_keys_are_long() -> None:
    recent: Recent[int] = Recent()
    for number in range(100):
        recent.put(b"%d" % number + b"x" * (1 << 20), number)
    assert len(recent) <= MOST_BYTES >> 20
    assert recent.get(b"99" + b"x" * (1 << 20)) == 99
    recent.put(b"99" + b"x" * (1 << 20), 100)
    recent.put(b"y" * (2 * MOST_BYTES), 7)
    assert len(recent) == 1


def test_bytes_inside_of_a_key_count() -> None:
    recent: Recent[int] = Recent()
    for number in range(100):
        recent.put((b"%d" % number + b"x" * (1 << 20), "volumes"), number)
    assert len(recent) <= MOST_BYTES >> 20


def test_what_was_worked_out_for_a_class_goes_with_it() -> None:
    """A tenant that makes one large pod after another leaves nothing behind."""
    classes = PodClasses()
    names = {f"example.com/r{number}": "1" for number in range(2_000)}
    first = classes.of(pod(container(names)))
    assert len(asked_of_node(first)) == 2_001
    gone = weakref.ref(first)
    del first
    for number in range(300):
        classes.of(pod(container({**names, f"example.com/x{number}": "1"})))
    gc.collect()
    assert gone() is None


def test_it_is_worked_out_once() -> None:
    calls = []

    @kept_with_class
    def name_of(_: object) -> int:
        calls.append(1)
        return 7

    pod_class = PodClasses().of(msgspec.structs.replace(pod(container({"cpu": "1"}))))
    assert (name_of(pod_class), name_of(pod_class), len(calls)) == (7, 7, 1)
