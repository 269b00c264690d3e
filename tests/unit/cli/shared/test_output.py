"""What goes to stderr: each odd thing once, and progress only on a terminal."""

import sys

import pytest

from bayplan.cli.shared.output import show_progress, warn, working


def test_warnings_of_one_cause_are_one_line_with_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    twice = 'zones[1].name: "node-0" appears twice'
    warn(
        [*(f"NodeResourceTopology n{number}: {twice}" for number in range(12)), "Node n3: has no zones", "not used: X"]
    )
    assert capsys.readouterr().err.splitlines() == [
        f"warning: NodeResourceTopology n[0-11]: {twice}",
        "warning: Node n3: has no zones",
        "warning: not used: X",
    ]


def test_what_is_left_out_is_counted_by_warning_not_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    warn([f"Node n{number}: cause {number // 2}" for number in range(24)])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "warning: and 4 more"


def test_no_progress_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with working("reading"):
        show_progress("placing pods: 3 of 9")
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal_is_taken_away_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(ValueError, match="bad"), working("reading the cluster"):
        raise ValueError("bad")
    assert capsys.readouterr().err == "\r\x1b[Kreading the cluster\r\x1b[K"
