"""Entries of `workloads`: pods of one shape, who looks after them, when they come.

In comes what is written, out goes a `Workload` with a member for every pod. The shape is read in `pods.py`, the moments are drawn
in `arrivals.py`; `reader.py` collects the workloads.
"""

from __future__ import annotations

from bayplan.simulate.scenario.arrivals import arrivals, chance, run_times
from bayplan.simulate.scenario.lines import Section, Written
from bayplan.simulate.scenario.model import JOB_BACKOFF_LIMIT, Kind, Member, Together, Workload
from bayplan.simulate.scenario.pods import template_of
from bayplan.simulate.scenario.values import label, name, one_of, text, whole_number

KEYS = (
    "name",
    "namespace",
    "kind",
    "labels",
    "annotations",
    "replicas",
    "gang",
    "arrive",
    "runs",
    "backoffLimit",
    "pod",
)
GANG_KEYS = ("size", "required", "preferred")
# What creates pods in Kubernetes, and how the simulation treats it.
KINDS = {
    "Pod": Kind.POD,
    "ReplicaSet": Kind.REPLICA_SET,
    "Deployment": Kind.REPLICA_SET,
    "StatefulSet": Kind.REPLICA_SET,
    "Job": Kind.JOB,
}
MOST_PODS = 1_000_000


def workload_of(written: Written, seed: int) -> Workload | None:
    """One workload with all its members; None if its pod cannot be used."""
    section = Section(written, KEYS)
    own_name = section.need("name", name, "")
    namespace = section.take("namespace", name, "default")
    kind = section.take("kind", one_of(KINDS), Kind.REPLICA_SET)
    labels = section.entries("labels", label)
    annotations = section.entries("annotations", lambda _, value: text(value))
    replicas = section.take("replicas", whole_number(1, MOST_PODS), 1)
    for key in ("runs", "backoffLimit"):
        value = section.get(key)
        if value is not None and kind is not Kind.JOB:
            value.wrong(f"is for kind Job only: pods of a {kind.value} run until the end")
    chosen = f"{namespace}/{own_name}"
    no_time = [0.0] * replicas
    no_end: list[float | None] = [None] * replicas
    moments = section.take("arrive", lambda value: arrivals(value, replicas, chance(seed, chosen, "arrivals")), no_time)
    times = section.take("runs", lambda value: run_times(value, replicas, chance(seed, chosen, "run times")), no_end)
    template = section.need("pod", lambda value: template_of(value, own_name, namespace, labels, annotations), None)
    if template is None:
        return None
    return Workload(
        name=own_name,
        kind=kind,
        template=template,
        members=tuple(map(Member, moments, times)),
        backoff_limit=section.take("backoffLimit", whole_number(0, 1_000_000), JOB_BACKOFF_LIMIT),
        together=section.take("gang", lambda value: _together(value, replicas), None),
    )


def _together(written: Written, replicas: int) -> Together:
    """Gangs of so many of the workload's pods; whether the levels exist is looked at when the tree is known (`reader.py`)."""
    section = Section(written, GANG_KEYS)
    size = section.take("size", whole_number(1, MOST_PODS), replicas)
    if replicas % size:
        written.at("size").wrong(f"{size} does not divide the {replicas} replicas")
    return Together(size, section.take("required", text, None), section.take("preferred", text, None))
