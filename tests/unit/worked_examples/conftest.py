"""`--documents DIR`: a folder with the original documents."""

import pytest

from tests.unit.cli.conftest import bayplan

__all__ = ["bayplan"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--documents",
        metavar="DIR",
        help="check that the blocks in tests/documents stand in the files of DIR, unchanged",
    )
