"""Members, Topologies and readings in one line each, for the tests of all dialects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan.dialects.dialect import Dialect
from bayplan.dialects.members import Incomplete
from bayplan.gangs.model import Gang, Group
from bayplan.gangs.trees import Topologies
from bayplan.kube.errors import InvalidObject
from bayplan.kube.wire.core_v1 import Pod

ZONE, BLOCK, RACK = "example.com/zone", "example.com/block", "example.com/rack"
NETWORK = Topologies({"network": (ZONE, BLOCK, RACK, "kubernetes.io/hostname")})


def gang(dialect: Dialect[Any], written: object, pods: Sequence[Pod], topologies: Topologies = NETWORK) -> Gang:
    """The gang that a dialect reads."""
    found = dialect.gang_of(written, pods, topologies)
    assert isinstance(found, Gang), found
    return found


def waits(dialect: Dialect[Any], written: object, pods: Sequence[Pod], topologies: Topologies = NETWORK) -> str:
    """What a group waits for."""
    found = dialect.gang_of(written, pods, topologies)
    assert isinstance(found, Incomplete), found
    return found.reason


def wrong(dialect: Dialect[Any], written: object, pods: Sequence[Pod], topologies: Topologies = NETWORK) -> str:
    """What is said about a group that is wrong."""
    with pytest.raises(InvalidObject) as caught:
        dialect.gang_of(written, pods, topologies)
    return str(caught.value)


def outline(group: Group) -> dict[str, tuple[list[str], int]]:
    """Of each group that has pods: their names in order, and how many of them must start."""
    return {
        each.name: ([pod.metadata.name for pod in each.pods], each.least)
        for each in group.every_group()
        if each.pods or each.running
    }
