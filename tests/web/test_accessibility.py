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


# Cluster (a fixture) and address; `#` answers the form of the screen first.
SCREENS = [
    *[("telco", path) for path in ("/", "/?by=slots", "/node/telco-1", "/why", "/why/telco/pod/upf-large", "/gangs")],
    *[("telco", path) for path in ("/what-if", "/what-if#", "/node/no-such-node")],
    *[("gangs", path) for path in ("/", "/?in=b1/r2", "/gangs", "/gang/ml/finetune", "/why/ml/pod/finetune-0")],
]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("cluster,path", SCREENS)
def test_axe_finds_nothing_serious(
    request: pytest.FixtureRequest, page: Page, cluster: str, path: str, dark: bool
) -> None:
    web: RunningWeb = request.getfixturevalue(cluster)
    page.size(1280, 860, dark=dark)
    page.call("Page.navigate", url=f"{web.url}{path.removesuffix('#')}")
    page.until("document.querySelector('main h1, main form')")
    page.until("document.getElementById('main').dataset.ready === 'yes' || document.querySelector('.message')")
    if path.endswith("#"):
        page.run("document.querySelector('form.card').requestSubmit()")
        page.until("document.querySelector('.result .answer')")
    assert serious_findings(page) == []


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious_in_the_list_of_keys(page: Page, telco: RunningWeb, dark: bool) -> None:
    page.size(1280, 860, dark=dark)
    page.open(f"{telco.url}/")
    page.run("document.getElementById('keys').click()")
    assert serious_findings(page) == []


def serious_findings(page: Page) -> list[str]:
    """What axe-core finds serious or critical on the page as it is."""
    if not axe_file().exists():
        pytest.skip("no axe-core: `make axe` fetches it from the npm registry")
    page.run(axe_file().read_text() + "; true")
    return list(page.run(SERIOUS))
