"""The rights that bayplan's service accounts need, from the very manifests that grant them.

The roles in `deploy/base` and `deploy/agent` come with the package, so the doctor asks for exactly what an installation
of this version would have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bayplan
from bayplan.kube.documents import documents_in
from bayplan.kube.files import decoded

# Roles that may be left out; what they are for then does not happen, and bayplan says so.
OPTIONAL = {
    "release-role.yaml": "gangs that cannot be completed keep their nodes",
    "watch-pods-role.yaml": "reports count ended pods and devices of init containers less exactly",
}


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource for one account, and the manifest that grants it."""

    account_namespace: str
    account: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    file: str

    @property
    def user(self) -> str:
        """The account's user name."""
        return f"system:serviceaccount:{self.account_namespace}:{self.account}"

    @property
    def shown(self) -> str:
        """`create pods/binding`, `list podgroups.bayplan.io`."""
        plural, slash, part = self.resource.partition("/")
        return f"{self.verb} {plural}{f'.{self.group}' if self.group else ''}{slash}{part}"

    @property
    def optional(self) -> str:
        """What happens without it, if it may be left out; else empty."""
        return OPTIONAL.get(Path(self.file).name, "")

    def attributes(self) -> dict[str, str]:
        """The right as the `resourceAttributes` of an access review."""
        plural, _, part = self.resource.partition("/")
        asked = {"verb": self.verb, "group": self.group, "resource": plural, "subresource": part}
        return {**asked, "namespace": self.namespace, "name": self.name}


def manifests_folder() -> Path:
    """`deploy/`: inside the package in a wheel, beside `src/` in a checkout."""
    inside = Path(bayplan.__file__).parent / "deploy"
    return inside if inside.is_dir() else Path(bayplan.__file__).parents[2] / "deploy"


def needed_rights(part: str, folder: Path | None = None) -> list[Right]:
    """The rights that `deploy/PART` grants to service accounts, in the namespaces that the manifests name."""
    base = (folder or manifests_folder()) / part
    (kustomization,) = _documents(base / "kustomization.yaml")
    found: dict[Right, None] = {}
    for file in kustomization["resources"]:
        if not (base / file).is_file():
            continue
        objects = _documents(base / file)
        roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if each["kind"].endswith("Role")}
        for binding in (each for each in objects if each["kind"].endswith("RoleBinding")):
            role = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]))
            namespace = binding["metadata"].get("namespace", "")
            for subject in binding["subjects"] if role is not None else ():
                found |= dict.fromkeys(_granted(role, subject, namespace, f"deploy/{part}/{file}"))
    return list(found)


def _granted(role: Any, subject: Any, namespace: str, file: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Right(subject["namespace"], subject["name"], verb, group, resource, namespace, name, file)


def _documents(file: Path) -> list[Any]:
    return [decoded(each, file) for each in documents_in(file.read_bytes(), file)]
