"""preempt: candidates that make no room in a zone go, and victims that make it come instead."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.kube.resources import POD_DISRUPTION_BUDGETS, POD_GROUPS
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup, PodGroupSpec
from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.kube.wire.policy_v1 import PodDisruptionBudget
from tests.builders.bodies import Json
from tests.builders.extenders import Extender, running_extender, wire_pod
from tests.builders.objects import node, simple_pod, topology, zone
from tests.builders.services import added

RECORDED = Path(__file__).parent / "recorded"


def running(name: str, cpus: int, at: int, *, on: str = "n1", priority: int = 0, gang: str = "") -> Pod:
    written = wire_pod(
        simple_pod({"cpu": cpus, "memory": "1Gi"}, name),
        annotations={"bayplan.io/numa-zones": f'{{"main":[{at}]}}'},
        labels={"app": name, **({"bayplan.io/pod-group": gang} if gang else {})},
    )
    written["spec"] |= {"nodeName": on, "priority": priority}
    written["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return msgspec.convert(written, Pod)


def full_node(name: str = "n1") -> Any:
    """Two zones of 8 CPUs; 4 and 4 are held by pods in zone 0, 4 and 2 in zone 1, where 2 are free."""
    zones = [zone(at, {"cpu": (8, 8, free), "memory": "32Gi"}) for at, free in enumerate((0, 2))]
    return topology(*zones, name=name)


PODS = (running("a", 4, 0), running("b", 4, 0), running("c", 4, 1), running("d", 2, 1))


def preempted(
    cpus: int,
    proposals: dict[str, tuple[str, ...]],
    *,
    whole: bool = False,
    budget: str = "",
    pods: tuple[Pod, ...] = PODS,
    minimum: int = 0,
    claim: str = "",
) -> Any:
    """The victims that remain, by node, for a pod of so many CPUs and priority 1000."""
    pod = wire_pod(simple_pod({"cpu": cpus, "memory": "1Gi"}, "high", priority=1000))
    if claim:
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    victims: Json = {
        name: {"Pods": [{"UID": f"uid-{each}"} for each in pods], "NumPDBViolations": 0}
        for name, pods in proposals.items()
    }
    body: Json = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    if whole:
        by_name = {each.metadata.name: msgspec.to_builtins(each) for each in PODS}
        full = {name: {"Pods": [by_name[each] for each in pods]} for name, pods in proposals.items()}
        body |= {"NodeNameToVictims": full, "NodeNameToMetaVictims": None}

    async def story(extender: Extender) -> Any:
        if budget:
            written = {
                "metadata": {"name": "pdb", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": budget}}},
                "status": {"disruptionsAllowed": 0},
            }
            news = added(msgspec.convert(written, PodDisruptionBudget))
            extender.service.watcher.intake.take(POD_DISRUPTION_BUDGETS, news, 0.0)
        if minimum:
            spec = PodGroupSpec(size=2, minimum=minimum)
            group = PodGroup(metadata=Metadata(name="train", namespace="default", uid="g"), spec=spec)
            extender.service.watcher.intake.take(POD_GROUPS, added(group), 0.0)
        return await extender.ask("preempt", body)

    async def run() -> Any:
        async with running_extender(full_node(), full_node("n2"), pods=pods) as extender:
            return await story(extender)

    answer = asyncio.run(run())["NodeNameToMetaVictims"]
    return {
        name: ({each["UID"].removeprefix("uid-") for each in found["Pods"]}, found["NumPDBViolations"])
        for name, found in answer.items()
    }


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    "cpus, proposed, remain",
    [
        (6, ("c",), {"c"}),  # zone 1 has 2 free and gets 4 more
        (8, ("a", "b"), {"a", "b"}),
        (6, ("a", "c"), {"c"}),  # a does not help
        (6, ("a",), {"c"}),  # 6 in sum, but in no zone: another victim is as cheap and makes room
        (8, ("a", "c"), {"a", "b"}),  # 10 in sum, but in no zone
    ],
)
def test_victims_that_make_room_in_a_zone_remain(
    cpus: int, proposed: tuple[str, ...], remain: set[str], whole: bool
) -> None:
    assert preempted(cpus, {"n1": proposed}, whole=whole) == {"n1": (remain, 0)}


@pytest.mark.parametrize(
    "cpus, proposals",
    [
        (9, {"n1": ("a", "b")}),  # no zone is that large
        (6, {"elsewhere": ("c",)}),  # an unknown node
        (6, {"n1": ("gone",)}),  # a victim that is not there any more
    ],
)
def test_candidates_that_cannot_help_are_dropped(cpus: int, proposals: dict[str, tuple[str, ...]]) -> None:
    assert preempted(cpus, proposals) == {}


def test_violated_disruption_budgets_are_counted() -> None:
    assert preempted(6, {"n1": ("c",)}, budget="c") == {"n1": ({"c"}, 1)}


@pytest.mark.parametrize(
    "proposed, remain",
    [
        (("a", "c"), {"n1": ({"a", "c"}, 0)}),  # a frees no zone, but perhaps a volume
        (("a",), {}),  # not enough in a zone, and other victims might keep a volume busy
    ],
)
def test_victims_for_a_pod_with_volumes_go_as_proposed_or_not_at_all(proposed: tuple[str, ...], remain: Any) -> None:
    assert preempted(6, {"n1": proposed}, claim="data") == remain


@pytest.mark.parametrize(
    "other_is_on, minimum, remain",
    [
        ("n2", 1, {"c"}),  # one member is beyond the minimum
        ("n2", 2, {"a", "b"}),  # the gang needs both, and the other one is on another node
        ("n2", 0, {"a", "b"}),  # no PodGroup says how many it needs
        ("n1", 2, {"c", "d"}),  # the whole gang is there and goes together
    ],
)
def test_a_gang_keeps_its_minimum_or_goes_as_a_whole(other_is_on: str, minimum: int, remain: set[str]) -> None:
    members = running("c", 4, 1, gang="train"), running("d", 2, 1, on=other_is_on, gang="train")
    pods = (running("a", 4, 0, priority=1), running("b", 4, 0, priority=1), *members)
    assert preempted(6, {"n1": ("c",)}, pods=pods, minimum=minimum) == {"n1": (remain, 0)}


@pytest.mark.parametrize("form", ["true", "false"])
def test_a_recorded_request_keeps_its_victims_where_nothing_is_known_of_zones(form: str) -> None:
    body = (RECORDED / f"nodeCacheCapable-{form}.preempt.request.json").read_bytes()
    asked = msgspec.json.decode(body)
    by_node = asked["NodeNameToMetaVictims" if form == "true" else "NodeNameToVictims"]
    uids = {
        name: [each["UID"] if form == "true" else each["metadata"]["uid"] for each in victims["Pods"]]
        for name, victims in by_node.items()
    }
    pods = []
    for name, (uid,) in uids.items():
        written = wire_pod(simple_pod({"cpu": 150, "memory": "64Mi"}, f"pod-on-{name}"), uid=uid)
        written["spec"]["nodeName"] = name
        pods.append(msgspec.convert(written, Pod))

    async def run() -> Any:
        nodes = [node(name, {"cpu": 192, "memory": "64Gi"}) for name in uids]
        async with running_extender(nodes=nodes, pods=pods) as extender:
            return await extender.ask("preempt", body)

    answer = asyncio.run(run())["NodeNameToMetaVictims"]
    assert {name: [each["UID"] for each in found["Pods"]] for name, found in answer.items()} == uids
