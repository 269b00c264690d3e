"""*Export* saves every screen as one HTML file that opens without a network and says what the screen said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.web.chromium import LONGEST_WAIT, Page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb, running_simulation

BROKEN_PICTURES = "[...document.images].filter((each) => !each.complete || !each.naturalWidth).length"
ACTIVE = "document.querySelectorAll('script, link, a[href], form, button, input, select, textarea').length"


def exported(page: Page, folder: Path) -> Path:
    """The file that a click on *Export* saves, without an error."""
    page.errors.clear()
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.run("document.getElementById('export').click()")
    began = time.monotonic()
    while not (found := list(folder.glob("*.html"))):
        assert time.monotonic() - began < LONGEST_WAIT, "nothing was saved"
        time.sleep(0.1)
    page.run("0")  # what the console says comes with the next answer
    assert page.errors == []
    return found[0]


def opened_without_network(page: Page, file: Path) -> str:
    """What the file says in a browser without a network."""
    page.call("Page.navigate", url="about:blank")
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    page.requests.clear()
    page.errors.clear()
    try:
        page.call("Page.navigate", url=file.as_uri())
        page.until(f"document.readyState === 'complete' && location.href === {file.as_uri()!r}")
        assert page.run(BROKEN_PICTURES) == 0
        assert page.run(ACTIVE) == 0
        assert page.run("getComputedStyle(document.body).backgroundColor") != "rgba(0, 0, 0, 0)", "it has no style"
        said = page.text("body")
        assert {url.partition(":")[0] for url in page.requests} <= {"file", "data"}
        assert page.errors == []
        return said
    finally:
        page.call(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        page.call("Page.navigate", url="about:blank")


@pytest.mark.parametrize(
    "path,name,said,pictures",
    [
        ("/", "bayplan-cluster.html", ("86 of 160", "outside the topology"), 1),
        ("/?in=b1/r2", "bayplan-cluster.html", ("b1-r2-n2", "4 of 8", "free gpu"), 1),
        ("/node/b1-r2-n2", "bayplan-node-b1-r2-n2.html", ("Node b1-r2-n2", "NUMA 0"), 0),
        ("/gangs", "bayplan-gangs.html", ("ml/finetune",), 0),
        ("/gang/ml/finetune", "bayplan-gang-ml-finetune.html", ("needs 9 slots in one rack", "9 members wait"), 1),
        ("/why", "bayplan-why.html", ("9 pods wait (1 cause)", "ml/finetune-8"), 0),
        ("/why/ml/pod/finetune-0", "bayplan-why-ml-pod-finetune-0.html", ("needs 9 slots in one rack",), 0),
    ],
)
def test_a_screen_is_one_file(
    page: Page, gangs: RunningWeb, tmp_path: Path, path: str, name: str, said: tuple[str, ...], pictures: int
) -> None:
    page.open(f"{gangs.url}{path}")
    file = exported(page, tmp_path)
    assert file.name == name
    assert file.read_text().count("data:image/png;base64,") >= pictures
    text = opened_without_network(page, file)
    for each in said:
        assert each in text


def test_a_what_if_is_saved_with_its_manifest_and_its_answer(page: Page, gangs: RunningWeb, tmp_path: Path) -> None:
    manifest = (EXAMPLES / "gangs" / "pretrain.yaml").read_text(encoding="utf-8")
    page.open(f"{gangs.url}/what-if")
    page.run(f"document.querySelector('textarea').value = {manifest!r}")
    page.run("document.querySelector('form.card').requestSubmit()")
    page.until("document.querySelector('.matrix')")
    text = opened_without_network(page, exported(page, tmp_path))
    assert "ml/pretrain fits: block b2" in text
    assert "required: example.com/block" in text


def test_a_moment_of_a_simulation_is_saved_with_its_charts(page: Page, tmp_path: Path) -> None:
    with running_simulation(str(EXAMPLES / "scenarios" / "late-reports.yaml")) as web:
        page.call("Page.navigate", url=f"{web.url}/simulation")
        page.until("document.querySelector('.simulation .answer')")
        page.open(f"{web.url}/simulation?at=60")
        file = exported(page, tmp_path)
        text = opened_without_network(page, file)
    assert file.read_text().count("<svg") >= 4
    assert "Pods and shares at 1m15s" in text
    assert "pods ran" in text
