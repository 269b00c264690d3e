"""A comparison as one HTML page: the answer, big figures, time lines, who was refused where and why, what waits.

In comes a `Comparison`, out goes a self-contained file: style and pictures are inside, nothing is fetched, there is no
script. Whatever comes from users' files goes through `markup.py`, which escapes it. The same runs and the same `Origin`
give the same page, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bayplan.explain.theme import PAGE
from bayplan.simulate.results.charts import Scales, timeline
from bayplan.simulate.results.comparison import (
    Comparison,
    answer_about_judged,
    answers_about_others,
    figures,
    ran,
    reasons,
    troubled,
)
from bayplan.simulate.results.comparison_text import facts
from bayplan.simulate.results.markup import Markup, element, joined
from bayplan.simulate.results.numbers import clock, number
from bayplan.simulate.results.page_nodes import numa_maps, overview
from bayplan.simulate.results.page_style import PAGE_STYLE
from bayplan.simulate.run import Run, WorkloadResult

# Charts are drawn for the room they have beside each other in 1,200 pixels, so that their words are as large as those
# around them.
CHART_WIDTHS, CHART_HEIGHT = {1: 720, 2: 520, 3: 325}, 250
# What a card needs beside its chart.
CARD_FRAME = 38
MOST_WORKLOADS = 100
MOST_REFUSALS = 10
# The browser itself refuses to fetch or run anything, should something ever slip through.
ONLY_THIS_FILE = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page comes from, for its footer: the version of bayplan, the moment, and the command line."""

    version: str
    written: datetime
    command: str


def page(comparison: Comparison, descriptions: Mapping[str, str], origin: Origin) -> str:
    """The whole page. `descriptions` tell in one line what each scheduler is."""
    scenario = comparison.scenario
    body = [
        _headline(comparison),
        _schedulers(comparison, descriptions),
        element("div", _card("Figures", "", _figures(comparison.runs)), _reasons(comparison.runs), class_="pair"),
    ]
    body.append(_card("Nodes at the end", "", overview(comparison)))
    maps = numa_maps(comparison)
    if maps:
        body.append(_card("Inside the nodes", "Nodes on which the schedulers differ most, at the end.", maps))
    body.append(_card("Workloads", "Those that lost pods or wait come first.", _workloads(comparison.runs)))
    if any(run.waiting_pods for run in comparison.runs):
        body.append(_card("What waits at the end", "", _waiting(comparison.runs)))
    body += [_refusals(run) for run in comparison.runs if run.refusals]
    if comparison.remarks:
        remarks = element("ul", *(element("li", remark) for remark in comparison.remarks))
        body.append(_card("Remarks on the scenario", "", remarks))
    body.append(_footer(origin))
    head = joined(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{ONLY_THIS_FILE}">'),
        element("title", f"{scenario.name}: {', '.join(run.scheduler for run in comparison.runs)}"),
        element("style", Markup(PAGE_STYLE)),
    )
    document = element("html", element("head", head), element("body", *body), lang="en")
    return f"<!doctype html>\n{document}\n"


def _footer(origin: Origin) -> Markup:
    written = origin.written.strftime("%Y-%m-%d %H:%M UTC")
    command = element("p", element("code", origin.command))
    return element("footer", element("p", f"Written by bayplan {origin.version} on {written}:"), command)


def _headline(comparison: Comparison) -> Markup:
    scenario = comparison.scenario
    others = "; ".join(answers_about_others(comparison))
    not_run = f"Interrupted; not run: {', '.join(comparison.not_run)}." if comparison.not_run else ""
    return element(
        "header",
        element("h1", f"{answer_about_judged(comparison)}.", class_=_tone(comparison)),
        element("p", f"{others}.", class_="others") if others else Markup(),
        element("p", f"{scenario.name}: {facts(comparison)}", class_="dim"),
        element("p", not_run, class_="bad") if not_run else Markup(),
    )


def _tone(comparison: Comparison) -> str:
    """Waiting is not as bad as being sent back."""
    if comparison.good:
        return "good"
    return "bad" if comparison.judged.refusals_in_all else "middling"


def _card(title: str, explained: str, *content: str) -> Markup:
    words = element("p", explained, class_="dim") if explained else Markup()
    return element("section", element("h2", title), words, *content)


def _schedulers(comparison: Comparison, descriptions: Mapping[str, str]) -> Markup:
    """A card for each scheduler, on the same scales: three figures and the time line."""
    scales = Scales.of(comparison.runs)
    width = CHART_WIDTHS.get(len(comparison.runs), CHART_WIDTHS[3])
    articles = []
    for run in comparison.runs:
        drawing = timeline(run, scales, (0, 0), (width, CHART_HEIGHT), PAGE)
        chart = element(
            "svg",
            element("title", f"Time line of {run.scheduler}: pods running, waiting and refused so far"),
            drawing,
            viewBox=f"0 0 {width} {CHART_HEIGHT}",
            role="img",
            class_="chart",
            style=f"min-width:{width}px;max-width:{width * 1.3:g}px",
        )
        articles.append(
            element(
                "article",
                element("div", run.scheduler, class_="scheduler"),
                element("p", descriptions.get(run.scheduler, ""), class_="about"),
                _big_figures(run),
                element("div", chart, class_="scroll"),
                class_=f"judged-{_tone(comparison)}" if run is comparison.judged else "",
            )
        )
    columns = f"grid-template-columns:repeat(auto-fit,minmax(min(100%,{width + CARD_FRAME}px),1fr))"
    return element("section", element("div", *articles, class_="columns", style=columns), class_="plain")


