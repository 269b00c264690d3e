"""A server and a browser for the tests of the page; without a browser they are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.chromium import Page, browser_program, opened_page
from tests.web.running_web import RunningWeb, running_web

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def gang_cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example that a test may change."""
    return Path(shutil.copy(EXAMPLES / "gangs" / "cluster.yaml", tmp_path_factory.mktemp("web")))


@pytest.fixture(scope="session")
def gangs(gang_cluster: Path) -> Iterator[RunningWeb]:
    with running_web("--cluster", str(gang_cluster)) as web:
        yield web


@pytest.fixture(scope="session")
def telco() -> Iterator[RunningWeb]:
    with running_web("--cluster", str(EXAMPLES / "cluster")) as web:
        yield web


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    program = browser_program()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine")
    with opened_page(program) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Page:
    """The tab, with nothing remembered from the test before."""
    browser.size(1280, 860)
    browser.call("Page.navigate", url="about:blank")
    browser.errors.clear()
    browser.requests.clear()
    return browser
