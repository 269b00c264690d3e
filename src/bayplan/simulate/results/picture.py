"""One compact picture of a comparison, for a README: each scheduler's final figures over its time line.

In come runs and a theme, out goes a self-contained SVG of about 900 x 360 pixels with its own background and without a
style sheet. The page (`page.py`) shows the same time lines at more length.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.explain.svg import FONT_SIZE, FONTS
from bayplan.explain.theme import LIGHT, Theme
from bayplan.simulate.results.charts import Scales, timeline
from bayplan.simulate.results.comparison import ran
from bayplan.simulate.results.markup import Markup, element, joined
from bayplan.simulate.results.numbers import counted, number
from bayplan.simulate.run import Run

WIDTH, HEIGHT = 900, 360
MARGIN, GAP, PADDING = 18, 14, 14
HEAD = 44
# Per scheduler: name, three figures, then the time line down to the edge of its card.
NAME_AT, FIGURES_AT, WORDS_AT, TIMELINE_AT = 24, 58, 75, 82


def simulation_svg(runs: Sequence[Run], theme: Theme = LIGHT) -> str:
    """The picture. At least one run."""
    scales = Scales.of(runs)
    width = (WIDTH - 2 * MARGIN - GAP * (len(runs) - 1)) / len(runs)
    title = f"One scenario, {counted(len(runs), 'scheduler')}"
    facts = f"{counted(runs[-1].wanted, 'pod')} on {counted(runs[-1].nodes, 'node')}, simulated kubelets"
    return element(
        "svg",
        element("title", f"{title}: {facts}"),
        element("rect", width=WIDTH, height=HEIGHT, rx=10, fill=theme.desk),
        element("text", title, x=MARGIN, y=28, font_size=15, font_weight=600),
        element("text", facts, x=WIDTH - MARGIN, y=28, text_anchor="end", fill=theme.dim),
        *(_scheduler(run, scales, MARGIN + (width + GAP) * column, width, theme) for column, run in enumerate(runs)),
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        font_family=FONTS,
        font_size=FONT_SIZE,
        fill=theme.ink,
    )


def _scheduler(run: Run, scales: Scales, left: float, width: float, theme: Theme) -> Markup:
    height = HEIGHT - HEAD - MARGIN
    inner = width - 2 * PADDING
    words = (
        (
            number(ran(run)),
            f"of {number(run.wanted)} ran",
            theme.good_ink if ran(run) == run.wanted else theme.middling_ink,
        ),
        (number(run.refusals_in_all), "refused", theme.bad_ink if run.refusals_in_all else theme.good_ink),
        (number(run.waiting), "waiting", theme.middling_ink if run.waiting else theme.good_ink),
    )
    name = run.scheduler + (" (interrupted)" if run.interrupted else "")
    parts = [
        element("rect", x=left, y=HEAD, width=width, height=height, rx=6, fill=theme.paper, stroke=theme.line),
        element("text", name, x=left + PADDING, y=HEAD + NAME_AT, font_size=14, font_weight=600),
    ]
    for column, (figure, word, ink) in enumerate(words):
        x = left + PADDING + column * inner * 0.37
        parts.append(element("text", figure, x=x, y=HEAD + FIGURES_AT, fill=ink, font_size=23, font_weight=600))
        parts.append(element("text", word, x=x, y=HEAD + WORDS_AT, fill=theme.dim))
    size = (inner, height - TIMELINE_AT - PADDING / 2)
    return joined(*parts, timeline(run, scales, (left + PADDING, HEAD + TIMELINE_AT), size, theme))
