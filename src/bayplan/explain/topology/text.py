"""A topology as text: the first line is the answer, then a line for every domain, inner ones indented.

network: 2 blocks, 8 racks, 64 nodes; 3 nodes outside

  domain    nodes  cpu free      gpu free   hosts
  block b1     32  600 of 3072   80 of 256
    rack r1     8  100 of 768    20 of 64   b1-r1-n[1-8]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bayplan.cluster.topology.tree import distance
from bayplan.explain.amounts import count, human, listing, share_text
from bayplan.explain.gangs.outcome import missing_labels
from bayplan.explain.gangs.text import best_in
from bayplan.explain.numa.labels import short_labels, short_listing
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import common_domain, domain_lines, hostlist
from bayplan.explain.topology.levels import domain_name, in_one, short_levels
from bayplan.explain.topology.map import DomainView, TopologyMap, stranded
from bayplan.explain.why import listed
from bayplan.kube.visible import visible_lines

LONGEST_HOSTLIST = 40
WIDE = 10**9
INDENT = "  "


def topology_text(drawn: TopologyMap, depth: int, *, wide: bool = False) -> str:
    """The map down to this many levels, 1 for the widest; `wide` lists every host."""
    lines = [drawn.answer]
    if drawn.asks_for and drawn.named:
        lines[0] += f"; {count(drawn.slots or 0, 'such pod')} {'fits' if drawn.slots == 1 else 'fit'}"
        lines.append(f"  each asks for  {listing(drawn.asks_for)}")
    if drawn.domains:
        lines += ["", *_domain_lines(drawn, depth, WIDE if wide else LONGEST_HOSTLIST)]
    if drawn.rooms and drawn.domains:
        lines += ["", *_largest_lines(drawn)]
    if drawn.closed:
        lines += ["", *_closed_lines(drawn)]
    if drawn.outside:
        lines += ["", *_outside_lines(drawn)]
    return visible_lines(lines)


def _largest_lines(drawn: TopologyMap) -> list[str]:
    """The largest gang that fits into one domain of each level, and where."""
    levels = short_levels(drawn.levels)
    rows = [(in_one(short), str(room.most), best_in(room)) for short, room in zip(levels, drawn.rooms, strict=True)]
    pods = "pods" if drawn.named else f"pods of {listing(drawn.asks_for)}"
    return table(("largest gang", pods, "where"), rows, indent=INDENT, numbers=(pods,))


def _domain_lines(drawn: TopologyMap, depth: int, longest: int) -> list[str]:
    labels = short_labels(drawn.resources)
    header = ["domain", "nodes", *(["distance"] if drawn.origin else [])]
    header += [f"{labels[name]} free" for name in drawn.resources]
    numbers = list(header[1:])
    if drawn.asks_for:
        header.append("fit")
        numbers.append("fit")
    header += ["stranded"] if drawn.asks_for and drawn.named else []
    has_reports = any(domain.fragmentation for domain in drawn.domains)
    header += ["frag"] if has_reports else []
    by_node = depth > len(drawn.levels)
    header += [] if by_node else ["hosts"]
    domain_of_names = common_domain(name for each in drawn.domains for name in each.nodes)
    rows = []
    for domain in _down_to(drawn.domains, depth):
        is_zone = len(domain.path) > len(drawn.levels) + 1
        row = [_title(drawn, domain, domain_of_names), "" if is_zone else str(len(domain.nodes))]
        row += [str(distance(drawn.origin, domain.path))] if drawn.origin else []
        row += [_amounts(domain, name) for name in drawn.resources]
        row += ["" if domain.slots is None else str(domain.slots)] if drawn.asks_for else []
        row += [_stranded(drawn, domain, labels)] if "stranded" in header else []
        row += ["" if is_zone else share_text(domain.fragmentation, labels)] if has_reports else []
        if not by_node:
            hosts = [name.removesuffix(domain_of_names) for name in domain.nodes]
            row.append(hostlist(hosts, longest) if len(domain.path) == depth else "")
        rows.append(row)
    return [*table(header, rows, indent=INDENT, numbers=numbers), *domain_lines(domain_of_names)]


def _stranded(drawn: TopologyMap, domain: DomainView, labels: Mapping[str, str]) -> str:
    found = stranded(drawn, domain)
    return share_text(dict([found] if found else []), labels)


def _title(drawn: TopologyMap, domain: DomainView, domain_of_names: str) -> str:
    depth = len(domain.path)
    value = domain.path[-1]
    below = depth - len(drawn.levels)
    if below > 0:
        name = value.removesuffix(domain_of_names) if below == 1 else f"zone {value}"
        if below == 1 and value in drawn.closed_by:
            name += f" ({drawn.closed_by[value].status})"
    else:
        name = domain_name(short_levels(drawn.levels)[depth - 1], value)
    return INDENT * (depth - 1) + name


def _amounts(domain: DomainView, name: str) -> str:
    """`20 of 40`; a NUMA zone may lack a resource."""
    return f"{human(name, domain.free[name])} of {human(name, domain.total[name])}" if name in domain.free else "-"


def _down_to(domains: Sequence[DomainView], depth: int) -> Iterator[DomainView]:
    for domain in domains:
        yield domain
        if len(domain.path) < depth:
            yield from _down_to(domain.inside, depth)


def _closed_lines(drawn: TopologyMap) -> list[str]:
    labels = short_labels(drawn.resources)
    unused = ["  ".join(short_listing(each.free, labels)) for each in drawn.closed]
    return [
        f"{INDENT}{each.sentence}" + (f" (not counted as free: {amounts})" if amounts else "")
        for each, amounts in zip(drawn.closed, unused, strict=True)
    ]


def _outside_lines(drawn: TopologyMap) -> list[str]:
    rows = [(hostlist(nodes, LONGEST_HOSTLIST), drawn.lead + lacked) for lacked, nodes in missing_labels(drawn.outside)]
    width = max(len(nodes) for nodes, _ in rows)
    return listed("Outside:  ", [f"{nodes:{width}}  {lacked}" for nodes, lacked in rows])