def _big_figures(run: Run) -> Markup:
    entries = (
        (number(ran(run)), f"of {number(run.wanted)} ran", "good" if ran(run) == run.wanted else "middling"),
        (number(run.refusals_in_all), "refused", "bad" if run.refusals_in_all else "good"),
        (number(run.waiting), "waiting", "middling" if run.waiting else "good"),
    )
    return element(
        "div",
        *(
            element("div", element("b", figure, class_=tone), element("span", word), class_="figure")
            for figure, word, tone in entries
        ),
        class_="big",
    )


def _figures(runs: Sequence[Run]) -> Markup:
    rows = [
        element(
            "tr",
            element("td", figure.label),
            *(element("td", value, class_="number") for value in figure.values),
            class_="detail" if figure.detail else "",
        )
        for figure in figures(runs)
    ]
    return _table(["", *(run.scheduler for run in runs)], rows, numbers={*range(1, len(runs) + 1)})


def _table(header: Sequence[str], rows: Sequence[Markup], *, numbers: Collection[int] = ()) -> Markup:
    """A table that scrolls by itself on a narrow screen; the columns in `numbers` are set to the right."""
    cells = [
        element("th", text, class_="number" if position in numbers else "", scope="col")
        for position, text in enumerate(header)
    ]
    inner = joined(element("thead", element("tr", *cells)), element("tbody", *rows))
    return element("div", element("table", inner), class_="scroll")


def _reasons(runs: Sequence[Run]) -> Markup:
    """A bar for each reason and scheduler."""
    most = max(max(run.refused.values(), default=0) for run in runs)
    if not most:
        return _card("Refusals by reason", "No kubelet refused a pod.")
    parts = []
    for reason in reasons(runs):
        parts.append(element("h3", reason))
        for run in runs:
            refused = run.refused.get(reason, 0)
            bar = element("i", class_="" if refused else "none", style=f"width:{80 * refused / most:.1f}%")
            parts += [element("span", run.scheduler), element("div", bar, number(refused), class_="bar")]
    explained = "What the kubelets said, in all."
    return _card("Refusals by reason", explained, element("div", *parts, class_="bars"))


def _workloads(runs: Sequence[Run]) -> Markup:
    """Every workload with how it fared under each scheduler."""
    by_run = [{workload.name: workload for workload in run.workloads} for run in runs]
    names = sorted(by_run[-1], key=lambda name: not any(troubled(found[name]) for found in by_run if name in found))
    rows = []
    for name in names[:MOST_WORKLOADS]:
        workload = by_run[-1][name]
        cells = [element("td", name, class_="name"), element("td", workload.kind)]
        cells.append(element("td", number(workload.wanted), class_="number"))
        cells += [_fared(found.get(name)) for found in by_run]
        rows.append(element("tr", *cells))
    header = ("workload", "kind", "wanted", *(run.scheduler for run in runs))
    hidden = len(names) - MOST_WORKLOADS
    more = element("p", f"and {number(hidden)} more workloads", class_="dim") if hidden > 0 else Markup()
    return joined(_table(header, rows, numbers={2}), more)


def _fared(workload: WorkloadResult | None) -> Markup:
    """`120 ran, 3,100 refused, 180 waiting` in the colours of what it means."""
    if workload is None:
        return element("td", "-")
    pieces = [element("span", f"{number(workload.running + workload.finished)} ran")]
    for amount, word, tone in (
        (workload.refused, "refused", "bad"),
        (workload.waiting, "waiting", "middling"),
        (workload.given_up, "given up", "bad"),
    ):
        if amount:
            pieces.append(element("span", f"{number(amount)} {word}", class_=tone))
    return element("td", joined(*pieces, between=", "))


def _waiting(runs: Sequence[Run]) -> Markup:
    rows = [
        element(
            "tr",
            element("td", run.scheduler),
            element("td", waiting.workload, class_="name"),
            element("td", number(waiting.pods), class_="number"),
            element("td", waiting.reason),
        )
        for run in runs
        for waiting in run.waiting_pods[:MOST_WORKLOADS]
    ]
    return _table(("scheduler", "workload", "pods", "why, in the scheduler's words"), rows, numbers={2})


def _refusals(run: Run) -> Markup:
    rows = [
        element(
            "tr",
            element("td", clock(refusal.at)),
            element("td", refusal.pod, class_="name"),
            element("td", refusal.node, class_="name"),
            element("td", refusal.reason),
            element("td", refusal.message),
        )
        for refusal in run.refusals[:MOST_REFUSALS]
    ]
    shown = f"{number(len(rows))} of {number(run.refusals_in_all)}, with the kubelet's message."
    table = _table(("at", "pod", "node", "reason", "message"), rows)
    return _card(f"First refusals under {run.scheduler}", shown, table)
