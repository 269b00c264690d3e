"""TeamJob (`example.com/v1`): pods with the label `example.com/team-job` start together in one rack.

A dialect is a few pure functions: which group a pod names, and what gang a group and its pods make.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import (
    Dialect,
    FieldNames,
    Gang,
    GroupObject,
    Incomplete,
    InvalidObject,
    Metadata,
    ObjectPath,
    Pod,
    Resource,
    Topologies,
    WireStruct,
    arrived,
    counted,
    full_name,
    group_of,
    has_started,
)

LABEL = "example.com/team-job"


class TeamJobSpec(WireStruct, frozen=True):
    """How many pods start together, and the level whose domain they share."""

    pods: int = 0
    together_in: str = ""


class TeamJob(GroupObject, frozen=True):
    """The object as the API server has it; fields are camel case there."""

    metadata: Metadata = Metadata()
    spec: TeamJobSpec = TeamJobSpec()


def group_named(pod: Pod) -> str:
    """The TeamJob of a pod's label; empty if it names none."""
    return (pod.metadata.labels or {}).get(LABEL, "")


def gang_of(written: TeamJob, pods: Sequence[Pod], _: Topologies) -> Gang | Incomplete:
    """All pods in one group, in one domain of the level."""
    if written.spec.pods < 1:
        at = ObjectPath.of(written).child("spec").child("pods")
        raise InvalidObject(at, f"{written.spec.pods} must be 1 or more")
    members = counted(pods)
    missing = arrived(len(members), written.spec.pods)
    if missing and not has_started(members, was_complete=False):
        return Incomplete(full_name(written.metadata), missing)
    # bayplan finds the Topology that has this level, or reads the annotation bayplan.io/topology.
    root = group_of(members, written.spec.pods, required=written.spec.together_in or None)
    return Gang(full_name(written.metadata), root)


DIALECT = Dialect(
    "teamjob",
    TeamJob,
    group_named,
    gang_of,
    field_names=FieldNames(required="spec.togetherIn", minimum="spec.pods"),
    resource=Resource("example.com/v1", "teamjobs", "TeamJob", TeamJob),
)
