"""A NUMA map as one self-contained SVG: packages, zones, bars, device squares, pods, distances.

There is no script and no style sheet. Every bar has its numbers beside it, and devices in use are hollow, so the
picture also works without colours.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.explain.numa.labels import short_amount, short_labels, short_listing
from bayplan.explain.numa.map import NumaMap, PackageView, PodInZone, PodOutside, ZoneResource, ZoneView
from bayplan.explain.svg import FONT_SIZE, SMALL, Canvas, cut, listed, width_of
from bayplan.explain.theme import LIGHT, Theme

MARGIN, GAP, PADDING = 16, 12, 12
# By how many zones or packages are beside each other. Two pictures of one column fit on a page of 1,200 pixels.
ZONE_WIDTHS = {1: 472, 2: 284}
# One line per resource: label, bar or squares, and the numbers at the right edge.
BAR_GAP, NARROWEST_BAR, BAR_HEIGHT, RESOURCE_LINE = 8, 48, 8, 19
SQUARE_GAP, SMALLEST_SQUARE, LARGEST_SQUARE = 2, 5, 10
POD_TITLE, POD_LINE, POD_FOOT, POD_GAP, POD_PADDING = 17, 14, 5, 5, 8
ZONE_HEAD, ZONE_FOOT = 32, 26
CAPTION, LINE_HEIGHT = 30, 17
PLACED_NOW = "placed now"


def numa_svg(drawn: NumaMap, theme: Theme = LIGHT, columns: int = 2) -> str:
    """The whole picture, with so many packages or zones beside each other."""
    return _Picture(drawn, theme, columns).drawing()


class _Picture:
    """Draws from top to bottom; each method takes its start and returns its end."""

    def __init__(self, drawn: NumaMap, theme: Theme, columns: int) -> None:
        self.drawn = drawn
        self.theme = theme
        self.columns = columns
        self.zone_width = ZONE_WIDTHS[columns]
        self.inner = self.zone_width - 2 * PADDING
        self.canvas = Canvas(theme)
        resources = [resource for zone in drawn.zones for resource in zone.resources]
        self.labels = short_labels(resource.name for resource in resources)
        numbers = max(
            (width_of(_numbers(resource), SMALL, bold=not resource.free) for resource in resources), default=0
        )
        label = max((width_of(text, bold=True) for text in self.labels.values()), default=0)
        # Bars are aligned in all zones; a label that leaves too little room is cut.
        self.bar_at = min(label + BAR_GAP, self.inner - numbers - BAR_GAP - NARROWEST_BAR)
        self.bar = self.inner - numbers - BAR_GAP - self.bar_at
        frames = columns if len(drawn.packages) > 1 else 1
        self.width = 2 * MARGIN + columns * (self.zone_width + GAP) - GAP + frames * 2 * PADDING

    def drawing(self) -> str:
        """Everything, in a frame of the right size."""
        packages = self.drawn.packages
        y = self._header()
        if len(packages) > 1:
            for start in range(0, len(packages), self.columns):
                y = self._package_row(packages[start : start + self.columns], y)
        else:
            y = self._single_frame(packages[0], y)
        y = self._outside("Zone not reported", self.drawn.zone_not_reported, y)
        y = self._outside("Not pinned to a zone", self.drawn.not_pinned, y)
        y = self._legend(y)
        return self.canvas.document(f"NUMA map of node {self.drawn.node}", self.width, y + MARGIN - 4)

    def _lines(self, items: Sequence[str], x: float, y: float, fill: str = "") -> float:
        """Items on as many lines as they need; returns the end of the last line."""
        for line in listed(items, self.width - x - MARGIN):
            self.canvas.text(x, y + FONT_SIZE, line, fill=fill)
            y += LINE_HEIGHT
        return y

    def _header(self) -> float:
        drawn = self.drawn
        title = cut(f"{drawn.node}: NUMA map", self.width - 2 * MARGIN, 17, bold=True)
        self.canvas.text(MARGIN, MARGIN + 13, title, size=17, bold=True)
        facts = [f"policy {drawn.policy}", f"scope {drawn.scope}", f"cpu manager {drawn.cpu_manager}"]
        facts += [f"memory manager {drawn.memory_manager}", *drawn.remarks]
        return self._lines(facts, MARGIN, MARGIN + 24, self.theme.dim) + 8

    def _package_row(self, packages: Sequence[PackageView], y: float) -> float:
        """Packages side by side, the zones of each below one another."""
        rows = max(len(package.zones) for package in packages)
        heights = [
            max(self._zone_height(package.zones[row]) for package in packages if row < len(package.zones))
            for row in range(rows)
        ]
        height = CAPTION + sum(heights) + GAP * (rows - 1) + PADDING
        for column, package in enumerate(packages):
            x = MARGIN + column * (self.zone_width + 2 * PADDING + GAP)
            self._frame(x, y, self.zone_width + 2 * PADDING, height, package.name)
            top = y + CAPTION
            for zone, zone_height in zip(package.zones, heights, strict=False):
                self._zone(zone, x + PADDING, top, zone_height)
                top += zone_height + GAP
        return y + height + GAP

    def _single_frame(self, package: PackageView, y: float) -> float:
        """All zones in one frame: there is only one package, or packages are unknown."""
        rows = [package.zones[start : start + self.columns] for start in range(0, len(package.zones), self.columns)]
        heights = [max(self._zone_height(zone) for zone in row) for row in rows]
        caption = CAPTION if package.name else PADDING
        height = caption + sum(heights) + GAP * (len(rows) - 1) + PADDING
        self._frame(MARGIN, y, self.width - 2 * MARGIN, height, package.name)
        top = y + caption
        for row, zone_height in zip(rows, heights, strict=True):
            for column, zone in enumerate(row):
                self._zone(zone, MARGIN + PADDING + column * (self.zone_width + GAP), top, zone_height)
            top += zone_height + GAP
        return y + height + GAP

    def _frame(self, x: float, y: float, width: float, height: float, name: str) -> None:
        """The box of a package, with its name if it has one."""
        self.canvas.box((x, y), (width, height), self.theme.panel, stroke=self.theme.frame, radius=6)
        if name:
            self.canvas.text(x + PADDING, y + 20, cut(name, width - 2 * PADDING, bold=True), bold=True)

    def _zone(self, zone: ZoneView, x: float, y: float, height: float) -> None:
        theme = self.theme
        new = any(pod.new for pod in zone.pods)
        line, thickness = (theme.new, 2) if new else (theme.line, 1)
        self.canvas.box((x, y), (self.zone_width, height), theme.paper, stroke=line, line=thickness)
        left = x + PADDING
        self.canvas.text(left, y + 21, f"NUMA {zone.id}", size=13, bold=True)
        for position, resource in enumerate(zone.resources):
            self._resource(resource, left, y + ZONE_HEAD + 10 + position * RESOURCE_LINE)
        top = y + ZONE_HEAD + len(zone.resources) * RESOURCE_LINE + 2
        for pod in zone.owners:
            top = self._pod(pod, left, top)
        distances = cut(f"distance {self.drawn.distance_row(zone)}", self.inner, SMALL)
        self.canvas.text(left, y + height - 10, distances, fill=theme.dim, size=SMALL)

    def _resource(self, resource: ZoneResource, x: float, y: float) -> None:
        """Label, bar or squares, and `6 free of 30`."""
        canvas, theme = self.canvas, self.theme
        canvas.text(x, y, cut(self.labels[resource.name], self.bar_at - BAR_GAP))
        none_left = not resource.free
        ink = theme.bad_ink if none_left else theme.dim
        canvas.text(x + self.inner, y, _numbers(resource), fill=ink, size=SMALL, bold=none_left, anchor="end")
        left, top = x + self.bar_at, y - BAR_HEIGHT
        square = min(self.bar // resource.total - SQUARE_GAP, LARGEST_SQUARE) if resource.total else 0
        if resource.is_device and square >= SMALLEST_SQUARE:
            for number in range(resource.total):
                at = (left + number * (square + SQUARE_GAP), top + (BAR_HEIGHT - square) / 2)
                self._square(at, square, free=number < resource.free)
            return
        canvas.box((left, top), (self.bar, BAR_HEIGHT), theme.track, radius=2)
        if resource.free and resource.total:
            length = max(2.0, round(self.bar * min(resource.free / resource.total, 1.0), 1))
            canvas.box((left, top), (length, BAR_HEIGHT), theme.good, radius=2)

    def _square(self, corner: tuple[float, float], size: float, *, free: bool) -> None:
        """A device: filled if free, hollow if in use."""
        theme = self.theme
        fill, line = (theme.good, theme.good) if free else (theme.paper, theme.frame)
        inside = (corner[0] + 0.5, corner[1] + 0.5)
        self.canvas.box(inside, (size - 1, size - 1), fill, stroke=line, radius=1)

    def _pod_lines(self, pod: PodInZone) -> list[str]:
        return listed(short_listing(pod.amounts, self.labels), self.inner - 2 * POD_PADDING, SMALL)

    def _pod_height(self, pod: PodInZone) -> float:
        return POD_TITLE + len(self._pod_lines(pod)) * POD_LINE + POD_FOOT

    def _pod(self, pod: PodInZone, x: float, y: float) -> float:
        canvas, theme = self.canvas, self.theme
        fill, stroke, ink = (theme.new_soft, theme.new, theme.new) if pod.new else (theme.panel, theme.line, theme.ink)
        height = self._pod_height(pod)
        canvas.box((x, y), (self.inner, height), fill, stroke=stroke, radius=3, hint=pod.title)
        room: float = self.inner - 2 * POD_PADDING
        if pod.new:
            canvas.text(x + self.inner - POD_PADDING, y + 15, PLACED_NOW, fill=ink, size=SMALL, anchor="end")
            room -= width_of(PLACED_NOW, SMALL) + BAR_GAP
        canvas.text(x + POD_PADDING, y + 15, cut(pod.title, room, bold=True), fill=ink, bold=True)
        for number, line in enumerate(self._pod_lines(pod), start=1):
            canvas.text(x + POD_PADDING, y + 15 + number * POD_LINE, line, fill=theme.dim, size=SMALL)
        return y + height + POD_GAP

    def _zone_height(self, zone: ZoneView) -> float:
        pods = sum(self._pod_height(pod) + POD_GAP for pod in zone.owners) + (2 if zone.owners else 0)
        return ZONE_HEAD + len(zone.resources) * RESOURCE_LINE + pods + ZONE_FOOT

    def _outside(self, title: str, pods: Sequence[PodOutside], y: float) -> float:
        if not pods:
            return y
        self.canvas.text(MARGIN, y + FONT_SIZE, f"{title}:", bold=True)
        y += LINE_HEIGHT
        for pod in pods:
            words = [pod.key, *short_listing(pod.amounts, self.labels), *([PLACED_NOW] if pod.new else [])]
            y = self._lines(words, MARGIN + PADDING, y, self.theme.new if pod.new else "")
        return y + 10

    def _legend(self, y: float) -> float:
        theme = self.theme
        self._square((MARGIN, y + 3), LARGEST_SQUARE, free=True)
        self.canvas.text(MARGIN + 16, y + FONT_SIZE, "free", fill=theme.dim, size=SMALL)
        self._square((MARGIN + 56, y + 3), LARGEST_SQUARE, free=False)
        self.canvas.text(MARGIN + 72, y + FONT_SIZE, "in use", fill=theme.dim, size=SMALL)
        words = "Bars and numbers: what is free of what pods may use."
        self.canvas.text(MARGIN + 128, y + FONT_SIZE, words, fill=theme.dim, size=SMALL)
        return y + 18


def _numbers(resource: ZoneResource) -> str:
    """`6 free of 30`."""
    return f"{short_amount(resource.name, resource.free)} free of {short_amount(resource.name, resource.total)}"
