"""`--without-node`, `--add-nodes`, `--without-taint`, `--uncordon`: a question about the cluster as it could be.

`ClusterSession` applies them to the objects that it is made of, and what a command prints says what is assumed.
Imports of the rooms below stand inside the functions: a `--help` must not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.completion import node_names
from bayplan.cli.shared.output import ASSUMING

if TYPE_CHECKING:
    from bayplan.cluster.what_if.changes import Changed, WhatIf
    from bayplan.kube.object_set import ObjectSet
    from bayplan.kube.wire.core_v1 import Toleration

_Function = TypeVar("_Function", bound=Callable[..., Any])

MOST_ADDED = 1_000
# In the meta of a context: what the options ask for, by their names.
_ASKED = f"{__name__}.asked"


def _ask(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        ctx.meta.setdefault(_ASKED, {})[param.name] = value


_option = partial(click.option, expose_value=False, callback=_ask)


def what_if_options(function: _Function) -> _Function:
    """The options, whose values `as_assumed` finds."""
    for option in reversed(
        (
            _option(
                "--without-node",
                multiple=True,
                metavar="NODE",
                shell_complete=node_names,
                help="As if NODE were drained: it is gone, and its pods wait for another place, but for those of "
                "DaemonSets and static pods. Repeatable.",
            ),
            _option(
                "--add-nodes",
                type=click.IntRange(1, MOST_ADDED),
                metavar="NUMBER",
                help="As if there were so many more nodes, with nothing on them but pods of DaemonSets; needs --like.",
            ),
            _option(
                "--like",
                metavar="NODE",
                shell_complete=node_names,
                help="What nodes of --add-nodes are like: NODE's labels, its rack among them, taints, amounts and NUMA "
                "zones.",
            ),
            _option(
                "--without-taint",
                multiple=True,
                metavar="TAINT",
                help="As if no node had this taint: KEY[=VALUE][:EFFECT]. Repeatable.",
            ),
            _option(
                "--uncordon",
                multiple=True,
                metavar="NODE",
                shell_complete=node_names,
                help="As if NODE were not cordoned. Repeatable.",
            ),
        )
    ):
        function = option(function)
    return function


@click.command()
@what_if_options
def _question() -> None:
    """A question of the page, which has the same options."""


def ask(written: Mapping[str, str]) -> None:
    """Ask for what a question of the page says: texts by the names of options, several separated by commas."""
    words = [f"--{option}={each.strip()}" for option, text in written.items() for each in text.split(",")]
    click.get_current_context().meta.update(_question.make_context("what-if", words).meta)


def is_assumed() -> bool:
    """Whether the question is about another cluster than the one that is read."""
    return bool(_asked())


def _asked() -> Mapping[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(_ASKED, {})


def as_assumed(objects: ObjectSet, source: str) -> Changed:
    """The objects with the changes that are asked for."""
    from bayplan.cluster.what_if.changes import Changed, changed

    if not is_assumed():
        return Changed(objects)
    what_if = _what_if(_asked(), objects, source)
    found = changed(objects, what_if)
    click.get_current_context().meta[ASSUMING] = list(_in_words(what_if, objects, found))
    return found


def _what_if(asked: Mapping[str, Any], objects: ObjectSet, source: str) -> WhatIf:
    """What the options mean for these objects; what names nothing there is an error."""
    from bayplan.cluster.what_if.changes import WhatIf

    names = dict.fromkeys(node.metadata.name for node in objects.nodes)
    if ("add_nodes" in asked) != ("like" in asked):
        raise click.UsageError("--add-nodes and --like belong together: --add-nodes 4 --like NODE")
    what_if = WhatIf(
        drained=frozenset(node_named(each, names, source) for each in asked.get("without_node", ())),
        uncordoned=frozenset(node_named(each, names, source) for each in asked.get("uncordon", ())),
        taints=tuple(_taint(each, objects) for each in asked.get("without_taint", ())),
        added=asked.get("add_nodes", 0),
        like=node_named(asked["like"], names, source) if "like" in asked else "",
    )
    for node in objects.nodes:
        if node.metadata.name in what_if.uncordoned and not node.spec.unschedulable:
            raise click.UsageError(f"--uncordon: node '{node.metadata.name}' is not cordoned")
    return what_if


def node_named(text: str, names: Collection[str], source: str) -> str:
    """The node that NAME or node/NAME means, as kubectl takes it."""
    from difflib import get_close_matches

    from bayplan.explain.amounts import count

    kind, _, name = text.rpartition("/")
    name = name if kind in ("node", "nodes", "no") else text
    if name in names:
        return name
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; the {source} has {count(len(names), 'node')}"
    raise click.ClickException(f"there is no node '{name}' in the {source}{hint}")


def _taint(text: str, objects: ObjectSet) -> Toleration:
    """What tolerates the taints to remove."""
    from bayplan.cli.shared.shapes import taint_meant, unknown_taint
    from bayplan.cluster.pods.tolerations import UNSCHEDULABLE_TAINT

    meant, unschedulable = taint_meant("--without-taint", text), UNSCHEDULABLE_TAINT.key
    if meant.key == unschedulable:
        raise click.UsageError(f"--without-taint: {meant.key} is the taint of a cordoned node; use --uncordon NODE")
    taints = (each for node in objects.nodes for each in node.spec.taints or () if each.key != unschedulable)
    if problem := unknown_taint("--without-taint", text, taints):
        raise click.UsageError(problem)
    return meant


def _in_words(what_if: WhatIf, objects: ObjectSet, found: Changed) -> Iterator[str]:
    from bayplan.cluster.pods.tolerations import taint_text, tolerates
    from bayplan.explain.amounts import count
    from bayplan.explain.topology.hostlist import hostlist

    if what_if.added:
        yield f"{count(what_if.added, 'node')} like {what_if.like} added"
    if what_if.drained:
        again = len(found.waiting_again)
        yield f"{hostlist(what_if.drained)} drained ({count(again, 'pod')} {'waits' if again == 1 else 'wait'} again)"
    for taint in what_if.taints:
        nodes = sum(any(tolerates(taint, each) for each in node.spec.taints or ()) for node in objects.nodes)
        yield f"taint {taint_text(taint)} removed from {count(nodes, 'node')}"
    if what_if.uncordoned:
        yield f"{hostlist(what_if.uncordoned)} uncordoned"
