"""Every picture and page: readable for everybody, the same in every renderer, light and dark.

A strict reading of the SVG always runs; where librsvg is installed (`rsvg-convert`), it draws each picture too.
"""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from bayplan.explain.theme import DARK, LIGHT, THEMES, Theme, css_variables
from bayplan.simulate.results.page_style import PAGE_STYLE
from tests.pictures import contrast, lightness, rendered, written_in
from tests.unit.cli.conftest import EXAMPLES, Bayplan

GANGS = EXAMPLES / "gangs"
READABLE = 4.5
SMALLEST_TEXT = 11
DISTINCT_STEP = 10

PICTURES: dict[str, tuple[object, ...]] = {
    "NUMA map": ("numa", "telco-1", "-f", EXAMPLES / "pods", "--cluster", EXAMPLES / "cluster"),
    "NUMA map of eight zones": ("numa", "amd-1", "--cluster", EXAMPLES / "cluster"),
    "topology": ("topology", "--cluster", GANGS / "cluster.yaml"),
    "topology with NUMA zones": ("topology", "--level", "numa", "--cluster", GANGS / "cluster.yaml"),
    "gang": ("place", "-f", GANGS / "pretrain.yaml", "--cluster", GANGS / "cluster.yaml"),
    "gang of several groups": ("place", "-f", GANGS / "sub-groups.yaml", "--cluster", GANGS / "cluster.yaml"),
    "gang that does not fit": ("place", "-f", GANGS / "too-large.yaml", "--cluster", GANGS / "cluster.yaml"),
}
SIMULATION = "simulation"
SCENARIO = EXAMPLES / "scenarios" / "two-nodes.yaml"


@pytest.fixture(params=[*PICTURES, SIMULATION])
def kind(request: pytest.FixtureRequest) -> str:
    """One of everything that bayplan draws."""
    found: str = request.param
    return found


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    """Light or dark."""
    found: str = request.param
    return found


@pytest.fixture
def picture(kind: str, theme: str, bayplan: Bayplan, tmp_path: Path) -> str:
    """A picture as its command writes it."""
    if kind == SIMULATION:
        target = tmp_path / "simulation.svg"
        bayplan("simulate", SCENARIO, "--picture", target, "--theme", theme, cluster=None)
        return target.read_text()
    return bayplan(*PICTURES[kind], "-o", "svg", "--theme", theme, cluster=None).out


def test_every_text_of_a_picture_can_be_read(picture: str) -> None:
    texts = written_in(picture)
    assert len(texts) > 5
    assert [text for text in texts if text.contrast < READABLE] == []
    assert [text for text in texts if text.size < SMALLEST_TEXT] == []


@pytest.mark.skipif(not shutil.which("rsvg-convert"), reason="librsvg (rsvg-convert) is not installed")
def test_librsvg_draws_it_in_the_colours_of_the_theme(picture: str, theme: str, tmp_path: Path) -> None:
    pixels = rendered(picture, tmp_path)
    colours = THEMES[theme]
    ground = pixels[colours.paper] + pixels[colours.panel] + pixels[colours.desk]
    assert ground > 0.4 * pixels.total()
    assert len(pixels) > 50
    assert pixels["#000000"] < 0.01 * pixels.total()


def test_the_dark_picture_says_the_same_as_the_light_one(bayplan: Bayplan) -> None:
    light, dark = (bayplan(*PICTURES["gang"], "-o", "svg", "--theme", theme, cluster=None).out for theme in THEMES)
    assert light != dark
    assert [text.text for text in written_in(light)] == [text.text for text in written_in(dark)]


