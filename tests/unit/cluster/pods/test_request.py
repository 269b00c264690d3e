"""What a pod asks for: its class of service, its sum, and which containers own CPUs."""

from __future__ import annotations

import pytest

from bayplan.cluster.pods.request import PodRequest, QoS, Role, effective_request
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.objects import GI, GPU, Amounts, container, pod, simple_pod

BOTH: Amounts = {"cpu": 2, "memory": "1Gi"}


def asked(waiting: Pod) -> PodRequest:
    return effective_request(waiting)


@pytest.mark.parametrize(
    "waiting, qos",
    [
        pytest.param(pod(container()), QoS.BEST_EFFORT, id="asks for nothing"),
        pytest.param(simple_pod(BOTH), QoS.GUARANTEED, id="limits equal requests"),
        pytest.param(pod(container(limits=BOTH)), QoS.GUARANTEED, id="limits alone: requests are defaulted from them"),
        pytest.param(pod(container(requests=BOTH)), QoS.BURSTABLE, id="requests alone"),
        pytest.param(simple_pod({"cpu": 2}), QoS.BURSTABLE, id="no memory limit"),
        pytest.param(
            pod(container(requests={"cpu": 1, "memory": "1Gi"}, limits=BOTH)), QoS.BURSTABLE, id="limit above request"
        ),
        pytest.param(pod(container(BOTH, "a"), container(name="b")), QoS.BURSTABLE, id="one container without limits"),
        pytest.param(pod(container(BOTH), init=[container(name="i")]), QoS.BURSTABLE, id="an init container without"),
        pytest.param(simple_pod({GPU: 1}), QoS.BEST_EFFORT, id="devices do not count"),
        pytest.param(simple_pod({"cpu": 0, "memory": 0}), QoS.BEST_EFFORT, id="zeroes do not count"),
        pytest.param(simple_pod({"cpu": "500m", "memory": "1Gi"}), QoS.GUARANTEED, id="half a CPU is as good"),
        pytest.param(
            pod(container(), resources={"limits": dict(BOTH)}), QoS.GUARANTEED, id="the pod's own limits decide"
        ),
        pytest.param(
            pod(container(BOTH), resources={"requests": {"cpu": 4}}), QoS.BURSTABLE, id="the pod's own requests decide"
        ),
        pytest.param(
            pod(container(BOTH), status={"qosClass": "Burstable"}), QoS.BURSTABLE, id="what the API server says stands"
        ),
        pytest.param(
            pod(container(BOTH), status={"qosClass": "Gold"}), QoS.GUARANTEED, id="unless it is no class at all"
        ),
    ],
)
def test_quality_of_service(waiting: Pod, qos: QoS) -> None:
    assert asked(waiting).qos is qos


def init(cpu: int, name: str = "init") -> Json:
    return container({"cpu": cpu}, name)


def sidecar(cpu: int, name: str = "sidecar") -> Json:
    return container({"cpu": cpu}, name, sidecar=True)


@pytest.mark.parametrize(
    "waiting, cpus",
    [
        pytest.param(pod(container({"cpu": 2}, "a"), container({"cpu": 3}, "b")), 5, id="applications run together"),
        pytest.param(pod(container({"cpu": 2}), init=[init(1)]), 2, id="a small init container hides behind them"),
        pytest.param(pod(container({"cpu": 2}), init=[init(5, "i"), init(4, "j")]), 5, id="the largest init container"),
        pytest.param(pod(container({"cpu": 2}), init=[sidecar(3)]), 5, id="a sidecar stays"),
        pytest.param(pod(container({"cpu": 2}), init=[sidecar(3), init(4)]), 7, id="init beside an earlier sidecar"),
        pytest.param(pod(container({"cpu": 2}), init=[init(4), sidecar(3)]), 5, id="init before a sidecar is alone"),
        pytest.param(pod(container({"cpu": 2}), overhead={"cpu": "250m"}), 2.25, id="overhead of the runtime"),
        pytest.param(pod(container({"cpu": 2}), resources={"requests": {"cpu": 6}}), 6, id="the pod's own request"),
        pytest.param(pod(container(), resources={"limits": {"cpu": 6}}), 6, id="the pod's own limit without requests"),
        pytest.param(
            pod(container({"cpu": 2}), resources={"limits": {"cpu": 6}}), 2, id="else what the containers request"
        ),
    ],
)
def test_what_the_node_must_have_in_sum(waiting: Pod, cpus: float) -> None:
    assert asked(waiting).total["cpu"] == cpus * 1000


