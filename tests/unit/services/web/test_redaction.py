"""What viewers see of namespaces that they must not read."""

from __future__ import annotations

import json

import pytest

from bayplan.services.web.answers import Names
from bayplan.services.web.redaction import redacted

NAMES = Names(
    frozenset({"telco", "ml"}),
    {
        "upf-0": frozenset({"telco"}),
        "web": frozenset({"telco", "ml"}),
        "amf": frozenset({"telco"}),
        "train": frozenset({"ml"}),
    },
)
ONLY_ML = frozenset({"ml"})


@pytest.mark.parametrize(
    "text,seen",
    [
        ("telco/upf-0 is Pending", "hidden/pod-1 is Pending"),
        ("evict telco/upf-0, telco/amf, telco/upf-0.", "evict hidden/pod-1, hidden/pod-2, hidden/pod-1"),
        ("pod/upf-0", "hidden-1"),
        ("Deployment telco/no-pods-yet", "Deployment hidden/pod-1"),
        ("namespace telco", "namespace hidden"),
        ("ml/train and ml/web", "ml/train and ml/web"),
        ("web", "web"),
        ("nvidia.com/gpu 8 on node b1-r1", "nvidia.com/gpu 8 on node b1-r1"),
    ],
)
def test_names_of_hidden_namespaces_do_not_appear_in_any_text(text: str, seen: str) -> None:
    assert redacted({"answer": text}, NAMES, ONLY_ML) == {"answer": seen}


def test_amounts_stay_and_details_of_hidden_pods_go() -> None:
    pods = [
        {"pod": "telco/upf-0", "containers": ["secret"], "amounts": {"cpu": "8"}},
        {"pod": "ml/train", "containers": ["main"], "amounts": {"cpu": "2"}},
    ]
    assert redacted({"pods": pods}, NAMES, ONLY_ML)["pods"] == [
        {"pod": "hidden/pod-1", "containers": [], "amounts": {"cpu": "8"}},
        {"pod": "ml/train", "containers": ["main"], "amounts": {"cpu": "2"}},
    ]


def test_causes_of_hidden_pods_are_not_told_in_their_words() -> None:
    causes = [
        {"cause": 'annotation "secret" is wrong', "count": 1, "pods": ["telco/upf-0"]},
        {"cause": "no node has enough cpu", "count": 2, "pods": ["ml/train", "telco/amf"]},
    ]
    assert redacted({"causes": causes}, NAMES, ONLY_ML)["causes"] == [
        {"cause": "in a namespace that you must not read", "count": 1, "pods": ["hidden/pod-1"]},
        {"cause": "no node has enough cpu", "count": 2, "pods": ["ml/train", "hidden/pod-2"]},
    ]


def test_search_results_of_hidden_namespaces_are_dropped() -> None:
    items = [{"type": "pod", "namespace": "telco", "name": "upf-0"}, {"type": "node", "namespace": None, "name": "n1"}]
    assert redacted({"items": items}, NAMES, ONLY_ML)["items"] == items[1:]


def test_keys_are_redacted_too() -> None:
    assert "upf-0" not in json.dumps(redacted({"preemption": {"telco/upf-0": {}}}, NAMES, ONLY_ML))


def test_viewers_of_everything_get_the_document_itself() -> None:
    document = {"answer": "telco/upf-0"}
    assert redacted(document, NAMES, None) is document


def test_words_of_the_document_stay_whatever_pods_are_called() -> None:
    names = Names(frozenset({"telco"}), {"items": frozenset({"telco"}), "free": frozenset({"telco"})})
    document = {"items": [{"free": {"cpu": "8"}}], "preemption": {"telco/items": {}}}
    assert redacted(document, names, frozenset()) == {
        "items": [{"free": {"cpu": "8"}}],
        "preemption": {"hidden/pod-1": {}},
    }
