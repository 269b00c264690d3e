"""Laws of quantities, held against `fractions.Fraction`, which knows nothing of Kubernetes."""

import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayplan.kube.quantity import Format, Quantity, QuantityError, parse

SUFFIXES = {
    **dict(zip("num", (Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 1000)), strict=True)),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
    **{f"e{exponent}": Fraction(10) ** exponent for exponent in range(-12, 13)},
}
ALLOWED = re.compile(r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?\Z")
LARGEST_BINARY = 2**63 - 1

quantities = st.builds(Quantity, nano=st.integers(-(10**40), 10**40), format=st.sampled_from(Format))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text and the exact number it stands for."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    number = draw(st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12}", fullmatch=True))
    suffix = draw(st.sampled_from(sorted(SUFFIXES)))
    exact = Fraction(f"0{number}" if number.startswith(".") else number.removesuffix(".")) * SUFFIXES[suffix]
    if suffix.endswith("i"):
        exact = min(exact, Fraction(LARGEST_BINARY))
    return sign + number + suffix, -exact if sign == "-" else exact


@given(written())
def test_a_parsed_text_is_its_number_rounded_away_from_zero_to_nano(case: tuple[str, Fraction]) -> None:
    text, exact = case
    nano = parse(text).nano
    assert 0 <= abs(nano) - abs(exact) * 10**9 < 1
    assert nano * exact >= 0


@given(written(), written())
@example((".1e-10", Fraction(1, 10**11)), ("-.1e-10", Fraction(-1, 10**11)))
def test_order_agrees_with_fractions(one: tuple[str, Fraction], other: tuple[str, Fraction]) -> None:
    (small_text, small), (large_text, large) = sorted((one, other), key=lambda case: case[1])
    assert parse(small_text) <= parse(large_text)
    if large - small >= Fraction(1, 10**9):  # what lies closer may be rounded to the same nano
        assert parse(small_text) < parse(large_text)


@given(quantities)
@example(Quantity(10**27 * 1000, Format.DECIMAL_SI))
@example(Quantity(2**70 * 10**9, Format.DECIMAL_SI))
def test_the_canonical_text_loses_nothing(quantity: Quantity) -> None:
    if quantity.format is Format.BINARY_SI and abs(quantity.nano) > LARGEST_BINARY * 10**9:
        quantity = Quantity(quantity.nano % (LARGEST_BINARY * 10**9), quantity.format)
    text = str(quantity)
    assert parse(text) == quantity
    assert str(parse(text)) == text
    assert "." not in text


@given(quantities)
def test_rounding_never_gives_less_and_never_a_whole_step_more(quantity: Quantity) -> None:
    for rounded, step in ((quantity.value(), 10**9), (quantity.milli(), 10**6)):
        assert 0 <= abs(rounded) * step - abs(quantity.nano) < step
        assert rounded * quantity.nano >= 0


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_stay_what_they_are(number: int) -> None:
    assert parse(number) == parse(str(number))
    assert parse(number).value() == number
    assert parse(number).milli() == number * 1000


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15).map(lambda x: round(x, 6)))
def test_floats_are_taken_as_they_are_written(number: float) -> None:
    assert Fraction(parse(number).nano, 10**9) == Fraction(repr(number))


@given(quantities, quantities)
def test_subtraction_undoes_addition(left: Quantity, right: Quantity) -> None:
    assert (left + right) - right == left
    assert left + right == right + left


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12))
def test_the_grammar_is_the_api_servers(text: str) -> None:
    if ALLOWED.match(text) is None:
        with pytest.raises(QuantityError) as refusal:
            parse(text)
        assert f'"{text}"' in str(refusal.value)
    else:
        try:
            parse(text)
        except QuantityError as refusal_of_exponent:
            assert "exponent between" in str(refusal_of_exponent)  # noqa: PT017 - refusing is allowed, not required
