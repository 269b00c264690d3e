"""Ranks that cannot be meant are told on the pod."""

from __future__ import annotations

from bayplan.dialects.given_ranks import GivenRanks
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member


def ranked(name: str, rank: str, group: str = "") -> Pod:
    return member(name, {"bayplan.io/rank": rank, **({"bayplan.io/group": group} if group else {})})


def said(ranks: GivenRanks, pod: Pod, gang: str = "ml/train") -> list[str]:
    return [str(problem) for problem in ranks.came(f"ml/{pod.metadata.name}", gang, pod)]


def test_a_rank_that_is_no_number() -> None:
    assert said(GivenRanks(), ranked("a", "abc")) == [
        (
            'Pod ml/a: metadata.labels["bayplan.io/rank"]: "abc" is no rank (expected a number such as 0):'
            " the pod follows those that have one"
        )
    ]


def test_a_rank_that_another_member_has() -> None:
    ranks = GivenRanks()
    assert said(ranks, ranked("a", "0")) == []
    assert said(ranks, ranked("a", "0")) == []
    assert said(ranks, ranked("b", "0")) == [
        'Pod ml/b: metadata.labels["bayplan.io/rank"]: "0" is the rank of pod ml/a, too: their names decide'
    ]


def test_groups_and_gangs_count_for_themselves() -> None:
    ranks = GivenRanks()
    assert said(ranks, ranked("a", "0", "left")) == []
    assert said(ranks, ranked("b", "0", "right")) == []
    assert said(ranks, ranked("c", "0"), "ml/other") == []
    assert said(ranks, ranked("alone", "x"), "") == []


def test_a_pod_that_is_gone_has_no_rank_and_no_problem() -> None:
    ranks = GivenRanks()
    said(ranks, ranked("a", "0"))
    problems = ranks.came("ml/b", "ml/train", ranked("b", "0"))
    assert ranks.went("ml/b") == problems
    assert ranks.went("ml/a") == []
    assert said(ranks, ranked("c", "0")) == []
