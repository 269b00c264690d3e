"""`bayplan snapshot`: keep a cluster and the decisions made on it, to look at or to decide again later."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import click

from bayplan.cli.options import ExampleCommand, Session, cluster_options, pods_option
from bayplan.cli.output import warn, working

RANKED = 5


@click.command(
    cls=ExampleCommand,
    examples=(
        "snapshot --cluster cluster.json > s.json.gz",
        "snapshot --cluster cluster.json -f pod.yaml > s.json.gz   # with pods that are not there yet",
        "replay s.json.gz",
        "why telco/upf-0 --cluster s.json.gz",
    ),
)
@cluster_options
@pods_option(required=False, help_text="File or folder with further pods to decide about. May be given several times.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of pods that do not name theirs [default: default].")
def snapshot(
    *,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    files: tuple[Path, ...],
    namespace: str | None,
) -> int:
    """Write a cluster dump, reduced to what decisions are made from, and the decision for every waiting pod.

    The result goes to standard output as gzipped JSON. Environment, commands, images, secrets and annotations that do not concern
    scheduling are left out. It serves as --cluster for every command; 'bayplan replay' decides everything again.

    Exit code: 0 written, 2 the input cannot be used.
    """
    from bayplan.cli.placing import place_in_turn, read_pods
    from bayplan.cluster.state import pod_key
    from bayplan.explain.documents import outcome_document
    from bayplan.explain.snapshot import record, snapshot_document

    if sys.stdout.isatty():
        raise click.UsageError("the snapshot is compressed: redirect it into a file, such as '> s.json.gz'")
    with working("reading the cluster"):
        session = Session.open(cluster, config, scheduler_name)
    waiting = list(session.state.waiting.values())
    further = [pod for pod in read_pods(files, namespace) if pod_key(pod) not in session.state.waiting] if files else []
    session.objects.pods += further
    decisions = [outcome_document(outcome) for outcome in place_in_turn(session, [*waiting, *further], RANKED)]
    document = snapshot_document(session.objects, record(decisions, session.configuration, scheduler_name))
    _write(document)
    if not decisions:
        warn(["no pod waits in this cluster: the snapshot holds no decision to replay"])
    return 0


def _write(document: dict[str, object]) -> None:
    import msgspec

    # A file name or a time in the header would make two snapshots of the same cluster differ.
    sys.stdout.buffer.write(gzip.compress(msgspec.json.encode(document), mtime=0))
