"""deploy/ on a real API server: everything is accepted, and the service account may do what it
must and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.config.service_settings import LeaderElectionSettings
from bayplan.dispatch.dispatcher import Dispatcher
from bayplan.grouping.kinds import KNOWN
from bayplan.kube.client.access import find_access
from bayplan.kube.client.client import ApiError, KubeClient
from bayplan.kube.resources import KNOWN_POD_GROUPS, PODS, Resource
from bayplan.services.edges.conditions import ConditionWriter
from bayplan.services.edges.events import EventRecorder, Subject
from bayplan.services.edges.leader import HoldsLease, LeaseKeeper, run_while_leading
from bayplan.services.edges.outbox import Outbox
from bayplan.services.scheduler.intake import Intake
from tests.kubernetes.control_plane.objects import read_objects
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json
from tests.kubernetes.deployed import DEPLOY, NAMESPACE, Account, Deployed, base_objects, deployed, may

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
GROUPS = "/apis/bayplan.io/v1alpha1/namespaces/{}/podgroups"


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> Iterator[Deployed]:
    with deployed(control_plane) as found:
        yield found


def group_of(resource: Resource[Any]) -> str:
    return resource.api_version.rpartition("/")[0]


def as_account(account: Account, story: Callable[[KubeClient], Awaitable[None]]) -> None:
    """Do something with bayplan's own client, as the service account."""

    async def run() -> None:
        async with KubeClient(find_access(str(account.kubeconfig))) as client:
            await story(client)

    asyncio.run(run())


async def until_sent(outbox: Outbox[Any], number: int) -> None:
    for _ in range(1000):
        if outbox.sent >= number:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{outbox.sent} of {number} sent, {outbox.failed} failed")


def waiting_pod(
    control_plane: ControlPlane, namespace: str, name: str = "waits", labels: dict[str, str] | None = None
) -> Json:
    container = {"name": "main", "image": "pause"}
    spec = {"schedulerName": "bayplan", "containers": [container]}
    (pod,) = control_plane.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec},
        namespace=namespace,
    )
    return pod


def test_the_base_is_accepted_as_it_is(control_plane: ControlPlane, account: Account) -> None:
    """Fields that the API server does not know would be dropped in silence; asked strictly, it refuses them."""
    for written in base_objects():
        api_version, kind = written["apiVersion"], written["kind"].lower()
        plural = f"{kind.removesuffix('y')}ies" if kind.endswith("policy") else f"{kind}s"
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        namespace = written["metadata"].get("namespace")
        path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
        name = written["metadata"]["name"]
        options = "fieldManager=test&fieldValidation=Strict&dryRun=All&force=true"
        control_plane.api.patch(f"{path}/{name}?{options}", written, kind="apply-patch")


def test_the_deployments_pod_passes_the_strictest_pod_security(control_plane: ControlPlane, account: Account) -> None:
    for deployment in (each for each in base_objects() if each["kind"] == "Deployment"):
        passes_pod_security(control_plane, deployment["spec"]["template"])


def passes_pod_security(control_plane: ControlPlane, template: Json) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", **template["metadata"]},
        "spec": template["spec"],
    }
    assert control_plane.post(pods, pod)["spec"]["priority"] > 0
    careless = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
    with pytest.raises(ApiRefused, match="violates PodSecurity") as refused:
        control_plane.post(pods, careless)
    assert refused.value.status == 403


