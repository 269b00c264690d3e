"""Durations, rates, numbers and names as they may stand in a scenario."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.simulate.scenario.lines import Faults, SourcePosition, Wrong, YamlValue
from bayplan.simulate.scenario.values import amount, duration, name, one_of, rate, whole_number, yes_or_no

Read = Callable[[YamlValue], Any]


def written(text: str) -> YamlValue:
    return YamlValue(SourcePosition(Path("x.yaml"), 1), Faults(), text, text)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1m0.5s", 60.5),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("0", 0.0),
        ("12.5", 12.5),
        ("100us", 0.0001),
    ],
)
def test_durations_are_written_as_in_go_or_as_seconds(text: str, seconds: float) -> None:
    assert duration(written(text)) == seconds


@pytest.mark.parametrize(
    "text, per_second", [("0.5/s", 0.5), ("30/m", 0.5), ("36/h", 0.01), ("1/90s", 1 / 90), ("3/1m30s", 1 / 30)]
)
def test_rates_are_a_number_per_time(text: str, per_second: float) -> None:
    assert rate(written(text)) == pytest.approx(per_second)


@pytest.mark.parametrize(
    "read, text, message",
    [
        (duration, "5 parsecs", '"5 parsecs" is no duration: must be like 90s, 1h30m or 250ms'),
        (duration, "1d", '"1d" is no duration'),
        (duration, "-5s", '"-5s" is negative: must be 0s or more'),
        (duration, "1e9h", "is no duration"),
        (duration, "999999999h", "is too long: must be at most ten years"),
        (rate, "0.5", '"0.5" is no rate: must be a number above 0 per time, such as 0.5/s, 30/m or 1/90s'),
        (rate, "0/s", "is no rate"),
        (rate, "5/fortnight", "is no rate"),
        (whole_number(1, 10), "-3", "-3 is negative: must be 1 or more"),
        (whole_number(1, 10), "11", "11 is not allowed: must be 1 to 10"),
        (whole_number(1, 10), "2.5", '"2.5" is no whole number: must be 1 to 10'),
        (name, "UPF", '"UPF" is no name: must be lower-case letters, digits'),
        (name, "-upf", "is no name"),
        (name, "u" * 201, "is no name"),
        (yes_or_no, "maybe", '"maybe" is not allowed: must be one of true, false'),
        (one_of({"static": 1, "none": 2}), "statik", '"statik" is not allowed: did you mean static?'),
        (lambda value: amount("cpu", value), "1.5x", 'invalid quantity "1.5x"'),
    ],
)
def test_what_cannot_be_read_is_told_with_what_can(read: Read, text: str, message: str) -> None:
    with pytest.raises(Wrong) as error:
        read(written(text))
    assert message in str(error.value)
