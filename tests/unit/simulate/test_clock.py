"""The discrete clock: moments in order, equal moments in the order of planning, nothing in the past."""

from __future__ import annotations

import pytest

from bayplan.simulate.clock import Action, Clock


class Heard:
    """Writes down what happens and when."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.log: list[tuple[float, str]] = []

    def says(self, word: str) -> Action:
        return lambda: self.log.append((self.clock.now, word))

    def run(self) -> list[tuple[float, str]]:
        while self.clock.next_moment is not None:
            self.clock.advance()()
        return self.log


def test_nothing_is_planned_at_first() -> None:
    clock = Clock()
    assert (clock.now, clock.next_moment) == (0.0, None)


def test_things_happen_in_the_order_of_their_moments() -> None:
    heard = Heard()
    for moment, word in ((3.0, "late"), (1.0, "early"), (2.0, "between")):
        heard.clock.at(moment, heard.says(word))
    assert heard.clock.next_moment == 1.0
    assert heard.run() == [(1.0, "early"), (2.0, "between"), (3.0, "late")]


def test_equal_moments_happen_in_the_order_of_planning() -> None:
    heard = Heard()
    for word in ("first", "second", "third"):
        heard.clock.at(1.0, heard.says(word))
    assert [word for _, word in heard.run()] == ["first", "second", "third"]


def test_after_counts_from_now() -> None:
    heard = Heard()
    heard.clock.at(5.0, lambda: heard.clock.after(2.0, heard.says("then")))
    assert heard.run() == [(7.0, "then")]


@pytest.mark.parametrize("moment", [0.0, 4.9, 5.0])
def test_a_moment_that_has_passed_means_now(moment: float) -> None:
    heard = Heard()
    heard.clock.at(5.0, lambda: heard.clock.at(moment, heard.says("now")))
    assert heard.run() == [(5.0, "now")]


def test_what_is_planned_for_now_comes_after_what_was_planned_for_now_before() -> None:
    heard = Heard()
    heard.clock.at(5.0, lambda: heard.clock.after(0.0, heard.says("added")))
    heard.clock.at(5.0, heard.says("planned"))
    assert heard.run() == [(5.0, "planned"), (5.0, "added")]


def test_what_is_cancelled_does_not_happen_and_what_has_happened_stays() -> None:
    heard = Heard()
    numbers = [heard.clock.at(moment, heard.says(word)) for moment, word in ((1.0, "a"), (2.0, "b"), (3.0, "c"))]
    heard.clock.cancel(numbers[1])
    heard.run()
    heard.clock.cancel(numbers[0])
    assert heard.run() == [(1.0, "a"), (3.0, "c")]
