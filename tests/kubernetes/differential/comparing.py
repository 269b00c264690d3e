"""Ask bayplan and the stock kube-scheduler about the same pods, one at a time, in the same state of a real API server.

bayplan's core decides on the objects as the API server has them. Then the pod is created for the stock scheduler,
pinned to bayplan's node for every second pod. Both must agree whether there is a node, and each one's choice must be
feasible for the other. The stock scheduler's pod stays, so both know the same pods from then on; a pod without a node
is deleted.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np

from bayplan.cluster.state import ClusterState
from bayplan.config.configuration import configuration_of
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import CLAIMS, NAMESPACES, NODES, PODS, SELECTING, STORAGE, VOLUMES, Resource
from bayplan.kube.wire.core_v1 import Namespace, Pod
from bayplan.scheduling.answers import NOT_USABLE, ClassAnswers
from bayplan.scheduling.cycle import schedule_one, why_not_yet
from bayplan.scheduling.profile import Profile
from bayplan.scheduling.relations import answer_for
from tests.builders.storage import volume
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.differential import pods as random_pods

Json = dict[str, Any]
LOOK_EVERY = 0.004
GIVE_UP = 60.0
# Until the stock scheduler's watches have shown it new claims and volumes, on a busy machine.
SEEN_AFTER = 0.3
# Pods that stay: more would leave no room for any.
MOST_PODS = 60
RUNTIME_CLASSES = Resource("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", Namespace, namespaced=False)
BY_KIND: dict[str, Resource[Any]] = {
    each.kind: each for each in (*STORAGE, *SELECTING, PODS, NODES, NAMESPACES, RUNTIME_CLASSES)
}
STOCK = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler"}],
}
SELECTED = "volume.kubernetes.io/selected-node"


@dataclass
class Tally:
    """What was compared."""

    pods: int = 0
    placed: int = 0
    pinned: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = (
            f"{self.pods} pods: {self.placed} with a node ({self.pinned} of them bayplan's choice), "
            f"{len(self.differences)} differences"
        )
        return "\n".join(
            (head, *(f"  {count:5} x {cause}" for cause, count in self.reasons.most_common()), *self.differences)
        )


def compare(plane: ControlPlane, number: int, seed: int) -> Tally:
    """Compare so many random pods on a cluster of its own."""
    with plane.start_stock_scheduler(percentage=100):
        return asyncio.run(Comparison(plane, Random(seed), f"diff-{seed}").run(number))


def stock_profile() -> Profile:
    """bayplan's profile in the place of kube-scheduler's."""
    return next(iter(configuration_of(STOCK).profiles.values()))


class Comparison:
    """One cluster on which pods are compared one by one."""

    def __init__(self, plane: ControlPlane, random: Random, name: str) -> None:
        self._access = find_access(str(plane.kubeconfig))
        self._random = random
        self._namespaces = (f"{name}-blue", f"{name}-red")
        self._state = ClusterState()
        self._profile = stock_profile()
        self._answers = ClassAnswers(self._state)
        self._volumes = random_pods.Volumes()
        self._standing: list[tuple[str, str]] = []
        self._owners: dict[str, list[Json]] = {name: [] for name in self._namespaces}
        self._tally = Tally()

    async def run(self, number: int) -> Tally:
        """Compare so many pods."""
        async with KubeClient(self._access) as client:
            self._client = client
            await self._prepare()
            for each in range(number):
                if self._standing and self._random.random() < 0.1:
                    await self._resize(*self._random.choice(self._standing))
                while len(self._standing) > MOST_PODS or (self._standing and self._random.random() < 0.1):
                    await self._delete(*self._standing.pop(self._random.randrange(len(self._standing))))
                await self._compare_one(each)
            await self._clear()
        return self._tally

    async def _prepare(self) -> None:
        for name in self._namespaces:
            labels = {"team": name.rpartition("-")[2]}
            await self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
            self._state.neighbours.set_namespace(name, {"kubernetes.io/metadata.name": name, **labels})
        for body in random_pods.nodes(self._random):
            self._state.set_node(await self._create(body))
        await self._create(random_pods.RUNTIME)
        for body in random_pods.storage(self._random, self._namespaces[0]):
            self._state.volumes.set(await self._create(body))
        for namespace in self._namespaces:
            for body in random_pods.owners(namespace):
                made = await self._create(body)
                self._state.owner_selectors.set(made)
                if body["kind"] != "Service":
                    owner = {"apiVersion": body["apiVersion"], "kind": body["kind"], "controller": True}
                    self._owners[namespace].append({**owner, "name": made.metadata.name, "uid": made.metadata.uid})
        await asyncio.sleep(SEEN_AFTER)

    async def _compare_one(self, number: int) -> None:
        namespace = self._random.choice(self._namespaces)
        body, objects = random_pods.pod(self._random, f"p{number}", namespace, self._volumes)
        for each in objects:
            status = each.get("status")
            thing = await self._create(each)
            if each["kind"] == VOLUMES.kind:  # the API server leaves the status to the controller
                thing = await self._patch(
                    VOLUMES, each["metadata"]["name"], "", {"status": status}, subresource="status"
                )
            self._state.volumes.set(thing)
        if objects:
            await asyncio.sleep(SEEN_AFTER)
        asked = await self._as_stored(body)
        pod_class = self._state.classes.of(asked)
        held_back = why_not_yet(asked, pod_class)
        answer = answer_for(self._state, asked, pod_class, self._profile, self._answers)
        usable = (
            {self._state.names[row] for row in np.flatnonzero(answer.total_score != NOT_USABLE)}
            if not held_back
            else set()
        )
        decision = schedule_one(self._state, asked, self._profile, self._answers)
        pinned = decision.node if decision.node is not None and number % 2 and not _counts_domains(body) else None
        node, told = await self._stock(_pinned_to(body, pinned) if pinned else body)
        self._note(number, body, usable, decision.node, pinned, node, told, held_back)

    def _note(
        self,
        number: int,
        body: Json,
        usable: set[str],
        ours: str | None,
        pinned: str | None,
        node: str,
        told: str,
        held_back: str,
    ) -> None:
        tally = self._tally
        tally.pods += 1
        tally.placed += bool(node)
        tally.pinned += bool(node and pinned)
        if not node:
            tally.reasons[_cause(told)] += 1
        wrong = ""
        if node and node not in usable:
            wrong = f"stock chose {node}, which bayplan refuses ({held_back or 'it takes ' + str(sorted(usable))})"
        elif not node and ours:
            wrong = f"bayplan chose {ours}, the stock scheduler says: {told}"
        if wrong:
            tally.differences.append(f"pod {number}: {wrong}\n{msgspec.json.encode(body['spec']).decode()}")

    async def _stock(self, body: Json) -> tuple[str, str]:
        """Where the stock scheduler puts a pod, or what it tells it."""
        metadata = body["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        await self._create(body)
        end = asyncio.get_running_loop().time() + GIVE_UP
        while True:
            pod: Pod = await self._client.get(PODS, name, namespace)
            if pod.spec.node_name:
                self._state.set_pod(pod)
                self._standing.append((namespace, name))
                return pod.spec.node_name, ""
            for condition in (pod.status.conditions if pod.status else None) or ():
                if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                    await self._delete(namespace, name)
                    return "", condition.message
            await self._bind_claims(body, namespace)
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"no answer about {body}")
            await asyncio.sleep(LOOK_EVERY)

    async def _resize(self, namespace: str, name: str) -> None:
        """Let the kubelet say that a pod runs with other amounts than its spec asks for."""
        pod: Pod = await self._client.get(PODS, name, namespace)
        status = random_pods.resized_status(self._random, [each.name for each in pod.spec.containers or ()])
        self._state.set_pod(await self._patch(PODS, name, namespace, {"status": status}, subresource="status"))
        await asyncio.sleep(SEEN_AFTER)

    async def _bind_claims(self, body: Json, namespace: str) -> None:
        """Do what the controller for volumes and a provisioner do for claims that the stock scheduler has begun to
        bind.
        """
        for each in body["spec"].get("volumes", ()):
            if "persistentVolumeClaim" not in each:
                continue
            name = each["persistentVolumeClaim"]["claimName"]
            try:
                claim = await self._client.get(CLAIMS, name, namespace)
            except ApiError:
                continue
            if claim.spec.volume_name:
                continue
            # The scheduler may have chosen a free volume that was made for another pod's claim.
            backing = await self._volume_for(namespace, name)
            selected = (claim.metadata.annotations or {}).get(SELECTED, "")
            if backing is None:
                if not selected:
                    continue
                made = volume(f"made-{name}", "20Gi", on=selected, modes=claim.spec.access_modes or ())
                made["spec"]["storageClassName"] = claim.spec.storage_class_name
                reference = {"namespace": namespace, "name": name, "uid": claim.metadata.uid}
                made["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
                backing = await self._create(made)
            self._state.volumes.set(backing)
            bound = {
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": backing.metadata.name},
            }
            self._state.volumes.set(await self._patch(CLAIMS, name, namespace, bound))

    async def _volume_for(self, namespace: str, claim: str) -> Any:
        """The volume that refers to a claim, if there is one."""
        for each in (await self._client.list(VOLUMES)).items:
            reference = each.spec.claim_ref
            if reference is not None and (reference.namespace, reference.name) == (namespace, claim):
                return each
        return None

    async def _as_stored(self, body: Json) -> Pod:
        """A pod as the API server would keep it: older ones drop fields that they do not know."""
        path = PODS.path(body["metadata"]["namespace"])
        return msgspec.json.decode(
            await self._client.request("POST", path, body=body, query={"dryRun": "All"}), type=Pod
        )

    async def _create(self, body: Json) -> Any:
        resource = BY_KIND[body["kind"]]
        written = deepcopy(body)
        written["metadata"].pop("uid", None)
        answer = await self._client.create(resource, written, body["metadata"].get("namespace"))
        return msgspec.json.decode(answer, type=resource.type)

    async def _patch(
        self, resource: Resource[Any], name: str, namespace: str, body: Json, subresource: str | None = None
    ) -> Any:
        answer = await self._client.patch(
            resource, name, body, namespace or None, kind="merge", subresource=subresource
        )
        return msgspec.json.decode(answer, type=resource.type)

    async def _delete(self, namespace: str, name: str) -> None:
        await self._client.delete(PODS, name, namespace, grace=0)
        self._state.remove_pod(f"{namespace}/{name}")

    async def _clear(self) -> None:
        """Leave nothing behind for tests that follow."""
        for namespace, name in self._standing:
            await self._delete(namespace, name)
        rest = [each for each in STORAGE if each not in (CLAIMS, VOLUMES)]
        kinds: list[Resource[Any]] = [CLAIMS, VOLUMES, *rest, *SELECTING, RUNTIME_CLASSES, NODES]
        for resource in kinds:
            for each in (await self._client.list(resource)).items:
                name, namespace = each.metadata.name, each.metadata.namespace
                if namespace and namespace not in self._namespaces:
                    continue
                if resource in (CLAIMS, VOLUMES):
                    await self._patch(resource, name, namespace or "", {"metadata": {"finalizers": None}})
                await self._client.delete(resource, name, namespace)


def _counts_domains(body: Json) -> bool:
    """Whether a pod needs a number of domains: pinned to a node it would see only the domain of that one."""
    constraints = body["spec"].get("topologySpreadConstraints", ())
    return any("minDomains" in each and each.get("nodeAffinityPolicy") != "Ignore" for each in constraints)


def _pinned_to(body: Json, node: str) -> Json:
    """The same pod, for one node only."""
    pinned = deepcopy(body)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pinned["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    for term in required["nodeSelectorTerms"]:
        # A term may name one node already; the API server allows one field.
        term["matchFields"] = [*term.get("matchFields", []), field]
    if not required["nodeSelectorTerms"]:
        required["nodeSelectorTerms"] = [{"matchFields": [field]}]
    return pinned


def _cause(told: str) -> str:
    """The first cause that a message names, without counts."""
    text = told.partition("available: ")[2] or told
    first = text.partition(",")[0].partition(". ")[0].lstrip("0123456789 ")
    return re.sub(r'"[^"]*"|diff-\S+', '"..."', first)
