"""A NUMA map in characters: nested boxes, a bar for every resource, numbers beside every bar.

    telco-1: 2 NUMA zones, policy single-numa-node, scope pod
    ┌ NUMA 0 ─────────────────────────────────────┐
    │ cpu        █████████████████░░░░░  22 of 30 │

The same lines go to a terminal (coloured) and into a file (plain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bayplan.explain.amounts import count
from bayplan.explain.folding import fitted, folded, longest_word
from bayplan.explain.numa.labels import short_amount, short_labels, short_listing
from bayplan.explain.numa.map import NumaMap, PodInZone, PodOutside, ZoneResource, ZoneView
from bayplan.explain.styled import Span, StyledLine
from bayplan.kube.visible import visible

NARROWEST_BOX = 38
WIDEST_BOX = 60
LONGEST_BAR = 20
SHORTEST_BAR = 6
BULLET, PLACED = "• ", "→ "


@dataclass(frozen=True, slots=True)
class _BarColumns:
    """Labels, and the widths of label, bar and numbers: the same in all boxes, so that bars are comparable."""

    labels: Mapping[str, str]
    label: int
    bar: int
    numbers: int

    @classmethod
    def of(cls, drawn: NumaMap, labels: Mapping[str, str], inner: int) -> _BarColumns:
        label, numbers = _label_and_numbers(drawn, labels)
        bar = max(SHORTEST_BAR, min(LONGEST_BAR, inner - numbers - 2 - label))
        return cls(labels, label, bar, numbers)


def numa_text(drawn: NumaMap, width: int = 100) -> list[StyledLine]:
    """The map, as wide as asked if it can be."""
    labels = short_labels(resource.name for zone in drawn.zones for resource in zone.resources)
    indent = 2 if any(package.name for package in drawn.packages) else 0
    narrowest = max(NARROWEST_BOX, min(width - indent, _longest_piece(drawn, labels) + 4))
    per_row = max(1, min(2, (width - indent + 1) // (narrowest + 1)))
    box = max(narrowest, min(WIDEST_BOX, (width - indent + 1) // per_row - 1))
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


def _label_and_numbers(drawn: NumaMap, labels: Mapping[str, str]) -> tuple[int, int]:
    """How wide the longest of each is."""
    numbers = max((len(_numbers(entry)) for zone in drawn.zones for entry in zone.resources), default=0)
    return max(map(len, labels.values()), default=0), numbers


def _longest_piece(drawn: NumaMap, labels: Mapping[str, str]) -> int:
    """What a line in a box needs for every name and number to stay whole."""
    pods = (len(BULLET) + longest_word(pod.title) for zone in drawn.zones for pod in zone.pods)
    return max(sum(_label_and_numbers(drawn, labels)) + 2 + SHORTEST_BAR, *pods, 0)


def _header(drawn: NumaMap) -> Iterator[StyledLine]:
    yield from _fitted(
        f"{drawn.node}: {count(len(drawn.zones), 'NUMA zone')}, policy {drawn.policy}, scope {drawn.scope}", "title"
    )
    remarks = "".join(f", {remark}" for remark in drawn.remarks)
    yield from _fitted(f"cpu manager {drawn.cpu_manager}, memory manager {drawn.memory_manager}{remarks}", "dim")
    yield from _fitted("free of total:  █ ■ free  ░ □ in use", "dim")


def _fitted(text: str, style: str) -> list[StyledLine]:
    return [StyledLine.of(Span(line, style)) for line in fitted(visible(text))]


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
    for pod in zone.owners:
        content += _pod_lines(pod, columns.labels, inner)
    lead = "distance "
    rows = folded(distances, lead, len(lead), inner)
    style = "new" if any(pod.new for pod in zone.pods) else "frame"
    return _Box(f" NUMA {zone.id} ", style, content, [StyledLine.of(Span(row, "dim")) for row in rows])


def _framed(line: StyledLine, inner: int, style: str) -> StyledLine:
    return StyledLine.of(Span("│ ", style)) + line.filled(inner) + StyledLine.of(Span(" │", style))


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
    label = StyledLine.of(columns.labels[resource.name]).filled(columns.label)
    numbers = _numbers(resource).rjust(columns.numbers)
    return label + StyledLine.of(" ", Span(free, "free"), Span(used, "used"), gap, numbers)


def _numbers(resource: ZoneResource) -> str:
    return f"{short_amount(resource.name, resource.free)} of {short_amount(resource.name, resource.total)}"


def _pod_lines(pod: PodInZone, labels: Mapping[str, str], inner: int) -> list[StyledLine]:
    lead, name, style = (PLACED, f"{pod.title}  placed now", "new") if pod.new else (BULLET, pod.title, "")
    amounts = "  ".join(short_listing(pod.amounts, labels))
    lines = [(row, style) for row in folded(name, lead, len(lead), inner)]
    lines += [(row, "dim") for row in folded(amounts, "  ", len("  "), inner)]
    return [StyledLine.of(Span(row, style)) for row, style in lines]


def _outside(title: str, pods: Sequence[PodOutside], labels: Mapping[str, str]) -> list[StyledLine]:
    if not pods:
        return []
    lines = [StyledLine.of(Span(f"{title}:", "dim"))]
    for pod in pods:
        name = visible(f"  {PLACED}{pod.key}  placed now" if pod.new else f"  {BULLET}{pod.key}")
        first, *others = fitted("  ".join((name, *short_listing(pod.amounts, labels))))
        begin, rest = first[: len(name)], first[len(name) :]
        lines.append(StyledLine.of(Span(begin, "new" if pod.new else ""), Span(rest, "dim")))
        lines += [StyledLine.of(Span(line, "dim")) for line in others]
    return lines
