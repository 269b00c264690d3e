"""Many node names in few characters."""

import pytest

from bayplan.explain.topology.hostlist import compressed, hostlist


@pytest.mark.parametrize(
    "names, groups",
    [
        ([], []),
        (["login"], ["login"]),
        (["b3-r07-n02", "b3-r07-n03", "b3-r07-n04"], ["b3-r07-n[02-04]"]),
        (["n1", "n3"], ["n[1,3]"]),
        (["n8", "n9", "n10", "n11"], ["n[8-11]"]),
        (["n08", "n09", "n10"], ["n[08-10]"]),
        (["n7", "n07"], ["n7", "n07"]),
        (["n1.example.com", "n2.example.com"], ["n[1-2].example.com"]),
        (["a1", "b1", "a2", "web"], ["a[1-2]", "b1", "web"]),
        (["ip-10-0-0-17", "ip-10-0-0-18"], ["ip-10-0-0-[17-18]"]),
        (["node-1234567890123"], ["node-1234567890123"]),
        (["n1", "n1"], ["n1"]),
    ],
)
def test_names_that_differ_in_their_last_number_share_a_bracket(names: list[str], groups: list[str]) -> None:
    assert compressed(names) == groups


def test_a_long_list_is_cut_and_counted() -> None:
    names = [f"rack{number}-host" for number in range(0, 400, 3)]
    text = hostlist(names, longest=40)
    assert text.startswith("rack[")
    assert text.endswith(" more")
    assert len(text) < 60


def test_a_thousand_neighbours_are_short() -> None:
    assert hostlist(f"n{number:04d}" for number in range(1000)) == "n[0000-0999]"


@pytest.mark.parametrize(
    "hosts, longest, text",
    [
        (["w-1", "w-2", "w-3"], 60, "w-[1-3].eu-west-1.compute.internal"),
        (["w-1", "w-2", "db"], 60, "db, w-[1-2] (.eu-west-1.compute.internal)"),
        (["ip-10-0-0-7", "ip-10-4-0-9", "ip-10-5-0-3"], 38, "ip-10-0-0-7, ip-10-4-0-9 and 1 more (…)"),
        (["only"], 60, "only.eu-west-1.compute.internal"),
    ],
)
def test_a_domain_that_all_share_is_said_once_and_its_numbers_are_no_counters(
    hosts: list[str], longest: int, text: str
) -> None:
    assert hostlist([f"{host}.eu-west-1.compute.internal" for host in hosts], longest) == text


def test_the_first_name_is_whole_even_if_it_is_longer_than_its_place() -> None:
    names = [f"ip-10-{number}-0-{number * 7 % 200}.eu-central-1.compute.internal" for number in range(40)]
    assert hostlist([*names, "gateway"], longest=40) == "gateway and 40 more"
    assert hostlist([names[0], "login.example.com"], longest=40) == f"{names[0]} and 1 more"
