"""The NUMA summary of nodes as a table: the first line is the answer, then one line per node.

    6 nodes: 5 with a NUMA report, 1 without a report; 2 fragmented

      node     status  report  frag      largest aligned pod  policy            scope      zones  cpu free  refused
      telco-1  Ready   12s     45 % cpu  cpu 22  mem 40Gi     single-numa-node  container      2        40        -

Comes from `nodes.py` and goes to a terminal.
"""

from __future__ import annotations

from bayplan.explain.amounts import human, share_text
from bayplan.explain.numa.labels import short_labels, short_listing
from bayplan.explain.overview.nodes import FRESH, NodeList, NodeSummary
from bayplan.explain.pod_view import duration
from bayplan.explain.table import table
from bayplan.explain.topology.hostlist import common_domain, domain_lines
from bayplan.kube.visible import visible_lines

NOTHING = "-"


def nodes_text(listed: NodeList, *, wide: bool = False, headers: bool = True) -> str:
    """The table; `wide` adds taints, totals, reasons of rejections, and the zone of the largest aligned pod.

    Without `headers` it is only the rows, as of kubectl.
    """
    labels = short_labels(listed.resources)
    domain = common_domain(node.node for node in listed.nodes)
    free = [f"{labels[name]} free" for name in listed.resources]
    header = ["node", "status", "report", "frag", "largest aligned pod", "policy", "scope", "zones", *free, "refused"]
    header += ["taints"] if wide else []
    rows = [
        [
            node.node.removesuffix(domain if headers else ""),
            node.closing.status,
            _report(node),
            share_text(node.fragmentation, labels),
            _largest(node, labels, wide=wide),
            node.policy or NOTHING,
            node.scope or NOTHING,
            str(node.zones) if node.zones else NOTHING,
            *(_free(node, name, wide=wide) for name in listed.resources),
            _refused(node, wide=wide),
            *([", ".join(node.taints) or NOTHING] if wide else []),
        ]
        for node in listed.nodes
    ]
    numbers = ["zones", *free, *([] if wide else ["refused"])]
    if not headers:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return visible_lines("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    lines = [listed.answer, "", *table(header, rows, indent="  ", numbers=numbers), *domain_lines(domain)]
    by_taints = [f"  {each.sentence}" for each in listed.closed if each.by.taints]
    return visible_lines([*lines, "", *by_taints] if by_taints else lines)


def _report(node: NodeSummary) -> str:
    age = "" if node.age is None else duration(int(node.age))
    if node.report == FRESH:
        return age or FRESH
    return f"{node.report} {age}".rstrip()


def _free(node: NodeSummary, name: str, *, wide: bool) -> str:
    if name not in node.total:
        return NOTHING
    free = human(name, node.free[name])
    return f"{free} of {human(name, node.total[name])}" if wide else free


def _largest(node: NodeSummary, labels: dict[str, str], *, wide: bool) -> str:
    if node.largest is None:
        return NOTHING
    listed = "  ".join(short_listing(node.largest, labels))
    return f"{listed} (zone {node.zone})" if wide else listed


def _refused(node: NodeSummary, *, wide: bool) -> str:
    if not node.refused:
        return NOTHING
    if not wide:
        return str(sum(node.refused.values()))
    return ", ".join(f"{number} {reason}" for reason, number in sorted(node.refused.items()))
