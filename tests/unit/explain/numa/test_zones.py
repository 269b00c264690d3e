"""Zones in words, and the annotation that reports them."""

import pytest

from bayplan.cluster.remarks import ObjectRemark
from bayplan.cluster.reports.pod_zones import NUMA_ZONES, zones_of_pod
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.numa.labels import zone_column, zone_numbers, zone_phrase
from bayplan.kube.wire.core_v1 import Metadata, Pod


@pytest.mark.parametrize(
    "zones, text", [([3], "3"), ([0, 1], "0-1"), ([5, 0, 1, 2], "0-2,5"), ([0, 2, 4], "0,2,4"), ([], "")]
)
def test_runs_of_zones_become_ranges(zones: list[int], text: str) -> None:
    assert zone_numbers(zones) == text


@pytest.mark.parametrize(
    "containers, column, phrase",
    [
        ([], "-", ""),
        ([("app", None)], "-", ""),
        ([("app", (1,))], "1", "NUMA zone 1"),
        ([("app", (1,)), ("log", (1,)), ("shell", None)], "1", "NUMA zone 1"),
        ([("app", (4, 5))], "4-5", "NUMA zones 4-5"),
        ([("app", (0,)), ("log", (1,))], "app 0, log 1", "NUMA zones app 0, log 1"),
        ([("app", (0,)), ("db", (0,)), ("log", (1,))], "0 (log 1)", "NUMA zones 0 (log 1)"),
    ],
)
def test_containers_that_share_a_place_are_said_once(
    containers: list[tuple[str, tuple[int, ...] | None]], column: str, phrase: str
) -> None:
    placed = [ContainerZones(name, zones) for name, zones in containers]
    assert zone_column(placed) == column
    assert zone_phrase(placed) == phrase


@pytest.mark.parametrize(
    "text, zones",
    [
        ('{"app": [1]}', {"app": (1,)}),
        ('{"app": [1, 0, 1], "log": []}', {"app": (0, 1)}),
        ("{}", {}),
    ],
)
def test_a_pod_reports_its_zones_in_an_annotation(text: str, zones: dict[str, tuple[int, ...]]) -> None:
    assert zones_of_pod(Pod(metadata=Metadata(name="p", annotations={NUMA_ZONES: text}))) == zones


@pytest.mark.parametrize("text", ["", "1", "[1]", '{"app": "1"}', '{"app": [1.5]}', "{"])
def test_an_annotation_that_makes_no_sense_is_ignored_and_named(text: str) -> None:
    problems: list[ObjectRemark] = []
    pod = Pod(metadata=Metadata(name="p", namespace="ns", annotations={NUMA_ZONES: text}))
    assert zones_of_pod(pod, problems) == {}
    assert str(problems[0]).startswith('Pod ns/p: metadata.annotations["bayplan.io/numa-zones"]: ')
