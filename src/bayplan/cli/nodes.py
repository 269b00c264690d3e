"""`bayplan nodes`: every node's NUMA zones in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.completion import node_names
from bayplan.cli.options.common import ExampleCommand, cluster_options
from bayplan.cli.options.flags import DOCUMENTS, cluster_scoped, output_option, resources_option
from bayplan.cli.options.selecting import NODE_FIELDS, selected, selector_options
from bayplan.cli.options.what_if import what_if_options
from bayplan.cli.shared.output import no_resources, print_answer, print_document
from bayplan.cli.shared.session import ClusterSession
from bayplan.cli.shared.watching import answered, watch_option
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.cli.options.jsonpath import JsonPath
    from bayplan.explain.overview.nodes import NodeList


def _path(ctx: click.Context, param: click.Parameter, value: str | None) -> JsonPath | None:
    from bayplan.cli.options.jsonpath import JsonPathError, path_of

    try:
        return None if value is None else path_of(value)
    except JsonPathError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(
    cls=ExampleCommand,
    examples=(
        "nodes",
        "nodes worker-1 worker-2 -o wide",
        "nodes -l node.kubernetes.io/instance-type=c6i.metal -r cpu",
        "nodes --cluster cluster.json -o json",
        "nodes --sort-by .free.cpu",
        "nodes -o jsonpath='{.items[?(@.status!=\"Ready\")].node}'",
    ),
)
@click.argument("names", metavar="[NODE]...", nargs=-1, shell_complete=node_names)
@cluster_options
@what_if_options
@selector_options("nodes", NODE_FIELDS)
@resources_option
@click.option(
    "--sort-by",
    metavar="PATH",
    callback=_path,
    help="Sort by a field of a node in -o json, as a JSONPath: .free.cpu, .status, .free['nvidia.com/gpu'].",
)
@click.option("--no-headers", is_flag=True, help="Print only the rows of the table.")
@cluster_scoped
@watch_option
@output_option("text", "wide", "name", *DOCUMENTS)
def nodes(
    *,
    names: tuple[str, ...],
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    label_selector: str | None,
    field_selector: str | None,
    resources: tuple[str, ...],
    sort_by: JsonPath | None,
    no_headers: bool,
    watch: bool,
    output: str,
) -> int:
    """Show each node's NUMA zones, what is free, and the largest pod that still fits into one zone.

    Fragmentation of a resource is the share by which the largest amount in one zone is smaller than it would be if all
    that is free lay together; the table names the resource that is fragmented most. Refused pods are those that still
    exist as Failed.

    Exit code: 0 shown, 2 invalid input.
    """

    def draw(session: ClusterSession) -> int:
        listed = _listed(session, names, label_selector, field_selector, resources)
        return _show(listed if sort_by is None else _sorted(listed, sort_by), output, headers=not no_headers)

    return answered(draw, cluster, config, scheduler_name, watch=watch, output=output)


def _sorted(listed: NodeList, path: JsonPath) -> NodeList:
    """The nodes by a field of their documents; those without it come first, as of kubectl."""
    from bayplan.explain.overview.nodes import nodes_document

    items = nodes_document(listed)["items"]
    values = [path.find(item) for item in items]
    if items and not any(values):
        fields = ", ".join(f".{name}" for name in items[0])
        raise click.UsageError(f"--sort-by: no node has this field; fields are {fields}")
    order = sorted(range(len(items)), key=lambda number: _rank(values[number]))
    return replace(listed, nodes=tuple(listed.nodes[number] for number in order))


def _rank(values: Sequence[object]) -> tuple[float, tuple[list[str | int], str]]:
    """The first value as a key for sorting: amounts, then texts, in which numbers count as numbers."""
    from bayplan.cluster.topology.tree import natural_key
    from bayplan.kube.quantity import NANO, QuantityError, parse

    value = values[0] if values else None
    try:
        return -inf if value is None else parse(str(value)).nano / NANO, ([], "")
    except QuantityError:
        return inf, natural_key(str(value))


def _show(listed: NodeList, output: str, *, headers: bool) -> int:
    if not listed.nodes:
        return no_resources()
    if output == "name":
        click.echo(visible_lines(f"node/{node.node}" for node in listed.nodes))
    elif output in ("text", "wide"):
        from bayplan.explain.overview.nodes_text import nodes_text

        text = nodes_text(listed, wide=output == "wide", headers=headers)
        print_answer(text, good=True) if headers else click.echo(text)
    else:
        from bayplan.explain.overview.nodes import nodes_document

        print_document(nodes_document(listed), output)
    return 0


def _listed(
    session: ClusterSession,
    names: tuple[str, ...],
    label_selector: str | None,
    field_selector: str | None,
    resources: tuple[str, ...],
) -> NodeList:
    import numpy as np

    from bayplan.cli.shared.shapes import resources_meant
    from bayplan.explain.overview.nodes import node_list

    state = session.state
    is_meant = selected(label_selector, field_selector, NODE_FIELDS)
    asked = [session.row_of(name) for name in names] if names else list(state.rows.values())
    found = [row for row in asked if (node := state.nodes[row]) is not None and is_meant(node)]
    rows = np.array(found, dtype=np.intp)
    shown = resources_meant(session, resources, rows)
    return node_list(state, rows, shown, session.objects.pods, session.now.timestamp())
