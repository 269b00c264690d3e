"""deploy/extender against the code: rights are exactly those used, and flags and configuration are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from bayplan.cli.services.extender import extender
from bayplan.config.configuration import configuration_of
from bayplan.scheduling.profile import default_profile
from bayplan.services.extender.cluster import ExtenderCluster

FOLDER = Path(__file__).parents[4] / "deploy" / "extender"


def written(file: str, kind: str) -> dict[str, Any]:
    (found,) = (each for each in yaml.safe_load_all((FOLDER / file).read_text()) if each["kind"] == kind)
    return dict(found)


def test_the_role_has_a_right_for_every_watch_and_for_binds() -> None:
    granted = {
        (group, resource, verb)
        for rule in written("extender-role.yaml", "ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    watched = (entry.resource for entry in ExtenderCluster({"bayplan": default_profile()}).entries())
    needed = {
        (each.api_version.rpartition("/")[0], each.plural, verb)
        for each in watched
        for verb in ("get", "list", "watch")
    }
    assert granted == needed | {("", "pods/binding", "create")}


def test_every_file_is_part_of_the_kustomization() -> None:
    resources = written("kustomization.yaml", "Kustomization")["resources"]
    assert sorted(resources) == sorted(file.name for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml")


def test_flags_and_configuration_are_accepted() -> None:
    pod = written("deployment.yaml", "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    known = {option for parameter in extender.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
    configuration = written("configuration.yaml", "ConfigMap")["data"]["config.yaml"]
    assert list(configuration_of(yaml.safe_load(configuration)).profiles) == ["default-scheduler"]


def test_the_service_finds_the_pods() -> None:
    labels = written("deployment.yaml", "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert written("service.yaml", "Service")["spec"]["selector"] == labels
