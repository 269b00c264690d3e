"""axe-core finds nothing serious on any screen, light or dark."""

from __future__ import annotations

import pytest

from tests.web.axe import axe_file
from tests.web.chromium import Page
from tests.web.running_web import RunningWeb

SERIOUS = """
axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations
  .filter(({impact}) => impact === 'serious' || impact === 'critical')
  .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map(({html}) => html.slice(0, 160)).join(' ')}`))
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "path", ["/", "/?by=slots", "/node/telco-1", "/gangs", "/why", "/why/telco/pod/upf-large", "/what-if"]
)
def test_axe_finds_nothing_serious(page: Page, telco: RunningWeb, path: str, dark: bool) -> None:
    if not axe_file().exists():
        pytest.skip("no axe-core: `make axe` fetches it from the npm registry")
    page.size(1280, 860, dark=dark)
    page.open(f"{telco.url}{path}")
    page.run(axe_file().read_text() + "; true")
    assert page.run(SERIOUS) == []