@pytest.mark.parametrize("command", ["numa", "topology", "place"])
def test_a_theme_without_a_picture_is_refused(bayplan: Bayplan, command: str) -> None:
    arguments = next(words for words in PICTURES.values() if words[0] == command)
    result = bayplan(*arguments, "--theme", "dark", cluster=None)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: --theme is for pictures: needs -o svg.")


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("scale", ["free", "use"])
def test_the_steps_of_a_scale_differ_in_lightness(colours: Theme, scale: str) -> None:
    """In greyscale, and for colour-blind readers, lightness is what is left of a colour."""
    steps = [lightness(shade.fill) for shade in getattr(colours, scale)]
    assert steps in (sorted(steps), sorted(steps, reverse=True))
    assert min(abs(one - other) for one, other in pairwise(steps)) > DISTINCT_STEP


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_ink_is_readable_on_every_shade(colours: Theme) -> None:
    pairs = [*colours.free, *colours.use, *((colours.paper, party) for party in colours.parties)]
    assert min(contrast(fill, ink) for fill, ink in pairs) >= READABLE


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_lines_and_bars_stand_out_from_their_ground(colours: Theme) -> None:
    """WCAG asks for 3:1 of graphics that carry a meaning."""
    lines = (colours.good, colours.middling, colours.bad, colours.new)
    assert min(contrast(line, colours.paper) for line in lines) >= 3


class TestThePage:
    """`simulate --report`."""

    @pytest.fixture
    def page(self, bayplan: Bayplan, tmp_path: Path) -> str:
        target = tmp_path / "page.html"
        bayplan("simulate", SCENARIO, "--report", target, cluster=None)
        return target.read_text()

    def test_no_text_is_smaller_than_11_pixels(self, page: str) -> None:
        style = page.partition("<style>")[2].partition("</style>")[0]
        sizes = re.findall(r"font(?:-size)?:(?:\d+ )?([\d.]+)(px|em|rem|%|pt)", style)
        assert len(sizes) > 10
        assert {unit for _, unit in sizes} == {"px"}
        assert min(float(size) for size, _ in sizes) >= SMALLEST_TEXT

    def test_its_pictures_are_never_shrunk(self, page: str) -> None:
        """A picture drawn at 11 pixels and shown at half its width would be unreadable."""
        for opening in re.findall(r"<svg [^>]*>", page):
            natural = re.search(r'viewBox="0 0 ([\d.]+) ', opening)
            least = re.search(r'min-width:([\d.]+)px|width="([\d.]+)"', opening)
            assert natural
            assert least
            assert float(least[1] or least[2]) >= float(natural[1])
        assert not re.search(r"svg\{[^}]*width:100%", PAGE_STYLE)

    @pytest.mark.parametrize("colours", [LIGHT, DARK])
    def test_its_pictures_can_be_read_light_and_dark(self, page: str, colours: Theme) -> None:
        values = dict(each.split(":") for each in css_variables(colours).split(";"))
        pictures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
        assert len(pictures) > 3
        for drawn in pictures:
            plain = re.sub(r"var\((--[\w-]+),#\w+\)", lambda found: values[found[1]], drawn)
            for text in written_in(_on_paper(plain, colours.paper)):
                assert text.contrast >= READABLE, text
                assert text.size >= SMALLEST_TEXT, text

    def test_variables_in_its_pictures_have_a_fallback(self, page: str) -> None:
        drawn = "".join(re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL))
        assert "var(" in drawn
        assert re.findall(r"var\([^,)]*\)", drawn) == []

    @pytest.mark.parametrize("colours", [LIGHT, DARK])
    def test_its_words_can_be_read_on_cards_and_beside_them(self, colours: Theme) -> None:
        values = dict(each.split(":") for each in css_variables(colours).split(";"))
        rules = re.findall(r"\{([^{}]*)\}", PAGE_STYLE)
        checked = 0
        for rule in rules:
            ink = re.search(r"(?<![-\w])color:var\((--[\w-]+)\)", rule)
            own = re.search(r"background:var\((--[\w-]+)\)", rule)
            for ground in (own[1],) if own else ("--paper", "--desk"):
                if ink:
                    checked += 1
                    assert contrast(values[ink[1]], values[ground]) >= READABLE, rule
        assert checked > 15


def _on_paper(picture: str, paper: str) -> str:
    """A chart has no background of its own: it lies on a card. Attributes that only matter in a page are left out."""
    opening, body = re.match(r"(<svg [^>]*>)(.*)", picture, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    opening = re.sub(r' (class|style)="[^"]*"', "", opening)
    if "xmlns" not in opening:
        opening = opening.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return f'{opening}<rect width="9999" height="9999" fill="{paper}"/>{body}'
