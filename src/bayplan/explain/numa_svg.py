"""A NUMA map as one self-contained SVG: packages, zones in them, bars, device squares, pods, distances.

In comes a `NumaMap`, out goes text that a browser, a README or a ticket shows as it is: no script, no style sheet from
elsewhere. Every bar has its numbers beside it and devices in use are crossed out, so the picture also works without colours,
which are from the Okabe-Ito palette that colour-blind readers can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.explain.numa_labels import short_amount, short_labels, short_listing
from bayplan.explain.numa_map import NumaMap, PackageView, PodInZone, PodOutside, ZoneResource, ZoneView
from bayplan.explain.svg import FONT_SIZE, INK, Canvas, cut

DIM, LINE, FRAME = "#5b6477", "#d9dee8", "#aab3c5"
PAPER, PACKAGE, ZONE, TRACK = "#ffffff", "#f3f5f9", "#ffffff", "#e8ecf3"
FREE, USED, USED_FILL = "#009e73", "#d55e00", "#fbe9df"
NEW, NEW_FILL, POD_FILL = "#0b5cad", "#e3eefa", "#f3f5f9"
SMALL = 11

MARGIN, GAP, PADDING = 20, 12, 12
ZONE_WIDTH = 400
INNER = ZONE_WIDTH - 2 * PADDING
BAR_GAP = 24
BAR_WIDTH = (INNER - BAR_GAP) // 2
BAR_HEIGHT, BAR_PITCH = 8, 34
SQUARE, SQUARE_PITCH = 12, 16
POD_HEIGHT, POD_PITCH = 34, 39
ZONE_HEAD, ZONE_FOOT = 34, 26
CAPTION = 30


def numa_svg(drawn: NumaMap) -> str:
    """The whole picture."""
    return _Picture(drawn).drawing()


class _Picture:
    """Draws from top to bottom; each part is told where to begin and says where it ended."""

    def __init__(self, drawn: NumaMap) -> None:
        self.drawn = drawn
        self.canvas = Canvas()
        self.labels = short_labels(resource.name for zone in drawn.zones for resource in zone.resources)

    def drawing(self) -> str:
        """Everything, in a frame of the right size."""
        packages = self.drawn.packages
        y = self._header()
        if len(packages) > 1:
            for start in range(0, len(packages), 2):
                y = self._package_row(packages[start : start + 2], y)
        else:
            y = self._single_frame(packages[0], y)
        y = self._outside("Zone not reported", self.drawn.zone_not_reported, y)
        y = self._outside("Not pinned to a zone", self.drawn.not_pinned, y)
        y = self._legend(y)
        width = 2 * MARGIN + 2 * (ZONE_WIDTH + PADDING) + GAP + (2 * PADDING if len(packages) > 1 else 0)
        return self.canvas.document(f"NUMA map of node {self.drawn.node}", width, y + MARGIN - 4, PAPER)

    def _header(self) -> float:
        drawn = self.drawn
        self.canvas.text(MARGIN, MARGIN + 12, f"{drawn.node}: NUMA map", size=17, bold=True)
        facts = [f"policy {drawn.policy}", f"scope {drawn.scope}", f"cpu manager {drawn.cpu_manager}"]
        facts += [f"memory manager {drawn.memory_manager}", *drawn.remarks]
        self.canvas.text(MARGIN, MARGIN + 34, " · ".join(facts), fill=DIM)
        return MARGIN + 48

    def _package_row(self, packages: Sequence[PackageView], y: float) -> float:
        """Packages side by side, the zones of each below one another."""
        rows = max(len(package.zones) for package in packages)
        heights = [
            max(_zone_height(package.zones[row]) for package in packages if row < len(package.zones))
            for row in range(rows)
        ]
        height = CAPTION + sum(heights) + GAP * (rows - 1) + PADDING
        for column, package in enumerate(packages):
            x = MARGIN + column * (ZONE_WIDTH + 2 * PADDING + GAP)
            self.canvas.box((x, y), (ZONE_WIDTH + 2 * PADDING, height), PACKAGE, stroke=FRAME, radius=6)
            self.canvas.text(x + PADDING, y + 20, package.name, bold=True)
            top = y + CAPTION
            for zone, zone_height in zip(package.zones, heights, strict=False):
                self._zone(zone, x + PADDING, top, zone_height)
                top += zone_height + GAP
        return y + height + GAP

    def _single_frame(self, package: PackageView, y: float) -> float:
        """Zones two by two in one frame: which of them share a package is not known, or there is only one."""
        pairs = [package.zones[start : start + 2] for start in range(0, len(package.zones), 2)]
        heights = [max(_zone_height(zone) for zone in pair) for pair in pairs]
        caption = CAPTION if package.name else PADDING
        height = caption + sum(heights) + GAP * (len(pairs) - 1) + PADDING
        self.canvas.box((MARGIN, y), (2 * ZONE_WIDTH + GAP + 2 * PADDING, height), PACKAGE, stroke=FRAME, radius=6)
        self.canvas.text(MARGIN + PADDING, y + 20, package.name, bold=True)
        top = y + caption
        for pair, zone_height in zip(pairs, heights, strict=True):
            for column, zone in enumerate(pair):
                self._zone(zone, MARGIN + PADDING + column * (ZONE_WIDTH + GAP), top, zone_height)
            top += zone_height + GAP
        return y + height + GAP

    def _zone(self, zone: ZoneView, x: float, y: float, height: float) -> None:
        new = any(pod.new for pod in zone.pods)
        self.canvas.box((x, y), (ZONE_WIDTH, height), ZONE, stroke=NEW if new else LINE, line=2 if new else 1)
        left = x + PADDING
        self.canvas.text(left, y + 21, f"NUMA {zone.id}", size=13, bold=True)
        for position, resource in enumerate(zone.resources):
            column, row = position % 2, position // 2
            self._resource(resource, left + column * (BAR_WIDTH + BAR_GAP), y + ZONE_HEAD + 8 + row * BAR_PITCH)
        top = y + ZONE_HEAD + _bars_height(zone) + 2
        for pod in zone.pods:
            self._pod(pod, left, top)
            top += POD_PITCH
        distances = cut(f"distance {self.drawn.distance_row(zone)}", INNER, SMALL)
        self.canvas.text(left, y + height - 11, distances, fill=DIM, size=SMALL)

    def _resource(self, resource: ZoneResource, x: float, y: float) -> None:
        """Label and numbers above, a bar or squares below."""
        canvas, label = self.canvas, self.labels[resource.name]
        numbers = f"{short_amount(resource.name, resource.free)} / {short_amount(resource.name, resource.total)}"
        canvas.text(x, y, cut(label, BAR_WIDTH - 8 * len(numbers)))
        none_left = not resource.free
        canvas.text(x + BAR_WIDTH, y, numbers, fill=USED if none_left else DIM, bold=none_left, anchor="end")
        if resource.is_device and resource.total * SQUARE_PITCH <= BAR_WIDTH:
            for number in range(resource.total):
                self._square(x + number * SQUARE_PITCH, y + 5, free=number < resource.free)
            return
        canvas.box((x, y + 6), (BAR_WIDTH, BAR_HEIGHT), TRACK, radius=2)
        if resource.free and resource.total:
            length = max(2.0, round(BAR_WIDTH * min(resource.free / resource.total, 1.0), 1))
            canvas.box((x, y + 6), (length, BAR_HEIGHT), FREE, radius=2)

    def _square(self, x: float, y: float, *, free: bool) -> None:
        if free:
            self.canvas.box((x, y), (SQUARE, SQUARE), FREE, radius=2)
        else:
            self.canvas.box((x + 0.5, y + 0.5), (SQUARE - 1, SQUARE - 1), USED_FILL, stroke=USED, radius=2)
            self.canvas.cross(x, y, SQUARE, USED)

    def _pod(self, pod: PodInZone, x: float, y: float) -> None:
        canvas = self.canvas
        fill, stroke, ink = (NEW_FILL, NEW, NEW) if pod.new else (POD_FILL, LINE, INK)
        canvas.box((x, y), (INNER, POD_HEIGHT), fill, stroke=stroke, radius=3)
        canvas.text(x + 8, y + 14, cut(pod.title, INNER - 90), fill=ink, bold=True)
        if pod.new:
            canvas.text(x + INNER - 8, y + 14, "placed now", fill=NEW, size=SMALL, anchor="end")
        amounts = " · ".join(short_listing(pod.amounts, self.labels))
        canvas.text(x + 8, y + 28, cut(amounts, INNER - 16, SMALL), fill=DIM, size=SMALL)

    def _outside(self, title: str, pods: Sequence[PodOutside], y: float) -> float:
        if not pods:
            return y
        self.canvas.text(MARGIN, y + 12, f"{title}:", bold=True)
        for number, pod in enumerate(pods, start=1):
            words = [pod.key, *short_listing(pod.amounts, self.labels), *(["placed now"] if pod.new else [])]
            text = cut(" · ".join(words), 2 * ZONE_WIDTH)
            self.canvas.text(MARGIN + PADDING, y + 12 + number * 18, text, fill=NEW if pod.new else INK)
        return y + 18 * (len(pods) + 1) + 8

    def _legend(self, y: float) -> float:
        self._square(MARGIN, y + 2, free=True)
        self.canvas.text(MARGIN + 18, y + FONT_SIZE, "free", fill=DIM, size=SMALL)
        self._square(MARGIN + 60, y + 2, free=False)
        self.canvas.text(MARGIN + 78, y + FONT_SIZE, "in use", fill=DIM, size=SMALL)
        words = "Bars and numbers show what is free of what pods may use."
        self.canvas.text(MARGIN + 130, y + FONT_SIZE, words, fill=DIM, size=SMALL)
        return y + 18


def _bars_height(zone: ZoneView) -> float:
    return (len(zone.resources) + 1) // 2 * BAR_PITCH


def _zone_height(zone: ZoneView) -> float:
    pods = len(zone.pods) * POD_PITCH + 2 if zone.pods else 0
    return ZONE_HEAD + _bars_height(zone) + pods + ZONE_FOOT
