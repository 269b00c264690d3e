"""Numbers in labels and annotations: digits alone, as far as Kubernetes counts."""

from __future__ import annotations

import pytest

from bayplan.kube.whole_number import whole_number


@pytest.mark.parametrize(
    "text, number",
    [
        ("0", 0),
        ("12", 12),
        ("007", 7),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("99999999999999999999", None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1.0", None),
        ("1e3", None),
        (" 1", None),
        ("two", None),
        ("\u0664", None),
        ("\u00b2", None),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number
