"""What a node lists beyond amounts: CPUs, devices and pods in attributes, read whole or ignored
with a word about it.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.cluster.reports.inventory import (
    CPUS,
    DEVICES,
    FREE_CPUS,
    MOST_CPUS,
    PODS,
    RESERVED_CPUS,
    Inventory,
    ListedDevice,
    NotUnderstood,
    cpu_list,
    cpu_set,
)
from bayplan.cluster.reports.topology_report import TopologyReport, read_report
from tests.builders.clusters import cluster, free_in_zones
from tests.builders.objects import GPU, topology, zone

# Two zones of two cores with two threads each; CPUs 0 to 3 are the first threads.
EIGHT_CPUS = {
    "core": [0, 1, 2, 3, 0, 1, 2, 3],
    "socket": [0, 0, 1, 1, 0, 0, 1, 1],
    "zone": [0, 0, 1, 1, 0, 0, 1, 1],
    "cache": [0, 0, 1, 1, 0, 0, 1, 1],
}


def written(columns: dict[str, list[int]]) -> str:
    return msgspec.json.encode(columns).decode()


COMPLETE = {
    CPUS: written(EIGHT_CPUS),
    FREE_CPUS: "1-3,5-7",
    RESERVED_CPUS: "0,4",
    DEVICES: '{"example.com/gpu": [["gpu-0", [0], "used"], ["gpu-1", [1], "free"]]}',
    PODS: '{"telco/upf-0": {"cpu": {"0": 2000}, "example.com/gpu": {"0": 1}}}',
}


def report(**changes: str | None) -> TopologyReport:
    """The complete report, with some attributes changed or, with None, left out."""
    attributes = {name: text for name, text in (COMPLETE | changes).items() if text is not None}
    return read_report(
        topology(zone(0, {"cpu": (4, 3, 1), GPU: 1}), zone(1, {"cpu": 4, GPU: 1}), attributes=attributes)
    )


def inventory(**changes: str | None) -> Inventory:
    read = report(**changes)
    assert read.inventory is not None, read.remarks
    return read.inventory


class TestCpuLists:
    @pytest.mark.parametrize(
        "text, cpus",
        [
            ("", []),
            ("0", [0]),
            ("0-3", [0, 1, 2, 3]),
            ("0-1,8", [0, 1, 8]),
            ("8,0-1", [0, 1, 8]),
            ("0-2,1-4", [0, 1, 2, 3, 4]),
            ("7-7", [7]),
            ("4095", [4095]),
        ],
    )
    def test_are_read_as_linux_writes_them(self, text: str, cpus: list[int]) -> None:
        assert cpu_set(text) == sum(1 << cpu for cpu in cpus)

    @pytest.mark.parametrize(
        "cpus, text", [([], ""), ([5], "5"), ([3, 0, 1, 2], "0-3"), ([0, 1, 8], "0-1,8"), ([0, 2, 4], "0,2,4")]
    )
    def test_are_written_ascending_and_short(self, cpus: list[int], text: str) -> None:
        assert cpu_list(cpus) == text

    @pytest.mark.parametrize(
        "text",
        [
            *("all", "0 1", "0x1", "1.5", "²", "٣"),
            *("0-", "-3", "0-1-2", "0,,1", ","),
            pytest.param("3-1", id="backwards"),
            pytest.param("4096", id="beyond any machine"),
            pytest.param("0-4096", id="up to beyond any machine"),
            pytest.param("99999999999-1", id="a bit too far for memory"),
            pytest.param("9" * 5000, id="more digits than Python reads"),
        ],
    )
    def test_that_are_none_are_refused(self, text: str) -> None:
        with pytest.raises(NotUnderstood, match="a list of CPU ids from 0 to 4095 such as 0-3,8"):
            cpu_set(text)

    @given(st.sets(st.integers(0, MOST_CPUS - 1), max_size=200))
    def test_say_the_same_after_writing_and_reading(self, cpus: set[int]) -> None:
        assert cpu_set(cpu_list(cpus)) == sum(1 << cpu for cpu in cpus)


class TestACompleteReport:
    def test_names_cpus_and_devices(self) -> None:
        listed = inventory()
        assert (listed.free_cpus, listed.reserved_cpus) == (0b11101110, 0b00010001)
        assert listed.devices == {GPU: (ListedDevice("gpu-0", (0,), "used"), ListedDevice("gpu-1", (1,), "free"))}
        assert report().pods == {"telco/upf-0": {"cpu": {0: 2000}, GPU: {0: 1}}}
        assert (listed.zones, report().remarks) == (frozenset({0, 1}), [])

    def test_knows_where_each_cpu_sits(self) -> None:
        layout = inventory().cpus
        assert layout.by_core == {0: 0b00010001, 1: 0b00100010, 2: 0b01000100, 3: 0b10001000}
        assert layout.by_socket == layout.by_zone == layout.by_l3 == {0: 0b00110011, 1: 0b11001100}
        assert layout.cpus_in_zone == {0: 4, 1: 4}
        assert layout.sockets_of_zone == {0: frozenset({0}), 1: frozenset({1})}
        assert (layout.threads_per_core, layout.cpus_per_socket, layout.cpus_per_l3) == (2, 4, 4)

    @pytest.mark.parametrize("cpus, split", [(0b0, False), (0b00010001, False), (0b1, True), (0b00110001, True)])
    def test_tells_when_a_core_is_split(self, cpus: int, split: bool) -> None:
        assert inventory().cpus.splits_a_core(cpus) is split


class TestAnIncompleteReport:
    @pytest.mark.parametrize("missing", [CPUS, FREE_CPUS])
    def test_without_cpus_has_no_inventory(self, missing: str) -> None:
        read = report(**{missing: None})
        assert (read.inventory, read.remarks) == (None, [])

    def test_may_leave_out_what_is_reserved_and_devices(self) -> None:
        listed = inventory(**{RESERVED_CPUS: None, DEVICES: None})
        assert (listed.reserved_cpus, listed.devices) == (0, {})

    def test_without_a_list_of_pods_is_not_one_with_an_empty_list(self) -> None:
        assert report(**{PODS: None}).pods is None
        assert report(**{PODS: "{}"}).pods == {}


ONE_COLUMN_SHORT = written(EIGHT_CPUS | {"cache": [0, 0, 1, 1]})
ZONE_99 = written(EIGHT_CPUS | {"zone": [0, 0, 99, 99, 0, 0, 99, 99]})
NO_CPUS = written({name: [] for name in EIGHT_CPUS})
A_LIST = "a list of CPU ids from 0 to 4095 such as 0-3,8"
A_LAYOUT = 'JSON such as {"core": [0], "socket": [0], "zone": [0], "cache": [0]} with zones from 0 to 63, -1 if offline'
SOME_DEVICES = (
    'JSON such as {"example.com/gpu": [["gpu-0", [0], "free"]]} with zones from 0 to 63 '
    "and states free, used, unhealthy"
)
SOME_PODS = 'JSON such as {"telco/upf-0": {"cpu": {"0": 4000}}} with zones from 0 to 63 and amounts from 0 on'


class TestAnAttributeThatMakesNoSense:
    @pytest.mark.parametrize(
        "attribute, text, expected",
        [
            (CPUS, "8", A_LAYOUT),
            (CPUS, '{"core": [0]}', A_LAYOUT),
            (CPUS, ONE_COLUMN_SHORT, "four lists of equal length, 1 to 4096"),
            (CPUS, NO_CPUS, "four lists of equal length, 1 to 4096"),
            (CPUS, ZONE_99, A_LAYOUT),
            (FREE_CPUS, "some", A_LIST),
            (FREE_CPUS, "3-1", A_LIST),
            (FREE_CPUS, "0-8", "CPU ids below 8, the number of CPUs in bayplan.io/cpus"),
            (RESERVED_CPUS, "0-", A_LIST),
            (RESERVED_CPUS, "64", "CPU ids below 8, the number of CPUs in bayplan.io/cpus"),
            (DEVICES, "none", SOME_DEVICES),
            (DEVICES, '{"example.com/gpu": ["gpu-0"]}', SOME_DEVICES),
            (DEVICES, '{"example.com/gpu": [["gpu-0", [0], "broken"]]}', SOME_DEVICES),
            (DEVICES, '{"example.com/gpu": [["gpu-0", [-1], "free"]]}', SOME_DEVICES),
        ],
    )
    def test_leaves_the_report_without_inventory(self, attribute: str, text: str, expected: str) -> None:
        read = report(**{attribute: text})
        assert read.inventory is None
        (problem,) = map(str, read.remarks)
        assert problem.startswith("NodeResourceTopology n1: ")
        assert f"is ignored: expected {attribute} to be {expected}, not " in problem
        assert problem.endswith(f'not "{text}"' if len(text) < 60 else '..."')

    @pytest.mark.parametrize(
        "text",
        [
            "telco/upf-0",
            '{"telco/upf-0": {"cpu": 4}}',
            '{"telco/upf-0": {"cpu": {"first": 4}}}',
            '{"telco/upf-0": {"cpu": {"0": -4000}}}',
            '{"telco/upf-0": {"cpu": {"64": 4000}}}',
            '{"telco/upf-0": {"memory": {"0": 9007199254740993}}}',
        ],
    )
    def test_leaves_the_report_without_a_list_of_pods(self, text: str) -> None:
        read = report(**{PODS: text})
        assert (read.pods, read.inventory is not None) == (None, True)
        (problem,) = map(str, read.remarks)
        assert f'is ignored: expected {PODS} to be {SOME_PODS}, not "{text}"' in problem

    def test_does_not_keep_the_amounts_from_being_used(self) -> None:
        state = cluster(topology(zone(0, {"cpu": 4}), attributes={**COMPLETE, CPUS: "?", PODS: "?"}))
        assert free_in_zones(state, "n1", "cpu") == [4000]
        assert len(state.remarks) == 2


class TestPlain:
    """Amounts say all there is to say about a pod that fits into one zone, or they do not."""

    @pytest.mark.parametrize(
        "changes, plain",
        [
            pytest.param({}, True, id="every device in one zone, whole cores reserved"),
            pytest.param({DEVICES: "{}"}, True, id="no devices"),
            pytest.param({RESERVED_CPUS: ""}, True, id="nothing reserved"),
            pytest.param({RESERVED_CPUS: "0"}, False, id="a reserved thread splits a core"),
            pytest.param({DEVICES: '{"d": [["d-0", [0], "unhealthy"]]}'}, False, id="an unhealthy device"),
            pytest.param({DEVICES: '{"d": [["d-0", [0, 1], "free"]]}'}, False, id="a device between zones"),
            pytest.param({DEVICES: '{"d": [["d-0", [], "free"]]}'}, False, id="a device that is nowhere"),
            pytest.param({FREE_CPUS: "5"}, True, id="a core of which only one thread is free"),
        ],
    )
    def test_plain(self, changes: dict[str, str], plain: bool) -> None:
        assert inventory(**changes).plain(whole_cores=True) is plain


class TestNodesOfOneKind:
    def test_share_their_layout(self) -> None:
        """A hundred thousand nodes of one kind have one table of CPUs, not a hundred thousand."""
        one, other = inventory(), inventory(**{FREE_CPUS: "2"})
        assert one.cpus is other.cpus
        assert one.devices is other.devices

    def test_of_another_kind_do_not(self) -> None:
        assert inventory().cpus is not inventory(**{CPUS: written(EIGHT_CPUS | {"cache": [0] * 8})}).cpus
