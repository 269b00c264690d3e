"""A policy in Volcano's annotation that will have no effect is a problem of its pod."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import Pod
from tests.builders.numatopologies import policy_pod
from tests.builders.objects import container, pod

AT = 'Pod default/pod: metadata.annotations["volcano.sh/numa-topology-policy"]: '


def problems(waiting: Pod) -> list[str]:
    state = ClusterState()
    state.set_pod(waiting)
    state.set_pod(waiting)
    return [str(problem) for problem in state.remarks]


def burstable(policy: str) -> Pod:
    with_policy = policy_pod(policy, 2)
    return msgspec.structs.replace(pod(container(requests={"cpu": 2})), metadata=with_policy.metadata)


@pytest.mark.parametrize(
    "waiting, told",
    [
        pytest.param(policy_pod("restricted", 4), [], id="all is well"),
        pytest.param(policy_pod(None, "500m"), [], id="no policy"),
        pytest.param(policy_pod("none", "500m"), [], id="policy none"),
        pytest.param(
            policy_pod("Restricted", 4),
            [
                (
                    f'{AT}"Restricted" is no policy (expected none, best-effort, restricted, single-numa-node),'
                    " and no node has it"
                )
            ],
            id="unknown policy",
        ),
        pytest.param(
            burstable("Restricted"),
            [
                (
                    f'{AT}"Restricted" is no policy (expected none, best-effort, restricted, single-numa-node),'
                    " and has no effect: the pod is Burstable, and kubelets align CPUs of Guaranteed pods only"
                    " (limits equal to requests for cpu and memory)"
                )
            ],
            id="unknown policy of a pod that goes anywhere",
        ),
        pytest.param(
            burstable("restricted"),
            [
                (
                    f'{AT}"restricted" has no effect: the pod is Burstable, and kubelets align '
                    "CPUs of Guaranteed pods only"
                    " (limits equal to requests for cpu and memory)"
                )
            ],
            id="not Guaranteed",
        ),
        pytest.param(
            policy_pod("restricted", 4, "1500m"),
            [
                (
                    f'{AT}"restricted" has no effect on the CPUs of all containers:'
                    " container c1 asks for no whole number of CPUs, and only those are aligned"
                )
            ],
            id="a fraction of a CPU",
        ),
    ],
)
def test_told_once(waiting: Pod, told: list[str]) -> None:
    assert problems(waiting) == told
