"""Levels that are wider than what is required already are reported to their author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from bayplan.dialects.own.pod_group import redundant_levels
from bayplan.gangs.trees import Topologies
from bayplan.kube.wire.bayplan_v1alpha1 import PodGroupSpec

NETWORK = {"network": ("zone", "block", "rack")}
HOST = "kubernetes.io/hostname"


def told(spec: dict[str, Any], topologies: Mapping[str, tuple[str, ...]]) -> list[str]:
    found = redundant_levels(msgspec.convert(spec, PodGroupSpec), Topologies(topologies))
    return [f"{each.field}: {each.problem}" for each in found]


def in_vain(field: str, level: str, shared: str) -> str:
    return f'{field}: "{level}" has no effect: it is wider than {shared}, which is required already'


@pytest.mark.parametrize(
    "spec, expected",
    [
        ({"required": "block", "preferred": "rack"}, []),
        ({"required": "rack", "preferred": "rack"}, []),
        ({"preferred": "block", "segments": [{"size": 2, "level": "zone"}]}, []),
        ({"required": "rack", "preferred": "block"}, [in_vain("preferred", "block", "rack")]),
        ({"required": HOST, "preferred": "rack"}, [in_vain("preferred", "rack", HOST)]),
        (
            {"required": "rack", "segments": [{"size": 4, "level": "block"}, {"size": 2, "level": HOST}]},
            [in_vain("segments", "block", "rack")],
        ),
        ({"required": "rack", "groups": [{"name": "a", "required": "zone"}]}, [in_vain("required", "zone", "rack")]),
        (
            {"required": "block", "groups": [{"name": "a", "required": "rack", "preferred": "block"}]},
            [in_vain("preferred", "block", "rack")],
        ),
        ({"required": "rack", "preferred": "hall"}, []),
    ],
    ids=[
        "narrower",
        "the same",
        "nothing is required",
        "a wider preference",
        "wider than a node",
        "wider segments",
        "a wider group inside",
        "wider than its own group",
        "no level at all is another problem",
    ],
)
def test_wider_levels_have_no_effect(spec: dict[str, Any], expected: list[str]) -> None:
    assert told(spec, NETWORK) == expected


def test_the_only_topology_need_not_be_named() -> None:
    spec, both = {"required": "rack", "preferred": "block"}, {**NETWORK, "power": ("feed", "rack", "block")}
    assert told({"topology": "network", **spec}, both) == told(spec, NETWORK) != []
    assert told(spec, both) == told({"topology": "power", **spec}, both) == told({"topology": "x", **spec}, both) == []
