"""Time lines as SVG: what ran and waited above, what kubelets refused so far below, on the same scales for every run.

In come runs and a theme, out go shapes whose colours are attributes, so that they look the same in a page and in a
picture (`picture.py`). Waiting pods are a broken line: it is told from the others without colours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from bayplan.explain.svg import SMALL, width_of
from bayplan.explain.theme import Theme
from bayplan.simulate.results.markup import Markup, element, joined
from bayplan.simulate.results.numbers import clock, number
from bayplan.simulate.run import Moment, Run
from bayplan.simulate.scenario.model import Seconds

# Room around the plots: numbers to the left, a caption above each plot, times below.
LEFT, CAPTION, TIMES = 40, 26, 20
MOST_TICKS = 5
# Time lines are samples: of a run in which all was over at once, so much is shown that a sample is not taken for a
# delay.
LEAST_SHOWN = 0.1
TICK_LENGTH = 3

Value = Callable[[Moment], int]

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)


@dataclass(frozen=True, slots=True)
class Scales:
    """What the longest axis of all runs reaches.

    `wanted` is drawn as a line where all pods are meant to run at once.
    """

    until: Seconds
    pods: int
    refusals: int
    wanted: int | None

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Scales:
        """Scales on which all these runs can be compared."""
        moments = [moment for run in runs for moment in run.timeline]
        all_at_once = not any(run.finished for run in runs)
        wanted = max(run.wanted for run in runs) if all_at_once else None
        most = max((max(moment.running, moment.waiting) for moment in moments), default=0)
        whole = max((moment.at for moment in moments), default=0.0)
        return cls(
            until=max(1.0, whole * LEAST_SHOWN, *(run.ended_at for run in runs)),
            pods=max(1, most, wanted or 0),
            refusals=max(1, *(run.refusals_in_all for run in runs)),
            wanted=wanted,
        )


@dataclass(frozen=True, slots=True)
class Plot:
    """A rectangle in which time goes to the right and a count upwards."""

    left: float
    top: float
    width: float
    height: float
    until: Seconds
    most: float

    @property
    def bottom(self) -> float:
        """Where a count of zero is."""
        return self.top + self.height

    def x(self, at: Seconds) -> float:
        """A moment, to half a pixel."""
        return round(2 * (self.left + self.width * min(at / self.until, 1.0))) / 2

    def y(self, value: float) -> float:
        """A count, to half a pixel."""
        return round(2 * (self.bottom - self.height * min(value / self.most, 1.0))) / 2


@dataclass(frozen=True, slots=True)
class Curve:
    """How one count is drawn: what it is called, how it is read from a moment, its line, the
    area below it, its words.
    """

    name: str
    value: Value
    line: str
    area: str
    ink: str
    dashes: str = ""


def curves(theme: Theme) -> tuple[Curve, Curve, Curve]:
    """Running and waiting pods, and refusals."""
    return (
        Curve("running", attrgetter("running"), theme.good, theme.good_soft, theme.good_ink),
        Curve("waiting", attrgetter("waiting"), theme.middling, "", theme.middling_ink, dashes="4 2"),
        Curve("refusals so far", attrgetter("refused"), theme.bad, theme.bad_soft, theme.bad_ink),
    )


def timeline(run: Run, scales: Scales, at: tuple[float, float], size: tuple[float, float], theme: Theme) -> Markup:
    """Both plots of one run inside a rectangle: running and waiting pods above, refusals so far below."""
    heights = size[1] - 2 * CAPTION - TIMES
    pod_ticks, refusal_ticks = count_ticks(scales.pods), count_ticks(scales.refusals)
    left, width = at[0] + LEFT, size[0] - LEFT
    upper = Plot(left, at[1] + CAPTION, width, round(heights * 0.68), scales.until, max(scales.pods, pod_ticks[-1]))
    lower_top = upper.bottom + CAPTION
    lower_height = at[1] + size[1] - TIMES - lower_top
    lower = Plot(left, lower_top, width, lower_height, scales.until, max(scales.refusals, refusal_ticks[-1]))
    running, waiting, refused = curves(theme)
    wanted = Markup() if scales.wanted is None else _level(upper, scales.wanted, theme.frame, dashes="3 3")
    shapes = (
        _caption(upper, running, waiting),
        _frame(upper, pod_ticks, theme),
        wanted,
        _area(upper, run, running),
        _line(upper, run, waiting),
        _line(upper, run, running),
        _caption(lower, refused),
        _frame(lower, refusal_ticks[-1:], theme),
        _area(lower, run, refused),
        _line(lower, run, refused),
        _times(lower, theme),
    )
    return element("g", *shapes, font_size=SMALL, fill=theme.dim, stroke_linejoin="round")


def count_ticks(most: int) -> list[int]:
    """Round numbers from zero to `most` or just below, at most six."""
    steps = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
    step = next(step for step in steps if most / step <= MOST_TICKS)
    return list(range(0, most + 1, step))


def time_ticks(until: Seconds) -> list[int]:
    """Round moments from zero to the end, at most six."""
    days = (86400 * number for number in itertools.count(1))
    step = next(step for step in itertools.chain(_TIME_STEPS, days) if until / step <= MOST_TICKS)
    return list(range(0, int(until) + 1, step))


def _line(plot: Plot, run: Run, curve: Curve) -> Markup:
    path = _stairs(plot, run, curve.value)
    return element("path", d=path, fill="none", stroke=curve.line, stroke_width=1.8, **_dashed(curve.dashes))


def _area(plot: Plot, run: Run, curve: Curve) -> Markup:
    """The area below a line."""
    if not run.timeline:
        return Markup()
    outline = f"{_stairs(plot, run, curve.value)}V{plot.bottom:g}H{plot.x(run.timeline[0].at):g}Z"
    return element("path", d=outline, fill=curve.area)


def _stairs(plot: Plot, run: Run, value: Value) -> str:
    """A path of stairs, because between two moments nothing changes.

    However many moments there are, it has no more steps than pixels: per column its lowest, highest and last value.
    """
    columns: dict[float, list[float]] = {}
    for moment in run.timeline:
        columns.setdefault(plot.x(moment.at), []).append(plot.y(value(moment)))
    path = ""
    height: float | None = None
    for x, heights in columns.items():
        for y in (max(heights), min(heights), heights[-1]):
            if height is None:
                path = f"M{x:g} {y:g}"
            elif y != height:
                path += f"H{x:g}V{y:g}"
            height = y
    # A run that is over stays as it was; one that was interrupted ends where it was stopped.
    end = run.ended_at if run.interrupted else plot.until
    return f"{path}H{plot.x(end):g}" if path else ""


def _caption(plot: Plot, *shown: Curve) -> Markup:
    """A legend in the colours of the curves: a piece of the line, then its name."""
    parts = []
    x, y = plot.left, plot.top - 7
    for curve in shown:
        piece = {"x1": x, "x2": x + 16, "y1": y - 4, "y2": y - 4, "stroke_width": 2}
        parts += [element("line", **piece, stroke=curve.line, **_dashed(curve.dashes))]
        parts += [element("text", curve.name, x=x + 21, y=y, fill=curve.ink, font_weight=600)]
        x += 21 + width_of(curve.name, SMALL, bold=True) + 12
    return joined(*parts)


def _frame(plot: Plot, ticks: Sequence[int], theme: Theme) -> Markup:
    """Lines at round counts, their numbers to the left, and the base line."""
    parts = [
        joined(_level(plot, tick, theme.line), _tick_label(plot.left - 6, plot.y(tick) + 4, number(tick)))
        for tick in ticks
        if tick
    ]
    return joined(*parts, _level(plot, 0, theme.frame), _tick_label(plot.left - 6, plot.bottom + 4, "0"))


def _level(plot: Plot, value: float, stroke: str, dashes: str = "") -> Markup:
    y = plot.y(value)
    return element("line", x1=plot.left, x2=plot.left + plot.width, y1=y, y2=y, stroke=stroke, **_dashed(dashes))


def _dashed(dashes: str) -> dict[str, str]:
    """The attribute of a broken line; nothing for a whole one."""
    return {"stroke_dasharray": dashes} if dashes else {}


def _times(plot: Plot, theme: Theme) -> Markup:
    """Moments below the base line; the first and last labels stay inside the picture."""
    parts = []
    for tick in time_ticks(plot.until):
        x = plot.x(tick)
        near_end = x > plot.left + plot.width - 16
        anchor = "start" if tick == 0 else "end" if near_end else "middle"
        parts.append(element("line", x1=x, x2=x, y1=plot.bottom, y2=plot.bottom + TICK_LENGTH, stroke=theme.frame))
        parts.append(element("text", clock(tick), x=x, y=plot.bottom + 16, text_anchor=anchor))
    return joined(*parts)


def _tick_label(x: float, y: float, text: str) -> Markup:
    return element("text", text, x=x, y=y, text_anchor="end")
