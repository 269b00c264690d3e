"""The change log: a reader with a cursor gets what changed since, each row once, or is told to read everything."""

from __future__ import annotations

from bayplan.cluster.columns.change_log import ChangeLog


def rows_since(log: ChangeLog, cursor: int) -> list[int] | None:
    rows = log.since(cursor)
    return None if rows is None else rows.tolist()


def test_a_reader_gets_what_changed_since_its_cursor() -> None:
    log = ChangeLog()
    log.append(4)
    cursor = log.end
    log.append(7)
    log.append(2)
    assert rows_since(log, cursor) == [7, 2]
    assert rows_since(log, log.end) == []


def test_a_row_that_changed_often_is_named_once() -> None:
    log = ChangeLog()
    for row in (5, 3, 5, 5, 3):
        log.append(row)
    assert rows_since(log, 0) == [5, 3]


def test_a_new_reader_must_read_everything() -> None:
    assert rows_since(ChangeLog(), -1) is None


def test_a_reader_that_slept_through_a_trimming_must_read_everything() -> None:
    log = ChangeLog(keep=4)
    cursor = log.end
    for row in range(9):
        log.append(row)
    assert rows_since(log, cursor) is None
    assert rows_since(log, log.end - 4) == [5, 6, 7, 8]


def test_trimming_does_not_move_the_end() -> None:
    log = ChangeLog(keep=4)
    for row in range(100):
        log.append(row)
        assert log.end == row + 1
        assert rows_since(log, row) == [row]
