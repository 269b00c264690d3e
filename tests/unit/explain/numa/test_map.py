"""The NUMA map: what is drawn, in characters and as SVG."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from bayplan.cluster.reports.inventory import PODS
from bayplan.cluster.reports.kubelet_settings import Assumptions
from bayplan.cluster.state import ClusterState
from bayplan.engine.numa.placement import ContainerZones
from bayplan.explain.numa.labels import short_amount, short_labels
from bayplan.explain.numa.map import NumaMap, numa_document, numa_map, packages_of
from bayplan.explain.numa.svg import numa_svg
from bayplan.explain.numa.text import numa_text
from bayplan.explain.theme import LIGHT
from bayplan.kube.wire.core_v1 import Container, Metadata, Pod, PodSpec
from bayplan.kube.wire.node_resource_topology_v1alpha2 import Attribute, ZoneResource
from tests.unit.explain.small_clusters import cluster, guaranteed, node, zones

TWO_PACKAGES = [[10, 12, 32, 32], [12, 10, 32, 32], [32, 32, 10, 12], [32, 32, 12, 10]]


def drawn(state: ClusterState) -> NumaMap:
    found = numa_map(state, 0, Assumptions())
    assert found is not None
    return found


def plain(picture: NumaMap, width: int) -> list[str]:
    return [line.plain.rstrip() for line in numa_text(picture, width)]


def test_the_text_map() -> None:
    state = cluster(
        node("n1", 32, cordoned=True),
        zones("n1", [10, 16], of=16, distances=[[10, 21], [21, 10]]),
        guaranteed("amf-0", 6, on="n1", in_zones='{"app": [0]}'),
        guaranteed("old-0", 2, on="n1"),
    )
    assert plain(drawn(state), 80) == [
        "n1: 2 NUMA zones, policy single-numa-node, scope pod",
        "cpu manager static (assumed), memory manager Static (assumed), cordoned",
        "free of total:  █ ■ free  ░ □ in use",
        "┌ NUMA 0 ─────────────────────────────┐ ┌ NUMA 1 ─────────────────────────────┐",
        "│ cpu ██████████░░░░░░       10 of 16 │ │ cpu ████████████████       16 of 16 │",
        "│ mem ████████████████ 128Gi of 128Gi │ │ mem ████████████████ 128Gi of 128Gi │",
        "│ • telco/amf-0                       │ │                                     │",
        "│   cpu 6  mem 1Gi                    │ │                                     │",
        "│ distance 10 21                      │ │ distance 21 10                      │",
        "└─────────────────────────────────────┘ └─────────────────────────────────────┘",
        "zone not reported:",
        "  • telco/old-0  cpu 2  mem 1Gi",
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_every_line_of_a_box_is_equally_long_unless_a_name_is_longer_than_it_can_be(width: int) -> None:
    state = cluster(
        node("n1", 64),
        zones("n1", [0, 1, 16, 7], of=16, distances=TWO_PACKAGES),
        guaranteed(
            "a-pod-with-a-very-long-name-that-does-not-fit-into-any-box", 6, on="n1", in_zones='{"app": [0, 1]}'
        ),
    )
    boxes = [line for line in plain(drawn(state), width) if "│" in line or "┌" in line]
    named = [line for line in boxes if "a-pod" in line]
    assert all("a-pod-with-a-very-long-name-that-does-not-fit-into-any-box" in line for line in named)
    widths = {len(line) for line in boxes if line not in named or width > 40}
    assert len(widths) == 1
    assert max(widths) <= width


def test_a_little_free_is_never_drawn_as_none_nor_a_little_used_as_all_free() -> None:
    state = cluster(node("n1", 400), zones("n1", [1, 199, 0, 200], of=200))
    bars = [part for line in plain(drawn(state), 100) for part in line.split("│") if part.startswith(" cpu ")]
    assert [(bar.count("█") > 0, bar.count("░") > 0) for bar in bars] == [
        (True, True),
        (True, True),
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("zone_count", [9, 16])
def test_a_pod_over_several_of_many_zones_stands_in_each_of_them(zone_count: int) -> None:
    inside = list(range(zone_count - 1))
    state = cluster(
        node("n1", 16 * zone_count),
        zones("n1", [8] * zone_count, of=16),
        guaranteed("wide", 8 * len(inside), on="n1", in_zones=msgspec.json.encode({"app": inside}).decode()),
    )
    found = drawn(state)
    assert [zone.id for zone in found.zones if [pod.key for pod in zone.pods] == ["telco/wide"]] == inside
    named = f"telco/wide (zones 0-{inside[-1]})"
    assert named in "\n".join(plain(found, 160))
    assert numa_svg(found).count("telco/wide") >= len(inside)


def test_what_the_node_reports_about_a_pod_counts_more_than_its_annotation() -> None:
    report = zones("n1", [12, 16], of=16)
    held = Attribute(name=PODS, value='{"telco/moved": {"cpu": {"1": 4000}}}')
    listed = msgspec.structs.replace(report, attributes=[*(report.attributes or []), held])
    state = cluster(node("n1", 32), listed, guaranteed("moved", 4, on="n1", in_zones='{"app": [0]}'))
    assert {zone.id: [pod.key for pod in zone.pods] for zone in drawn(state).zones} == {0: [], 1: ["telco/moved"]}


def test_a_pod_placed_just_now_stands_out_with_the_containers_of_each_zone() -> None:
    state = cluster(node("n1", 32), zones("n1", [16, 16], of=16, scope="container"))
    pod = guaranteed("p", 0, app=4, log=2)
    state.assume("telco/p", 0, state.classes.of(pod), ())
    placed = {"telco/p": [ContainerZones("app", (0,)), ContainerZones("log", (1,))]}
    found = numa_map(state, 0, Assumptions(), placed=placed)
    assert found is not None
    text = "\n".join(plain(found, 100))
    assert "→ telco/p (app)  placed now" in text
    assert "→ telco/p (log)  placed now" in text
    assert "placed now" in numa_svg(found)


def test_a_pod_that_nothing_is_pinned_for_is_not_called_unreported() -> None:
    spec = PodSpec(containers=[Container(name="app")], node_name="n1")
    shares_cpus = Pod(metadata=Metadata(name="web", namespace="default"), spec=spec)
    state = cluster(node("n1", 8), zones("n1", [8], of=8), guaranteed("pinned", 1, on="n1"), shares_cpus)
    assert [pod.key for pod in drawn(state).zone_not_reported] == ["telco/pinned"]
    assert [pod.key for pod in drawn(state).not_pinned] == ["default/web"]


def test_the_svg_is_well_formed_and_shows_every_number() -> None:
    state = cluster(
        node("n<1>", 64),
        zones("n<1>", [3, 1, 16, 7], of=16, distances=TWO_PACKAGES),
        guaranteed("amf&co", 6, on="n<1>", in_zones='{"app": [0]}'),
    )
    root = ET.fromstring(numa_svg(drawn(state)))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "NUMA map of node n<1>"
    assert {
        "package 0",
        "package 1",
        "NUMA 3",
        "3 free of 16",
        "7 free of 16",
        "telco/amf&co",
        "distance 10 12 | 32 32",
    } <= set(words)


def test_a_node_without_zones_has_no_map() -> None:
    assert numa_map(cluster(node("n1", 8)), 0, Assumptions()) is None


def test_the_document_holds_exact_amounts() -> None:
    document = numa_document(drawn(cluster(node("n1", 16), zones("n1", [3, 8], of=8))))
    assert document["zones"][0]["resources"]["cpu"] == {"available": "3", "allocatable": "8", "capacity": "8"}
    assert document["zones"][1]["package"] is None


@pytest.mark.parametrize(
    "distances, packages",
    [
        ([[10]], [[0]]),
        ([[10, 21], [21, 10]], [[0, 1]]),
        (TWO_PACKAGES, [[0, 1], [2, 3]]),
        ([[10, 12, 16, 32], [12, 10, 16, 32], [16, 16, 10, 32], [32, 32, 32, 10]], [[0, 1, 2], [3]]),
        ([[10, 255], [255, 10]], [[0, 1]]),
    ],
    ids=["one zone", "equal distances tell nothing", "two pairs", "three tiers", "unknown distances"],
)
def test_zones_closer_than_the_farthest_share_a_package(distances: list[list[int]], packages: list[list[int]]) -> None:
    by_zone = {zone: dict(enumerate(row)) for zone, row in enumerate(distances)}
    assert [members for _, members in packages_of(by_zone, {})] == packages


def test_a_package_that_the_node_names_needs_no_guess() -> None:
    by_zone = {zone: dict(enumerate(row)) for zone, row in enumerate(TWO_PACKAGES)}
    parents = {0: "socket-0", 1: "socket-1", 2: "socket-0", 3: "socket-1"}
    assert packages_of(by_zone, parents) == [("socket-0", [0, 2]), ("socket-1", [1, 3])]


def test_labels_are_short_unless_two_would_look_alike() -> None:
    assert short_labels(["cpu", "memory", "hugepages-1Gi", "example.com/nic"]) == {
        "cpu": "cpu",
        "memory": "mem",
        "hugepages-1Gi": "1Gi pages",
        "example.com/nic": "nic",
    }
    assert list(short_labels(["a.com/gpu", "b.com/gpu"]).values()) == ["a.com/gpu", "b.com/gpu"]


def test_huge_pages_are_counted_as_pages() -> None:
    assert short_amount("hugepages-2Mi", 64 * 2**20) == "32"
    assert short_amount("hugepages-odd", 5) == "5"


def test_unreported_distances_are_not_made_up() -> None:
    picture = drawn(cluster(node("n1", 32), zones("n1", [10, 16], of=16)))
    assert any("distance not reported" in line for line in plain(picture, 80))
    assert "distance not reported" in numa_svg(picture)
    assert numa_document(picture)["zones"][0]["distances"] == [None, None]


def test_what_is_free_has_one_colour_whatever_it_is() -> None:
    """The legend knows two colours: free and in use. Huge pages are drawn like everything else."""
    report = zones("n1", [16], of=16)
    assert isinstance(report.zones, list)
    assert isinstance(report.zones[0].resources, list)
    pages = ZoneResource(name="hugepages-1Gi", capacity="8Gi", allocatable="8Gi", available="8Gi")
    report.zones[0].resources.append(pages)
    svg = ET.fromstring(numa_svg(drawn(cluster(node("n1", 16), report))))
    bars = [box.get("fill") for box in svg.iter("{http://www.w3.org/2000/svg}rect") if box.get("height") == "8"]
    assert len(bars) == 6
    assert set(bars[1::2]) == {LIGHT.good}


def test_a_label_of_wide_letters_ends_before_its_bar() -> None:
    svg = ET.fromstring(numa_svg(drawn(cluster(node("n1", 16), zones("n1", [16], of=16)))))
    label = next(each for each in svg.iter("{http://www.w3.org/2000/svg}text") if each.text == "mem")
    bar = next(each for each in svg.iter("{http://www.w3.org/2000/svg}rect") if each.get("height") == "8")
    wide = (2 * 0.974 + 0.615) * 12  # of DejaVu Sans
    assert float(bar.get("x", "")) - float(label.get("x", "")) - wide >= 6