def test_scheduler_plugins_counts_a_sidecar_like_any_init_container() -> None:
    assert asked(pod(container({"cpu": 2}), init=[sidecar(3)])).largest_or_sum == {"cpu": 3000}


def test_containers_come_in_the_order_in_which_the_kubelet_handles_them() -> None:
    request = asked(pod(container(name="app"), init=[init(1, "first"), sidecar(1, "second"), init(1, "third")]))
    assert [(each.name, each.role) for each in request.containers] == [
        ("first", Role.INIT),
        ("second", Role.SIDECAR),
        ("third", Role.INIT),
        ("app", Role.APP),
    ]


def test_containers_without_a_name_of_their_own_are_told_apart_by_position() -> None:
    request = asked(pod(container(name=""), container(name="x"), container(name="x"), init=[container(name="")]))
    assert [each.name for each in request.containers] == ["initContainers[0]", "containers[0]", "x", "containers[2]"]


@pytest.mark.parametrize(
    "waiting, cpus",
    [
        pytest.param(simple_pod(BOTH), 2, id="whole CPUs of a Guaranteed pod"),
        pytest.param(simple_pod({"cpu": "2000m", "memory": "1Gi"}), 2, id="2000m are whole CPUs"),
        pytest.param(simple_pod({"cpu": "1500m", "memory": "1Gi"}), 0, id="a fraction shares the pool"),
        pytest.param(pod(container(requests=BOTH)), 0, id="Burstable pods share"),
        pytest.param(pod(container(BOTH), resources={"limits": dict(BOTH)}), 0, id="pod-level resources are skipped"),
    ],
)
def test_exclusive_cpus(waiting: Pod, cpus: int) -> None:
    request = asked(waiting)
    assert request.exclusive_cpus(request.containers[0]) == cpus


def test_a_missing_request_is_the_limit() -> None:
    (main,) = asked(pod(container(requests={"cpu": 1}, limits={"cpu": 2, "memory": "1Gi"}))).containers
    assert main.requests == {"cpu": 1000, "memory": GI}


def test_amounts_round_up_to_the_unit_of_their_column() -> None:
    (main,) = asked(simple_pod({"cpu": "100u", "memory": "1500m", GPU: "0.1"})).containers
    assert main.requests == {"cpu": 1, "memory": 2, GPU: 1}


@pytest.mark.parametrize(
    "waiting, message",
    [
        (simple_pod({"cpu": "-1"}), 'spec.containers[0].resources.limits.cpu: "-1" is negative: must be 0 or more'),
        (
            pod(container(requests={"memory": "1Gb"})),
            'spec.containers[0].resources.requests.memory: invalid quantity "1Gb"',
        ),
        (
            pod(container(), init=[container(requests={GPU: 2**53})]),
            f'spec.initContainers[0].resources.requests["{GPU}"]: "{2**53}" is too large',
        ),
        (pod(overhead={"cpu": "x"}), 'spec.overhead.cpu: invalid quantity "x"'),
        (pod(resources={"limits": {"cpu": -1}}), 'spec.resources.limits.cpu: "-1" is negative'),
    ],
    ids=["negative", "unreadable", "too large", "overhead", "pod level"],
)
def test_a_wrong_amount_names_its_field(waiting: Pod, message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        asked(waiting)
    assert str(caught.value).startswith(f"Pod default/pod: {message}")