@pytest.mark.parametrize("file", sorted((DEPLOY / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_are_accepted(control_plane: ControlPlane, account: Account, namespace: str, file: Path) -> None:
    assert control_plane.apply(file, namespace=namespace)


def test_a_pod_group_with_a_slip_is_refused(control_plane: ControlPlane, account: Account, namespace: str) -> None:
    gang = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "train"}}
    for spec, word in (
        ({"size": -1}, "spec.size"),
        ({"size": 4, "placement": "tetris"}, "spec.placement"),
        ({"groups": [{"size": 4}]}, "spec.groups"),
        ({"size": 4, "requierd": "rack"}, "requierd"),
    ):
        with pytest.raises(ApiRefused, match=word):
            control_plane.post(GROUPS.format(namespace) + "?fieldValidation=Strict", {**gang, "spec": spec})


# As the code has it: a resource that the scheduler follows, or a kind of gang whose status it writes, is in here by
# itself.
FOLLOWED = [entry.resource for entry in Intake(Dispatcher({})).entries]
ALLOWED = [
    *((verb, each.plural, group_of(each)) for each in FOLLOWED for verb in ("get", "list", "watch")),
    *(("patch", f"{each.plural}/status", group_of(each)) for each in KNOWN_POD_GROUPS.values()),
    ("delete", "pods", ""),
    ("create", "pods/binding", ""),
    ("patch", "pods/status", ""),
    ("create", "events", "events.k8s.io"),
    ("patch", "events", "events.k8s.io"),
]
ALLOWED_TO_THE_GROUPER = [
    *((verb, "pods", "") for verb in ("get", "list", "watch", "patch")),
    *((verb, "podgroups", "bayplan.io") for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("patch", "podgroups/status", "bayplan.io"),
    ("create", "events", "events.k8s.io"),
    ("patch", "events", "events.k8s.io"),
    *(("get", f"{kind.lower()}s", group) for group, kind in KNOWN),
    ("list", "jobs", "batch"),
]
ONLY_THE_GROUPER = [
    ("patch", "pods", ""),
    ("create", "podgroups", "bayplan.io"),
    ("get", "deployments", "apps"),
    ("list", "jobs", "batch"),
]
ONLY_THE_SCHEDULER = [
    ("delete", "pods", ""),
    ("create", "pods/binding", ""),
    ("patch", "pods/status", ""),
    ("get", "nodes", ""),
]
FORBIDDEN = [
    ("create", "pods", ""),
    ("deletecollection", "pods", ""),
    ("update", "pods/status", ""),
    ("create", "pods/exec", ""),
    ("delete", "nodes", ""),
    ("patch", "nodes", ""),
    ("patch", "nodes/status", ""),
    ("get", "nodes/proxy", ""),
    ("delete", "namespaces", ""),
    ("get", "secrets", ""),
    ("list", "secrets", ""),
    ("get", "configmaps", ""),
    ("create", "serviceaccounts/token", ""),
    ("create", "events", ""),
    ("delete", "events", "events.k8s.io"),
    ("watch", "jobs", "batch"),
    ("list", "jobsets", "jobset.x-k8s.io"),
    ("patch", "jobs", "batch"),
    ("patch", "workloads", "scheduling.k8s.io"),
    ("patch", "noderesourcetopologies", "topology.node.k8s.io"),
    ("get", "leases", "coordination.k8s.io"),
    ("update", "leases", "coordination.k8s.io"),
    ("bind", "clusterroles", "rbac.authorization.k8s.io"),
    ("create", "tokenreviews", "authentication.k8s.io"),
    ("impersonate", "users", ""),
]


def test_rights_in_the_whole_cluster(account: Deployed) -> None:
    for api, allowed, of_the_other in (
        (account.api, ALLOWED, ONLY_THE_GROUPER),
        (account.pod_grouper.api, ALLOWED_TO_THE_GROUPER, ONLY_THE_SCHEDULER),
    ):
        assert [right for right in allowed if not may(api, right[0], right[1], group=right[2])] == []
        assert [right for right in (*FORBIDDEN, *of_the_other) if may(api, right[0], right[1], group=right[2])] == []


@pytest.mark.parametrize(
    "verb, name, where, allowed",
    [
        ("get", "bayplan", NAMESPACE, True),
        ("update", "bayplan", NAMESPACE, True),
        ("create", "", NAMESPACE, True),
        ("update", "another", NAMESPACE, False),
        ("delete", "bayplan", NAMESPACE, False),
        ("list", "", NAMESPACE, False),
        ("update", "bayplan-pod-grouper", NAMESPACE, False),
        ("create", "", "kube-system", False),
        ("update", "kube-scheduler", "kube-system", False),
    ],
)
def test_rights_on_leases(account: Account, verb: str, name: str, where: str, allowed: bool) -> None:
    assert may(account.api, verb, "leases", group="coordination.k8s.io", namespace=where, name=name) is allowed


def test_users_who_may_edit_pods_may_edit_gangs(control_plane: ControlPlane, account: Account) -> None:
    """No controller here aggregates roles, as the controller manager would; the rules it would take in are there."""
    role = control_plane.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/bayplan-podgroups-edit")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"


def test_the_account_binds_and_releases_pods_and_deletes_no_node(
    control_plane: ControlPlane, account: Account, namespace: str
) -> None:
    control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    pod = waiting_pod(control_plane, namespace, labels={"bayplan.io/pod-group": "g"})

    async def story(client: KubeClient) -> None:
        await client.bind(namespace, "waits", pod["metadata"]["uid"], "n1", {"bayplan.io/rank": "0"})
        bound = await client.get(PODS, "waits", namespace)
        assert (bound.spec.node_name, (bound.metadata.annotations or {})["bayplan.io/rank"]) == ("n1", "0")
        with pytest.raises(ApiError) as refused:
            await client.request("DELETE", "/api/v1/nodes/n1")
        assert refused.value.status == 403
        await client.delete(PODS, "waits", namespace, uid=pod["metadata"]["uid"], grace=0)

    as_account(account, story)
    assert not control_plane.api.exists(f"/api/v1/namespaces/{namespace}/pods/waits")


def test_the_account_writes_events_that_the_server_accepts_and_counts_repetitions(
    control_plane: ControlPlane, account: Account, namespace: str
) -> None:
    waiting_pod(control_plane, namespace)
    control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})

    async def story(client: KubeClient) -> None:
        pod = await client.get(PODS, "waits", namespace)
        async with EventRecorder(client, instance="bayplan-0") as events:
            events.failed_scheduling(pod, "no room")
            events.scheduled(pod, "n1")
            events.record(Subject("v1", "Node", "", "n1", "u"), "Warning", "InvalidTopology", "Reading", namespace)
            await until_sent(events.outbox, 3)
            events.failed_scheduling(pod, "no room")
        assert (events.outbox.sent, events.outbox.failed) == (4, 0)

    as_account(account, story)
    written = control_plane.get(EVENTS.format(namespace))["items"]
    told = {each["reason"]: (each["type"], each["note"], (each.get("series") or {}).get("count")) for each in written}
    assert told == {
        "FailedScheduling": ("Warning", "no room", 2),
        "Scheduled": ("Normal", f"Successfully assigned {namespace}/waits to n1", None),
    }
    about_nodes = control_plane.get(EVENTS.format("default"))["items"]
    assert namespace in {each["note"] for each in about_nodes}


