"""Lines break between words, and never in a name, a number or an amount."""

import pytest

from bayplan.explain.folding import fitted, fitting, folded, typed


@pytest.mark.parametrize(
    "text, lead, width, lines",
    [
        ("cpu 24", "  asks for  ", 40, ["  asks for  cpu 24"]),
        ("cpu 24  memory 32Gi", "  asks for  ", 30, ["  asks for  cpu 24", "            memory 32Gi"]),
        ("short of cpu 17, gpu 2", "  12 ", 21, ["  12 short of cpu 17,", "     gpu 2"]),
        ("n[01-03,07,11] left", "", 10, ["n[01-03,", "07,11]", "left"]),
        (
            "short of a.example.com/gpu",
            "   0 enough in total  5 ",
            30,
            ["   0 enough in total  5 short", "     of a.example.com/gpu"],
        ),
        ("no such one", "error: ", 10, ["error: no", "  such one"]),
    ],
)
def test_a_text_folds_behind_its_lead(text: str, lead: str, width: int, lines: list[str]) -> None:
    assert folded(text, lead, len(lead), width) == lines


def test_a_line_is_left_alone_without_a_terminal() -> None:
    assert fitted("a word " * 100) == ["a word " * 100]


def test_a_command_goes_on_behind_a_backslash_and_its_comment_is_below() -> None:
    with fitting(30):
        assert typed("  bayplan why -A --cluster cluster.json  # all that wait") == [
            "  bayplan why -A --cluster \\",
            "    cluster.json",
            "    # all that wait",
        ]
