"""One object that cannot be decoded never costs another: in a list, in a watch, of every kind.

Each text is valid JSON as a real API server may serve it: `managedFields` and preserved fields keep what a tenant
wrote.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from bayplan.kube import resources
from bayplan.kube.client import decoding
from bayplan.kube.client.decoding import MOST_ON_LOOP, beside_the_loop, decoder_of
from bayplan.kube.resources import POD_GROUPS, PODS, Resource, pod_groups

EVERY_KIND = sorted(
    {*(each for each in vars(resources).values() if isinstance(each, Resource)), *pod_groups().values()}, key=str
)
GOOD = b'{"metadata": {"name": "good", "namespace": "a", "uid": "1", "resourceVersion": "7"}, "spec": {}}'
HOSTILE = {
    "lists nested 1,500 deep": b"[" * 1500 + b"]" * 1500,
    "objects nested 100,000 deep": b'{"f:a":' * 100_000 + b"{}" + b"}" * 100_000,
    "bytes that are not UTF-8": b'{"f:\xff": "\xfe"}',
    "a number that no float holds": b"1e999999",
    "a number of 6,000 digits": b"1" * 6000,
    "an empty key": b'{"": {"": ""}}',
    "control characters": b'"\\u0000\\u001b"',
    "characters beyond the basic plane": b'"\\ud83d\\ude00 \\uffff"',
}


def with_managed_fields(hostile: bytes) -> bytes:
    head = b'"name": "bad", "namespace": "a", "uid": "2", "resourceVersion": "6"'
    return b'{"metadata": {%s, "managedFields": [{"fieldsV1": %s}]}, "spec": {}}' % (head, hostile)


@pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_the_others_of_a_list_are_read(kind: Resource[Any], hostile: bytes) -> None:
    page = b'{"metadata": {"resourceVersion": "9"}, "items": [%s, %s]}' % (with_managed_fields(hostile), GOOD)
    items, broken, head = decoder_of(kind).page(page)
    read = [item.metadata.name for item in items]
    unreadable = [each.name for each in broken]
    assert ("good" in read) or ("good" in unreadable and kind not in (PODS, POD_GROUPS))
    assert sorted(read + unreadable) == ["bad", "good"]
    assert head.resource_version == "9"


@pytest.mark.parametrize("kind", EVERY_KIND, ids=str)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_a_watch_goes_on_behind_it(kind: Resource[Any], hostile: bytes) -> None:
    lines = b"".join(b'{"type": "ADDED", "object": %s}\n' % each for each in (with_managed_fields(hostile), GOOD))
    said = decoder_of(kind).lines(lines)
    read = [change.object.metadata.name for change in said.changes]
    assert sorted(read + [name for _, name in said.broken]) == ["bad", "good"]
    assert (said.garbage, said.refusal, said.resource_version) == ("", None, "7")


def _pod_group_of_groups(depth: int) -> bytes:
    groups = b'{"name": "g", "groups": [' * depth + b"]}" * depth
    return (
        b'{"metadata": {"name": "deep", "namespace": "a", "resourceVersion": "6"}, "spec": {"groups": [%s]}}' % groups
    )


@pytest.mark.parametrize(
    "depth, problem",
    [
        (33, "spec: groups are nested more than 32 deep, the limit"),
        (300, "spec: groups are nested more than 32 deep, the limit"),
        (3000, "is nested too deeply to be read"),
    ],
)
def test_a_pod_group_of_deeply_nested_groups_is_broken_alone(depth: int, problem: str) -> None:
    deep = _pod_group_of_groups(depth)
    items, broken, _ = decoder_of(POD_GROUPS).page(b'{"metadata": {}, "items": [%s, %s]}' % (deep, GOOD))
    said = decoder_of(POD_GROUPS).lines(
        b'{"type": "ADDED", "object": %s}\n{"type": "ADDED", "object": %s}' % (deep, GOOD)
    )
    assert [each.metadata.name for each in items] == [each.object.metadata.name for each in said.changes] == ["good"]
    assert [(each.name, each.problem) for each in broken] == [("deep", problem)]
    assert [(each.name, each.problem) for each in said.broken.values()] == [("deep", problem)]


def test_a_field_that_is_read_breaks_its_object_with_a_reason() -> None:
    bad = b'{"metadata": {"name": "bad", "namespace": "a", "labels": {"x": "\xff"}}}'
    _, broken, _ = decoder_of(PODS).page(b'{"items": [%s]}' % bad)
    said = decoder_of(PODS).lines(b'{"type": "MODIFIED", "object": %s}\n' % bad)
    told = [(each.name, each.problem) for each in (*broken, *said.broken.values())]
    assert told == [("bad", "the text is not UTF-8")] * 2


@pytest.mark.parametrize("size, on_loop", [(MOST_ON_LOOP, True), (MOST_ON_LOOP + 1, False)])
def test_much_is_decoded_beside_the_event_loop(size: int, on_loop: bool) -> None:
    decoded_in = asyncio.run(beside_the_loop(lambda _: threading.current_thread(), bytes(size)))
    assert (decoded_in is threading.main_thread()) == on_loop


def test_a_large_page_is_decoded_object_by_object(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b'{"metadata": {"resourceVersion": "9"}, "items": [%s, %s]}' % (GOOD, GOOD)
    at_once = decoder_of(PODS).page(page)
    monkeypatch.setattr(decoding, "MOST_AT_ONCE", len(page) - 1)
    monkeypatch.setattr(decoder_of(PODS), "_page", None)
    assert decoder_of(PODS).page(page) == at_once
