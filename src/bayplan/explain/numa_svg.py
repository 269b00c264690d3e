"""A NUMA map as one self-contained SVG: packages, zones in them, bars, device squares, pods, distances.

In comes a `NumaMap`, out goes text that a browser, a README or a ticket shows as it is: no script, no style sheet from
elsewhere. Every bar has its numbers beside it and devices in use are crossed out, so the picture also works without colours,
which are from the Okabe-Ito palette that colour-blind readers can tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from bayplan.explain.numa_labels import short_amount, short_labels, short_listing
from bayplan.explain.numa_map import NumaMap, PackageView, PodInZone, PodOutside, ZoneResource, ZoneView
from bayplan.explain.numa_text import distance_row
from bayplan.explain.zones import zone_numbers

INK, DIM, LINE, FRAME = "#1d2433", "#5b6477", "#d9dee8", "#aab3c5"
PAPER, PACKAGE, ZONE, TRACK = "#ffffff", "#f3f5f9", "#ffffff", "#e8ecf3"
FREE, PAGES, USED, NEW, NEW_FILL, POD_FILL = "#009e73", "#e69f00", "#d55e00", "#0b5cad", "#e3eefa", "#f3f5f9"
FONTS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

MARGIN, GAP, PADDING = 20, 12, 12
ZONE_WIDTH = 400
INNER = ZONE_WIDTH - 2 * PADDING
BAR_GAP = 24
BAR_WIDTH = (INNER - BAR_GAP) // 2
BAR_PITCH = 34
SQUARE, SQUARE_PITCH = 12, 16
POD_HEIGHT, POD_PITCH = 34, 39
# The widest common font needs about this much of its size for a character.
_CHARACTER = 0.6


def numa_svg(drawn: NumaMap) -> str:
    """The whole picture."""
    labels = short_labels(resource.name for zone in drawn.zones for resource in zone.resources)
    groups = _groups(drawn)
    canvas = _Canvas()
    width = 2 * MARGIN + 2 * ZONE_WIDTH + GAP + (4 * PADDING if len(drawn.packages) > 1 else 2 * PADDING)
    y = _header(canvas, drawn)
    if len(drawn.packages) > 1:
        for start in range(0, len(drawn.packages), 2):
            y = _package_row(canvas, drawn.packages[start : start + 2], y, labels, groups)
    else:
        y = _single_frame(canvas, drawn.packages[0], y, labels, groups)
    y = _outside(canvas, "Zone not reported", drawn.zone_not_reported, labels, y)
    y = _outside(canvas, "Not pinned to a zone", drawn.not_pinned, labels, y)
    y = _legend(canvas, y)
    height = y + MARGIN - 4
    title = escape(f"NUMA map of node {drawn.node}")
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="{FONTS}" font-size="12" fill="{INK}">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
            *canvas.elements,
            "</svg>",
        )
    )


class _Canvas:
    """Collects elements; coordinates are whole pixels so that lines stay sharp."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def text(
        self, x: float, y: float, content: str, *, fill: str = INK, size: int = 12, bold: bool = False, anchor: str = ""
    ) -> None:
        attributes = f'x="{x:g}" y="{y:g}"'
        attributes += f' fill="{fill}"' if fill != INK else ""
        attributes += f' font-size="{size}"' if size != 12 else ""
        attributes += ' font-weight="600"' if bold else ""
        attributes += f' text-anchor="{anchor}"' if anchor else ""
        self.elements.append(f"<text {attributes}>{escape(content)}</text>")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        stroke: str = "",
        line: float = 1,
        round_: int = 4,
    ) -> None:
        attributes = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_}" fill="{fill}"'
        attributes += f' stroke="{stroke}" stroke-width="{line:g}"' if stroke else ""
        self.elements.append(f"<rect {attributes}/>")

    def cross(self, x: float, y: float, size: float) -> None:
        inset, far = 3, size - 3
        path = (
            f"M{x + inset:g} {y + inset:g}L{x + far:g} {y + far:g}M{x + far:g} {y + inset:g}L{x + inset:g} {y + far:g}"
        )
        self.elements.append(f'<path d="{path}" stroke="{USED}" stroke-width="1.6" stroke-linecap="round"/>')


