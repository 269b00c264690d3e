"""Volcano's annotations, read and written."""

from __future__ import annotations

import pytest

from bayplan.kube.volcano_annotations import (
    DECISION,
    POLICY,
    decision_annotations,
    policy_annotations,
    policy_in,
)
from tests.builders.volcano_decisions import decision_in


@pytest.mark.parametrize(
    "text, decided",
    [
        ('{"numa":{"0":{"cpu":"4000m","memory":"1024Mi"}}}', {0: {"cpu": "4", "memory": "1Gi"}}),
        ("{}", {}),
        ("{oops", {}),
        ('{"numa":{"zero":{}}}', {}),
        ('{"numa":{"0":{"cpu":"many"}}}', {}),
        ('{"numa":null}', {}),
    ],
)
def test_a_decision_that_cannot_be_read_is_none(text: str, decided: dict[int, dict[str, str]]) -> None:
    assert decision_in({DECISION: text}) == decided


def test_a_decision_is_written_as_go_writes_it() -> None:
    written = decision_annotations({2: {"memory": "1024Mi", "cpu": "2000m"}, 10: {"cpu": "1"}})
    assert written == {DECISION: '{"numa":{"10":{"cpu":"1"},"2":{"cpu":"2","memory":"1Gi"}}}'}
    assert decision_in(written) == {2: {"memory": "1Gi", "cpu": "2"}, 10: {"cpu": "1"}}


def test_nothing_decided_is_not_written() -> None:
    assert decision_annotations({}) == {}


def test_policies() -> None:
    assert policy_annotations("") == {}
    assert policy_in(policy_annotations("restricted")) == "restricted"
    assert (policy_in(None), policy_in({POLICY: "x"})) == ("", "x")
