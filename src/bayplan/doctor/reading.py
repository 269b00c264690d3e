"""Read an installation from a cluster: one look, no changes.

Objects come as every command reads them (`kube/client/live.py`). Beside them: what the API server serves and what time
it has, rights of service accounts, bayplan's own Deployments and DaemonSets, the scheduler's configuration and lease,
and who wrote each report when.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from bayplan.config.configuration import ConfigurationError, configuration_of
from bayplan.doctor.installation import Election, Installation, InstalledNames, InstalledProgram
from bayplan.doctor.rights import Right, needed_rights
from bayplan.kube.client.access import Access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.client.live import followed, read_cluster
from bayplan.kube.client.versions import Served, served
from bayplan.kube.documents import documents_in
from bayplan.kube.errors import InvalidObject
from bayplan.kube.files import decoded
from bayplan.kube.resources import LEASES, NODE_RESOURCE_TOPOLOGIES, Resource
from bayplan.kube.times import moment_of
from bayplan.plugins.node_resource_topology_args import ArgumentError
from bayplan.scheduling.profile import PreemptionMode, Profile
from bayplan.services.agent.heads import REPORT_HEADS, Head
from bayplan.services.agent.publisher import FIELD_MANAGER as AGENT

REVIEWS = "/apis/authorization.k8s.io/v1"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIGURATION_KEY = "config.yaml"
LABEL = "app.kubernetes.io/name=bayplan"
KUEUE_VERSIONS = ("v1beta2", "v1beta1")
ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


async def read_installation(
    access: Access, names: InstalledNames, profiles: tuple[str, ...] = ()
) -> tuple[Installation, list[str]]:
    """One look at a cluster, and sentences about what could not be read.

    `profiles` are used where no configuration names any.
    """
    objects, problems = await read_cluster(access)
    async with KubeClient(access) as client:
        began = time.time()
        user, now = await _who_and_when(client)
        ahead = None if now is None else (began + time.time()) / 2 - now
        programs = await _programs(client, names)
        election, configured = await _election(client, names)
        denied, unasked = await _denied_rights(client, names, user, _parts(configured))
        kinds = {each: await served(client, each) for each in followed() if "/" in each.api_version}
        installation = Installation(
            now=time.time() if now is None else now,
            names=names,
            ahead=_beyond_rounding(ahead),
            server_version=(await _get(client, "/version")).get("gitVersion", ""),
            served=kinds,
            objects=objects,
            programs=programs,
            denied=denied,
            unasked=unasked,
            election=election,
            profiles=profiles or tuple(configured) or Installation(0).profiles,
            written=await _write_times(client, kinds),
            flavors=await _flavors(client),
        )
    return installation, problems


async def _get(client: KubeClient, path: str, **query: str) -> dict[str, Any]:
    """An object as it is; empty if it does not exist or must not be read."""
    try:
        found: dict[str, Any] = msgspec.json.decode(await client.request("GET", path, query=query))
    except ApiError as problem:
        if problem.status in ABSENT:
            return {}
        raise
    return found


async def _who_and_when(client: KubeClient) -> tuple[str, float | None]:
    """Our user name, and the API server's time, in whole seconds; it stands in the head of its answer."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = msgspec.json.decode(await client.request("POST", WHO_AM_I, body=body))
    except ApiError:
        return "", None
    moment = moment_of(answer["metadata"].get("creationTimestamp") or "")
    return answer["status"]["userInfo"].get("username", ""), None if moment is None else moment.timestamp()


def _beyond_rounding(ahead: float | None) -> float | None:
    """The API server's time is cut to the second, so up to one second ahead is none."""
    if ahead is None or 0 <= ahead <= 1:
        return None if ahead is None else 0.0
    return ahead - 1 if ahead > 1 else ahead


async def _programs(client: KubeClient, names: InstalledNames) -> tuple[InstalledProgram, ...]:
    """bayplan's Deployments and DaemonSets in its two namespaces, by label."""
    found: list[InstalledProgram] = []
    for namespace in dict.fromkeys((names.namespace, names.agent_namespace)):
        for plural, kind in (("deployments", "Deployment"), ("daemonsets", "DaemonSet")):
            path = f"/apis/apps/v1/namespaces/{namespace}/{plural}"
            items = (await _get(client, path, labelSelector=LABEL)).get("items", ())
            found += [program_of(item, kind, namespace) for item in items]
    return tuple(found)


def program_of(item: Mapping[str, Any], kind: str, namespace: str) -> InstalledProgram:
    """A Deployment or DaemonSet as the API server has it."""
    status = item.get("status", {})
    wanted = item["spec"].get("replicas", 1) if kind == "Deployment" else status.get("desiredNumberScheduled", 0)
    ready = status.get("readyReplicas", 0) if kind == "Deployment" else status.get("numberReady", 0)
    containers = item["spec"]["template"]["spec"]["containers"]
    images = tuple(each["image"] for each in containers if each.get("command", [""])[0] == "bayplan")
    return InstalledProgram(kind, namespace, item["metadata"]["name"], wanted, ready, images)


def _parts(profiles: Mapping[str, Profile]) -> tuple[str, ...]:
    """The folders of `deploy/` whose rights an installation with these profiles needs."""
    evicts = any(each.preemption is PreemptionMode.ON for each in profiles.values())
    return ("base", "agent", "preemption") if evicts else ("base", "agent")


