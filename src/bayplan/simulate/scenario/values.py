"""What single values of a scenario may look like: names, numbers, durations, rates, amounts.

Each function takes a `YamlValue` value and gives what it means, or raises `Wrong` with what would be allowed. A scalar
counts as the text that stands in the file, so `zone: 07` and `full-pcpus-only: true` need no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from bayplan.cluster.pods.request import AmountError, amount_of
from bayplan.kube.duration import NUMBER, UNITS, NoDuration, seconds_of
from bayplan.kube.quantity import NANO, parse
from bayplan.simulate.scenario.lines import Wrong, YamlValue, described, suggestion
from bayplan.simulate.scenario.model import Seconds

Value = TypeVar("Value")

LONGEST_NAME = 200  # a pod's name has 253 characters, and numbers are appended
LONGEST_LABEL = 63
LONGEST_DOMAIN = 253

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL = re.compile(rf"(?=.{{1,{LONGEST_LABEL}}}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN = re.compile(rf"(?=.{{1,{LONGEST_DOMAIN}}}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def text(written: YamlValue) -> str:
    """A text; numbers and the like are taken as they are spelled."""
    if not isinstance(written.content, str):
        raise Wrong(f"{described(written)} is not allowed: must be a single value")
    return written.content


def name(written: YamlValue) -> str:
    """A name that Kubernetes would take for an object."""
    found = text(written)
    if not _NAME.fullmatch(found) or len(found) > LONGEST_NAME:
        allowed = f"lower-case letters, digits, '-' and '.', at most {LONGEST_NAME} of them"
        raise Wrong(f"{described(written)} is no name: must be {allowed}")
    return found


def label(key: str, written: YamlValue) -> str:
    """The value of a label, if the API server would take both it and its key."""
    domain, slash, own_name = key.rpartition("/")
    word = f"letters, digits, '-', '_' and '.' between letters or digits, at most {LONGEST_LABEL} of them"
    if not _LABEL.fullmatch(own_name) or (slash and not _DOMAIN.fullmatch(domain)):
        raise Wrong(f"is no key of a label: must be {word}, after a domain and '/' if there is one")
    found = text(written)
    if found and not _LABEL.fullmatch(found):
        raise Wrong(f"{described(written)} is no value of a label: must be {word}")
    return found


def whole_number(least: int, most: int) -> Callable[[YamlValue], int]:
    """An integer between bounds."""

    def read(written: YamlValue) -> int:
        found = text(written)
        if not _WHOLE.fullmatch(found) or len(found) > 20:
            raise Wrong(f"{described(written)} is no whole number: must be {least} to {most}")
        number = int(found)
        if number < 0 <= least:
            raise Wrong(f"{number} is negative: must be {least} or more")
        if not least <= number <= most:
            raise Wrong(f"{number} is not allowed: must be {least} to {most}")
        return number

    return read


def yes_or_no(written: YamlValue) -> bool:
    """True or false, quoted or not."""
    return one_of({"true": True, "false": False})(written)


def one_of(allowed: Mapping[str, Value]) -> Callable[[YamlValue], Value]:
    """One of several words."""

    def read(written: YamlValue) -> Value:
        found = text(written)
        if found not in allowed:
            raise Wrong(f"{described(written)} is not allowed{suggestion(found, allowed)}")
        return allowed[found]

    return read


def duration(written: YamlValue) -> Seconds:
    """`90s`, `1h30m`, `250ms` as Go writes them; a plain number is seconds."""
    try:
        return seconds_of(text(written))
    except NoDuration as error:
        raise Wrong(str(error)) from None


def duration_of_at_least(least: Seconds) -> Callable[[YamlValue], Seconds]:
    """A duration that is not too short."""

    def read(written: YamlValue) -> Seconds:
        found = duration(written)
        if found < least:
            raise Wrong(f"{described(written)} is too short: must be {least:g}s or more")
        return found

    return read


def rate(written: YamlValue) -> float:
    """`0.5/s`, `30/m`, `10/h`, `1/90s`: how many in which time; the answer is per second."""
    found = text(written)
    count, slash, per = found.partition("/")
    unit = f"1{per}" if per in UNITS else per
    try:
        in_seconds = seconds_of(unit) if slash else 0.0
    except NoDuration:
        in_seconds = 0.0
    number = float(count) if NUMBER.fullmatch(count) else 0.0
    if number <= 0 or in_seconds <= 0:
        raise Wrong(f"{described(written)} is no rate: must be a number above 0 per time, such as 0.5/s, 30/m or 1/90s")
    return number / in_seconds


def amount(resource: str, written: YamlValue) -> int:
    """An amount of a resource: milli-CPUs for cpu, whole units for everything else."""
    try:
        return amount_of(resource, text(written))
    except AmountError as error:
        raise Wrong(str(error)) from None


def whole_amount(resource: str, written: YamlValue) -> int:
    """An amount of what cannot be divided, such as devices."""
    found = amount(resource, written)
    if parse(text(written)).nano % NANO:
        raise Wrong(f"{described(written)} is no whole number: {resource} cannot be divided")
    return found
