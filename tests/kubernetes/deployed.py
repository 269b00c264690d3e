"""deploy/ on a control plane, as `kubectl create -f deploy/crds` and `kubectl apply -k deploy/base` would bring it there.

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
from tests.kubernetes.control_plane.raw_api import Json, RawApi

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "bayplan-system"
SERVICE_ACCOUNT = "bayplan-scheduler"


@dataclass(frozen=True, slots=True)
class Account:
    """The scheduler's service account: raw requests in its name, and a kubeconfig with a token of its own."""

    api: RawApi
    kubeconfig: Path


@contextmanager
def deployed(plane: ControlPlane) -> Iterator[Account]:
    """Everything in deploy/, until the end; the definitions of kinds stay, because others may use them too."""
    plane.apply(DEPLOY / "crds")
    for written in base_objects():
        plane.apply(written)
    token = plane.token_for(NAMESPACE, SERVICE_ACCOUNT)
    try:
        yield Account(plane.api_with(token), plane.kubeconfig_with_token(token))
    finally:
        remove_namespace(plane.api, NAMESPACE)


def base_objects() -> list[Json]:
    """The objects of the base in the order in which kustomization.yaml lists them."""
    kustomization = yaml.safe_load((DEPLOY / "base/kustomization.yaml").read_text())
    return [written for file in kustomization["resources"] for written in read_objects(DEPLOY / "base" / file)]
