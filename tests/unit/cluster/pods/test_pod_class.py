"""Pod classes: pods that every node must answer alike share one object; pods that may be
answered differently do not.
"""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.cluster.pods.pod_class import HostPort, PodClasses, pod_class_of
from bayplan.cluster.volumes.needs import VolumeNeeds
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.bodies import Json
from tests.builders.objects import container, pod, simple_pod

REPLICA = simple_pod({"cpu": 2, "memory": "1Gi"}, "web-0")


def test_replicas_share_a_class() -> None:
    classes = PodClasses()
    assert classes.of(REPLICA) is classes.of(simple_pod({"cpu": 2, "memory": "1Gi"}, "web-1"))
    assert len(classes) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(simple_pod({"cpu": 3, "memory": "1Gi"}), id="amount"),
        pytest.param(pod(container(requests={"cpu": 2, "memory": "1Gi"})), id="limits, hence QoS class"),
        pytest.param(simple_pod({"cpu": 2, "memory": "1Gi"}, nodeSelector={"disk": "ssd"}), id="node selector"),
        pytest.param(simple_pod({"cpu": 2, "memory": "1Gi"}, tolerations=[{"operator": "Exists"}]), id="toleration"),
        pytest.param(simple_pod({"cpu": 2, "memory": "1Gi"}, nodeName="n1"), id="node name"),
        pytest.param(simple_pod({"cpu": 2, "memory": "1Gi"}, overhead={"cpu": 1}), id="overhead"),
        pytest.param(
            pod(container({"cpu": 2, "memory": "1Gi"}), init=[container({"cpu": 2, "memory": "1Gi"}, "init")]),
            id="init container",
        ),
        pytest.param(
            pod(container({"cpu": 2, "memory": "1Gi"}, ports=[{"hostPort": 80, "containerPort": 80}])), id="host port"
        ),
    ],
)
def test_whatever_a_node_may_answer_differently_makes_another_class(other: Pod) -> None:
    classes = PodClasses()
    assert classes.of(REPLICA) is not classes.of(other)


def test_a_pod_changes_its_class_with_the_volumes_behind_its_claims() -> None:
    found = iter([VolumeNeeds(problem="claim data is not bound"), VolumeNeeds()])
    classes = PodClasses(lambda _: next(found))
    claiming = simple_pod({"cpu": 2}, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert [classes.of(claiming).volumes.problem for _ in range(2)] == ["claim data is not bound", ""]


class TestHostPorts:
    def ports(self, *written: Json, **kinds: Any) -> tuple[HostPort, ...]:
        return pod_class_of(pod(container(ports=written), **kinds)).host_ports

    def test_only_ports_of_the_host_count(self) -> None:
        ports = self.ports({"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"})
        assert ports == (HostPort("UDP", 8081, ""),)

    def test_sidecars_hold_ports_and_finished_init_containers_do_not(self) -> None:
        wanted = {"containerPort": 80, "hostPort": 80}
        init = [
            container(name="prepare", ports=[wanted]),
            container(name="proxy", ports=[{**wanted, "hostPort": 81}], sidecar=True),
        ]
        assert [port.number for port in self.ports(init=init)] == [81]

    @pytest.mark.parametrize(
        "one, other, conflict",
        [
            pytest.param(("TCP", 80, ""), ("TCP", 80, ""), True, id="the same"),
            pytest.param(("TCP", 80, ""), ("UDP", 80, ""), False, id="another protocol"),
            pytest.param(("TCP", 80, ""), ("TCP", 81, ""), False, id="another number"),
            pytest.param(("TCP", 80, "10.0.0.1"), ("TCP", 80, "10.0.0.2"), False, id="another address"),
            pytest.param(("TCP", 80, "10.0.0.1"), ("TCP", 80, ""), True, id="every address includes this one"),
        ],
    )
    def test_conflict(self, one: tuple[str, int, str], other: tuple[str, int, str], conflict: bool) -> None:
        assert HostPort(*one).conflicts(HostPort(*other)) is conflict
        assert HostPort(*other).conflicts(HostPort(*one)) is conflict

    def test_address_0_is_every_address(self) -> None:
        (port,) = self.ports({"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0"})
        assert port.address == ""


@pytest.mark.parametrize(
    "spec, demands",
    [
        ({"resourceClaims": [{"name": "gpu"}]}, ("spec.resourceClaims",)),
        ({"volumes": [{"name": "secrets", "csi": {"driver": "secrets-store.csi.k8s.io"}}]}, ()),
        ({"volumes": [{"name": "a", "hostPath": {}}, {"name": "b", "nfs": {}}, {"name": "c", "projected": {}}]}, ()),
        ({"os": {"name": "windows"}}, ("spec.os.name",)),
        ({"affinity": {"nodeAffinity": {}, "podAntiAffinity": {}}, "topologySpreadConstraints": []}, ()),
        ({"os": {"name": "linux"}, "volumes": [{"name": "tmp", "emptyDir": {}}]}, ()),
    ],
    ids=[
        "dynamic resources",
        "a volume of a driver that no claim stands behind",
        "volumes that every node can have",
        "Windows",
        "affinity is understood",
        "ordinary",
    ],
)
def test_demands_that_cannot_be_judged_are_not_overlooked(spec: Json, demands: tuple[str, ...]) -> None:
    assert pod_class_of(pod(**spec)).not_understood == demands


@pytest.mark.parametrize("weight", [0, -5, 101, 10**30])
def test_a_preference_of_absurd_weight_is_refused(weight: int) -> None:
    preferred = [{"weight": weight, "preference": {}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    with pytest.raises(InvalidObject) as caught:
        pod_class_of(pod(affinity=affinity))
    assert str(caught.value) == (
        "Pod default/pod: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: "
        f"{weight} is not allowed: must be 1 to 100"
    )


class TestKeptClasses:
    def test_equal_pods_on_different_nodes_have_one_request_and_no_class(self) -> None:
        classes = PodClasses()
        agents = [simple_pod({"cpu": 1}, f"agent-{number}", nodeName=f"n{number}") for number in range(3)]
        assert len({id(classes.request_of(agent)) for agent in agents}) == 1
        assert len(classes) == 0

    def test_volumes_that_differ_in_name_only_make_no_classes(self) -> None:
        classes = PodClasses()
        for number in range(3):
            claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}
            classes.of(simple_pod({"cpu": 1}, volumes=[claim]))
        assert len(classes) == 1

    def test_only_the_most_recent_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bayplan.cluster.reports.recent.MOST_KEPT", 2)
        classes = PodClasses()
        first = classes.of(simple_pod({"cpu": 1}))
        classes.of(simple_pod({"cpu": 2}))
        assert classes.of(simple_pod({"cpu": 1})) is first
        classes.of(simple_pod({"cpu": 3}))
        assert len(classes) == 2
        assert classes.of(simple_pod({"cpu": 1})) is first
