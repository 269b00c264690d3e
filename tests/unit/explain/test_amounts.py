"""Amounts as people write them, and exactly."""

import pytest

from bayplan.explain.amounts import canonical, have_of_want, human, instead, listing

GIBI = 2**30


@pytest.mark.parametrize(
    "resource, amount, read, exact",
    [
        ("cpu", 0, "0", "0"),
        ("cpu", 500, "500m", "500m"),
        ("cpu", 2500, "2.5", "2500m"),
        ("cpu", 24000, "24", "24"),
        ("memory", 32 * GIBI, "32Gi", "32Gi"),
        ("memory", 3 * GIBI // 2, "1.5Gi", "1536Mi"),
        ("memory", 33_333_333_333, "31Gi", "33333333333"),
        ("memory", 1000, "1000", "1k"),
        ("hugepages-2Mi", 512 * 2**20, "512Mi", "512Mi"),
        ("ephemeral-storage", 10 * GIBI, "10Gi", "10Gi"),
        ("nvidia.com/gpu", 2, "2", "2"),
        ("example.com/tokens", 5000, "5000", "5000"),
    ],
)
def test_an_amount_is_short_to_read_and_exact_in_documents(resource: str, amount: int, read: str, exact: str) -> None:
    assert human(resource, amount) == read
    assert canonical(resource, amount) == exact


def test_rounding_goes_down_so_that_an_amount_named_as_enough_is_enough() -> None:
    assert human("memory", 15 * GIBI - 1) == "14.9Gi"


def test_two_amounts_that_would_look_alike_are_written_exactly() -> None:
    assert have_of_want("cpu", 22000, 24000) == "cpu 22 of 24"
    assert have_of_want("memory", 32 * GIBI, 32 * GIBI + 2**20) == "memory 32Gi of 32769Mi"


def test_a_listing_leaves_out_what_is_not_asked_for() -> None:
    assert listing({"cpu": 500, "memory": 0, "nvidia.com/gpu": 1}) == "cpu 500m  nvidia.com/gpu 1"


def test_requests_are_listed_in_one_order_for_every_author() -> None:
    amounts = {"example.com/vf": 2, "hugepages-1Gi": 2**30, "example.com/gpu": 1, "memory": 2**31, "cpu": 500}
    assert listing(amounts) == "cpu 500m  memory 2Gi  hugepages-1Gi 1Gi  example.com/gpu 1  example.com/vf 2"


@pytest.mark.parametrize(
    "resource, amount, instead_of, text",
    [
        ("cpu", 22_000, 24_000, "cpu 22 instead of 24"),
        ("cpu", 7900, 9000, "cpu 7.9 instead of 9"),
        ("memory", 3 * 2**29, 2**31, "memory 1.5Gi instead of 2Gi"),
        ("memory", 31_693 * 2**20, 2**35, "memory 31693Mi instead of 32Gi"),
    ],
)
def test_a_promise_is_exact(resource: str, amount: int, instead_of: int, text: str) -> None:
    assert instead(resource, amount, instead_of) == text
