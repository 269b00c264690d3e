"""Binding claims against a client that answers as an API server does: each write needs the version that it was made of.

Time is virtual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from bayplan.dispatch.actions import Bind
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import KubeClient
from bayplan.kube.resources import Resource
from bayplan.kube.wire.core_v1 import ClaimVolumeSource, Pod, Volume
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.binding.volume_binder import VolumeBinder
from tests.builders.services import api_error, in_virtual_time, now
from tests.builders.storage import Json, claim, storage_class, struct, volume
from tests.builders.units import dispatcher, pod, pod_group

SELECTED = "volume.kubernetes.io/selected-node"


@dataclass
class Storage:
    """The claims and volumes of an API server. What is written is seen after a second, and bound two seconds later."""

    core: Dispatcher
    bodies: dict[str, Json] = field(default_factory=dict)
    writes: list[Mapping[str, Any]] = field(default_factory=list)
    fails: bool = False
    watching: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, body: Json) -> None:
        body["metadata"]["resourceVersion"] = "1"
        self.bodies[body["metadata"]["name"]] = body
        self.core.set_storage(struct(body))

    async def patch(self, resource: Resource[Any], name: str, body: Json, namespace: str = "", *, kind: str) -> bytes:
        await asyncio.sleep(0.01)
        known = self.bodies[name]
        if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise api_error(409)
        self.writes.append(body)
        known = self.bodies[name] = _merged(known, body)
        known["metadata"]["resourceVersion"] = str(int(known["metadata"]["resourceVersion"]) + 1)
        task = asyncio.create_task(self._show(name, known))
        self.watching.add(task)
        return msgspec.json.encode(known)

    async def _show(self, name: str, written: Json) -> None:
        await asyncio.sleep(1)
        self.core.set_storage(struct(written))
        await asyncio.sleep(2)
        chosen = (written["metadata"].get("annotations") or {}).get(SELECTED)
        if self.fails and chosen:
            return self.core.set_storage(struct(_merged(written, {"metadata": {"annotations": {SELECTED: None}}})))
        if written["kind"] == "PersistentVolume":
            return self.core.set_storage(struct(claim(volume=name, namespace="ml")))
        if chosen:
            self.core.set_storage(struct(volume("made", claim="ml/data")))
            self.core.set_storage(struct(claim(volume="made", namespace="ml", annotations={SELECTED: chosen})))
        return None


def _merged(known: Json, change: Json) -> Json:
    """JSON merge patch."""
    merged = {**known, **{key: each for key, each in change.items() if not isinstance(each, dict)}}
    for key, each in change.items():
        if isinstance(each, dict):
            merged[key] = _merged(known.get(key) or {}, each)
    return {key: each for key, each in merged.items() if each is not None}


def members(number: int) -> list[Pod]:
    """Pods of one gang that share a claim and fill a node in fours."""
    source = Volume(name="v", persistent_volume_claim=ClaimVolumeSource(claim_name="data"))
    pods = [pod(f"p-{rank}", 2, gang="train") for rank in range(number)]
    return [msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, volumes=[source])) for each in pods]


def bound(*bodies: Json, fails: bool = False) -> tuple[str, Storage, Bind]:
    """What becomes of the claim of a gang of eight on two nodes."""
    core = dispatcher("n1", "n2", racks={"n1": "r1", "n2": "r1"})
    storage = Storage(core, fails=fails)
    for body in bodies:
        storage.add(body)
    core.set_group(pod_group(8), 0.0)
    for each in members(8):
        core.set_pod(each, 0.0)
    action = core.decide(0.0)
    assert isinstance(action, Bind)

    async def story() -> str:
        binder = VolumeBinder(
            cast("KubeClient", storage),
            core,
            clock=now,
            side_thread=SideThread(threaded=False),
            still_wanted=lambda pod, node: True,
        )
        problem = await binder.bind(action)
        await asyncio.gather(*storage.watching)
        return problem

    return in_virtual_time(story()), storage, action


SHARED = claim(namespace="ml", modes=["ReadWriteMany"])
PROVISIONED = storage_class(provisioner="csi.example.com")


def test_a_volume_that_members_share_is_written_once() -> None:
    problem, storage, action = bound(SHARED, storage_class(), volume(modes=["ReadWriteMany"]))
    assert problem == ""
    assert {each.node for each in action.assignments} == {"n1", "n2"}
    assert [each["spec"]["claimRef"]["name"] for each in storage.writes] == ["data"]


def test_a_claim_that_members_share_is_provisioned_for_the_node_of_one() -> None:
    problem, storage, action = bound(SHARED, PROVISIONED)
    assert problem == ""
    assert {each.node for each in action.assignments} == {"n1", "n2"}
    assert [each["metadata"]["annotations"] for each in storage.writes] == [{SELECTED: action.assignments[0].node}]


def test_a_provisioner_that_fails_is_a_problem_of_all_members() -> None:
    problem, storage, action = bound(SHARED, PROVISIONED, fails=True)
    assert problem == 'provisioning failed for PVC "data"'
    assert len(storage.writes) == 1
    unbound = storage.core.state.volumes.unbound("ml/data")
    assert unbound is not None
    assert unbound.avoided == (action.assignments[0].node,)
