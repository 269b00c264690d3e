"""A NUMA map in characters: nested boxes, a bar for every resource, numbers beside every bar.

    telco-1: 2 NUMA zones, policy single-numa-node, scope pod
    ┌ NUMA 0 ─────────────────────────────────────┐
    │ cpu        █████████████████░░░░░  22 of 30 │

The same lines go to a terminal (coloured) and into a file (plain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from bayplan.explain.numa.labels import short_amount, short_labels, short_listing
from bayplan.explain.numa.map import NumaMap, PodInZone, PodOutside, ZoneResource, ZoneView
from bayplan.explain.styled import Span, StyledLine

NARROWEST_BOX = 38
WIDEST_BOX = 60
LONGEST_BAR = 20
SHORTEST_BAR = 6


@dataclass(frozen=True, slots=True)
class _BarColumns:
    """Labels, and the widths of label, bar and numbers: the same in all boxes, so that bars are comparable."""

    labels: Mapping[str, str]
    label: int
    bar: int
    numbers: int

    @classmethod
    def of(cls, drawn: NumaMap, labels: Mapping[str, str], inner: int) -> _BarColumns:
        numbers = max((len(_numbers(entry)) for zone in drawn.zones for entry in zone.resources), default=0)
        longest_label = max((len(label) for label in labels.values()), default=0)
        label = min(longest_label, inner - numbers - 2 - SHORTEST_BAR)
        return cls(labels, label, min(LONGEST_BAR, inner - numbers - 2 - label), numbers)


def numa_text(drawn: NumaMap, width: int = 100) -> list[StyledLine]:
    """The map, as wide as asked if it can be."""
    labels = short_labels(resource.name for zone in drawn.zones for resource in zone.resources)
    indent = 2 if any(package.name for package in drawn.packages) else 0
    per_row = max(1, min(2, (width - indent + 1) // (NARROWEST_BOX + 1)))
    box = max(NARROWEST_BOX, min(WIDEST_BOX, (width - indent + 1) // per_row - 1))
    columns = _BarColumns.of(drawn, labels, box - 4)
    lines = list(_header(drawn))
    for package in drawn.packages:
        if package.name:
            lines.append(StyledLine.of(Span(package.name, "title")))
        for start in range(0, len(package.zones), per_row):
            row = package.zones[start : start + per_row]
            lines += _side_by_side(
                [_zone_box(zone, columns, drawn.distance_row(zone), box - 4) for zone in row], box, indent
            )
    lines += _outside("zone not reported", drawn.zone_not_reported, labels)
    lines += _outside("not pinned to a zone", drawn.not_pinned, labels)
    return lines


def _header(drawn: NumaMap) -> Iterator[StyledLine]:
    zones = len(drawn.zones)
    count = "1 NUMA zone" if zones == 1 else f"{zones} NUMA zones"
    yield StyledLine.of(Span(f"{drawn.node}: {count}, policy {drawn.policy}, scope {drawn.scope}", "title"))
    remarks = "".join(f", {remark}" for remark in drawn.remarks)
    yield StyledLine.of(Span(f"cpu manager {drawn.cpu_manager}, memory manager {drawn.memory_manager}{remarks}", "dim"))
    yield StyledLine.of(Span("free of total:  █ ■ free  ░ □ in use", "dim"))


@dataclass(frozen=True, slots=True)
class _Box:
    """A zone's lines between its edges: resources and pods, with distances at the bottom."""

    title: str
    style: str
    content: list[StyledLine]
    foot: list[StyledLine]

    def lines(self, width: int, height: int) -> list[StyledLine]:
        """The box with so many lines inside."""
        blanks = [StyledLine()] * (height - self.height)
        rule = "─" * (width - 2 - len(self.title))
        top = StyledLine.of(Span("┌", self.style), Span(self.title, "title"), Span(f"{rule}┐", self.style))
        bottom = StyledLine.of(Span("└" + "─" * (width - 2) + "┘", self.style))
        inside = [_framed(line, width - 4, self.style) for line in (*self.content, *blanks, *self.foot)]
        return [top, *inside, bottom]

    @property
    def height(self) -> int:
        return len(self.content) + len(self.foot)


def _zone_box(zone: ZoneView, columns: _BarColumns, distances: str, inner: int) -> _Box:
    content = [_resource_line(resource, columns) for resource in zone.resources]
    for pod in zone.pods:
        content += _pod_lines(pod, columns.labels, inner)
    lead = "distance "
    rows = wrap(lead + distances, inner, subsequent_indent=" " * len(lead))
    style = "new" if any(pod.new for pod in zone.pods) else "frame"
    return _Box(f" NUMA {zone.id} ", style, content, [StyledLine.of(Span(row, "dim")) for row in rows])


def _framed(line: StyledLine, inner: int, style: str) -> StyledLine:
    return StyledLine.of(Span("│ ", style)) + line.fitted(inner) + StyledLine.of(Span(" │", style))


def _side_by_side(boxes: Sequence[_Box], width: int, indent: int) -> list[StyledLine]:
    height = max(box.height for box in boxes)
    lines = []
    for parts in zip(*(box.lines(width, height) for box in boxes), strict=True):
        line = StyledLine.of(" " * indent) + parts[0]
        for part in parts[1:]:
            line = line + StyledLine.of(" ") + part
        lines.append(line)
    return lines


def _resource_line(resource: ZoneResource, columns: _BarColumns) -> StyledLine:
    bar = columns.bar
    if resource.is_device and resource.total <= bar:
        free, used = "■" * resource.free, "□" * (resource.total - resource.free)
    else:
        filled = round(bar * resource.free / resource.total) if resource.total else 0
        # Free amounts are never drawn as nothing, and used ones never as all free.
        filled = max(filled, 1) if resource.free else 0
        filled = min(filled, bar - 1) if resource.free < resource.total else filled
        free, used = "█" * filled, "░" * (bar - filled)
    gap = " " * (bar - len(free) - len(used) + 1)
    label = StyledLine.of(columns.labels[resource.name]).fitted(columns.label)
    numbers = _numbers(resource).rjust(columns.numbers)
    return label + StyledLine.of(" ", Span(free, "free"), Span(used, "used"), gap, numbers)


def _numbers(resource: ZoneResource) -> str:
    return f"{short_amount(resource.name, resource.free)} of {short_amount(resource.name, resource.total)}"


def _pod_lines(pod: PodInZone, labels: Mapping[str, str], inner: int) -> list[StyledLine]:
    name = Span(f"→ {pod.title}  placed now" if pod.new else f"• {pod.title}", "new" if pod.new else "")
    lines = [StyledLine.of(name)]
    rows: list[str] = []
    for part in short_listing(pod.amounts, labels):
        if rows and len(rows[-1]) + len(part) + 4 <= inner:
            rows[-1] += f"  {part}"
        else:
            rows.append(part)
    return lines + [StyledLine.of(Span(f"  {row}", "dim")) for row in rows]


def _outside(title: str, pods: Sequence[PodOutside], labels: Mapping[str, str]) -> list[StyledLine]:
    if not pods:
        return []
    lines = [StyledLine.of(Span(f"{title}:", "dim"))]
    for pod in pods:
        name = Span(f"  → {pod.key}  placed now" if pod.new else f"  • {pod.key}", "new" if pod.new else "")
        lines.append(StyledLine.of(name, Span(f"  {'  '.join(short_listing(pod.amounts, labels))}", "dim")))
    return lines
