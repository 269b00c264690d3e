"""Kubernetes resource quantities as exact integers.

In comes what stands in a manifest or an API object (`"1500m"`, `"2Gi"`, `4`, `0.5`), out goes a `Quantity`: a whole
number of nano-units and the family of suffixes it was written with. Nothing is ever a float on the way. The rules are
those of the API server: what is finer than nano is rounded away from zero, binary quantities stop at 2^63-1, and
`str()` gives the canonical text. Next in line: `bayplan.cluster`, which asks for `milli()` (CPU) and `value()`
(all else).
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

NANO: Final = 10**9  # nano-units in one unit
_MAX_BINARY: Final = (2**63 - 1) * NANO
_MAX_LENGTH: Final = 128
_MAX_EXPONENT: Final = 99
_CACHED: Final = 1 << 16

_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_EXPECTED: Final = "expected a number with an optional suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei or exponent e3"


class QuantityError(ValueError):
    """A text that is no quantity; the message quotes it and says what is allowed."""

    def __init__(self, text: object, expected: str = _EXPECTED) -> None:
        quoted = str(text)
        if len(quoted) > _MAX_LENGTH:
            quoted = f"{quoted[:32]}..."
        super().__init__(f'invalid quantity "{quoted}": {expected}')


class Format(Enum):
    """The family of suffixes a quantity was written with, and is written with again."""

    DECIMAL_SI = "DecimalSI"  # 12M
    BINARY_SI = "BinarySI"  # 12Mi
    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6


_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_UNITS: Final[dict[str, tuple[int, Format]]] = {
    **{suffix: (10 ** (9 + exponent), Format.DECIMAL_SI) for exponent, suffix in _DECIMAL_SUFFIXES.items()},
    **{suffix: (NANO * 1024**power, Format.BINARY_SI) for power, suffix in enumerate(_BINARY_SUFFIXES) if suffix},
}


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount of a resource. Compared, ordered and hashed by its value; the format only matters for `str()`."""

    nano: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is nothing at all."""
        return self.nano == 0

    def value(self) -> int:
        """Whole units, rounded away from zero like Go's `Value()`."""
        return _divide_away_from_zero(self.nano, NANO)

    def milli(self) -> int:
        """Thousandths, rounded away from zero like Go's `MilliValue()`."""
        return _divide_away_from_zero(self.nano, NANO // 1000)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, other.format if self.is_zero else self.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, other.format if self.is_zero else self.format)

    def __str__(self) -> str:
        """The canonical text: no fraction, no lost digit, the largest suffix that allows both."""
        if self.is_zero:
            return "0"
        if self.format is Format.BINARY_SI and abs(self.nano) >= 1024 * NANO and self.nano % NANO == 0:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, self.format)


@lru_cache(maxsize=_CACHED, typed=True)  # typed: 1, 1.0 and True are equal keys but different questions
def parse(text: str | int | float) -> Quantity:
    """Read a quantity as the API server does; numbers are taken as YAML writes them.

    >>> str(parse("0.5")), parse("1500m").value(), parse("1.5Gi").value()
    ('500m', 2, 1610612736)
    """
    match text:
        case bool():
            raise QuantityError(text)
        case int():
            return Quantity(text * NANO)
        case float():
            return _parse_text(repr(text))
        case str():
            return _parse_text(text)
    raise QuantityError(text)


def _parse_text(text: str) -> Quantity:
    if len(text) > _MAX_LENGTH:
        raise QuantityError(text, f"expected at most {_MAX_LENGTH} characters")
    parts = _PATTERN.fullmatch(text)
    if parts is None:
        raise QuantityError(text)
    sign, whole, fraction, suffix = parts.groups(default="")
    decimals = len(fraction)
    if suffix in _UNITS:
        unit, family = _UNITS[suffix]
    else:
        exponent = int(suffix[1:])
        if abs(exponent) > _MAX_EXPONENT:
            raise QuantityError(text, f"expected an exponent between -{_MAX_EXPONENT} and {_MAX_EXPONENT}")
        unit, family = 10 ** max(9 + exponent, 0), Format.DECIMAL_EXPONENT
        decimals += max(-9 - exponent, 0)

    nano = _divide_away_from_zero(int(whole + fraction) * unit, 10**decimals)
    if family is Format.BINARY_SI:
        nano = min(nano, _MAX_BINARY)
        if 0 < nano < NANO:
            family = Format.DECIMAL_SI
    return Quantity(-nano if sign == "-" else nano, family)


def _divide_away_from_zero(dividend: int, divisor: int) -> int:
    """`dividend / divisor` for a positive divisor; what does not divide evenly moves away from zero."""
    return dividend // divisor if dividend < 0 else -(-dividend // divisor)


def _binary_text(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power + 1 < len(_BINARY_SUFFIXES):
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _decimal_text(nano: int, family: Format) -> str:
    mantissa, exponent = nano, -9
    while mantissa % 1000 == 0:
        mantissa //= 1000
        exponent += 3
    if family is not Format.DECIMAL_EXPONENT and exponent in _DECIMAL_SUFFIXES:
        return f"{mantissa}{_DECIMAL_SUFFIXES[exponent]}"
    return f"{mantissa}e{exponent}" if exponent else f"{mantissa}"
