"""One compact picture of a comparison, for a README: each scheduler's final figures over its time line.

In come runs, out goes a self-contained SVG of about 900 x 360 pixels with its own background, so that it looks the same on
light and dark pages. The page (`page.py`) shows the same time lines at more length.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.explain.svg import FONTS
from bayplan.simulate.charts import CHART_STYLE, Scales, timeline
from bayplan.simulate.comparison import ran
from bayplan.simulate.markup import Markup, element, joined
from bayplan.simulate.numbers import counted, number
from bayplan.simulate.page_style import LIGHT
from bayplan.simulate.run import Run

WIDTH, HEIGHT = 900, 360
MARGIN, GAP, PADDING = 18, 14, 14
HEAD = 44
# Per scheduler: name, three figures, then the time line down to the edge of its card.
NAME_AT, FIGURES_AT, WORDS_AT, TIMELINE_AT = 24, 58, 75, 82

_STYLE = """
.paper{fill:var(--paper)} .card{fill:var(--card);stroke:var(--line)}
.title,.name,.figure{fill:var(--ink);font-weight:600} .title{font-size:15px} .name{font-size:14px} .figure{font-size:23px}
.word,.facts{fill:var(--dim);font-size:12px}
.good{fill:var(--good-ink)} .bad{fill:var(--bad-ink)} .middling{fill:var(--middling-ink)}
"""


def simulation_svg(runs: Sequence[Run]) -> str:
    """The picture. At least one run."""
    scales = Scales.of(runs)
    width = (WIDTH - 2 * MARGIN - GAP * (len(runs) - 1)) / len(runs)
    title = f"One scenario, {counted(len(runs), 'scheduler')}"
    facts = f"{counted(runs[-1].wanted, 'pod')} on {counted(runs[-1].nodes, 'node')}, simulated kubelets"
    return element(
        "svg",
        element("title", f"{title}: {facts}"),
        element("style", Markup(f":root{{{LIGHT}}}{_STYLE}{CHART_STYLE}")),
        element("rect", width=WIDTH, height=HEIGHT, rx=10, class_="paper"),
        element("text", title, x=MARGIN, y=28, class_="title"),
        element("text", facts, x=WIDTH - MARGIN, y=28, text_anchor="end", class_="facts"),
        *(_scheduler(run, scales, MARGIN + (width + GAP) * column, width) for column, run in enumerate(runs)),
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        font_family=FONTS,
        font_size=12,
    )


def _scheduler(run: Run, scales: Scales, left: float, width: float) -> Markup:
    height = HEIGHT - HEAD - MARGIN
    inner = width - 2 * PADDING
    words = (
        (number(ran(run)), f"of {number(run.wanted)} ran", "good" if ran(run) == run.wanted else "middling"),
        (number(run.refusals_in_all), "refused", "bad" if run.refusals_in_all else "good"),
        (number(run.waiting), "waiting", "middling" if run.waiting else "good"),
    )
    name = run.scheduler + (" (interrupted)" if run.interrupted else "")
    parts = [
        element("rect", x=left, y=HEAD, width=width, height=height, rx=6, class_="card"),
        element("text", name, x=left + PADDING, y=HEAD + NAME_AT, class_="name"),
    ]
    for column, (figure, word, tone) in enumerate(words):
        x = left + PADDING + column * inner * 0.37
        parts.append(element("text", figure, x=x, y=HEAD + FIGURES_AT, class_=f"figure {tone}"))
        parts.append(element("text", word, x=x, y=HEAD + WORDS_AT, class_="word"))
    size = (inner, height - TIMELINE_AT - PADDING / 2)
    drawing = timeline(run, scales, (left + PADDING, HEAD + TIMELINE_AT), size)
    return joined(*parts, element("g", drawing, class_="chart"))
