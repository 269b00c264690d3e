"""Levels by whole label or short name: what is meant, and what is said about names that mean nothing or too much."""

from __future__ import annotations

import pytest

from bayplan.kube.topology_levels import HOSTNAME, level_meant, levels_meant, not_a_level

CLOUD = ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack")
TWO = ("a.example/rack", "b.example/rack")


@pytest.mark.parametrize(
    "name, levels, meant",
    [
        ("cloud.provider.com/topology-rack", CLOUD, [CLOUD[1]]),
        ("topology-rack", CLOUD, [CLOUD[1]]),
        ("rack", CLOUD, [CLOUD[1]]),
        ("Rack", CLOUD, [CLOUD[1]]),
        ("zone", ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"), ["topology.kubernetes.io/zone"]),
        (
            "block",
            ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
            ["cloud.google.com/gce-topology-block"],
        ),
        ("rack", ("rack", "example.com/rack"), ["rack"]),
        ("rack", ("example.com/rack", "example.com/half-rack"), ["example.com/rack"]),
        ("rack", TWO, list(TWO)),
        ("topology", CLOUD, []),
        ("ack", CLOUD, []),
        ("node", CLOUD, [HOSTNAME]),
        ("host", CLOUD, [HOSTNAME]),
        ("host", ("cloud.google.com/gce-topology-host",), ["cloud.google.com/gce-topology-host"]),
        (HOSTNAME, (), [HOSTNAME]),
    ],
)
def test_short_names_of_levels(name: str, levels: tuple[str, ...], meant: list[str]) -> None:
    assert levels_meant(name, levels) == meant
    assert level_meant(name, levels) == (meant[0] if len(meant) == 1 else None)


@pytest.mark.parametrize(
    "name, levels, told",
    [
        ("rack", TWO, '"rack" is ambiguous: it may be a.example/rack or b.example/rack; write the whole label'),
        (
            "rak",
            ("example.com/block", "example.com/rack"),
            '"rak" is not a level; there are x, y; did you mean "example.com/rack"?',
        ),
        ("datacentre", TWO, '"datacentre" is not a level; there are x, y'),
    ],
)
def test_what_is_said_about_names_that_are_no_level(name: str, levels: tuple[str, ...], told: str) -> None:
    assert not_a_level(name, levels, "there are x, y") == told
