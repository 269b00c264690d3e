"""The page and the picture: self-contained, escaped, the same for the same runs, with everything that was promised on
them.
"""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from bayplan.explain.theme import LIGHT
from bayplan.simulate.results.charts import Scales, count_ticks, curves, time_ticks, timeline
from bayplan.simulate.results.markup import Markup, element, joined
from bayplan.simulate.results.page import Origin, page
from bayplan.simulate.results.page_nodes import grouped, nodes_that_differ
from bayplan.simulate.results.picture import simulation_svg
from bayplan.simulate.run import KubeletRefusal, Moment, Run, Waiting, WorkloadResult
from tests.unit.simulate.small_runs import a_comparison, a_run, a_scenario, blind_run, line, state_of

DESCRIPTIONS = {"blind": "sees sums only", "bayplan": "asks for the kubelet's verdict"}
ORIGIN = Origin("0.1.0", datetime(2026, 11, 16, 19, 30, tzinfo=UTC), "bayplan simulate 'a b.yaml' --report out.html")
EVIL = '<script>alert("x")</script>&'


class Outline(HTMLParser):
    """Checks that every element is closed where it was opened, and collects headings, texts and elements."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.headings: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.headings.append(data)
        if "style" not in self.open:
            self.words.append(data)


def test_the_page_has_every_part_and_begins_with_the_answer() -> None:
    outline = Outline(
        page(a_comparison(scenario=a_scenario(remarks=("s.yaml:3: lasts: is short",))), DESCRIPTIONS, ORIGIN)
    )
    assert outline.headings == [
        "Figures",
        "Refusals by reason",
        "Nodes at the end",
        "Inside the nodes",
        "Workloads",
        "What waits at the end",
        "First refusals under blind",
        "Remarks on the scenario",
    ]
    words = [word for word in outline.words if word.strip()]
    assert words[1:4] == [
        "bayplan: all 6 pods ran, none refused by a kubelet.",
        "blind: 4 ran, 40 refusals.",
        "telco-edge: 3 nodes, 6 pods wanted, reports arrive after 5s, seed 7",
    ]
    assert "asks for the kubelet's verdict" in words
    assert "telco-1 under blind" in words
    assert "Resources cannot be allocated with Topology locality" in words
    assert "s.yaml:3: lasts: is short" in words


def test_parts_without_content_are_left_out() -> None:
    outline = Outline(page(a_comparison(a_run()), DESCRIPTIONS, ORIGIN))
    assert outline.headings == ["Figures", "Refusals by reason", "Nodes at the end", "Inside the nodes", "Workloads"]
    assert "No kubelet refused a pod." in outline.words


def test_nothing_is_fetched_and_nothing_runs() -> None:
    text = page(a_comparison(), DESCRIPTIONS, ORIGIN)
    outline = Outline(text)
    assert not outline.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use"}
    assert not outline.attributes & {"src", "href", "xlink:href", "srcset", "action", "data"}
    assert not [name for name in outline.attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text


def test_names_and_messages_from_files_are_text_whatever_they_hold() -> None:
    run = blind_run(
        workloads=(WorkloadResult(EVIL, EVIL, 6, 4, 0, 2, 0, 40),),
        waiting_pods=(Waiting(EVIL, 2, EVIL),),
        refusals=(KubeletRefusal(1.0, EVIL, EVIL, "telco-1", EVIL, EVIL),),
        refused={EVIL: 40},
    )
    nodes = tuple(a_scenario().nodes)
    scenario = a_scenario(name=EVIL, nodes=nodes, remarks=(EVIL,))
    outline = Outline(page(a_comparison(run, a_run(), scenario=scenario), {"blind": EVIL}, ORIGIN))
    assert "script" not in outline.tags
    assert sum(EVIL in word for word in outline.words) >= 10


def test_the_same_runs_give_the_same_bytes() -> None:
    assert page(a_comparison(), DESCRIPTIONS, ORIGIN) == page(a_comparison(), DESCRIPTIONS, ORIGIN)
    assert simulation_svg([blind_run(), a_run()]) == simulation_svg([blind_run(), a_run()])


def test_the_footer_tells_version_date_and_command() -> None:
    words = [word for word in Outline(page(a_comparison(), DESCRIPTIONS, ORIGIN)).words if word.strip()]
    assert words[-2:] == [
        "Written by bayplan 0.1.0 on 2026-11-16 19:30 UTC:",
        "bayplan simulate 'a b.yaml' --report out.html",
    ]


def test_a_rack_stands_beside_itself_under_every_scheduler() -> None:
    """One line of the table is one rack, and its cells are the same nodes in the same order, whatever was refused
    there.
    """
    text = page(a_comparison(), DESCRIPTIONS, ORIGIN)
    table = text[text.index('<table class="nodes') :].partition("</table>")[0]
    lines = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    assert [name for name, _ in lines] == ["telco", "amd"]
    for _, cells in lines:
        nodes = [re.findall(r'title="([^:]*):', cell) for cell in cells.split("</td>")[:-1]]
        assert len(nodes) == len(a_comparison().runs)
        assert all(each == nodes[0] for each in nodes)


def test_an_interrupted_run_is_marked() -> None:
    words = Outline(page(a_comparison(blind_run(interrupted=True), not_run=["bayplan"]), DESCRIPTIONS, ORIGIN)).words
    assert "interrupted at 2m10s: blind: 4 of 6 pods ran, 40 refusals, 2 waiting." in words
    assert "Interrupted; not run: bayplan." in words


@pytest.mark.parametrize(
    "run, tone",
    [
        (a_run(), "good"),
        (a_run(running=5, waiting=1), "middling"),
        (a_run(refused={"TopologyAffinityError": 1}), "bad"),
        (blind_run(), "bad"),
    ],
)
def test_the_headline_is_green_only_if_all_is_well_and_red_only_if_pods_were_refused(run: Run, tone: str) -> None:
    text = page(a_comparison(run), DESCRIPTIONS, ORIGIN)
    assert f'<h1 class="{tone}">' in text
    assert f'<article class="judged-{tone}">' in text


def test_maps_are_of_one_node_per_group_where_most_was_refused() -> None:
    assert nodes_that_differ(a_scenario(), [blind_run(), a_run()]) == ["telco-1", "amd-1"]


def test_without_refusals_maps_are_of_nodes_whose_use_differs() -> None:
    idle = state_of({})
    same = [a_run("upstream"), a_run()]
    assert nodes_that_differ(a_scenario(), same) == []
    assert nodes_that_differ(a_scenario(), [a_run("upstream", state=idle), a_run()]) == ["telco-1", "amd-1"]


def test_nodes_are_grouped_by_the_levels_of_the_scenario_else_by_their_group() -> None:
    assert {name: len(nodes) for name, nodes in grouped(a_scenario()).items()} == {"telco": 2, "amd": 1}
    racks = [
        {"rack": "r1", "block": "b1", "kubernetes.io/hostname": "x"},
        {"rack": "r2", "block": "b1"},
        {"rack": "r2", "block": "b1"},
    ]
    nodes = []
    for node, labels in zip(a_scenario().nodes, racks, strict=True):
        nodes.append(type(node)(node.name, node.group, node.machine, node.kubelet, labels))
    levels = ("block", "rack", "kubernetes.io/hostname")
    found = grouped(a_scenario(nodes=tuple(nodes), levels=levels))
    assert {name: len(members) for name, members in found.items()} == {"b1 / r1": 1, "b1 / r2": 2}


def test_the_picture_is_a_well_formed_svg_with_the_final_figures() -> None:
    root = ET.fromstring(simulation_svg([blind_run(), a_run("upstream"), a_run()]))
    assert (root.get("width"), root.get("height")) == ("900", "360")
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in ("blind", "upstream", "bayplan")] == ["blind", "upstream", "bayplan"]
    at = texts.index("blind")
    assert texts[at + 1 : at + 7] == ["4", "of 6 ran", "40", "refused", "2", "waiting"]


def curve(run: Run, name: str, scales: Scales) -> str:
    drawn = timeline(run, scales, (0, 0), (400, 250), LIGHT)
    colour = {curve.name: curve.line for curve in curves(LIGHT)}[name]
    found = re.search(rf'<path d="([^"]*)" fill="none" stroke="{colour}"', drawn)
    assert found
    return found[1]


def test_curves_are_stairs_on_the_scales_of_all_runs() -> None:
    scales = Scales.of([blind_run(), a_run()])
    assert scales == Scales(until=130.0, pods=6, refusals=40, wanted=6)
    # Nothing runs until 1s, four pods from then on, six from 3s to the end at the right edge.
    assert re.fullmatch(r"M40 ([\d.]+)H43V([\d.]+)H48.5V26H400", curve(a_run(), "running", scales)), (
        "26 is the top of the plot"
    )


def test_an_interrupted_curve_ends_where_it_was_stopped() -> None:
    scales = Scales.of([blind_run(), a_run()])
    assert curve(a_run(interrupted=True, ended_at=65.0), "running", scales).endswith("H220")


def test_a_run_that_was_over_at_once_is_shown_for_a_tenth_of_the_time() -> None:
    assert Scales.of([a_run(ended_at=0.5, timeline=line((0, 0, 6, 0), (2.5, 6, 0, 0), (600, 6, 0, 0)))]).until == 60.0


def test_a_curve_has_no_more_steps_than_pixels() -> None:
    moments = tuple(Moment(second / 100, second % 7, 0, 0, 0, 0, 0) for second in range(13_000))
    run = a_run(timeline=moments)
    assert len(curve(run, "running", Scales.of([run]))) < 25_000


def test_a_run_without_a_time_line_can_be_drawn() -> None:
    run = a_run(timeline=(), ended_at=0.0, running=0, wanted=0, arrived=0)
    assert ET.fromstring(simulation_svg([run])) is not None


def test_pods_that_finish_take_the_scale_from_what_ran_at_once() -> None:
    batch = a_run(running=0, finished=500, wanted=500, timeline=line((0, 0, 0, 0), (1, 20, 30, 0)))
    assert Scales.of([batch]).pods == 30
    assert Scales.of([batch]).wanted is None


@pytest.mark.parametrize(
    "most, ticks",
    [
        (1, [0, 1]),
        (6, [0, 2, 4, 6]),
        (40, [0, 10, 20, 30, 40]),
        (912, [0, 200, 400, 600, 800]),
        (99, [0, 20, 40, 60, 80]),
    ],
)
def test_counts_are_marked_at_round_numbers(most: int, ticks: list[int]) -> None:
    assert count_ticks(most) == ticks


@pytest.mark.parametrize(
    "until, ticks",
    [(1.0, [0, 1]), (130.0, [0, 30, 60, 90, 120]), (3600.0, [0, 900, 1800, 2700, 3600]), (10 * 86400.0, [0, 172800])],
)
def test_time_is_marked_at_round_moments(until: float, ticks: list[int]) -> None:
    assert time_ticks(until)[: len(ticks)] == ticks
    assert len(time_ticks(until)) <= 6


def test_markup_escapes_all_but_markup() -> None:
    assert element("p", "a < b", element("b", "c"), class_='"') == '<p class="&quot;">a &lt; b<b>c</b></p>'
    assert joined("a", Markup("<i>"), "<", between=" & ") == "a & <i> & &lt;"
