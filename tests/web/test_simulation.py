"""`bayplan simulate --serve` in a real Chromium: the page follows a simulation, and every screen shows its cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.web.chromium import Page
from tests.web.conftest import EXAMPLES
from tests.web.running_web import RunningWeb, running_simulation
from tests.web.test_accessibility import serious_findings
from tests.web.test_api import printed
from tests.web.test_screens import assert_clean

SCENARIO = str(EXAMPLES / "scenarios" / "late-reports.yaml")


@pytest.fixture(scope="module")
def simulation() -> Iterator[RunningWeb]:
    with running_simulation(SCENARIO) as web:
        yield web


@pytest.fixture
def over(page: Page, simulation: RunningWeb) -> Page:
    """The screen after the simulation has come to its end."""
    page.call("Page.navigate", url=f"{simulation.url}/simulation")
    page.until("document.querySelector('.simulation .answer')")
    # The slider is set after the answer stands there.
    page.until("document.getElementById('main').dataset.ready === 'yes'")
    page.errors.clear()  # the page may have asked before there was an answer
    return page


def test_the_page_follows_a_simulation_while_it_runs(page: Page) -> None:
    with running_simulation(SCENARIO, "--pace", "2s") as web:
        page.call("Page.navigate", url=f"{web.url}/simulation")
        page.until("document.querySelector('.facts')?.innerText.includes('runs, at')")
        page.until("document.querySelector('input[type=range]').max !== ''")
        assert page.text("#live") == "running"
        page.run("window.marker = 'kept'")
        first = int(page.run("document.querySelector('input[type=range]').max"))
        page.until(f"Number(document.querySelector('input[type=range]').max) > {first} + 3")
        assert page.run(
            "document.querySelector('input[type=range]').value === document.querySelector('input[type=range]').max"
        ), "it stays at the latest moment"
        assert page.run("window.marker") == "kept"
    page.call("Page.navigate", url="about:blank")


def test_the_last_moment_is_what_the_command_prints(over: Page, simulation: RunningWeb) -> None:
    expected = printed("simulate", SCENARIO)
    assert over.text(".answer") == expected["answer"]
    assert over.texts(".facts li")[-1].endswith(", finished")
    over.until("document.getElementById('live').innerText === 'finished'")
    document = simulation.api("simulation")
    for run, told in zip(document["runs"], expected["runs"], strict=True):
        assert run["scheduler"] == told["scheduler"]
        last = {key: run[key][-1] for key in ("running", "waiting", "finished", "refused")}
        pods = {key: told["pods"][key] for key in ("running", "waiting", "finished")}
        assert last == {**pods, "refused": told["refused"]["total"]}
    assert_clean(over)


def test_the_slider_shows_schedulers_side_by_side_with_refused_pods_in_red(over: Page, simulation: RunningWeb) -> None:
    runs = simulation.api("simulation")["runs"]
    worst = max(runs, key=lambda run: run["refused"][-1])
    moment = next(number for number, refused in enumerate(worst["refused"]) if refused)
    over.run(f"document.querySelector('input[type=range]').value = {moment}")
    over.run("document.querySelector('input[type=range]').dispatchEvent(new Event('input'))")

    over.until(f"location.search === '?at={moment}' && document.querySelector('.run .refused')")
    assert [text.split(" ")[0] for text in over.texts(".run h2")] == [run["scheduler"] for run in runs]
    assert f"{worst['scheduler']} {worst['refused'][moment]} pod" in " ".join(over.texts(".run h2"))
    rows = over.texts(".scroll tbody tr")
    assert any(row.startswith("refused, in all") and str(worst["refused"][moment]) in row for row in rows)
    red = over.run("getComputedStyle(document.querySelector('td .refused')).color")
    wanted = over.run("getComputedStyle(document.documentElement).getPropertyValue('--bad-ink').trim()")
    assert red == f"rgb({', '.join(str(int(wanted[at : at + 2], 16)) for at in (1, 3, 5))})"
    assert over.texts("figcaption") == [
        "CPU in use",
        "NUMA fragmentation of free CPUs",
        "Pods refused by kubelets, in all",
        "Pods waiting",
    ]
    assert (
        over.run("[...document.querySelectorAll('.chart')].map((each) => each.querySelectorAll('.line').length)")
        == [len(runs)] * 4
    )
    assert_clean(over)


@pytest.mark.parametrize(
    "path,said", [("/", "nodes"), ("/why", "Why pods wait"), ("/gangs", "Gangs"), ("/what-if", "What if")]
)
def test_every_other_screen_shows_the_simulated_cluster(
    over: Page, simulation: RunningWeb, path: str, said: str
) -> None:
    over.open(f"{simulation.url}{path}")
    assert said in over.text("main")
    assert "Simulation" in over.text("nav")
    assert_clean(over)


def test_a_node_of_the_simulation_has_its_pods_in_their_zones(over: Page, simulation: RunningWeb) -> None:
    (name, *_) = simulation.api("simulation")["nodes"]
    over.open(f"{simulation.url}/node/{name}")
    assert over.texts(".zone h3")
    assert over.texts(".zone .pods li")
    assert_clean(over)


def test_ages_are_counted_by_the_simulated_clock(over: Page, simulation: RunningWeb) -> None:
    lasts = simulation.api("simulation")["lasts"]
    (name, *_) = simulation.api("simulation")["nodes"]
    assert simulation.api(f"nodes/{name}")["summary"]["reportAgeSeconds"] <= lasts
    over.open(f"{simulation.url}/?by=age")
    assert over.texts(".facts li")[-1].startswith("simulation, 3m"), "the moment of the last event"
    assert "oldest 3m" in over.run("document.querySelector('canvas').ariaLabel")


def test_frames_and_schedulers_that_do_not_exist_are_told(simulation: RunningWeb) -> None:
    for path, said in (
        ("frames/99999", "no frame"),
        ("frames/x", "no frame"),
        ("refusals?scheduler=none", "no scheduler"),
    ):
        answer = simulation.ask(f"/api/v1/simulation/{path}")
        assert (answer.status, said in answer.json["error"]) == (404, True)


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(over: Page, simulation: RunningWeb, dark: bool) -> None:
    over.size(1280, 860, dark=dark)
    over.open(f"{simulation.url}/simulation")
    assert serious_findings(over) == []


def test_a_phone_shows_it_without_scrolling_sideways(over: Page, simulation: RunningWeb) -> None:
    over.size(390, 800)
    over.open(f"{simulation.url}/simulation")
    assert over.run("document.documentElement.scrollWidth") <= 390
