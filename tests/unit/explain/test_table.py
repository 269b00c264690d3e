"""Tables in little room: nothing is left out, whatever does not fit."""

import pytest

from bayplan.explain.folding import fitting
from bayplan.explain.table import table

NODES = ("node", "report", "cpu free", "refused")
ROWS = (("gpu-h100-1", "fresh", "119.9", "2 TopologyAffinityError"), ("web-1", "none", "21.9", ""))


def lines(width: int | None) -> list[str]:
    with fitting(width):
        return table(NODES, ROWS, indent="  ", numbers=("cpu free",))


@pytest.mark.parametrize("width", [None, 57])
def test_a_table_that_fits_is_as_wide_as_its_cells(width: int | None) -> None:
    assert lines(width) == [
        "  node        report  cpu free  refused",
        "  gpu-h100-1  fresh      119.9  2 TopologyAffinityError",
        "  web-1       none        21.9",
    ]


def test_texts_and_headings_fold_in_their_columns() -> None:
    assert lines(54) == [
        "  node        report    cpu  refused",
        "                       free",
        "  gpu-h100-1  fresh   119.9  2 TopologyAffinityError",
        "  web-1       none     21.9",
    ]


def test_columns_that_do_not_fit_are_below_their_row_and_empty_cells_take_no_line() -> None:
    assert lines(40) == [
        "  node        report  cpu free",
        "  gpu-h100-1  fresh      119.9",
        "      refused: 2 TopologyAffinityError",
        "  web-1       none        21.9",
    ]


def test_the_first_column_folds_where_it_is_wider_than_the_terminal() -> None:
    with fitting(24):
        found = table(
            ("largest gang of", "on one node"), [("cpu 12  memory 100Gi  nvidia.com/gpu 2", "1 → 0")], indent="  "
        )
    assert found == [
        "  largest gang of",
        "  cpu 12  memory 100Gi",
        "  nvidia.com/gpu 2",
        "      on one node: 1 → 0",
    ]


def test_a_longer_name_is_not_cut_and_hosts_fold_at_commas() -> None:
    with fitting(20):
        assert table(("host",), [("a-name-of-a-host-that-is-longer",), ("n[01-03,05,07-09,11]",)]) == [
            "host",
            "a-name-of-a-host-that-is-longer",
            "n[01-03,05,07-09,11]",
        ]
    with fitting(12):
        assert table(("host",), [("n[01-03,05,07-09,11]",)]) == ["host", "n[01-03,05,", "07-09,11]"]
