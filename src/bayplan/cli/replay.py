"""`bayplan replay`: decide everything again that a snapshot recorded, and say what came out otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options import ExampleCommand, Session, profiles_in
from bayplan.cli.output import print_answer, print_document, working
from bayplan.cli.snapshot import RANKED

if TYPE_CHECKING:
    from bayplan.explain.snapshot import Recorded
    from bayplan.kube.core_v1 import Pod


@click.command(
    cls=ExampleCommand,
    examples=("replay s.json.gz", "replay s.json.gz -o json"),
)
@click.argument("snapshot", type=click.Path(path_type=Path), metavar="SNAPSHOT")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def replay(*, snapshot: Path, output: str) -> int:
    """Decide again about every pod that waited when SNAPSHOT was written by 'bayplan snapshot'.

    The same version of bayplan decides the same: node, zones, scores, reasons. Another version may not; every difference is named.

    Exit code: 0 all decisions are equal, 1 some differ, 2 the snapshot cannot be used.
    """
    from bayplan.cli.placing import place_in_turn
    from bayplan.explain.documents import API_VERSION, outcome_document
    from bayplan.explain.snapshot import differences

    with working("reading the snapshot"):
        session, recorded = _opened(snapshot)
    pods = _pods_decided_about(session, recorded, snapshot)
    again: list[dict[str, Any]] = [outcome_document(outcome) for outcome in place_in_turn(session, pods, RANKED)]
    differing = differences(recorded.decisions, again)
    first = (
        f"{len(again)} decisions, {f'{len(differing)} differ' if differing else 'all equal'} "
        f"(recorded by bayplan {recorded.version})"
    )
    if output == "text":
        print_answer("\n".join([first, *(f"  {line}" for line in differing)]), good=not differing)
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


def _opened(snapshot: Path) -> tuple[Session, Recorded]:
    import msgspec

    from bayplan.explain.snapshot import recorded_in
    from bayplan.kube.errors import InvalidObject, ObjectPath, field_and_problem
    from bayplan.kube.files import read_document, read_objects

    at = ObjectPath(f"file {snapshot}")
    try:
        recorded = recorded_in(read_document(snapshot))
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise InvalidObject(at.child(field), problem) from None
    if recorded is None:
        raise InvalidObject(at, "is not a snapshot; 'bayplan snapshot --cluster PATH > s.json.gz' writes one")
    profiles = profiles_in(recorded.configuration, str(snapshot))
    name = recorded.scheduler_name
    if name is not None and name not in profiles:
        raise InvalidObject(at.child("bayplan.schedulerName"), f'"{name}" is not in its configuration')
    if name is not None:
        profiles = {name: profiles[name]}
    return Session(read_objects(snapshot), recorded.configuration, profiles), recorded


def _pods_decided_about(session: Session, recorded: Recorded, snapshot: Path) -> list[Pod]:
    from bayplan.cluster.state import pod_key
    from bayplan.kube.errors import InvalidObject, ObjectPath

    by_name = {pod_key(pod): pod for pod in session.objects.pods}
    missing = [decision.get("pod") for decision in recorded.decisions if decision.get("pod") not in by_name]
    if missing:
        at = ObjectPath(f"file {snapshot}").child("bayplan.decisions")
        raise InvalidObject(at, f'pod "{missing[0]}" is not among the objects of the snapshot')
    return [by_name[decision["pod"]] for decision in recorded.decisions]
