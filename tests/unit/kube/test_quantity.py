"""Quantities, as tables: what is written, what it is worth, and how the API server writes it back."""

import pytest

from bayplan.kube.quantity import Format, Quantity, QuantityError, parse


@pytest.mark.parametrize(
    "text, nano",
    [
        ("0", 0),
        ("1n", 1),
        ("1u", 10**3),
        ("1m", 10**6),
        ("1", 10**9),
        ("1k", 10**12),
        ("1M", 10**15),
        ("1G", 10**18),
        ("1T", 10**21),
        ("1P", 10**24),
        ("1E", 10**27),
        ("1Ki", 2**10 * 10**9),
        ("1Mi", 2**20 * 10**9),
        ("1Gi", 2**30 * 10**9),
        ("1Ti", 2**40 * 10**9),
        ("1Pi", 2**50 * 10**9),
        ("1Ei", 2**60 * 10**9),
        ("1e3", 10**12),
        ("1E3", 10**12),  # an exponent; "1E" alone is exa
        ("1e+3", 10**12),
        ("1e-3", 10**6),
        ("+7", 7 * 10**9),
        ("-7", -7 * 10**9),
        ("-0", 0),
        ("007", 7 * 10**9),
        ("1.", 10**9),
        (".5", 5 * 10**8),
        ("1.5Gi", 3 * 2**29 * 10**9),
        (".5m", 5 * 10**5),
    ],
)
def test_a_text_is_worth(text: str, nano: int) -> None:
    assert parse(text).nano == nano


@pytest.mark.parametrize(
    "number, canonical",
    [(0, "0"), (3, "3"), (-2, "-2"), (4096, "4096"), (10**30, "1e30"), (0.5, "500m"), (2.0, "2"), (1e22, "10e21")],
)
def test_yaml_numbers_are_quantities_too(number: float, canonical: str) -> None:
    assert str(parse(number)) == canonical


@pytest.mark.parametrize(
    "text, nano",
    [
        ("0.1n", 1),
        ("1.1n", 2),
        ("0.0000000001", 1),
        ("-0.1n", -1),
        ("1e-99", 1),
        ("0e-99", 0),
        ("1.0000000001Ki", 1024000000103),
    ],
)
def test_digits_finer_than_nano_are_rounded_away_from_zero(text: str, nano: int) -> None:
    assert parse(text).nano == nano


@pytest.mark.parametrize(
    "text, value, milli",
    [
        ("0", 0, 0),
        ("2", 2, 2000),
        ("1500m", 2, 1500),
        ("1n", 1, 1),
        ("1000001u", 2, 1001),
        ("-1500m", -2, -1500),
        ("-1n", -1, -1),
        ("1Ki", 1024, 1024000),
    ],
)
def test_whole_units_and_thousandths_are_rounded_away_from_zero(text: str, value: int, milli: int) -> None:
    assert (parse(text).value(), parse(text).milli()) == (value, milli)
    assert (parse(text).value(), parse(text).milli()) == (value, milli)


@pytest.mark.parametrize(
    "text, canonical",
    [
        # decimal: the largest suffix that needs no fraction
        ("0.5", "500m"),
        ("1.2345", "1234500u"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("100", "100"),
        ("0.001", "1m"),
        ("1000000k", "1G"),
        ("-2000m", "-2"),
        ("0.9n", "1n"),
        # beyond E there is no suffix left, but there are exponents
        ("1000E", "1e21"),
        # binary: the same, counted in 1024s
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("2048Mi", "2Gi"),
        ("1000Ki", "1000Ki"),
        ("-1024Ki", "-1Mi"),
        # binary below 1024, or with a fraction: written as decimal
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1.0001Ki", "1024102400u"),
        # exponents stay exponents, in steps of three
        ("1e3", "1e3"),
        ("1E6", "1e6"),
        ("1e4", "10e3"),
        ("1.5e3", "1500"),
        ("1e-3", "1e-3"),
        ("1e0", "1"),
        # nothing is nothing in every format
        ("0", "0"),
        ("0Gi", "0"),
        ("-0e9", "0"),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_binary_quantities_stop_at_the_largest_int64() -> None:
    assert parse("8Ei").value() == 2**63 - 1
    assert parse("-9Ei").value() == -(2**63 - 1)
    assert parse("9E").value() == 9 * 10**18
    assert parse("10E").value() == 10**19


def test_sums_beyond_exbibytes_keep_the_last_suffix() -> None:
    assert str(Quantity(1024 * 2**60 * 10**9, Format.BINARY_SI)) == "1024Ei"


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "+", "-", "m", "Ki", "e3", "1 ", " 1", "1\n", "1,5", "1.2.3", "--1", "0x10", "1_000", "٣"),
        *("1K", "1ki", "1KI", "12Kib", "1kk", "1mm", "1i", "1e", "1e+", "1e1.5", "1e3k", "inf", "nan", "five"),
    ],
)
def test_anything_else_is_refused_with_the_text_and_what_is_allowed(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse(text)
    assert str(refusal.value) == (
        f'invalid quantity "{text}": expected a number with an optional suffix '
        "n u m k M G T P E, Ki Mi Gi Ti Pi Ei or exponent e3"
    )


@pytest.mark.parametrize("number", [True, False, float("inf"), float("-inf"), float("nan"), None])
def test_values_that_are_no_numbers_are_refused(number: float) -> None:
    assert parse(1) == parse(1.0)  # equal keys must not open the cache for True
    with pytest.raises(QuantityError, match="invalid quantity"):
        parse(number)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "1E+100", "1e" + "9" * 100])
def test_absurd_exponents_are_refused_and_not_computed(text: str) -> None:
    with pytest.raises(QuantityError, match="expected an exponent between -99 and 99"):
        parse(text)


def test_absurd_lengths_are_refused_without_repeating_them() -> None:
    with pytest.raises(QuantityError, match=r'invalid quantity "1{32}\.\.\.": expected at most 128 characters'):
        parse("1" * 1_000_000)


def test_equality_order_and_hash_ask_for_the_value_only() -> None:
    assert parse("1024") == parse("1Ki") == parse("1.024e3")
    assert len({parse("1000m"), parse("1"), parse("1e0")}) == 1
    assert sorted([parse("1Mi"), parse("1M"), parse("999k"), parse("-1Gi")]) == [
        parse("-1Gi"),
        parse("999k"),
        parse("1M"),
        parse("1Mi"),
    ]


@pytest.mark.parametrize(
    "left, right, total, difference",
    [
        ("1500m", "500m", "2", "1"),
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("0", "1Gi", "1Gi", "-1Gi"),  # nothing takes the format of what comes
        ("1", "1", "2", "0"),
    ],
)
def test_arithmetic_keeps_the_format_of_the_left_side(left: str, right: str, total: str, difference: str) -> None:
    assert str(parse(left) + parse(right)) == total
    assert str(parse(left) - parse(right)) == difference


def test_zero_knows_itself() -> None:
    assert parse("0Mi").is_zero
    assert not parse("1n").is_zero
