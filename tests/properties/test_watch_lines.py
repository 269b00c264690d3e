"""However the network cuts a watch into pieces, a follower knows the same in the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.watch import WatchSettings, _watch
from bayplan.kube.resources import PODS
from tests.builders.bodies import Json

NAMES = ("a", "b", "c")


@st.composite
def lines(draw: st.DrawFn) -> list[bytes]:
    """Lines of a watch: changes of good and of broken pods, bookmarks, empty lines."""
    written = []
    for version in range(1, draw(st.integers(1, 12)) + 1):
        kind = draw(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", ""]))
        metadata = {"name": draw(st.sampled_from(NAMES)), "namespace": "x", "resourceVersion": str(version)}
        thing: Json = {"metadata": metadata, "spec": {"priority": draw(st.sampled_from([1, 2, "high"]))}}
        if kind == "BOOKMARK":
            thing = {"metadata": {"resourceVersion": str(version)}}
        written.append(json.dumps({"type": kind, "object": thing}).encode() + b"\n" if kind else b"\n")
    return written


class _InPieces(KubeClient):
    """A watch that brings these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    @asynccontextmanager
    async def watch(self, *_: object, **__: object) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        async def pieces() -> AsyncGenerator[bytes, None]:
            for piece in self._pieces:
                yield piece

        yield pieces()


async def known_in_the_end(pieces: list[bytes]) -> tuple[dict[str, str], str]:
    """What a receiver knows of each pod, and the version to go on from."""
    known: dict[str, str] = {}
    version = "0"
    watch = _watch(_InPieces(pieces), PODS, PODS.path(), {}, "0", WatchSettings())
    async with aclosing(watch):
        async for said in watch:
            for change in said.changes:
                known[change.object.metadata.name] = f"{change.kind} {change.object.spec.priority}"
            for broken in said.broken.values():
                known[broken.name] = f"broken, deleted={broken.deleted}"
            version = said.resource_version or version
            assert not said.garbage
    return known, version


def by_hand(written: list[bytes]) -> tuple[dict[str, str], str]:
    """The same from the lines themselves."""
    known: dict[str, str] = {}
    version = "0"
    for line in written:
        if not line.strip():
            continue
        event: dict[str, Any] = json.loads(line)
        metadata = event["object"]["metadata"]
        version = metadata["resourceVersion"]
        if event["type"] != "BOOKMARK":
            priority = event["object"]["spec"]["priority"]
            good = f"{event['type']} {priority}"
            known[metadata["name"]] = good if priority != "high" else f"broken, deleted={event['type'] == 'DELETED'}"
    return known, version


@given(lines(), st.data())
def test_any_cut_of_a_watch_says_the_same(written: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(written)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(len(stream) - 1, 1)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert asyncio.run(known_in_the_end([piece for piece in pieces if piece])) == by_hand(written)
