"""`bayplan snapshot`: keep a cluster and the decisions made on it, to look at or to decide again later."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options.common import ExampleCommand, cluster_options, pods_option
from bayplan.cli.shared.output import warn, working
from bayplan.cli.shared.session import ClusterSession

if TYPE_CHECKING:
    from bayplan.kube.wire.core_v1 import Metadata, Pod


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
@pods_option(
    required=False,
    help_text="File or folder with further pods and PodGroups to decide about. Repeatable.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of pods that do not name theirs [default: default].")
@click.option("--now", metavar="TIME", help="Decide as at this RFC 3339 time: for gangs with patience.")
def snapshot(
    *,
    cluster: tuple[Path, ...],
    config: Path | None,
    scheduler_name: str | None,
    files: tuple[Path, ...],
    namespace: str | None,
    now: str | None,
) -> int:
    """Write a cluster dump, reduced to the input of decisions, with the decision for every waiting gang and pod.

    The result goes to standard output as gzipped JSON. Environment, commands, images, secrets and annotations that do
    not concern scheduling are left out. It serves as --cluster for every command; 'bayplan replay' decides everything
    again.

    Exit code: 0 written, 2 invalid input.
    """
    from bayplan.cli.shared.deciding import decide_all, has_patience, work_of
    from bayplan.cli.shared.pod_views import now_or
    from bayplan.cli.shared.workloads import used_objects, warn_of_owners
    from bayplan.explain.snapshot import record, snapshot_document

    if sys.stdout.isatty():
        raise click.UsageError("the snapshot is compressed: redirect it into a file, such as '> s.json.gz'")
    with working("reading the cluster"):
        session = ClusterSession.open(cluster, config, scheduler_name, owners=True)
        session.priority_classes()  # so that they are among the objects
    moment = now_or(now, session).replace(microsecond=0)
    waiting = list(session.state.waiting.values())
    further, planned = _with_files(session, files, namespace) if files else ([], [])
    work = work_of(session, [*waiting, *further], planned)
    # A time that no decision depends on would make two snapshots of the same cluster differ.
    decided_at = moment.isoformat() if has_patience(session, work) else None
    warn_of_owners(session.grouped, waiting, session.source)
    warn([f"{each.error}: the snapshot holds no decision about this pod" for each in work.invalid])
    decisions = decide_all(session, work, moment)
    rules = session.grouping.rules
    recorded = record(decisions, session.configuration, scheduler_name, decided_at, rules)
    _write(snapshot_document(session.objects, recorded, used_objects(session.objects, session.grouping), rules))
    if not decisions:
        warn(["no pod waits in this cluster: the snapshot holds no decision to replay"])
    return 0


def _with_files(session: ClusterSession, files: tuple[Path, ...], namespace: str | None) -> tuple[list[Pod], list[str]]:
    """Put what `-f` holds among the objects: the pods that are new, and the gangs, by their keys.

    One that is there already counts as in `-f`.
    """
    import msgspec

    from bayplan.cli.shared.gang_objects import pod_groups
    from bayplan.cli.shared.placing import read_work
    from bayplan.cli.shared.workloads import add_workloads
    from bayplan.cluster.state import pod_key
    from bayplan.dialects.registry import key_of

    def named(metadata: Metadata) -> Metadata:
        return msgspec.structs.replace(metadata, namespace=metadata.namespace or namespace or "default")

    held, read = session.objects, read_work(session, files, namespace).objects
    further = [pod for pod in read.pods if pod_key(pod) not in session.state.waiting]
    held.pods += further
    held.priority_classes = [*held.priority_classes, *read.priority_classes]
    add_workloads(held, read, namespace)
    read.gangs = [msgspec.structs.replace(each, metadata=named(each.metadata)) for each in read.gangs]
    read.other_gangs = [msgspec.structs.replace(each, metadata=named(each.metadata)) for each in read.other_gangs]
    planned = [key_of(each) for each in pod_groups(read)]
    held.gangs = [*(each for each in held.gangs if key_of(each) not in planned), *read.gangs]
    held.other_gangs = [*(each for each in held.other_gangs if key_of(each) not in planned), *read.other_gangs]
    return further, planned


def _write(document: dict[str, object]) -> None:
    import msgspec

    # So would a file name or a time in the header.
    sys.stdout.buffer.write(gzip.compress(msgspec.json.encode(document), mtime=0))
