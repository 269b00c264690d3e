"""Entries of `workloads`: pods of one shape, or gangs of several; who looks after them, when they come.

In comes what is written, out goes a `Workload` with a member for every pod. Shapes are read in `pods.py` and
`gangs.py`, moments are drawn in `arrivals.py`; `reader.py` collects the workloads.
"""

from __future__ import annotations

from itertools import cycle

from bayplan.kube.wire.core_v1 import Metadata, Pod
from bayplan.simulate.scenario.arrivals import arrivals, chance, run_times
from bayplan.simulate.scenario.gangs import gang_written, gives_all_shapes
from bayplan.simulate.scenario.lines import Section, YamlValue
from bayplan.simulate.scenario.model import JOB_BACKOFF_LIMIT, Kind, ScenarioPod, Workload
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
# What creates pods in Kubernetes, and how the simulation treats it.
KINDS = {
    "Pod": Kind.POD,
    "ReplicaSet": Kind.REPLICA_SET,
    "Deployment": Kind.REPLICA_SET,
    "StatefulSet": Kind.REPLICA_SET,
    "Job": Kind.JOB,
}
MOST_PODS = 1_000_000


def workload_of(written: YamlValue, seed: int) -> Workload | None:
    """One workload with all its members; None if its pod cannot be used."""
    section = Section(written, KEYS)
    own_name = section.need("name", name, "")
    namespace = section.take("namespace", name, "default")
    kind = section.take("kind", one_of(KINDS), Kind.REPLICA_SET)
    labels = section.entries("labels", label)
    annotations = section.entries("annotations", lambda _, value: text(value))

    def read_pod(value: YamlValue) -> Pod | None:
        return template_of(value, own_name, namespace, labels, annotations)

    needs_pod = not gives_all_shapes(section.get("gang"))
    template = section.need("pod", read_pod, None) if needs_pod else section.take("pod", read_pod, None)
    given = section.take("replicas", whole_number(1, MOST_PODS), None)
    gang = None
    if template is not None or not needs_pod:
        metadata = Metadata(name=own_name, namespace=namespace, labels=labels, annotations=annotations)
        gang = section.take("gang", lambda value: gang_written(value, given, template, metadata, read_pod), None)
    together, shapes = gang or (None, ())
    replicas = given or (together.size if together is not None else 1)
    if together is not None and replicas % together.size:
        counted = ", the pods of all groups," if together.spec.groups else ""
        section.written.at("gang.size").wrong(f"{together.size}{counted} does not divide the {replicas} replicas")
    for key in ("runs", "backoffLimit"):
        value = section.get(key)
        if value is not None and kind is not Kind.JOB:
            value.wrong(f"is for kind Job only: pods of a {kind.value} run until the end")
    chosen = f"{namespace}/{own_name}"
    no_time = [0.0] * replicas
    no_end: list[float | None] = [None] * replicas
    moments = section.take("arrive", lambda value: arrivals(value, replicas, chance(seed, chosen, "arrivals")), no_time)
    times = section.take("runs", lambda value: run_times(value, replicas, chance(seed, chosen, "run times")), no_end)
    template = template or (shapes[0] if shapes else None)
    if template is None:
        return None
    own_shapes = cycle(None if shape is template else shape for shape in shapes or (template,))
    return Workload(
        name=own_name,
        kind=kind,
        template=template,
        members=tuple(map(ScenarioPod, moments, times, own_shapes)),
        backoff_limit=section.take("backoffLimit", whole_number(0, 1_000_000), JOB_BACKOFF_LIMIT),
        together=together,
        written_as=section.take("kind", text, ""),
    )
