"""deploy/ on a control plane, as `kubectl create -f deploy/crds` and `kubectl apply -k deploy/base` (or an overlay of
it) would bring it there.

with deployed(control_plane) as account:
    account.api.get("/api/v1/nodes")           # as the scheduler's service account
    running_scheduler(kubeconfig=account.kubeconfig)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.kubernetes.control_plane.objects import read_objects, remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json, RawApi
from tests.kubernetes.control_plane.waiting import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "bayplan-system"
SERVICE_ACCOUNT = "bayplan-scheduler"
POD_GROUPER = "bayplan-pod-grouper"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/{}",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{{}}",
}


@dataclass(frozen=True, slots=True)
class Account:
    """A service account: raw requests in its name, and a kubeconfig with a token of its own."""

    api: RawApi
    kubeconfig: Path


@dataclass(frozen=True, slots=True)
class Deployed(Account):
    """The scheduler's service account, and beside it that of the pod grouper."""

    pod_grouper: Account


@contextmanager
def deployed(plane: ControlPlane, overlay: str = "") -> Iterator[Deployed]:
    """The base in deploy/ and what an overlay makes of it, until the end; the definitions of kinds stay, because others
    may use them too.
    """
    plane.apply(DEPLOY / "crds")
    for written in base_objects():
        plane.apply(written)
    if overlay:
        _lay_over(plane, DEPLOY / overlay)
    token, of_grouper = plane.token_for(NAMESPACE, SERVICE_ACCOUNT), plane.token_for(NAMESPACE, POD_GROUPER)
    grouper = Account(plane.api_with(of_grouper), plane.kubeconfig_with_token(of_grouper))
    found = Deployed(plane.api_with(token), plane.kubeconfig_with_token(token), grouper)
    try:
        wait_until(lambda: _policies_hold(found), "the admission policies hold", timeout=60)
        yield found
    finally:
        remove_namespace(plane.api, NAMESPACE)
        if overlay:
            _take_away_rights(plane, DEPLOY / overlay)


def _policies_hold(account: Account) -> bool:
    """Whether the API server has taken in the policies, which takes it a moment: then a lease of another name is
    refused.
    """
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe"}}
    try:
        account.api.post(f"{LEASES}?dryRun=All", lease)
    except ApiRefused as refused:
        return "ValidatingAdmissionPolicy" in str(refused)
    return False


def _lay_over(plane: ControlPlane, folder: Path) -> None:
    """The objects that an overlay adds, and its patches, which the API server carries out as kustomize would."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for file in kustomization["resources"]:
        if file != "../base":
            plane.apply(folder / file)
    for patch in kustomization["patches"]:
        if "path" in patch:
            plane.apply(folder / patch["path"])
            continue
        path = PATHS[patch["target"]["kind"]].format(patch["target"]["name"])
        plane.api.patch(path, yaml.safe_load(patch["patch"]), kind="json-patch")


def _take_away_rights(plane: ControlPlane, folder: Path) -> None:
    """Remove the bindings that an overlay adds: the next one to deploy the base has the same accounts."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for file in kustomization["resources"]:
        for each in read_objects(folder / file) if file != "../base" else ():
            if each["kind"] == "ClusterRoleBinding":
                plane.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{each['metadata']['name']}")


def may(api: RawApi, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = "") -> bool:
    """What the API server answers to "may I?"."""
    plural, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = api.post(
        REVIEWS, {**review, "spec": {"resourceAttributes": {**asked, "namespace": namespace, "name": name}}}
    )
    allowed: bool = answer["status"]["allowed"]
    return allowed


def base_objects() -> list[Json]:
    """The objects of the base in the order in which kustomization.yaml lists them."""
    kustomization = yaml.safe_load((DEPLOY / "base/kustomization.yaml").read_text())
    return [written for file in kustomization["resources"] for written in read_objects(DEPLOY / "base" / file)]


def arguments_of(deployment: str, *but: str) -> list[str]:
    """The arguments that a Deployment of the base gives its container, without those that begin with `but`."""
    (found,) = (
        each for each in base_objects() if (each["kind"], each["metadata"]["name"]) == ("Deployment", deployment)
    )
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return [each for each in container["args"] if not each.startswith(but)]


def scheduler_arguments(folder: Path) -> list[str]:
    """The arguments of the scheduler's Deployment.

    Its configuration, which is a ConfigMap there, is a file in `folder`.
    """
    written = {(each["kind"], each["metadata"]["name"]): each for each in base_objects()}
    configuration = folder / "config.yaml"
    configuration.write_text(written["ConfigMap", SERVICE_ACCOUNT]["data"]["config.yaml"])
    return [f"--config={configuration}", *arguments_of(SERVICE_ACCOUNT, "--config=", "--health-address=")]
