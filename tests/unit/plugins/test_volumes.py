"""Where pods with volumes can run, as kube-scheduler judges it: bound, free and provisioned
volumes, disks and limits.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from bayplan.cluster.state import ClusterState
from bayplan.cluster.volumes.needs import VolumePlan
from bayplan.kube.wire.core_v1 import OwnerReference
from bayplan.plugins.volume_binding import VolumeBinding, VolumeZone
from bayplan.plugins.volume_limits import NodeVolumeLimits, VolumeRestrictions
from tests.builders.clusters import cluster, decide, place
from tests.builders.objects import node, simple_pod
from tests.builders.storage import (
    HOSTNAME,
    NOW,
    ZONE,
    Json,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    struct,
    uses,
    volume,
)

ZONES = {"n1": "a", "n2": "a", "n3": "b"}
CSI = "csi.example.com"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def named(name: str, created: str = "", default: str = "") -> Json:
    """The metadata of a class that may be the default."""
    mark = {"storageclass.kubernetes.io/is-default-class": default} if default else {}
    return {"name": name, "annotations": mark, "creationTimestamp": created or None}


def storage(*bodies: Json, zones: dict[str, str] | None = None) -> ClusterState:
    """Three nodes in two zones, and these objects."""
    labelled = ZONES if zones is None else zones
    nodes = [
        node(name, {"cpu": 8, "memory": "8Gi"}, labels={HOSTNAME: name, **({ZONE: zone} if zone else {})})
        for name, zone in labelled.items()
    ]
    state = cluster(nodes=nodes)
    for body in bodies:
        state.volumes.set(struct(body))
    return state


def waiting(*claims: str, name: str = "pod", **spec: Any) -> Any:
    return simple_pod({"cpu": 1, "memory": "1Gi"}, name, volumes=uses(*claims), **spec)


def open_to(state: ClusterState, pod: Any) -> set[str]:
    """The nodes that take a pod."""
    found = set()
    for name in state.rows:
        pinned = simple_pod(
            {"cpu": 1, "memory": "1Gi"}, pod.metadata.name, volumes=_written(pod), nodeSelector={HOSTNAME: name}
        )
        if decide(state, pinned).placed:
            found.add(name)
    return found


def _written(pod: Any) -> list[Json]:
    return [
        {"name": each.name, "persistentVolumeClaim": {"claimName": each.persistent_volume_claim.claim_name}}
        for each in pod.spec.volumes
    ]


BOUND = claim(volume="pv")


@pytest.mark.parametrize(
    "objects, nodes",
    [
        pytest.param([BOUND, volume(claim="data")], {"n1", "n2", "n3"}, id="a volume that every node reaches"),
        pytest.param([BOUND, volume(claim="data", on="n2")], {"n2"}, id="a local volume"),
        pytest.param([BOUND, volume(claim="data", zone="a")], {"n1", "n2"}, id="affinity to a zone"),
        pytest.param([BOUND, volume(claim="data", labels={ZONE: "b"})], {"n3"}, id="the label of a zone"),
        pytest.param(
            [BOUND, volume(claim="data", labels={ZONE: "a__b"})], {"n1", "n2", "n3"}, id="the label of two zones"
        ),
        pytest.param(
            [BOUND, volume(claim="data", labels={"failure-domain.beta.kubernetes.io/zone": "b"})],
            {"n3"},
            id="the label of old clusters",
        ),
        pytest.param([claim(), storage_class(), volume(on="n3")], {"n3"}, id="a free local volume"),
        pytest.param([claim(), storage_class(), volume(on="n3", size="5Gi")], set(), id="a free volume, too small"),
        pytest.param(
            [claim(), storage_class(), volume(on="n3", cls="fast")], set(), id="a free volume of another class"
        ),
        pytest.param(
            [claim(), storage_class(), volume(on="n3", modes=["ReadOnlyMany"])], set(), id="a volume of another mode"
        ),
        pytest.param(
            [claim(), storage_class(), volume(on="n3", volumeMode="Block")], set(), id="a raw volume for a file system"
        ),
        pytest.param(
            [claim(), storage_class(), volume(on="n3", claim="other")], set(), id="a volume that is kept for another"
        ),
        pytest.param(
            [claim(), storage_class(), volume(on="n3"), volume("mine", on="n1", claim="data")],
            {"n1"},
            id="a volume that is kept for this claim",
        ),
        pytest.param([claim(), storage_class(provisioner=CSI)], {"n1", "n2", "n3"}, id="a provisioner"),
        pytest.param(
            [
                claim(),
                storage_class(
                    provisioner=CSI,
                    allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}],
                ),
            ],
            {"n3"},
            id="a provisioner for some zones",
        ),
        pytest.param(
            [claim(annotations={"volume.kubernetes.io/selected-node": "n2"}), storage_class(provisioner=CSI)],
            {"n2"},
            id="a provisioner is at work on a node",
        ),
        pytest.param(
            [
                claim(),
                storage_class(provisioner=CSI),
                csi_driver(CSI),
                capacity("small", "local", "5Gi", kubernetes__io="x"),
                capacity("large", "local", "20Gi", **{"topology.kubernetes.io__zone": "a"}),
            ],
            {"n1", "n2"},
            id="a driver has room in one zone",
        ),
    ],
)
def test_nodes_that_a_pod_with_a_claim_can_use(objects: list[Json], nodes: set[str]) -> None:
    state = storage(*objects)
    assert open_to(state, waiting("data")) == nodes
    asked = state.classes.of(waiting("data"))
    for plugin in (VolumeBinding(), VolumeZone(), VolumeRestrictions(), NodeVolumeLimits()):
        one_by_one = [plugin.refusal(state, asked, row) for row in range(3)]
        assert one_by_one == plugin.refusals(state, asked, slice(0, 3)).tolist()


@pytest.mark.parametrize(
    "objects, why",
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(
            [claim(cls="gone")], 'storageclass.storage.k8s.io "gone" not found', id="a claim of a class that is missing"
        ),
        pytest.param(
            [claim(cls=None)],
            f'{UNBOUND}: claim "data" has no class, and no StorageClass is the default',
            id="a claim without a class",
        ),
        pytest.param(
            [claim(cls=None), storage_class("std", metadata=named("std", default="true"))],
            f'{UNBOUND}: claim "data" has no class yet; the default is "std"',
            id="a claim that gets the default class soon",
        ),
        pytest.param(
            [claim(cls="")],
            f'{UNBOUND}: claim "data" asks for a volume without a class (storageClassName is "")',
            id="a claim that wants no class",
        ),
        pytest.param(
            [claim(), storage_class(mode=NOW)],
            f'{UNBOUND}: claim "data" is of class "local", whose claims are bound before their pods have nodes',
            id="not bound yet",
        ),
        pytest.param([BOUND], 'persistentvolume "pv" not found', id="the volume is gone"),
        pytest.param(
            [{**BOUND, "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="a lost claim",
        ),
        pytest.param(
            [claim(deletionTimestamp="2026-01-01T00:00:00Z"), storage_class()],
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that is leaving",
        ),
    ],
)
def test_a_pod_whose_claims_cannot_be_judged_waits_and_is_told_why(objects: list[Json], why: str) -> None:
    assert decide(storage(*objects), waiting("data")).held_back == f"waits for its volumes: {why}"


@pytest.mark.parametrize(
    "classes, default",
    [
        ([], None),
        ([named("a"), named("b", default="false")], None),
        ([named("a"), named("b", default="true")], "b"),
        ([named("a", "2026-01-02T00:00:00Z", "true"), named("b", "2026-01-01T00:00:00Z", "true")], "a"),
        ([named("b", "2026-01-01T00:00:00Z", "true"), named("a", "2026-01-01T00:00:00Z", "true")], "a"),
        ([named("old", "2026-01-01T00:00:00Z", "true"), named("new", default="true")], "new"),
    ],
    ids=["no class", "none is marked", "the one that is marked", "the newest", "as old", "without a time is new"],
)
def test_the_class_of_claims_without_one(classes: list[Json], default: str | None) -> None:
    state = storage(*(storage_class(metadata=metadata) for metadata in classes))
    assert state.volumes.default_class() == default


def test_a_replica_is_told_which_claim_template_to_change() -> None:
    replica = waiting("data-db-0", name="db-0")
    owners = [OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid="1", controller=True)]
    owned = msgspec.structs.replace(
        replica, metadata=msgspec.structs.replace(replica.metadata, owner_references=owners)
    )
    why = f'{UNBOUND}: the claim template "data" has no class, and no StorageClass is the default'
    assert decide(storage(claim("data-db-0", cls=None)), owned).held_back == f"waits for its volumes: {why}"


class TestEphemeralVolumes:
    SCRATCH: ClassVar = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]

    def test_wait_for_their_claim(self) -> None:
        pod = simple_pod({"cpu": 1}, "web", volumes=self.SCRATCH)
        why = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"'
        assert decide(storage(storage_class()), pod).held_back == f"waits for its volumes: {why}"

    @pytest.mark.parametrize("owner, placed", [("web", True), ("db", False)])
    def test_have_a_claim_that_their_pod_owns(self, owner: str, placed: bool) -> None:
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": "", "controller": True}]
        state = storage(storage_class(provisioner=CSI), claim("web-scratch", ownerReferences=owners))
        assert decide(state, simple_pod({"cpu": 1}, "web", volumes=self.SCRATCH)).placed is placed


class TestFreeVolumes:
    def test_the_smallest_that_fits_is_taken(self) -> None:
        sizes = {"large": "100Gi", "small": "10Gi", "tiny": "1Gi"}
        state = storage(claim(), storage_class(), *(volume(name, size, on="n1") for name, size in sizes.items()))
        assert decide(state, waiting("data")).volumes == VolumePlan((("default/data", "small"),))

    def test_two_claims_of_a_pod_get_two_volumes(self) -> None:
        state = storage(
            claim("a", "5Gi"), claim("b", "5Gi"), storage_class(), volume("v1", on="n1"), volume("v2", on="n1")
        )
        decision = decide(state, waiting("a", "b"))
        assert dict(decision.volumes.bindings) == {"default/a": "v1", "default/b": "v2"}
        state.volumes.remove(type(struct(volume())), "v2")
        assert not decide(state, waiting("a", "b")).placed

    def test_a_decision_takes_its_volume_and_gives_it_back(self) -> None:
        state = storage(claim("a"), claim("b"), storage_class(), volume(on="n1"))
        place(state, waiting("a", name="first"))
        refused = decide(state, waiting("b", name="second"))
        assert refused.shortfall is not None
        assert refused.shortfall.causes[0].cause == "node(s) didn't find available persistent volumes to bind"
        state.forget("default/first")
        assert decide(state, waiting("b", name="second")).placed

    def test_what_no_volume_fits_is_provisioned(self) -> None:
        state = storage(
            claim("a", "5Gi"),
            claim("b", "50Gi"),
            storage_class(provisioner=CSI),
            volume("v1", on="n1"),
            zones={"n1": ""},
        )
        assert decide(state, waiting("a", "b")).volumes == VolumePlan((("default/a", "v1"),), ("default/b",))

    def test_a_node_that_failed_to_provision_is_avoided_until_none_is_left(self) -> None:
        state = storage(claim(), storage_class(provisioner=CSI), zones={"n1": "", "n2": ""})
        state.volumes.avoid("default/data", "n1")
        assert decide(state, waiting("data")).node == "n2"
        state.volumes.avoid("default/data", "n2")
        assert not decide(state, waiting("data")).placed
        assert state.volumes.forget_avoided(waiting("data"))
        assert decide(state, waiting("data")).placed


class TestSharing:
    def test_a_claim_for_one_pod_has_one_pod(self) -> None:
        once = claim(modes=["ReadWriteOncePod"], volume="pv")
        state = storage(once, volume(claim="data", modes=["ReadWriteOncePod"]))
        place(state, waiting("data", name="first"))
        refused = decide(state, waiting("data", name="second"))
        assert refused.shortfall is not None
        assert "ReadWriteOncePod access mode already in-use" in refused.shortfall.causes[0].cause
        state.remove_pod("default/first")
        assert decide(state, waiting("data", name="second")).placed

    def test_a_claim_for_one_pod_is_free_while_its_volume_is_still_attached(self) -> None:
        once = claim(modes=["ReadWriteOncePod"], volume="pv")
        state = storage(once, volume(claim="data", modes=["ReadWriteOncePod"]), attachment("pv", "n1"))
        assert decide(state, waiting("data")).placed

    @pytest.mark.parametrize(
        "one, other, together",
        [
            ({"gcePersistentDisk": {"pdName": "a"}}, {"gcePersistentDisk": {"pdName": "a"}}, False),
            ({"gcePersistentDisk": {"pdName": "a"}}, {"gcePersistentDisk": {"pdName": "b"}}, True),
            (
                {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
                {"gcePersistentDisk": {"pdName": "a", "readOnly": True}},
                True,
            ),
            (
                {"awsElasticBlockStore": {"volumeID": "a", "readOnly": True}},
                {"awsElasticBlockStore": {"volumeID": "a", "readOnly": True}},
                False,
            ),
            ({"iscsi": {"iqn": "a"}}, {"iscsi": {"iqn": "a", "readOnly": True}}, False),
            (
                {"rbd": {"monitors": ["m1"], "image": "a"}},
                {"rbd": {"monitors": ["m2"], "image": "a"}},
                True,
            ),
        ],
        ids=["one disk", "two disks", "both only read", "Amazon's never", "one writes", "different Ceph clusters"],
    )
    def test_disks_that_pods_name_themselves(self, one: Json, other: Json, together: bool) -> None:
        state = storage(zones={"n1": ""})
        place(state, simple_pod({"cpu": 1}, "first", volumes=[{"name": "disk", **one}]))
        assert decide(state, simple_pod({"cpu": 1}, "second", volumes=[{"name": "disk", **other}])).placed is together


class TestLimits:
    """At most two volumes of the driver on the only node."""

    def state(self, *, migrated: str = "", driver: str = CSI, source: Json | None = None) -> ClusterState:
        made = storage(csi_node("n1", driver, 2, migrated), zones={"n1": ""})
        for name in ("a", "b", "c"):
            backed = source or {"csi": {"driver": CSI, "volumeHandle": name}}
            made.volumes.set(struct(volume(f"pv-{name}", claim=name, **backed)))
            made.volumes.set(struct(claim(name, volume=f"pv-{name}")))
        return made

    def test_a_third_volume_is_one_too_many(self) -> None:
        state = self.state()
        place(state, waiting("a", name="one"))
        place(state, waiting("b", name="two"))
        refused = decide(state, waiting("c", name="three"))
        assert refused.shortfall is not None
        assert refused.shortfall.causes[0].cause == "node(s) exceed max volume count"

    def test_a_volume_that_is_attached_already_counts_once(self) -> None:
        state = self.state()
        place(state, waiting("a", "b", name="one"))
        assert decide(state, waiting("a", name="two")).placed

    def test_an_attachment_without_a_pod_counts(self) -> None:
        state = self.state()
        place(state, waiting("a", name="one"))
        state.volumes.set(struct(attachment("pv-b", "n1", CSI)))
        assert not decide(state, waiting("c", name="three")).placed
        assert decide(state, waiting("b", name="two")).placed

    @pytest.mark.parametrize("migrated, placed", [("kubernetes.io/aws-ebs", False), ("", True)])
    def test_disks_of_the_tree_count_where_a_driver_has_taken_over(self, migrated: str, placed: bool) -> None:
        ebs = {"awsElasticBlockStore": {"volumeID": "v"}}
        state = self.state(migrated=migrated, driver="ebs.csi.aws.com", source=ebs)
        place(state, waiting("a", "b", name="one"))
        assert decide(state, waiting("c", name="two")).placed is placed


class TestCapacity:
    """A driver with 20 GiB in zone a, for claims of 10 GiB."""

    def state(self) -> ClusterState:
        return storage(
            claim(),
            storage_class(provisioner=CSI),
            csi_driver(CSI),
            capacity("pool", "local", "20Gi", **{"topology.kubernetes.io__zone": "a"}),
        )

    def test_follows_what_the_driver_reports(self) -> None:
        state = self.state()
        state.volumes.set(struct(capacity("pool", "local", "5Gi", **{"topology.kubernetes.io__zone": "a"})))
        refused = decide(state, waiting("data"))
        assert refused.shortfall is not None
        assert {cause.cause for cause in refused.shortfall.causes} == {"node(s) did not have enough free storage"}
        state.volumes.set(struct(capacity("other", "local", "50Gi", **{"topology.kubernetes.io__zone": "b"})))
        assert decide(state, waiting("data")).node == "n3"
        state.volumes.remove(type(struct(capacity("other", "local", "1Gi"))), "default/other")
        assert not decide(state, waiting("data")).placed

    def test_follows_the_labels_of_nodes(self) -> None:
        state = self.state()
        assert open_to(state, waiting("data")) == {"n1", "n2"}
        state.set_node(node("n3", {"cpu": 8, "memory": "8Gi"}, labels={HOSTNAME: "n3", ZONE: "a"}))
        state.set_node(node("n4", {"cpu": 8, "memory": "8Gi"}, labels={HOSTNAME: "n4", ZONE: "a"}))
        assert open_to(state, waiting("data")) == {"n1", "n2", "n3", "n4"}


def test_pods_whose_claims_ask_for_the_same_share_a_class() -> None:
    state = storage(claim("a"), claim("b"), claim("c", "20Gi"), storage_class(provisioner=CSI))
    a, b, c = (state.classes.of(waiting(name)) for name in "abc")
    assert a is b
    assert a is not c


def test_a_copy_of_the_cluster_has_volumes_of_its_own() -> None:
    state = storage(claim("a"), claim("b"), storage_class(), volume(on="n1"))
    copy = state.copy()
    place(copy, waiting("a", name="first"))
    assert not decide(copy, waiting("b", name="second")).placed
    assert decide(state, waiting("b", name="second")).placed