def _header(canvas: _Canvas, drawn: NumaMap) -> float:
    canvas.text(MARGIN, MARGIN + 12, f"{drawn.node}: NUMA map", size=17, bold=True)
    facts = [f"policy {drawn.policy}", f"scope {drawn.scope}", f"cpu manager {drawn.cpu_manager}"]
    facts += [f"memory manager {drawn.memory_manager}", *drawn.remarks]
    canvas.text(MARGIN, MARGIN + 34, "  ·  ".join(facts), fill=DIM)
    return MARGIN + 48


def _package_row(
    canvas: _Canvas, packages: Sequence[PackageView], y: float, labels: Mapping[str, str], groups: list[set[int]]
) -> float:
    """Packages side by side, the zones of each below one another."""
    rows = max(len(package.zones) for package in packages)
    heights = [
        max(_zone_height(package.zones[row]) for package in packages if row < len(package.zones)) for row in range(rows)
    ]
    height = 30 + sum(heights) + GAP * (rows - 1) + PADDING
    for column, package in enumerate(packages):
        x = MARGIN + column * (ZONE_WIDTH + 2 * PADDING + GAP)
        canvas.box(x, y, ZONE_WIDTH + 2 * PADDING, height, PACKAGE, stroke=FRAME, round_=6)
        canvas.text(x + PADDING, y + 20, package.name, bold=True)
        top = y + 30
        for zone, zone_height in zip(package.zones, heights, strict=False):
            _zone(canvas, zone, x + PADDING, top, zone_height, labels, groups)
            top += zone_height + GAP
    return y + height + GAP


def _single_frame(
    canvas: _Canvas, package: PackageView, y: float, labels: Mapping[str, str], groups: list[set[int]]
) -> float:
    """Zones two by two in one frame: which of them share a package is not known, or there is only one."""
    pairs = [package.zones[start : start + 2] for start in range(0, len(package.zones), 2)]
    heights = [max(_zone_height(zone) for zone in pair) for pair in pairs]
    caption = 30 if package.name else PADDING
    height = caption + sum(heights) + GAP * (len(pairs) - 1) + PADDING
    canvas.box(MARGIN, y, 2 * ZONE_WIDTH + GAP + 2 * PADDING, height, PACKAGE, stroke=FRAME, round_=6)
    if package.name:
        canvas.text(MARGIN + PADDING, y + 20, package.name, bold=True)
    top = y + caption
    for pair, zone_height in zip(pairs, heights, strict=True):
        for column, zone in enumerate(pair):
            _zone(canvas, zone, MARGIN + PADDING + column * (ZONE_WIDTH + GAP), top, zone_height, labels, groups)
        top += zone_height + GAP
    return y + height + GAP


def _zone_height(zone: ZoneView) -> float:
    bars = (len(zone.resources) + 1) // 2 * BAR_PITCH
    return 34 + bars + (len(zone.pods) * POD_PITCH + 2 if zone.pods else 0) + 26


