"""What is said about the volumes of a pod that fits nowhere."""

from __future__ import annotations

import pytest

from bayplan.explain.refusal import refusal_of
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.profile import default_profile
from tests.builders.clusters import cluster, decide
from tests.builders.objects import node, simple_pod
from tests.builders.storage import HOSTNAME, Json, claim, storage_class, struct, uses, volume

RELEASED = {**volume("pv", on="n1", claim="old"), "status": {"phase": "Released"}}
ELSEWHERE = [{"matchLabelExpressions": [{"key": HOSTNAME, "values": ["n9"]}]}]
NO_VOLUME = "no free volume is of the class"
NO_PROVISIONER = '10Gi of class "local": it has no provisioner; '


def told(*bodies: Json) -> tuple[str, ...]:
    """The lines about volumes for a pod that uses two claims at most."""
    state = cluster(nodes=[node(name, {"cpu": 8}, labels={HOSTNAME: name}) for name in ("n1", "n2")])
    for body in bodies:
        state.volumes.set(struct(body))
    claims = [body["metadata"]["name"] for body in bodies if body["kind"] == "PersistentVolumeClaim"]
    pod: Pod = simple_pod({"cpu": 1}, "web", volumes=uses(*claims))
    return refusal_of(state, state.classes.of(pod), default_profile(), decide(state, pod), ()).volumes


@pytest.mark.parametrize(
    "bodies, line",
    [
        ([], NO_PROVISIONER + NO_VOLUME),
        ([volume(claim="other")], NO_PROVISIONER + NO_VOLUME),
        ([volume("pv", "5Gi", on="n1")], NO_PROVISIONER + "pv has only 5Gi"),
        ([volume("pv", modes=["ReadOnlyMany"])], NO_PROVISIONER + "pv is not ReadWriteOnce"),
        ([volume("pv", volumeMode="Block")], NO_PROVISIONER + "pv has volumeMode Block"),
        ([volume("pv", on="n9")], NO_PROVISIONER + "pv is reached by no node"),
        ([RELEASED], NO_PROVISIONER + "pv is Released"),
        (
            [volume(f"pv-{number}", "1Gi") for number in range(5)],
            NO_PROVISIONER + "pv-0 has only 1Gi, pv-1 has only 1Gi, pv-2 has only 1Gi, and 2 more",
        ),
        (
            [storage_class(provisioner="csi.example.com", allowedTopologies=ELSEWHERE)],
            f'10Gi of class "local": csi.example.com provisions on no node (allowedTopologies); {NO_VOLUME}',
        ),
    ],
)
def test_a_claim_is_told_why_no_volume_serves_it(bodies: list[Json], line: str) -> None:
    assert told(storage_class(), claim(), *bodies) == (line,)


def test_two_claims_that_need_different_nodes_are_told_where_the_volumes_are() -> None:
    found = told(storage_class(), claim("a"), claim("b"), volume("pv-1", on="n1"), volume("pv-2", on="n2"))
    assert found == (NO_PROVISIONER + "pv-1 is reached only by n1, pv-2 is reached only by n2",)


def test_a_claim_for_one_pod_is_named_with_the_pod_that_has_it() -> None:
    state = cluster(nodes=[node("n1", {"cpu": 8})])
    once = ["ReadWriteOncePod"]
    for body in (claim(volume="pv", modes=once), volume(claim="data", modes=once)):
        state.volumes.set(struct(body))
    pod = simple_pod({"cpu": 1}, "second", volumes=uses("data"))
    state.set_pod(simple_pod({"cpu": 1}, "first", volumes=uses("data"), nodeName="n1"))
    found = refusal_of(state, state.classes.of(pod), default_profile(), decide(state, pod), ())
    assert found.volumes == ("claim default/data is in use by default/first",)


def test_a_volume_that_was_written_by_hand_has_no_phase_and_is_free() -> None:
    by_hand = {key: each for key, each in volume("pv", on="n1").items() if key != "status"}
    state = cluster(nodes=[node("n1", {"cpu": 8}, labels={HOSTNAME: "n1"})])
    for body in (storage_class(), claim(), by_hand):
        state.volumes.set(struct(body))
    assert decide(state, simple_pod({"cpu": 1}, "web", volumes=uses("data"))).node == "n1"
