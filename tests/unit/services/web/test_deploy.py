"""deploy/web against the code: rights to read what is followed, none to write, and flags that are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bayplan.cli.services.web import web
from bayplan.kube.client.live import followed
from bayplan.kube.resources import LIMIT_RANGES, POD_DISRUPTION_BUDGETS, PRIORITY_CLASSES, RESOURCE_QUOTAS

FOLDER = Path(__file__).parents[4] / "deploy" / "web"
REVIEWS = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}


def written(file: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in yaml.safe_load_all((FOLDER / file).read_text()) if each["kind"] == kind)
    return dict(found)


def granted(role: dict[str, Any] | None = None) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in (role or written("web-role.yaml", "ClusterRole"))["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_reads_everything_that_is_followed() -> None:
    needed = {
        (each.api_version.rpartition("/")[0], each.plural, verb) for each in followed() for verb in ("list", "watch")
    }
    listed = (POD_DISRUPTION_BUDGETS, PRIORITY_CLASSES, RESOURCE_QUOTAS, LIMIT_RANGES)
    needed |= {(each.api_version.rpartition("/")[0], each.plural, "list") for each in listed}
    assert needed <= granted()


def test_the_role_writes_nothing_but_reviews() -> None:
    writes = {(group, resource) for group, resource, verb in granted() if verb not in ("get", "list", "watch")}
    assert writes == REVIEWS


def test_people_who_only_ask_may_read_what_the_page_reads() -> None:
    roles = yaml.safe_load_all((FOLDER.parent / "base" / "user-roles.yaml").read_text())
    (viewer,) = (each for each in roles if each["metadata"]["name"] == "bayplan-viewer")
    assert granted(viewer) == {each for each in granted() if each[:2] not in REVIEWS}


def test_every_file_is_part_of_the_kustomization() -> None:
    resources = written("kustomization.yaml", "Kustomization")["resources"]
    assert sorted(resources) == sorted(file.name for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml")


def test_flags_are_accepted() -> None:
    (container,) = written("deployment.yaml", "Deployment")["spec"]["template"]["spec"]["containers"]
    known = {option for parameter in web.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= known


def test_the_service_finds_the_pods() -> None:
    labels = written("deployment.yaml", "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert written("service.yaml", "Service")["spec"]["selector"] == labels
