"""Kubernetes' Workloads: found by the object they are about, and compared with PodGroups that were created from their
templates.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.dialects.kubernetes.workloads import COUNTS, KubernetesWorkloads
from bayplan.kube.wire.k8s_scheduling_v1beta1 import PodGroup, Workload
from tests.builders.gangs import group_object
from tests.unit.dialects.readings import BLOCK, RACK

GANG_OF_FOUR = {"gang": {"minCount": 4}}


def asked(policy: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {"schedulingPolicy": policy, "schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def workload(name: str = "plan", about: str = "train", **template: Any) -> Workload:
    spec = {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": about} if about else None,
        "podGroupTemplates": [{"name": "worker", **(template or asked(GANG_OF_FOUR, RACK))}],
    }
    return group_object(Workload, spec, name)


def created_from(workload: str, template: str, spec: dict[str, Any]) -> PodGroup:
    reference = {"workload": {"workloadName": workload, "podGroupTemplateName": template}}
    metadata = {"name": "train", "namespace": "ml"}
    return msgspec.convert({"metadata": metadata, "spec": {"podGroupTemplateRef": reference, **spec}}, PodGroup)


def known(*workloads: Workload) -> KubernetesWorkloads:
    found = KubernetesWorkloads()
    for each in workloads:
        found.put(each)
    return found


def names(found: list[Workload]) -> list[str]:
    return [each.metadata.name for each in found]


def test_workloads_are_found_by_what_they_are_about() -> None:
    workloads = known(workload("a"), workload("b"), workload("c", about="other"), workload("d", about=""))
    assert names(workloads.about("ml", "Job", "train")) == ["a", "b"]
    assert names(workloads.about("ml", "Job", "missing")) == names(workloads.about("web", "Job", "train")) == []


def test_one_that_is_gone_or_is_about_something_else_is_found_no_more() -> None:
    workloads = known(workload("a"), workload("b"))
    workloads.remove("ml/a")
    workloads.remove("ml/never-there")
    workloads.put(workload("b", about="other"))
    assert names(workloads.about("ml", "Job", "train")) == []
    assert (names(workloads.about("ml", "Job", "other")), workloads.names()) == (["b"], ["ml/b"])


@pytest.mark.parametrize(
    "named, template, spec, told",
    [
        ("plan", "worker", asked(GANG_OF_FOUR, RACK), ()),
        (
            "lost",
            "worker",
            asked(GANG_OF_FOUR),
            (
                (
                    'podGroupTemplateRef.workload.workloadName: "lost" does not exist, or bayplan '
                    "is not allowed to read it; "
                )
                + COUNTS,
            ),
        ),
        (
            "plan",
            "wrker",
            asked(GANG_OF_FOUR),
            (
                'podGroupTemplateRef.workload.podGroupTemplateName: "wrker" is no template of Workload plan;'
                " known: worker; " + COUNTS,
            ),
        ),
        (
            "plan",
            "worker",
            asked(GANG_OF_FOUR),
            (
                f'schedulingConstraints.topology: is empty, but the template "worker" of Workload plan says {RACK}; '
                + COUNTS,
            ),
        ),
        (
            "plan",
            "worker",
            asked({"basic": {}}, BLOCK),
            (
                'schedulingPolicy: is basic, but the template "worker" of Workload plan says gang with minCount 4; '
                + COUNTS,
                f'schedulingConstraints.topology: is {BLOCK}, but the template "worker" of Workload plan says {RACK}; '
                + COUNTS,
            ),
        ),
    ],
    ids=["the same", "no Workload", "no template", "constraint left out", "both differ"],
)
def test_a_pod_group_is_compared_with_its_template(
    named: str, template: str, spec: dict[str, Any], told: tuple[str, ...]
) -> None:
    assert known(workload()).unlike_template(created_from(named, template, spec)) == told


@pytest.mark.parametrize(
    "reference, told",
    [
        ({"workloadName": "plan", "templateName": "worker"}, ()),
        (
            {"workloadName": "plan", "templateName": "wrker"},
            (f'workloadRef.templateName: "wrker" is no template of Workload plan; known: worker; {COUNTS}',),
        ),
        (
            {"workloadName": "lost", "templateName": "worker"},
            (f'workloadRef.workloadName: "lost" does not exist, or bayplan is not allowed to read it; {COUNTS}',),
        ),
    ],
)
def test_newer_versions_name_the_template_in_workload_ref(reference: dict[str, str], told: tuple[str, ...]) -> None:
    metadata, spec = {"name": "train", "namespace": "ml"}, asked(GANG_OF_FOUR, RACK)
    written = msgspec.convert({"metadata": metadata, "spec": {"workloadRef": reference, **spec}}, PodGroup)
    assert known(workload()).unlike_template(written) == told


def test_a_pod_group_of_no_template_is_like_any() -> None:
    assert known().unlike_template(msgspec.convert({"spec": asked(GANG_OF_FOUR)}, PodGroup)) == ()
