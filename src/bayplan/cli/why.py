"""`bayplan why`: why does a pod wait, or where is it?"""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.options import ExampleCommand, Session, cluster_options
from bayplan.cli.output import print_answer, print_document, working


@click.command(
    cls=ExampleCommand,
    examples=(
        "why upf-0 -n telco --cluster cluster.json",
        "why telco/upf-0 --cluster cluster.json",
        "why pod/upf-0 -n telco --cluster cluster.json -o json",
    ),
)
@click.argument("pod", metavar="POD")
@cluster_options
@click.option("-n", "--namespace", metavar="NAME", help="The pod's namespace, unless POD names it.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option("--now", metavar="TIME", help="Count the waiting time up to this RFC 3339 time instead of the clock's.")
def why(
    *,
    pod: str,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    namespace: str | None,
    output: str,
    now: str | None,
) -> int:
    """Explain one pod of a cluster dump: NAME, NAMESPACE/NAME or pod/NAME.

    A pending pod: which nodes fell away for which reason, the nearest misses, the smallest change that would let it in; or
    where it would go now. A running pod: its node and zones. A failed pod: why, and where it would go now.

    Exit code: 0 fits or runs, 1 does not fit, 2 the input cannot be used.
    """
    from bayplan.cli.standing import find_pod, now_or, standing_of
    from bayplan.explain.standing import standing_document, standing_text

    moment = now_or(now)
    with working("reading the cluster"):
        session = Session(cluster, config, scheduler_name)
    standing = standing_of(session, find_pod(session, pod, namespace), moment)
    if output == "text":
        print_answer(standing_text(standing), good=standing.good)
    else:
        print_document(standing_document(standing), output)
    return 0 if standing.good else 1
