"""Spoiled objects through the scheduler without its edges: decode, intake, decide, explain, announce, bind, delete;
with oracles on the way.

books add up         the free amounts of each node are those of a state built anew from the same nodes and pods
nothing stays        once everything is deleted, nothing is left of it
a kubelet admits     what is bound to a node whose report is true (`honest_world`)
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any, cast

import msgspec
import numpy as np

from bayplan.cluster.pods.request import effective_request
from bayplan.cluster.remarks import MOST_REMARKS
from bayplan.cluster.state import ClusterState, pod_key
from bayplan.dispatch.actions import Bind, Complete, Release, Unschedulable
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.kube.client.client import KubeClient
from bayplan.kube.client.decoding import Changes, Listed, WatchLines, decoder_of
from bayplan.kube.errors import InvalidObject
from bayplan.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from bayplan.plugins.node_resource_topology_args import read_arguments
from bayplan.plugins.node_resource_topology_match import topology_match
from bayplan.scheduling.profile import default_profile
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder
from bayplan.services.edges.side_thread import SideThread
from bayplan.services.scheduler.announcing.announcer import Announcer
from bayplan.services.scheduler.announcing.gang_status import GangStatusWriter
from bayplan.services.scheduler.binding.annotations import annotations_of
from bayplan.services.scheduler.intake import Intake
from bayplan.simulate.kubelet.report import NodeAgent
from tests.builders.objects import bound
from tests.closed_loop import any_kubelet, any_pod
from tests.fuzz.corpus import by_kind
from tests.fuzz.failures import Disagreement, Findings
from tests.fuzz.mutating import mutated

Json = Any
MOST_DECISIONS = 200
# Rows of nodes that are gone are used again.
MOST_ROWS = 100
# Seconds after which everything that waits has been told why.
LATER = 1000.0
CLUSTER_WIDE = ("Node", "Namespace", "NodeResourceTopology", "Numatopology", "Topology", "HyperNode")
FIELDS = {
    "@deep@": b'{"f:a":' * 2000 + b"{}" + b"}" * 2000,
    "@not UTF-8@": b'{"f:\xff":{}}',
    "@number@": b'{".":1e999999}',
}
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"filterMode": "Upstream"},
    {"scoringStrategy": {"type": "LeastNUMANodes"}, "assume": {"memoryGroups": "Strict"}},
)


class World:
    """One dispatcher that lives through many clusters, one after another."""

    def __init__(self, random: Random, findings: Findings) -> None:
        self._findings = findings
        arguments = random.choice(ARGUMENTS)
        profile = default_profile(topology_match(read_arguments(arguments)))
        self.dispatcher = Dispatcher({"bayplan": profile, "default-scheduler": profile})
        self.intake = Intake(self.dispatcher)
        # Nothing is sent: what they are told stays in their outboxes.
        client = cast("KubeClient", None)
        events, conditions = EventRecorder(client, instance="fuzz"), ConditionWriter(client)
        self._announcer = Announcer(self.dispatcher, events, conditions, GangStatusWriter(client))
        self._now = 1000.0
        self._version = 0

    def live_through(self, random: Random) -> None:
        """A cluster of spoiled objects, from its first list to its last deletion."""
        self._now += 60.0
        for entry in self.intake.entries:
            self._list(entry.resource, self._drawn(random, entry.resource))
        for _ in range(3):
            self._bind(self._decide(random))
            self._watch(random)
        with self._findings.step("books"):
            self._books_add_up()
        for entry in self.intake.entries:
            self._list(entry.resource, [])
        self._now += 60.0
        self._decide(random)
        with self._findings.step("nothing stays"):
            self._nothing_stays()

    def _drawn(self, random: Random, resource: Resource[Any]) -> list[Json]:
        known = by_kind().get((resource.api_version, resource.kind), ())
        if not known:
            return []
        number = random.randint(0, {"Pod": 40, "Node": 12}.get(resource.kind, 6))
        return [self._one(random, each) for each in random.choices(known, k=number)]

    def _one(self, random: Random, document: Json) -> Json:
        self._version += 1
        self._findings.objects += 1
        spoiled = mutated(
            random,
            document,
            random.choice((0, 1, 1, 2, 5)),
            by_kind().get((document["apiVersion"], document["kind"]), ()),
        )
        # What an API server sees to.
        metadata = spoiled["metadata"] = spoiled["metadata"] if isinstance(spoiled.get("metadata"), dict) else {}
        metadata["resourceVersion"] = str(self._version)
        metadata.setdefault("uid", f"u{random.randrange(40)}")
        for key in ("name",) if document["kind"] in CLUSTER_WIDE else ("namespace", "name"):
            if not isinstance(metadata.get(key), str) or not metadata[key]:
                metadata[key] = "default"
        if random.random() < 0.02:
            metadata["managedFields"] = [{"fieldsV1": random.choice(tuple(FIELDS))}]
        if spoiled.get("kind") == "Pod" and isinstance(spoiled.get("spec"), dict) and random.random() < 0.8:
            spoiled["spec"]["schedulerName"] = "bayplan"
        return spoiled

    def _list(self, resource: Resource[Any], items: list[Json]) -> None:
        page = _as_served({"metadata": {"resourceVersion": str(self._version)}, "items": items})
        with self._findings.step(f"list {resource.kind}"):
            read, broken, head = decoder_of(resource).page(page)
            self.intake.take(resource, Listed(read, head.resource_version, broken), self._now)

    def _watch(self, random: Random) -> None:
        """Lines of a watch: objects that come, change and go."""
        for entry in random.sample(self.intake.entries, 4):
            known = by_kind().get((entry.resource.api_version, entry.resource.kind), ())
            if not known:
                continue
            lines = [
                _as_served(
                    {
                        "type": random.choice(("ADDED", "MODIFIED", "MODIFIED", "DELETED")),
                        "object": self._one(random, each),
                    }
                )
                for each in random.choices(known, k=random.randint(1, 6))
            ]
            with self._findings.step(f"watch {entry.resource.kind}"):
                said = decoder_of(entry.resource).lines(b"\n".join(lines) + b"\n")
                self._now += 1.0
                self.intake.take(entry.resource, _changes(said), self._now)

    def _decide(self, random: Random) -> dict[str, Json]:
        """Decide about everything that waits; what is bound, as documents with their nodes."""
        placed: dict[str, Json] = {}
        with self._findings.step("wake"):
            self.dispatcher.wake(self._now)
        for _ in range(MOST_DECISIONS):
            action = None
            with self._findings.step("decide"):
                action = self.dispatcher.decide(self._now)
            if action is None:
                break
            if isinstance(action, Unschedulable):
                if action.traceback:
                    self._findings.note(f"decide: {action.traceback.strip().splitlines()[-1][:100]}", action.traceback)
                self._announcer.refused(action, self._now)
            elif isinstance(action, Complete):
                with self._findings.step("complete"):
                    self._announcer.complete(action)
            elif isinstance(action, Bind):
                with self._findings.step("bind"):
                    self._take(random, action, placed)
            elif isinstance(action, Release):
                for pod in action.pods:
                    with self._findings.step("release"):
                        self.dispatcher.remove_pod(pod_key(pod), self._now)
        with self._findings.step("announce"):
            asyncio.run(self._announcer.explain_for(1.0, self._now + LATER, SideThread(threaded=False)))
        with self._findings.step("count"):
            self._announcer.gangs.count(self.dispatcher.gangs.to_count(), self._now)
        with self._findings.step("problems"):
            self._announcer.remarks.report(self.intake.problems, self.dispatcher.state.remarks)
        return placed

    def _take(self, random: Random, action: Bind, placed: dict[str, Json]) -> None:
        for assignment in action.assignments:
            annotations_of(assignment, self.dispatcher.state)
        self._announcer.placed(action.unit)
        for each in action.assignments:
            self._announcer.pod_placed(each.pod)
        failed = [each for each in action.assignments if random.random() < 0.1]
        if failed:
            self.dispatcher.not_bound(action, failed, self._now)
        else:
            self.dispatcher.bound(action, self._now)
        for each in action.assignments:
            if each not in failed:
                placed[pod_key(each.pod)] = (each.pod, each.node)

    def _bind(self, placed: dict[str, Any]) -> None:
        """The API server shows what was bound."""
        for pod, node in placed.values():
            with self._findings.step("show bound"):
                self._version += 1
                self.dispatcher.set_pod(bound(pod, node), self._now)

    def _books_add_up(self) -> None:
        state = self.dispatcher.state
        anew = ClusterState()
        for node in state.nodes:
            if node is not None:
                anew.set_node(node)
        for key, pod in state.bound.items():
            try:
                anew.set_pod(pod)
            except InvalidObject as error:
                raise Disagreement(f"{key} is bound in one state and refused by another: {error}") from None
        assumed = {key for key in state.pods if key not in state.bound}
        touched = {state.names[state.pods[key].row] for key in assumed}
        for name, row in state.rows.items():
            if name in touched or name not in anew.rows:
                continue
            for resource, other in anew.columns.resource_index.items():
                index = state.columns.resource_index.get(resource)
                there = anew.columns.free[other, anew.rows[name]]
                here = state.columns.free[index, row] if index is not None else 0.0
                # What a node does not have is not counted before some other node has it.
                if anew.columns.offered[other, anew.rows[name]] and not np.isclose(here, there):
                    raise Disagreement(f"free {resource} on {name!r}: {here} in the books, {there} by counting")

    def _nothing_stays(self) -> None:
        dispatcher, state = self.dispatcher, self.dispatcher.state
        left: dict[str, list[Any]] = {
            "pods": list(state.pods),
            "bound": list(state.bound),
            "nodes": list(state.rows),
            "waiting": list(dispatcher.waiting),
            "queue": [None] * len(dispatcher.queue),
            "problems": list(self.intake.problems),
            "gangs": [*dispatcher.roster.names(), *dispatcher.roster.groups],
        }
        if len(state.remarks) > MOST_REMARKS or len(state.names) > MOST_ROWS:
            raise Disagreement(f"grows without end: {len(state.remarks)} problems, {len(state.names)} rows")
        still = {name: found[:3] for name, found in left.items() if found}
        if still:
            raise Disagreement(f"still there after everything was deleted: {still}")


def _as_served(document: Json) -> bytes:
    """The JSON of an API server, which keeps in managed fields what a tenant wrote."""
    text = json.dumps(document).encode()
    for name, fields in FIELDS.items():
        text = text.replace(f'"{name}"'.encode(), fields)
    return text


def _changes(said: WatchLines[Any]) -> Changes[Any]:
    return Changes(said.changes, list(said.broken.values()))


def honest_world(random: Random, findings: Findings) -> None:
    """Nodes whose reports are true, and pods that are spoiled: whatever is bound, the node's
    (virtual) kubelet admits.
    """
    profile = default_profile()
    dispatcher = Dispatcher({"bayplan": profile})
    intake = Intake(dispatcher)
    agents = {f"n{number}": NodeAgent(f"n{number}", any_kubelet(random)) for number in range(random.randint(1, 4))}
    intake.take(NODES, Listed([each.node for each in agents.values()], "1", []), 0.0)
    reports = [each.topology(complete=True) for each in agents.values()]
    intake.take(NODE_RESOURCE_TOPOLOGIES, Listed(reports, "1", []), 0.0)
    bodies = [_spoiled_pod(random, number) for number in range(12)]
    findings.objects += len(bodies)
    with findings.step("list Pod"):
        pods, broken, _ = decoder_of(PODS).page(json.dumps({"items": bodies}).encode())
        intake.take(PODS, Listed(pods, "2", broken), 1.0)
    for turn in range(40):
        action = None
        with findings.step("decide"):
            action = dispatcher.decide(2.0 + turn)
        if action is None:
            break
        if isinstance(action, Unschedulable) and action.traceback:
            findings.note(f"decide: {action.traceback.strip().splitlines()[-1][:100]}", action.traceback)
        if isinstance(action, Bind):
            with findings.step("kubelet admits"):
                _admit(dispatcher, agents, action, 2.0 + turn)


def _spoiled_pod(random: Random, number: int) -> Json:
    body = msgspec.json.decode(msgspec.json.encode(any_pod(random, f"p{number}")))
    if random.random() < 0.5:
        containers = body["spec"]["containers"]
        body["spec"]["containers"] = mutated(random, containers, random.choice((1, 1, 2)), (containers,))
    return {**body, "spec": {**body["spec"], "schedulerName": "bayplan"}, "apiVersion": "v1", "kind": "Pod"}


def _admit(dispatcher: Dispatcher, agents: dict[str, NodeAgent], action: Bind, now: float) -> None:
    dispatcher.bound(action, now)
    for each in action.assignments:
        key, agent = pod_key(each.pod), agents[each.node]
        admission = agent.kubelet.admit(key, effective_request(each.pod))
        if not admission.admitted:
            raise Disagreement(f"the kubelet of {each.node} refuses {key}: {admission}")
        dispatcher.set_pod(bound(each.pod, each.node), now)
        dispatcher.reports.topology(agent.topology(complete=True, at=now), now)
