"""Topology objects: the levels of a tree, and what the API server would refuse."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.kube.errors import InvalidObject
from bayplan.kube.topology_levels import Topology, aliases_of, levels_of


def topology(*labels: str) -> Topology:
    written = {"metadata": {"name": "network"}, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}
    return msgspec.convert(written, Topology)


@pytest.mark.parametrize(
    "labels",
    [
        ("rack",),
        ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack", "kubernetes.io/hostname"),
        ("kubernetes.io/hostname",),
        ("a", "A", "a.b", "a_b", "x/a"),
        tuple(f"level-{number}" for number in range(16)),
        (f"{'a' * 63}.example.com/{'b' * 63}",),
    ],
)
def test_levels_are_labels_the_widest_first(labels: tuple[str, ...]) -> None:
    assert levels_of(topology(*labels)) == labels


@pytest.mark.parametrize(
    "labels, message",
    [
        ((), "spec.levels: has 0 entries: must be 1 to 16"),
        (
            tuple(f"level-{number}" for number in range(17)),
            "spec.levels: has 17 entries: must be 1 to 16",
        ),
        (
            ("block", "not a label"),
            'spec.levels[1].nodeLabel: "not a label" is not a label name; expected such as example.com/rack',
        ),
        (("",), 'spec.levels[0].nodeLabel: "" is not a label name; expected such as example.com/rack'),
        (("/rack",), 'spec.levels[0].nodeLabel: "/rack" is not a label name; expected such as example.com/rack'),
        (("Upper.Case/rack",), 'spec.levels[0].nodeLabel: "Upper.Case/rack" is not a label name; expected such as'),
        (("rack-",), 'spec.levels[0].nodeLabel: "rack-" is not a label name; expected such as example.com/rack'),
        (("rack\n",), "is not a label name; expected such as example.com/rack"),
        (("x" * 317,), "is not a label name; expected such as example.com/rack"),
        (("rack", "block", "rack"), 'spec.levels[2].nodeLabel: "rack" appears twice: levels must be unique'),
        (
            ("kubernetes.io/hostname", "rack"),
            'spec.levels[0].nodeLabel: "kubernetes.io/hostname" can only be the lowest level',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        levels_of(topology(*labels))
    assert str(caught.value).startswith("Topology network: spec.levels")
    assert message in str(caught.value)


def test_a_topology_without_a_spec_has_no_levels() -> None:
    with pytest.raises(InvalidObject, match="has 0 entries"):
        levels_of(msgspec.convert({"metadata": {"name": "network"}}, Topology))


def with_aliases(*levels: tuple[str, str]) -> Topology:
    written = [{"nodeLabel": label, "alias": alias} for label, alias in levels]
    return msgspec.convert({"metadata": {"name": "network"}, "spec": {"levels": written}}, Topology)


def test_an_alias_is_another_name_of_a_level() -> None:
    made = with_aliases(
        ("example.com/fabric", "block"), ("example.com/leaf", ""), ("kubernetes.io/hostname", "machine")
    )
    assert aliases_of(made) == {"block": "example.com/fabric", "machine": "kubernetes.io/hostname"}
    assert aliases_of(topology("rack")) == {}


@pytest.mark.parametrize(
    "levels, message",
    [
        ((("a", "rack"), ("b", "rack")), '[1].alias: "rack" appears twice: aliases must be unique'),
        ((("a", "b"), ("b", "")), '[0].alias: "b" is the nodeLabel of a level: an alias must be another name'),
    ],
)
def test_an_ambiguous_alias_is_refused(levels: tuple[tuple[str, str], ...], message: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        aliases_of(with_aliases(*levels))
    assert str(caught.value) == f"Topology network: spec.levels{message}"
