"""Ranks that cannot be meant are told on the pod."""

from __future__ import annotations

from bayplan.dialects.given_ranks import GivenRanks, rank_remarks
from bayplan.gangs.model import Gang, Group
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import member

KUEUE = "kueue.x-k8s.io/"


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


def indexed(name: str, index: str, role: str = "") -> Pod:
    labels = {f"{KUEUE}pod-group-name": "train", f"{KUEUE}pod-group-pod-index": index, f"{KUEUE}role-hash": role}
    return member(name, labels)


def test_indices_of_plain_pods_are_ranks_too_and_count_by_pod_set() -> None:
    ranks = GivenRanks()
    at = f'metadata.labels["{KUEUE}pod-group-pod-index"]'
    assert said(ranks, indexed("a", "x")) == [
        f'Pod ml/a: {at}: "x" is no index (expected a number such as 0): the pod follows those that have one'
    ]
    assert said(ranks, indexed("b", "1")) == []
    assert said(ranks, indexed("c", "1", role="other")) == []
    assert said(ranks, indexed("d", "1")) == [f'Pod ml/d: {at}: "1" is the index of pod ml/b, too: their names decide']


def test_a_gang_says_what_is_wrong_with_the_ranks_of_its_groups() -> None:
    groups = (Group("x", (ranked("a", "0"), ranked("b", "0"))), Group("y", (ranked("c", "0"),)))
    told = [str(remark) for remark in rank_remarks(Gang("ml/train", Group(groups=groups)))]
    assert told == [
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
