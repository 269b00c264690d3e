"""Members and PodGroups of every dialect, in any order of arrival."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.dialects.members import Incomplete
from bayplan.dialects.registry import shown
from bayplan.dispatch.roster import GangRoster
from bayplan.gangs.model import Gang
from bayplan.kube.resources import KAI_POD_GROUPS, KNOWN_POD_GROUPS, KUBERNETES_POD_GROUPS, POD_GROUPS, Resource
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.gangs import group_object, member

NAMING = {
    "": {"labels": {"bayplan.io/pod-group": "train"}},
    "kai": {"annotations": {"pod-group-name": "train"}},
    "volcano": {"annotations": {"scheduling.k8s.io/group-name": "train"}},
    "coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
    "kueue": {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}},
}


def pod(name: str, *, spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    return member(name, **metadata, **(spec or {}))


def group(resource: Resource[Any], **spec: Any) -> Any:
    return group_object(resource.type, spec, "train")


@pytest.mark.parametrize("dialect, naming", NAMING.items())
def test_a_pod_names_its_gang_in_any_dialect(dialect: str, naming: dict[str, Any]) -> None:
    assert GangRoster().set_member(pod("a", **naming)) == f"{dialect} ml/train".strip()


def test_our_own_label_comes_first() -> None:
    both = {**NAMING["kai"], **NAMING[""]}
    assert GangRoster().set_member(pod("a", **both)) == "ml/train"


def test_pods_and_their_pod_group_arrive_in_any_order() -> None:
    roster = GangRoster()
    key = roster.set_member(pod("a", spec={"schedulingGroup": {"podGroupName": "train"}}))
    waits = roster.gang(key)
    assert isinstance(waits, Incomplete)
    assert waits.reason == "waits for PodGroup ml/train (kubernetes), which does not exist"
    assert roster.set_group(group(KUBERNETES_POD_GROUPS, schedulingPolicy={"gang": {"minCount": 1}})) == {key}
    assert isinstance(roster.gang(key), Gang)
    roster.remove_group(key)
    assert isinstance(roster.gang(key), Incomplete)


def test_a_kind_that_is_not_served_is_part_of_the_reason() -> None:
    roster = GangRoster()
    key = roster.set_member(pod("a", spec={"schedulingGroup": {"podGroupName": "train"}}))
    roster.set_served("kubernetes", served=False)
    waits = roster.gang(key)
    assert isinstance(waits, Incomplete)
    assert waits.reason.endswith("does not exist; the API server does not serve podgroups.scheduling.k8s.io")
    roster.set_served("kubernetes", served=True)
    waits = roster.gang(key)
    assert isinstance(waits, Incomplete)
    assert waits.reason.endswith("does not exist")


def test_groups_of_one_name_in_two_dialects_are_two_gangs() -> None:
    roster = GangRoster()
    roster.set_group(group(POD_GROUPS, size=1))
    roster.set_group(group(KAI_POD_GROUPS, minMember=2))
    roster.set_member(pod("ours", **NAMING[""]))
    roster.set_member(pod("theirs", **NAMING["kai"]))
    ours, theirs = roster.gang("ml/train"), roster.gang("kai ml/train")
    assert isinstance(ours, Gang)
    assert [each.metadata.name for each in ours.pods] == ["ours"]
    assert isinstance(theirs, Incomplete)
    assert theirs.reason == "waits for pods: 1 of 2 have arrived"


def test_pods_make_a_gang_where_the_dialect_has_no_object() -> None:
    roster = GangRoster()
    total = {"annotations": {"kueue.x-k8s.io/pod-group-total-count": "1"}}
    key = roster.set_member(pod("a", **NAMING["kueue"], **total))
    assert isinstance(roster.gang(key), Gang)


def test_a_pod_can_change_its_gang() -> None:
    roster = GangRoster()
    roster.set_member(pod("a", **NAMING["kai"]))
    assert roster.set_member(pod("a", **NAMING[""])) == "ml/train"
    assert list(roster.names()) == ["ml/train"]
    assert roster.remove_member("ml/a") == "ml/train"
    assert not list(roster.names())


def test_every_group_object_has_a_key_that_can_be_shown() -> None:
    roster = GangRoster()
    keys = [key for resource in KNOWN_POD_GROUPS.values() for key in roster.set_group(group(resource))]
    assert [shown(key) for key in keys] == [
        "ml/train",
        "ml/train (kai)",
        "ml/train (volcano)",
        "ml/train (coscheduling)",
        "ml/train (kubernetes)",
        "ml/train (kubernetes-composite)",
    ]


def test_an_incomplete_gang_names_its_pod_of_another_scheduler() -> None:
    roster = GangRoster()
    (key,) = roster.set_group(group(POD_GROUPS, size=2))
    roster.set_member(pod("a", **NAMING[""]))
    stranger = pod("b", spec={"schedulerName": "another"}, **NAMING[""])
    assert roster.set_stranger(stranger) == key
    waits = roster.gang(key)
    assert isinstance(waits, Incomplete)
    assert waits.reason == (
        'waits for pods: 1 of 2 have arrived; the schedulerName of pod ml/b ("another") is another one'
    )
    roster.set_member(pod("b", node="n1", **NAMING[""]))
    assert isinstance(roster.gang(key), Gang)
    roster.set_stranger(stranger)
    assert roster.remove_member("ml/b") == key


def test_a_member_that_moved_to_another_scheduler_is_removed_completely() -> None:
    roster = GangRoster()
    roster.set_member(pod("a", **NAMING[""]))
    assert roster.set_stranger(pod("a", **NAMING[""])) == "ml/train"
    assert roster.waiting("ml/train") == []
    assert roster.remove_member("ml/a") == "ml/train"
    assert list(roster.names()) == []


def test_a_gang_name_from_a_dump_can_contain_a_space() -> None:
    roster = GangRoster()
    key = roster.set_member(pod("a", labels={"bayplan.io/pod-group": "my train"}))
    assert isinstance(roster.gang(key), Incomplete)
