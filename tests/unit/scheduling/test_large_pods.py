"""One pod that says very much: what it costs others is bounded, in deciding and in being taken over."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from bayplan.cluster.pods.pod_class import is_large
from bayplan.config.configuration import configuration_of
from bayplan.dispatch.actions import Action, Bind, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.objects import node

NODES = 2000
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# CPU seconds. Before, the cases took between 1 and 15.
MOST = 0.9


def pod_with(name: str = "large", **spec: Any) -> Pod:
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "tenant", "uid": name, "labels": {"app": "x"}},
            "spec": {"schedulerName": "bayplan", "containers": [main], **spec},
        },
        Pod,
    )


def by_label(operator: str, values: int) -> dict[str, Any]:
    expression = {
        "key": "kubernetes.io/hostname",
        "operator": operator,
        "values": [f"x{number}" for number in range(values)],
    }
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def by_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [term]} for term in terms]}}}


def by_one_term(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}}}


def pod_terms(number: int) -> list[dict[str, Any]]:
    return [{"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": f"a{each}"}}} for each in range(number)]


def wishes(number: int) -> dict[str, Any]:
    preferred = [
        {"weight": 1, "preference": {"matchExpressions": [{"key": f"k{each}", "operator": "Exists"}]}}
        for each in range(number)
    ]
    return {"nodeAffinity": {PREFERRED: preferred}}


def spread(number: int) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"k{each}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"a{each}"}},
        }
        for each in range(number)
    ]


def container(name: str, **amounts: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


LARGE: dict[str, tuple[dict[str, Any], type[Action]]] = {
    "NotIn with 100,000 values": ({"affinity": by_label("NotIn", 100_000)}, Bind),
    "In with 100,000 values": ({"affinity": by_label("In", 100_000)}, Unschedulable),
    "10,000 resource names": (
        {"containers": [container("main", **{f"example.com/r{each}": "1" for each in range(10_000)})]},
        Unschedulable,
    ),
    "10,000 affinity terms": ({"affinity": {"podAffinity": {REQUIRED: pod_terms(10_000)}}}, Unschedulable),
    "10,000 anti-affinity terms": ({"affinity": {"podAntiAffinity": {REQUIRED: pod_terms(10_000)}}}, Unschedulable),
    "1,000 anti-affinity terms": ({"affinity": {"podAntiAffinity": {REQUIRED: pod_terms(1_000)}}}, Bind),
    "3,000 containers": (
        {"containers": [container(f"c{each}", cpu="1m", memory="1Mi") for each in range(3_000)]},
        Unschedulable,
    ),
    "3,000 selector terms": (
        {"affinity": by_terms(*({"key": f"k{each}", "operator": "In", "values": ["v"]} for each in range(3_000)))},
        Unschedulable,
    ),
    "3,000 comparisons": (
        {"affinity": by_terms(*({"key": "number", "operator": "Gt", "values": ["7000"]} for _ in range(3_000)))},
        Unschedulable,
    ),
    "10,000 expressions": (
        {"affinity": by_one_term(*({"key": f"k{each}", "operator": "DoesNotExist"} for each in range(10_000)))},
        Bind,
    ),
    "3,000 wishes": ({"affinity": wishes(3_000)}, Bind),
    "3,000 spread constraints": ({"topologySpreadConstraints": spread(3_000)}, Unschedulable),
    "8,000 disks": (
        {"volumes": [{"name": f"v{each}", "gcePersistentDisk": {"pdName": f"d{each}"}} for each in range(8_000)]},
        Unschedulable,
    ),
    "8,000 claims": (
        {
            "volumes": [
                {"name": f"v{each}", "persistentVolumeClaim": {"claimName": f"c{each}"}} for each in range(8_000)
            ]
        },
        Unschedulable,
    ),
    "8,000 volumes that every node has": (
        {"volumes": [{"name": f"v{each}", "emptyDir": {}} for each in range(8_000)]},
        Bind,
    ),
    "a node selector of 10,000 labels": ({"nodeSelector": {f"k{each}": "v" for each in range(10_000)}}, Unschedulable),
}


@pytest.fixture(scope="module")
def dispatcher() -> Dispatcher:
    found = Dispatcher(configuration_of({}).profiles)
    for number in range(NODES):
        labels = {"kubernetes.io/hostname": f"n{number}", "rack": f"r{number // 20}", "number": str(number)}
        found.state.set_node(node(f"n{number}", {"cpu": "64", "memory": "256Gi", "pods": "110"}, labels=labels))
    return found


@pytest.mark.parametrize("spec, outcome", LARGE.values(), ids=LARGE)
def test_a_single_pod_does_not_stall_the_scheduler(
    dispatcher: Dispatcher, spec: dict[str, Any], outcome: type[Action]
) -> None:
    pod = pod_with(**spec)
    assert is_large(pod)  # so that it is decided about beside the loop
    began = time.process_time()
    dispatcher.set_pod(pod, 0.0)
    assert dispatcher.next_may_be_long(0.0)
    todo = dispatcher.decide(0.0)
    took = time.process_time() - began
    dispatcher.remove_pod("tenant/large", 0.0)
    assert isinstance(todo, outcome)
    assert took < MOST


def test_a_pod_with_too_many_terms_is_remarked_and_its_terms_do_not_count(
    dispatcher: Dispatcher,
) -> None:
    pod = pod_with(affinity={"podAntiAffinity": {REQUIRED: pod_terms(1_001)}})
    dispatcher.set_pod(pod, 0.0)
    todo = dispatcher.decide(0.0)
    assert isinstance(todo, Unschedulable)
    assert todo.reason == (
        "Pod tenant/large: spec.affinity: 1001 terms about other pods are too many: at most 1000 are read"
    )
    dispatcher.remove_pod("tenant/large", 0.0)
    on_node = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n1"))
    dispatcher.set_pod(on_node, 0.0)
    assert "tenant/large" in dispatcher.state.pods
    assert any("its terms about other pods are ignored" in problem.text for problem in dispatcher.state.remarks)
    dispatcher.remove_pod("tenant/large", 0.0)


@pytest.mark.parametrize("number, told", [(256, ""), (257, "257 claims and disks are too many")])
def test_claims_and_disks_are_counted_and_other_volumes_are_not(dispatcher: Dispatcher, number: int, told: str) -> None:
    disks = [{"name": f"v{each}", "gcePersistentDisk": {"pdName": f"d{each}"}} for each in range(number)]
    others = [{"name": f"o{each}", "emptyDir": {}} for each in range(300)]
    dispatcher.set_pod(pod_with(volumes=[*disks, *others]), 0.0)
    todo = dispatcher.decide(0.0)
    dispatcher.remove_pod("tenant/large", 0.0)
    assert isinstance(todo, Unschedulable if told else Bind)
    assert told in getattr(todo, "reason", "")


def test_an_ordinary_pod_is_not_large() -> None:
    assert not is_large(pod_with(containers=[container(f"c{each}", cpu="1", memory="1Gi") for each in range(20)]))
