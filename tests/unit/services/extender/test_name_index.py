"""Names of a whole list at once: the rows and answers that looking up each name would give."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.services.extender.name_index import KnownNames, NameIndex
from bayplan.services.extender.name_list import NameList
from tests.builders.objects import node

NAMES = (
    "n1",
    "n2",
    "node-17",
    "exactly8",
    "ninechars",
    "sixteen-letters-",
    "ip-10-0-3-17.eu-west-1.compute.internal",
    "ü",
)


def written(names: Sequence[object]) -> bytes:
    """A list as Go writes it."""
    return json.dumps(names, separators=(",", ":"), ensure_ascii=False).encode()


def known(*names: str) -> tuple[ClusterState, KnownNames]:
    state = ClusterState()
    for name in names:
        state.set_node(node(name))
    found = NameIndex(state).known()
    assert found is not None
    return state, found


def rows(index: KnownNames, *names: str) -> list[int] | None:
    listed = NameList.of(written(names))
    assert listed is not None
    found = index.rows_of(listed)
    return None if found is None else np.flatnonzero(found).tolist()


@pytest.mark.parametrize("asked", [NAMES, NAMES[::-1], NAMES[:1], NAMES[3:6], (NAMES[2], NAMES[2])])
def test_rows_are_found_in_any_order(asked: tuple[str, ...]) -> None:
    state, index = known(*NAMES)
    assert rows(index, *asked) == sorted({state.rows[name] for name in asked})


@pytest.mark.parametrize(
    "name", ["", "n", "n3", "1n", "node-170", "ode-17", "exactly9", "ninecharsninechars", "xninechars", "x" * 300]
)
def test_an_unknown_name_is_not_taken_for_another(name: str) -> None:
    _, index = known(*NAMES)
    assert rows(index, "n1", name) is None


def test_many_names_that_share_slots_are_told_apart() -> None:
    names = [f"node-{number}" for number in range(3000)]
    state, index = known(*names)
    shuffled = np.random.default_rng(1).permutation(names).tolist()
    assert rows(index, *shuffled) == sorted(state.rows.values())
    assert rows(index, *shuffled[:1000]) == sorted(state.rows[name] for name in shuffled[:1000])


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"null",
        b'"a"',
        b'["a", "b"]',
        b'["a",1,"b"]',
        b'["a",["b"]]',
        b'[["a"],["b"]]',
        b'[{"a":"b"}]',
        b'["a":"b"]',
        b'["\\u0061"]',
        b'["a\\"b"]',
        b'["a"',
    ],
)
def test_lists_in_another_form_are_left_to_the_decoder(text: bytes) -> None:
    assert NameList.of(text) is None


def test_names_that_need_escapes_are_left_to_the_decoder() -> None:
    state = ClusterState()
    state.set_node(node('a"b'))
    assert NameIndex(state).known() is None


@pytest.mark.parametrize("asked", [NAMES, NAMES[2:5]])
def test_answers_name_each_row_once(asked: tuple[str, ...]) -> None:
    state, index = known(*NAMES)
    wanted = np.array([name in asked for name in state.names])
    scores = np.arange(len(NAMES)) + 3
    assert json.loads(index.listed(wanted)) == sorted(asked, key=state.rows.__getitem__)
    found = {each["Host"]: each["Score"] for each in json.loads(index.scored(wanted, scores))}
    assert found == {name: state.rows[name] + 3 for name in asked}


def test_nodes_that_come_and_go_are_followed() -> None:
    state = ClusterState()
    index = NameIndex(state)
    assert index.known() is None
    for name in ("n1", "n2"):
        state.set_node(node(name))
    first = index.known()
    assert first is not None
    state.set_node(node("n2", {"cpu": 4}))
    assert index.known() is first
    state.remove_node("n1")
    state.set_node(node("n3"))
    second = index.known()
    assert second is not None
    assert rows(second, "n3", "n2") == sorted((state.rows["n3"], state.rows["n2"]))
    assert rows(second, "n1") is None