def test_the_account_writes_conditions_but_not_onto_pods_that_were_bound_meanwhile(
    control_plane: ControlPlane, account: Account, namespace: str
) -> None:
    control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    for name in ("waits", "overtaken"):
        waiting_pod(control_plane, namespace, name)

    async def story(client: KubeClient) -> None:
        waits, overtaken = [await client.get(PODS, name, namespace) for name in ("waits", "overtaken")]
        await client.bind(namespace, "overtaken", overtaken.metadata.uid, "n1", {})
        async with ConditionWriter(client) as conditions:
            conditions.unschedulable(waits, "no room")
            conditions.unschedulable(overtaken, "no room")
            await until_sent(conditions.outbox, 2)
            # The scheduler has not seen its own write yet when it writes the next.
            conditions.unschedulable(waits, "still no room")
        assert (conditions.outbox.sent, conditions.outbox.failed) == (3, 0)

    as_account(account, story)
    found = {
        name: [
            (each["status"], each.get("message"))
            for each in control_plane.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]["conditions"]
            if each["type"] == "PodScheduled"
        ]
        for name in ("waits", "overtaken")
    }
    assert found == {"waits": [("False", "still no room")], "overtaken": [("True", None)]}


def test_the_account_holds_its_lease_and_gives_it_up(control_plane: ControlPlane, account: Account) -> None:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/bayplan"
    settings = LeaderElectionSettings(True, 15.0, 10.0, 2.0, "bayplan", NAMESPACE)
    seen: list[str | None] = []

    async def story(client: KubeClient) -> None:
        async def work(holds: HoldsLease) -> None:
            assert holds()
            seen.append(control_plane.get(lease)["spec"].get("holderIdentity"))

        def changed(*, leads: bool) -> None:
            """The lease itself tells."""

        await run_while_leading(LeaseKeeper(client), settings, "bayplan-0", work, on_change=changed)

    as_account(account, story)
    seen.append(control_plane.get(lease)["spec"].get("holderIdentity"))
    assert seen == ["bayplan-0", None]


def test_definitions_hold_what_users_write(control_plane: ControlPlane, account: Account, namespace: str) -> None:
    """Groups inside groups come back as they were written, however deep."""
    leaf = {"name": "leaf", "size": 2, "pod": {"resources": {"cpu": "500m", "memory": 1073741824}}}
    spec = {"groups": [{"name": "a", "groups": [{"name": "b", "groups": [leaf], "required": "example.com/rack"}]}]}
    gang = {"apiVersion": "bayplan.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "deep"}, "spec": spec}
    assert control_plane.post(GROUPS.format(namespace), gang)["spec"] == spec
    (topology,) = (each for each in read_objects(DEPLOY / "examples/gang.yaml") if each["kind"] == "Topology")
    (applied,) = control_plane.apply(topology)
    assert applied["spec"] == topology["spec"]
