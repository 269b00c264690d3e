"""Label selectors as Kubernetes reads them, as values that are equal if they demand the same."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.pods.label_selectors import EVERYTHING, NOTHING, AnchoredIndex, Requirement, Selector, selector_of
from bayplan.kube.wire.core_v1 import LabelSelector
from tests.builders.bodies import Json


def selector(written: Json | None) -> Selector:
    return selector_of(None if written is None else msgspec.convert(written, LabelSelector))


def demand(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "written, labels, matches",
    [
        (None, {}, False),
        ({}, {}, True),
        ({}, {"app": "web"}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "web", "tier": "1"}, True),
        ({"matchLabels": {"app": "web", "tier": "2"}}, {"app": "web", "tier": "1"}, False),
        (demand("app", "In", "web", "db"), {"app": "db"}, True),
        (demand("app", "In", "web"), {}, False),
        (demand("app", "NotIn", "web"), {"app": "web"}, False),
        (demand("app", "NotIn", "web"), {}, True),
        (demand("app", "Exists"), {"app": ""}, True),
        (demand("app", "Exists"), {}, False),
        (demand("app", "DoesNotExist"), {}, True),
        (demand("app", "DoesNotExist"), {"app": ""}, False),
        ({"matchLabels": {"app": "web"}, **demand("tier", "Exists")}, {"app": "web"}, False),
    ],
)
def test_who_is_meant(written: Json | None, labels: dict[str, str], *, matches: bool) -> None:
    assert selector(written).matches(labels) is matches


def test_the_order_in_which_demands_are_written_makes_no_difference() -> None:
    one = selector({"matchLabels": {"a": "1"}, **demand("b", "In", "3", "2", "3")})
    other = selector(
        {"matchExpressions": [*demand("b", "In", "2", "3")["matchExpressions"]], "matchLabels": {"a": "1"}}
    )
    assert one == other
    assert hash(one) == hash(other)


def test_further_demands() -> None:
    web = Requirement("app", "In", ("web",))
    assert EVERYTHING.narrowed([web]).matches({"app": "web"})
    assert not EVERYTHING.narrowed([web]).matches({})
    assert NOTHING.narrowed([web]) == NOTHING


def test_entries_are_found_by_labels_that_their_selectors_ask_for() -> None:
    index: AnchoredIndex[str] = AnchoredIndex()
    written = {"web": demand("app", "In", "web", "www"), "not web": demand("app", "NotIn", "web"), "nothing": None}
    for name, each in written.items():
        index.add(name, selector(each).anchors())
    assert list(index.for_labels({"app": "www", "tier": "1"})) == ["web", "not web"]
    assert list(index.for_labels({"app": "db"})) == ["not web"]
    for name, each in written.items():
        index.discard(name, selector(each).anchors())
    assert not index
