"""deploy/web against the code: rights to read what is followed, none to write, and flags that are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bayplan.cli.services.web import web
from bayplan.kube.client.live import followed
from bayplan.kube.resources import POD_DISRUPTION_BUDGETS

FOLDER = Path(__file__).parents[4] / "deploy" / "web"
REVIEWS = {("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")}


def written(file: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in yaml.safe_load_all((FOLDER / file).read_text()) if each["kind"] == kind)
    return dict(found)


def granted() -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in written("web-role.yaml", "ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_reads_everything_that_is_followed() -> None:
    needed = {
        (each.api_version.rpartition("/")[0], each.plural, verb) for each in followed() for verb in ("list", "watch")
    }
    budgets = POD_DISRUPTION_BUDGETS
    assert needed | {(budgets.api_version.rpartition("/")[0], budgets.plural, "list")} <= granted()


def test_the_role_writes_nothing_but_reviews() -> None:
    writes = {(group, resource) for group, resource, verb in granted() if verb not in ("get", "list", "watch")}
    assert writes == REVIEWS


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
