"""JSON of any depth: what is nested too deeply fails as other bad JSON does, and is told apart from what stands beside
it.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

import msgspec
import pytest

from bayplan.kube.client.decoding import decoder_of
from bayplan.kube.json_text import decode, items_of, pruned
from bayplan.kube.resources import (
    HYPER_NODES,
    KAI_TOPOLOGIES,
    KNOWN_POD_GROUPS,
    KUBERNETES_WORKLOADS,
    KUEUE_TOPOLOGIES,
    LEASES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    POD_GROUPS,
    PODS,
    VOLCANO_JOBS,
    Resource,
)

DEEP = '{"f":' * 100_000 + "{}" + "}" * 100_000


def deep_pod(name: str) -> str:
    """A pod as a tenant can make it: the API server keeps what is written in its managed fields."""
    metadata = f'{{"name":"{name}","namespace":"ml","resourceVersion":"7","managedFields":[{{"fieldsV1":{DEEP}}}]}}'
    return f'{{"metadata":{metadata},"spec":{{"containers":[]}}}}'


def plain_pod(name: str) -> str:
    return json.dumps({"metadata": {"name": name, "namespace": "ml", "resourceVersion": "8"}, "spec": {}})


def test_text_that_is_nested_too_deeply_is_a_decode_error() -> None:
    with pytest.raises(msgspec.DecodeError, match="is nested too deeply to be read"):
        decode(DEEP)
    with pytest.raises(msgspec.DecodeError):
        decode('"\ud800"')


def test_one_pod_nested_too_deeply_is_broken_and_the_list_is_read() -> None:
    page = f'{{"metadata":{{"resourceVersion":"9"}},"items":[{plain_pod("a")},{deep_pod("b")},{plain_pod("c")}]}}'
    items, broken, head = decoder_of(PODS).page(page.encode())
    assert [pod.metadata.name for pod in items] == ["a", "c"]
    assert [(each.namespace, each.name, each.problem) for each in broken] == [
        ("ml", "b", "is nested too deeply to be read")
    ]
    assert head.resource_version == "9"


def test_one_pod_nested_too_deeply_does_not_end_a_watch() -> None:
    events = [("ADDED", plain_pod("a")), ("MODIFIED", deep_pod("b")), ("ADDED", plain_pod("c"))]
    lines = "".join(f'{{"type":"{kind}","object":{pod}}}\n' for kind, pod in events)
    said = decoder_of(PODS).lines(lines.encode())
    assert [change.object.metadata.name for change in said.changes] == ["a", "c"]
    assert list(said.broken) == [("ml", "b")]
    assert (said.garbage, said.resource_version) == ("", "8")


EVERY_RESOURCE: tuple[Resource[Any], ...] = (
    PODS,
    NODES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NUMATOPOLOGIES,
    *KNOWN_POD_GROUPS.values(),
    KUBERNETES_WORKLOADS,
    VOLCANO_JOBS,
    KUEUE_TOPOLOGIES,
    KAI_TOPOLOGIES,
    HYPER_NODES,
    LEASES,
)


@pytest.mark.parametrize("resource", EVERY_RESOURCE, ids=str)
@pytest.mark.parametrize(
    "wrong", ["", '"spec":7,', '"status":7,', '"zones":9,'], ids=["well-formed", "spec", "status", "zones"]
)
def test_a_deep_object_with_another_mistake_makes_only_itself_unreadable(resource: Resource[Any], wrong: str) -> None:
    """Around the depth at which decoding fails, each of its steps fails at another one."""
    plain = plain_pod("plain") if resource is PODS else '{"metadata":{"name":"plain","resourceVersion":"8"}}'
    for depth in (50, 300, *range(900, 1000, 7), 1500):
        nested = '{"a":' * depth + "1" + "}" * depth
        metadata = f'{{"name":"x","namespace":"n","resourceVersion":"7","managedFields":[{{"fieldsV1":{nested}}}]}}'
        deep = f'{{"metadata":{metadata},{wrong}"status":{{"conditions":{nested}}}}}'
        items, broken, _ = decoder_of(resource).page(f'{{"items":[{deep},{plain}]}}'.encode())
        assert len(items) + len(broken) == 2
        lines = f'{{"type":"ADDED","object":{plain}}}\n{{"type":"MODIFIED","object":{deep}}}\n'
        said = decoder_of(resource).lines(lines.encode())
        assert not said.garbage
        assert len(said.changes) + len(said.broken) == 2
        assert said.resource_version == "7"


def test_so_is_a_pod_group_in_a_field_that_is_kept_as_it_is() -> None:
    group = f'{{"metadata":{{"name":"g","namespace":"ml"}},"spec":{{"size":1,"pod":{{"spec":{DEEP}}}}}}}'
    items, broken, _ = decoder_of(POD_GROUPS).page(f'{{"items":[{group}]}}'.encode())
    assert (items, [each.name for each in broken]) == ([], ["g"])


def test_a_list_that_breaks_off_is_not_taken_for_a_shorter_one() -> None:
    with pytest.raises(msgspec.DecodeError):
        decoder_of(PODS).page(f'{{"items":[{deep_pod("a")},{{"metadata":'.encode())


def anything(draw: random.Random, depth: int) -> Any:
    """Random JSON with brackets and quotes in its strings."""
    if depth == 0 or draw.random() < 0.3:
        return draw.choice([1, -2.5, None, True, 'a"]}\\', "", "[{", "ü"])
    if draw.random() < 0.5:
        return [anything(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(["items", "b", 'c"{']): anything(draw, depth - 1) for _ in range(draw.randint(0, 3))}


def cut(value: Any, depth: int) -> Any:
    if isinstance(value, (dict, list)) and depth == 0:
        return None
    if isinstance(value, dict):
        return {key: cut(each, depth - 1) for key, each in value.items()}
    return [cut(each, depth - 1) for each in value] if isinstance(value, list) else value


def test_the_scan_sees_what_a_parser_sees() -> None:
    draw = random.Random(11)
    for _ in range(2000):
        objects = [{"x": anything(draw, 6)} for _ in range(draw.randint(0, 4))]
        page = json.dumps({"kind": "items", "metadata": anything(draw, 3), "items": objects}).encode()
        items, rest = items_of(page)
        assert [json.loads(item) for item in items] == objects
        assert json.loads(rest) == {**json.loads(page), "items": []}
        depth = draw.randint(1, 5)
        assert json.loads(pruned(page, depth)) == cut(json.loads(page), depth)


MANY_BRACKETS = "[" + "[]," * 400_000 + "[]]"


@pytest.mark.parametrize(
    "resource, fields",
    [
        (PODS, f'"name":"a","resourceVersion":"7","managedFields":[{{"a":{MANY_BRACKETS},"b":{DEEP}}}]'),
        (
            POD_GROUPS,
            f'"labels":{{"resourceVersion":"5"}},"name":"a","resourceVersion":"7"}},"spec":{{"pod":{{"a":{MANY_BRACKETS},"b":{DEEP}}}',
        ),
    ],
    ids=["managed fields", "a field that is kept"],
)
def test_half_a_million_brackets_beside_a_deep_field_cost_a_moment(resource: Resource[Any], fields: str) -> None:
    """A look at each of them took half a second of the event loop, at every change."""
    line = f'{{"type":"ADDED","object":{{"kind":"x","metadata":{{{fields}}}}}}}\n'.encode()
    began = time.thread_time()
    said = decoder_of(resource).lines(line)
    assert time.thread_time() - began < 0.2
    assert (said.resource_version, [each.name for each in said.broken.values()]) == ("7", ["a"])


@pytest.mark.parametrize(
    "fields",
    [
        '"labels":{"resourceVersion":"5"},"name":"a","resourceVersion":"7"',
        '"annotations":{"metadata":"resourceVersion"},"name":"a","resourceVersion":"7"',
        '"finalizers":["metadata","resourceVersion","x"],"name":"a","resourceVersion":"7"',
        '"selfLink":"resourceVersion","name":"a","resourceVersion":"7"',
        '"name":"a","resourceVersion":7',
        '"name":"a"',
    ],
)
def test_the_head_of_an_object_ends_with_its_own_resource_version(fields: str) -> None:
    text = f'{{"kind":"metadata","apiVersion":"resourceVersion","metadata":{{{fields}}},"spec":{{"name":"b"}}}}'
    cut_short = json.loads(pruned(text.encode(), head_at=1))
    assert cut_short["metadata"] == json.loads(text)["metadata"]
    assert ("spec" in cut_short) == ('"7"' not in text)
