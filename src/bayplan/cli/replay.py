"""`bayplan replay`: repeat all decisions that a snapshot recorded, and report those that differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options.common import ExampleCommand
from bayplan.cli.options.configuration_file import ConfigurationFile
from bayplan.cli.options.flags import DOCUMENTS, file_size_option, output_option
from bayplan.cli.shared.output import print_answer, print_document, working
from bayplan.cli.shared.reading import profiles_in
from bayplan.cli.shared.session import ClusterSession
from bayplan.kube.visible import visible_lines

if TYPE_CHECKING:
    from bayplan.cli.shared.deciding import Work
    from bayplan.explain.snapshot import Recorded


@click.command(
    cls=ExampleCommand,
    examples=("replay s.json.gz", "replay s.json.gz -o json"),
)
@click.argument("snapshot", type=click.Path(path_type=Path), metavar="SNAPSHOT")
@output_option("text", *DOCUMENTS)
@file_size_option
def replay(*, snapshot: Path, output: str) -> int:
    """Decide again about every gang and pod that waited when SNAPSHOT was written by 'bayplan snapshot'.

    The same version of bayplan decides the same: seats, node, zones, scores, reasons. Another version can differ; every
    difference is listed.

    Exit code: 0 all decisions are equal, 1 some differ, 2 the snapshot cannot be used.
    """
    from bayplan.cli.shared.deciding import decide_all
    from bayplan.cli.shared.pod_views import now_or
    from bayplan.explain.amounts import count
    from bayplan.explain.documents import API_VERSION
    from bayplan.explain.snapshot import differences

    with working("reading the snapshot"):
        session, recorded = _opened(snapshot)
    work = _decided_about(session, recorded, snapshot)
    again: list[dict[str, Any]] = decide_all(session, work, now_or(recorded.decided_at, session))
    differing = differences(recorded.decisions, again)
    first = (
        f"{count(len(again), 'decision')}, {f'{len(differing)} differ' if differing else 'all equal'} "
        f"(recorded by bayplan {recorded.version})"
    )
    if output == "text":
        print_answer(visible_lines([first, *(f"  {line}" for line in differing)]), good=not differing)
    else:
        document = {
            "apiVersion": API_VERSION,
            "kind": "Replay",
            "answer": first,
            "recordedBy": recorded.version,
            "decisions": len(again),
            "equal": len(again) - len(differing),
            "differences": differing,
            "items": again,
        }
        print_document(document, output)
    return 1 if differing else 0


def _opened(snapshot: Path) -> tuple[ClusterSession, Recorded]:
    import msgspec

    from bayplan.explain.snapshot import recorded_in
    from bayplan.kube.documents import in_place
    from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
    from bayplan.kube.files import read_document, read_objects

    at = ObjectPath(f"file {snapshot}")
    try:
        recorded = recorded_in(read_document(snapshot))
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise in_place(InvalidObject(at.child(field) if field else at, problem), snapshot) from None
    if recorded is None:
        raise InvalidObject(at, "is not a snapshot; 'bayplan snapshot --cluster PATH > s.json.gz' writes one")
    configuration = recorded.configuration
    profiles = profiles_in(None if configuration is None else ConfigurationFile(snapshot, configuration))
    name = recorded.scheduler_name
    if name is not None and name not in profiles:
        raise InvalidObject(at.child("bayplan.schedulerName"), f'"{name}" is not in its configuration')
    if name is not None:
        profiles = {name: profiles[name]}
    objects = read_objects(snapshot)
    if recorded.grouping_rules:
        objects.rule_documents.append((snapshot, {"kinds": recorded.grouping_rules}))
    return ClusterSession(objects, recorded.configuration, profiles, owners=True), recorded


def _decided_about(session: ClusterSession, recorded: Recorded, snapshot: Path) -> Work:
    """The gangs and pods of the recorded decisions, in their order: gangs come first."""
    from bayplan.cli.shared.deciding import Work, work_of
    from bayplan.cli.shared.gang_objects import pod_groups
    from bayplan.cluster.state import pod_key
    from bayplan.dialects.registry import key_of
    from bayplan.kube.errors import InvalidObject, ObjectPath

    pods = {pod_key(pod): pod for pod in session.objects.pods}
    planned = [key_of(written) for written in pod_groups(session.objects)]
    known = work_of(session, session.objects.pods, planned).gangs
    gangs = {key.rpartition(" ")[2]: key for key in known}
    for kind, there in (("gang", gangs), ("pod", pods)):
        missing = [each[kind] for each in recorded.decisions if kind in each and each[kind] not in there]
        if missing:
            at = ObjectPath(f"file {snapshot}").child("bayplan.decisions")
            raise InvalidObject(at, f'{kind} "{missing[0]}" is not among the objects of the snapshot')
    return Work(
        [gangs[each["gang"]] for each in recorded.decisions if "gang" in each],
        [pods[each["pod"]] for each in recorded.decisions if "pod" in each],
    )
