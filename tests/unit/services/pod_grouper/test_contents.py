"""Whether a PodGroup still says what was applied."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bayplan.kube.core_v1 import Metadata
from bayplan.kube.podgroup_v1alpha1 import PatienceSpec, PodGroup, PodGroupSpec
from bayplan.scheduling.grouping.podgroup import manifest_of
from bayplan.services.pod_grouper.contents import annotation_for, contains, says, strays


@pytest.mark.parametrize(
    "seen, wanted, expected",
    [
        ({"size": 4}, {"size": 4}, True),
        ({"size": 3}, {"size": 4}, False),
        ({}, {"size": 4}, False),
        ({"size": 4, "objective": ["closest"]}, {"size": 4}, True),
        ({"groups": [{"name": "a", "size": 1, "minimum": None}]}, {"groups": [{"name": "a", "size": 1}]}, True),
        ({"groups": [{"name": "a"}, {"name": "b"}]}, {"groups": [{"name": "a"}]}, False),
        ({"groups": None}, {"groups": [{"name": "a"}]}, False),
        ([], {}, False),
    ],
    ids=[
        "the same",
        "another value",
        "a field is missing",
        "somebody added a field",
        "defaults are shown",
        "somebody added a group",
        "groups are gone",
        "another shape",
    ],
)
def test_contains(seen: Any, wanted: Any, expected: bool) -> None:
    assert contains(seen, wanted) is expected


ASKED = PodGroup(metadata=Metadata(name="train"), spec=PodGroupSpec(size=4, required="example.com/rack"))


@pytest.mark.parametrize(
    "change, expected",
    [
        ({"objective": ["closest"]}, []),
        ({"patience": PatienceSpec(domains=1, seconds=60)}, []),
        ({"placement": "spread", "style": "volcano"}, []),
        ({"minimum": 2}, ["minimum"]),
        ({"topology": "other", "preferred": "example.com/block"}, ["topology", "preferred"]),
        ({"minimum_groups": 1, "groups": []}, ["groups", "minimumGroups"]),
    ],
)
def test_what_changes_the_meaning_of_a_gang_is_the_owners_to_say(change: dict[str, Any], expected: list[str]) -> None:
    written, manifest = replace(ASKED, spec=replace(ASKED.spec, **change)), manifest_of(ASKED)
    assert strays(written, manifest) == expected
    assert says(written, manifest) is (not expected)


@pytest.mark.parametrize(
    "field, value, expected",
    [
        ("required", "rack", 'metadata.annotations["kai.scheduler/topology-required-placement"]'),
        ("preferred", "rack", 'metadata.annotations["kai.scheduler/topology-preferred-placement"]'),
        ("segments", "rack", 'metadata.annotations["kai.scheduler/segment-topology-required-placement"]'),
        ("topology", "network", 'metadata.annotations["bayplan.io/topology"]'),
        ("required", "block", ""),
    ],
)
def test_the_annotation_that_a_field_comes_from(field: str, value: str, expected: str) -> None:
    annotations = {
        "bayplan.io/topology": "network",
        "kai.scheduler/topology-required-placement": "rack",
        "kai.scheduler/topology-preferred-placement": "rack",
        "kai.scheduler/segment-topology-required-placement": "rack",
    }
    assert annotation_for({"metadata": {"annotations": annotations}}, field, value) == expected