async def _denied_rights(
    client: KubeClient, names: InstalledNames, user: str, parts: Iterable[str]
) -> tuple[tuple[Right, ...], str]:
    """The rights that existing service accounts lack, or why that could not be found out."""
    groups = {each["name"] for each in (await _get(client, "/apis")).get("groups", ())} | {""}
    moved = {"bayplan-system": names.namespace, "bayplan-agent": names.agent_namespace}
    rights = [_moved(each, moved) for part in parts for each in needed_rights(part)]
    rights = [each for each in rights if each.group in groups]
    accounts = {each.user: (each.account_namespace, each.account) for each in rights}
    present = {each for each, account in accounts.items() if each == user or await _exists(client, *account)}
    asked = [each for each in rights if each.user in present]
    own = [each for each in asked if each.user == user]
    try:
        answers = await asyncio.gather(*(_allowed(client, each, user) for each in asked))
    except ApiError as problem:
        if problem.status != HTTPStatus.FORBIDDEN:
            raise
        answers = await asyncio.gather(*(_allowed(client, each, user) for each in own))
        asked, unasked = own, f"{user} must not create subjectaccessreviews"
        return _those_denied(asked, answers), unasked if not own else f"{unasked}; only its own rights are known"
    return _those_denied(asked, answers), ""


def _those_denied(asked: Iterable[Right], answers: Iterable[bool]) -> tuple[Right, ...]:
    return tuple(right for right, allowed in zip(asked, answers, strict=True) if not allowed)


def _moved(right: Right, namespaces: Mapping[str, str]) -> Right:
    """The same right in an installation with other namespaces than the manifests have."""
    account = namespaces.get(right.account_namespace, right.account_namespace)
    return replace(right, account_namespace=account, namespace=namespaces.get(right.namespace, right.namespace))


async def _exists(client: KubeClient, namespace: str, account: str) -> bool:
    """Whether a service account exists; yes where it must not be read, so that its rights are not silently left out."""
    try:
        await client.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")
    except ApiError as problem:
        if problem.status not in ABSENT:
            raise
        return problem.status == HTTPStatus.FORBIDDEN
    return True


async def _allowed(client: KubeClient, right: Right, user: str) -> bool:
    """What the API server answers: about ourselves by SelfSubjectAccessReview, about others by SubjectAccessReview."""
    spec: dict[str, object] = {"resourceAttributes": right.attributes()}
    kind = "SelfSubjectAccessReview"
    if right.user != user:
        kind = "SubjectAccessReview"
        groups = [f"system:serviceaccounts:{right.account_namespace}", "system:serviceaccounts", "system:authenticated"]
        spec |= {"user": right.user, "groups": groups}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = msgspec.json.decode(await client.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body))
    allowed: bool = answer["status"].get("allowed", False)
    return allowed


async def _election(client: KubeClient, names: InstalledNames) -> tuple[Election, Mapping[str, Profile]]:
    """The lease that the scheduler's ConfigMap names, as it is, and its profiles."""
    path = f"/api/v1/namespaces/{names.namespace}/configmaps/{names.scheduler}"
    text = ((await _get(client, path)).get("data") or {}).get(CONFIGURATION_KEY, "")
    election = Election(namespace=names.namespace)
    profiles: Mapping[str, Profile] = {}
    if text:
        source = Path(CONFIGURATION_KEY)
        try:
            (document,) = (decoded(each, source) for each in documents_in(text.encode(), source))
            read = configuration_of(document)
        except (ConfigurationError, ArgumentError, InvalidObject, ValueError) as problem:
            return Election(namespace=names.namespace, problem=str(problem)), {}
        settings = read.services.leader_election
        election = Election(settings.namespace, settings.name, settings.enabled)
        profiles = read.profiles
    try:
        lease = await client.get(LEASES, election.name, election.namespace)
    except ApiError as problem:
        if problem.status not in ABSENT:
            raise
        return election, profiles
    return replace(election, lease=lease.spec), profiles


async def _flavors(client: KubeClient) -> dict[str, str]:
    """The Topology of each of Kueue's ResourceFlavors that has one; none without Kueue."""
    for version in KUEUE_VERSIONS:
        items = (await _get(client, f"/apis/kueue.x-k8s.io/{version}/resourceflavors")).get("items")
        if items is not None:
            return topologies_of_flavors(items)
    return {}


def topologies_of_flavors(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """By ResourceFlavor, as the API server has it: its Topology, if it has one."""
    named = {each["metadata"]["name"]: each.get("spec", {}).get("topologyName", "") for each in items}
    return {flavor: topology for flavor, topology in named.items() if topology}


async def _write_times(client: KubeClient, kinds: Mapping[Resource[Any], Served]) -> dict[str, float]:
    """When an agent last wrote each report, by the API server's clock.

    Other writers leave the agent's moment as it was.
    """
    readable = kinds[NODE_RESOURCE_TOPOLOGIES].readable
    if readable is None:
        return {}
    try:
        heads = await client.list(REPORT_HEADS[readable.api_version])
    except ApiError as problem:
        if problem.status not in ABSENT:
            raise
        return {}
    times = {head.metadata.name: _last_write(head) for head in heads.items}
    return {name: moment for name, moment in times.items() if moment is not None}


def _last_write(head: Head) -> float | None:
    moments = [moment_of(each.time) for each in head.metadata.managed_fields or () if each.manager == AGENT]
    return max((each.timestamp() for each in moments if each is not None), default=None)