def _zone(
    canvas: _Canvas,
    zone: ZoneView,
    x: float,
    y: float,
    height: float,
    labels: Mapping[str, str],
    groups: list[set[int]],
) -> None:
    new = any(pod.new for pod in zone.pods)
    canvas.box(x, y, ZONE_WIDTH, height, ZONE, stroke=NEW if new else LINE, line=2 if new else 1)
    canvas.text(x + PADDING, y + 21, f"NUMA {zone.id}", size=13, bold=True)
    for position, resource in enumerate(zone.resources):
        left = x + PADDING + position % 2 * (BAR_WIDTH + BAR_GAP)
        _resource(canvas, resource, left, y + 42 + position // 2 * BAR_PITCH, labels)
    top = y + 34 + (len(zone.resources) + 1) // 2 * BAR_PITCH + 2
    for pod in zone.pods:
        _pod(canvas, pod, x + PADDING, top, labels)
        top += POD_PITCH
    canvas.text(x + PADDING, y + height - 11, f"distance  {distance_row(zone.distances, groups)}", fill=DIM, size=11)


def _resource(canvas: _Canvas, resource: ZoneResource, x: float, y: float, labels: Mapping[str, str]) -> None:
    """Label and numbers above, a bar or squares below."""
    numbers = f"{short_amount(resource.name, resource.free)} / {short_amount(resource.name, resource.total)}"
    room = BAR_WIDTH - len(numbers) * 12 * _CHARACTER - 8
    canvas.text(x, y, _cut(labels[resource.name], room, 12))
    canvas.text(x + BAR_WIDTH, y, numbers, fill=DIM if resource.free else USED, bold=not resource.free, anchor="end")
    if resource.is_device and resource.total * SQUARE_PITCH <= BAR_WIDTH:
        for number in range(resource.total):
            left = x + number * SQUARE_PITCH
            if number < resource.free:
                canvas.box(left, y + 5, SQUARE, SQUARE, FREE, round_=2)
            else:
                canvas.box(left + 0.5, y + 5.5, SQUARE - 1, SQUARE - 1, "#fbe9df", stroke=USED, round_=2)
                canvas.cross(left, y + 5, SQUARE)
        return
    canvas.box(x, y + 6, BAR_WIDTH, 8, TRACK, round_=2)
    if resource.free and resource.total:
        length = max(2.0, round(BAR_WIDTH * min(resource.free / resource.total, 1.0), 1))
        canvas.box(x, y + 6, length, 8, PAGES if labels[resource.name].endswith(" pages") else FREE, round_=2)


def _pod(canvas: _Canvas, pod: PodInZone, x: float, y: float, labels: Mapping[str, str]) -> None:
    canvas.box(x, y, INNER, POD_HEIGHT, NEW_FILL if pod.new else POD_FILL, stroke=NEW if pod.new else LINE, round_=3)
    where = f" (zones {zone_numbers(pod.zones)})" if len(pod.zones) > 1 else ""
    note = "placed now" if pod.new else ""
    canvas.text(x + 8, y + 14, _cut(pod.key + where, INNER - 100, 12), fill=NEW if pod.new else INK, bold=True)
    if note:
        canvas.text(x + INNER - 8, y + 14, note, fill=NEW, size=11, anchor="end")
    amounts = "   ".join(short_listing(pod.amounts, labels))
    canvas.text(x + 8, y + 28, _cut(amounts, INNER - 16, 11), fill=DIM, size=11)


def _outside(canvas: _Canvas, title: str, pods: Sequence[PodOutside], labels: Mapping[str, str], y: float) -> float:
    if not pods:
        return y
    canvas.text(MARGIN, y + 12, f"{title}:", bold=True)
    for number, pod in enumerate(pods, start=1):
        amounts = "   ".join(short_listing(pod.amounts, labels))
        note = "   placed now" if pod.new else ""
        canvas.text(
            MARGIN + 12, y + 12 + number * 18, f"{pod.key}   {amounts}{note}", fill=NEW if pod.new else INK, size=12
        )
    return y + 18 * (len(pods) + 1) + 8


def _legend(canvas: _Canvas, y: float) -> float:
    x: float = MARGIN
    canvas.box(x, y + 2, SQUARE, SQUARE, FREE, round_=2)
    canvas.text(x + 18, y + 12, "free", fill=DIM, size=11)
    canvas.box(x + 60.5, y + 2.5, SQUARE - 1, SQUARE - 1, "#fbe9df", stroke=USED, round_=2)
    canvas.cross(x + 60, y + 2, SQUARE)
    canvas.text(x + 78, y + 12, "in use", fill=DIM, size=11)
    canvas.text(x + 130, y + 12, "Bars and numbers show what is free of what pods may use.", fill=DIM, size=11)
    return y + 18


def _groups(drawn: NumaMap) -> list[set[int]]:
    position = {zone_id: place for place, zone_id in enumerate(sorted(zone.id for zone in drawn.zones))}
    return [{position[zone.id] for zone in package.zones} for package in drawn.packages]


def _cut(text: str, room: float, size: int) -> str:
    most = max(4, int(room / (size * _CHARACTER)))
    return text if len(text) <= most else f"{text[: most - 1]}…"
