"""How KAI's users cut workers into segments: annotations on the pod, else on the workers' pod template."""

from __future__ import annotations

from bayplan.compat.kai.grouping.metadata import NO_CONSTRAINT, KaiConstraint
from bayplan.dialects.own.reader import MOST_PODS
from bayplan.grouping.raw import RawObject, WrongValue, annotations_of

TOPOLOGY = "kai.scheduler/topology"
SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"


def check_number(pods: int) -> None:
    """Reject an unrealistic number of pods before segments are listed one by one."""
    if pods > MOST_PODS:
        raise WrongValue("replicas", pods, f"pods are too many for segments: must be at most {MOST_PODS}")


def worker_annotation(pod: RawObject, template: RawObject, key: str) -> str:
    """An annotation of the pod, else of the template it is made from; empty if neither has it."""
    return annotations_of(pod).get(key) or annotations_of(template).get(key, "")


def segment_constraint(pod: RawObject, template: RawObject, owner: RawObject) -> KaiConstraint:
    """What each segment must share; nothing without the tree's name, which the owner may give, or without a level."""
    topology = worker_annotation(pod, template, TOPOLOGY) or annotations_of(owner).get(TOPOLOGY, "")
    required = worker_annotation(pod, template, SEGMENT_REQUIRED)
    preferred = worker_annotation(pod, template, SEGMENT_PREFERRED)
    if not topology or not (required or preferred):
        return NO_CONSTRAINT
    return KaiConstraint(topology, required, preferred)
