"""Whether a PodGroup still says what was applied."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.services.pod_grouper.contents import contains


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
