"""What admission makes of `priorityClassName`, `priority` and `preemptionPolicy`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.kube.priority_classes import PriorityClass, PriorityClasses, specs_of
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroup
from tests.builders.objects import cpu_pod


def priority_class(name: str, value: int, **more: Any) -> PriorityClass:
    return msgspec.convert({"metadata": {"name": name}, "value": value, **more}, PriorityClass)


HIGH = priority_class("high", 100, preemptionPolicy="Never")
DEFAULT = priority_class("default", 7, globalDefault=True)


@pytest.mark.parametrize(
    "classes, spec, priority, policy",
    [
        ((HIGH,), {"priorityClassName": "high"}, 100, "Never"),
        ((HIGH,), {}, None, None),
        ((HIGH, DEFAULT), {}, 7, None),
        ((HIGH, DEFAULT), {"priority": 3}, 3, None),
        ((DEFAULT, priority_class("lower", 5, globalDefault=True)), {}, 5, None),
        ((), {"priorityClassName": "system-node-critical"}, 2_000_001_000, None),
        ((HIGH,), {"priorityClassName": "hihg"}, None, None),
        ((HIGH, priority_class("high", 9)), {"priorityClassName": "high"}, 9, None),
    ],
)
def test_a_pod_gets_the_priority_of_its_class(
    classes: tuple[PriorityClass, ...], spec: dict[str, Any], priority: int | None, policy: str | None
) -> None:
    admitted = PriorityClasses(classes).admitted(cpu_pod(1, **spec)).spec
    assert (admitted.priority, admitted.preemption_policy) == (priority, policy)


@pytest.mark.parametrize(
    "spec, problem",
    [
        ({"priorityClassName": "hihg"}, 'there is no PriorityClass "hihg"; did you mean high?'),
        ({"priorityClassName": "hihg", "priority": 3}, ""),
        ({"priorityClassName": "high"}, ""),
        ({}, ""),
    ],
)
def test_a_class_that_does_not_exist_is_named(spec: dict[str, Any], problem: str) -> None:
    assert PriorityClasses((HIGH,)).problem(cpu_pod(1, **spec).spec) == problem


def test_pods_made_from_the_shapes_of_a_pod_group_get_the_priority_too() -> None:
    shape = {"spec": {"priorityClassName": "high", "containers": [{"name": "main"}]}}
    written = {"metadata": {"name": "train"}, "spec": {"groups": [{"name": "workers", "size": 2, "pod": shape}]}}
    gang = PriorityClasses((HIGH,)).admitted_gang(msgspec.convert(written, PodGroup))
    assert [(field, spec.priority) for field, spec in specs_of(gang)] == [("spec.groups[0].pod.spec", 100)]
