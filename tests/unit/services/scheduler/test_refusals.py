"""Which pods count as refused by a kubelet, and that each of them counts once."""

from __future__ import annotations

from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, Counter

from bayplan.kube.client.decoding import Changes, Listed
from bayplan.kube.wire.core_v1 import Pod
from bayplan.kube.wire.meta_v1 import Change
from bayplan.services.scheduler.refusals import RefusalCount

NAME = "bayplan_kubelet_refusals_total"


def failed(uid: str, reason: str = "TopologyAffinityError", scheduler: str = "bayplan") -> Pod:
    body = {
        "metadata": {"name": uid, "namespace": "ml", "uid": uid},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main"}]},
        "status": {"phase": "Failed", "reason": reason},
    }
    return msgspec.convert(body, Pod)


def counted(*batches: Listed[Pod] | Changes[Pod]) -> dict[str, float]:
    """The counts above 0 after some news."""
    registry = CollectorRegistry()
    count = RefusalCount({"bayplan"}, Counter(NAME, "refusals", ["reason"], registry=registry))
    for news in batches:
        count.take(news)
    samples = [each for family in registry.collect() for each in family.samples if each.name == NAME]
    assert {"TopologyAffinityError", "OutOf"} <= {each.labels["reason"] for each in samples}
    return {each.labels["reason"]: each.value for each in samples if each.value}


def listed(*pods: Pod) -> Listed[Pod]:
    return Listed(list(pods), "1", [])


def changed(kind: Literal["ADDED", "MODIFIED"], *pods: Pod) -> Changes[Pod]:
    return Changes([Change(kind, pod) for pod in pods], [])


def test_pods_that_were_refused_before_do_not_count() -> None:
    assert counted(listed(failed("a"), failed("b"))) == {}


def test_a_refused_pod_counts_once_however_often_it_changes() -> None:
    assert counted(listed(), changed("ADDED", failed("a")), changed("MODIFIED", failed("a"))) == {
        "TopologyAffinityError": 1
    }


def test_a_list_after_a_gap_counts_what_is_new_in_it() -> None:
    assert counted(listed(failed("a")), listed(failed("a"), failed("b"))) == {"TopologyAffinityError": 1}


def test_reasons_about_amounts_share_a_series() -> None:
    pods = failed("a", "OutOfcpu"), failed("b", "OutOfexample.com/invented")
    assert counted(listed(), changed("ADDED", *pods)) == {"OutOf": 2}


def test_pods_that_failed_by_themselves_or_belong_to_others_do_not_count() -> None:
    pods = failed("a", "Evicted"), failed("b", ""), failed("c", scheduler="default-scheduler")
    assert counted(listed(), changed("ADDED", *pods)) == {}
