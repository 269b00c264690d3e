"""`bayplan place`: where would these pods go?"""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.options import ExampleCommand, Session, cluster_options, pods_option
from bayplan.cli.output import print_answer, print_document, working

RANKED = 5
RANKED_WIDE = 20


@click.command(
    cls=ExampleCommand,
    examples=(
        "place -f pod.yaml --cluster cluster.json",
        "place -f pods/ --cluster nodes.yaml --cluster topology.yaml",
        "place -f pod.yaml --cluster cluster.json -o wide         # scores of every plugin",
        "place -f pod.yaml --cluster cluster.json --config scheduler-config.yaml",
    ),
)
@pods_option(
    required=True,
    help_text="File or folder with the pods to place; '-' for standard input. May be given several times.",
)
@cluster_options
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of pods that do not name theirs [default: default].")
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json", "yaml"]), default="text", show_default=True)
def place(
    *,
    files: tuple[Path, ...],
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    namespace: str | None,
    output: str,
) -> int:
    """Place pods on a cluster dump, one after another, each seeing what the earlier ones took.

    Nothing is created: the cluster is read from files. A pod that fits gets its node, its NUMA zones and the best
    alternatives; one that does not gets the reasons, the nearest misses and the smallest change that would help.

    Exit code: 0 all fit, 1 some do not, 2 the input cannot be used.
    """
    from bayplan.cli.placing import place_in_turn, read_pods
    from bayplan.explain.documents import placement_list
    from bayplan.explain.placement import outcomes_text

    with working("reading the cluster"):
        session = Session.open(cluster, config, scheduler_name)
    pods = read_pods(files, namespace)
    outcomes = place_in_turn(session, pods, RANKED if output == "text" else RANKED_WIDE)
    all_fit = all(outcome.decision.placed for outcome in outcomes)
    if output in ("json", "yaml"):
        print_document(placement_list(outcomes), output)
    else:
        print_answer(outcomes_text(outcomes, wide=output == "wide"), good=all_fit)
    return 0 if all_fit else 1
