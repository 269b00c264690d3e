"""ImageLocality, worked out by hand from kube-scheduler's formula."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from bayplan.cluster.columns.images import MOST_NAMES, Images
from bayplan.cluster.state import ClusterState
from bayplan.kube.wire.core_v1 import ContainerImage, Node
from bayplan.plugins.image_locality import ImageLocality
from tests.builders.clusters import cluster
from tests.builders.objects import node, pod

MIB = 1 << 20


def with_images(name: str, **sizes: int) -> Node:
    images = [
        ContainerImage(names=[f"example.com/{each}:latest"], size_bytes=size * MIB) for each, size in sizes.items()
    ]
    plain = node(name)
    return msgspec.structs.replace(plain, status=msgspec.structs.replace(plain.status, images=images))


def scores(state: ClusterState, *images: str) -> list[int] | None:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    asked = state.classes.of(pod(containers=containers))
    plugin = ImageLocality()
    return plugin.scores_among(state, asked, np.arange(4)).tolist() if plugin.compares(state, asked) else None


@pytest.mark.parametrize(
    "images, expected",
    [
        # 3000 MiB on 2 of 4 nodes count as 1500, above the limit of 1000.
        (("example.com/large",), [100, 100, 0, 0]),
        (("example.com/large:latest",), [100, 100, 0, 0]),
        # 400 MiB on 1 of 4 nodes: 100 * (100 - 23) / (1000 - 23).
        (("example.com/medium",), [0, 7, 0, 0]),
        # Two containers: 100 * (1500 - 23) / (2000 - 23) and 100 * (1600 - 23) / (2000 - 23).
        (("example.com/large", "example.com/medium"), [74, 79, 0, 0]),
        (("example.com/small",), [0, 0, 0, 0]),
        (("example.com/large:v2",), None),
    ],
)
def test_large_images_that_many_nodes_have_count_most(images: tuple[str, ...], expected: list[int] | None) -> None:
    nodes = [with_images("n0", large=3000), with_images("n1", large=3000, medium=400), with_images("n2", small=40)]
    assert scores(cluster(nodes=[*nodes, node("n3")]), *images) == expected


def test_images_go_with_their_nodes() -> None:
    state = cluster(nodes=[with_images("n0", large=3000), node("n1"), node("n2"), node("n3")])
    assert scores(state, "example.com/large") == [74, 0, 0, 0]
    state.set_node(node("n0"))
    assert scores(state, "example.com/large") is None
    state.set_node(with_images("n1", large=3000))
    state.remove_node("n1")
    assert scores(state, "example.com/large") is None


def test_the_node_that_is_kept_has_no_list_of_images() -> None:
    state = cluster(nodes=[with_images("n0", large=3000)])
    kept = state.nodes[0]
    assert kept is not None
    assert kept.status.images is None


def test_names_beyond_the_limit_are_left_out_and_told() -> None:
    images = Images()
    assert images.set(0, [ContainerImage(names=[f"i{number}" for number in range(MOST_NAMES + 3)])]) == 3
    assert images.get(f"i{MOST_NAMES - 1}") is not None
    assert images.get(f"i{MOST_NAMES}") is None
