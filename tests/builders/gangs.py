"""Gangs in one line each: their pods, the group objects of any system, and a scheduler with one tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from bayplan.cluster.state import ClusterState
from bayplan.gangs.scheduler import GangScheduler
from bayplan.gangs.trees import Trees
from bayplan.kube.wire.core_v1 import Pod
from bayplan.scheduling.answers import ClassAnswers
from bayplan.scheduling.profile import Profile, default_profile
from tests.builders.objects import GPU, pod, simple_pods

Written = TypeVar("Written")


def member(
    name: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    *,
    node: str = "",
    phase: str = "",
    **more: Any,
) -> Pod:
    """A pod of one container in namespace ml; on a node if one is given."""
    return pod(
        {"name": "main"},
        name=name,
        namespace="ml",
        labels=labels,
        annotations=annotations or {},
        status={"phase": phase},
        nodeName=node or None,
        **more,
    )


def gpu_pods(number: int, name: str = "p", gpus: int = 1) -> tuple[Pod, ...]:
    """Pods `p-0`, `p-1` and so on that ask for GPUs alone."""
    return simple_pods({GPU: gpus}, number, name)


def group_object(
    kind: type[Written], spec: Mapping[str, Any], name: str = "pg", *, phase: str = "", **metadata: Any
) -> Written:
    """A PodGroup, Workload or the like in namespace ml, of the struct that reads it."""
    written = {"metadata": {"name": name, "namespace": "ml", **metadata}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(written, kind)


def gang_scheduler(
    state: ClusterState, *levels: str, tree: str = "network", profile: Profile | None = None
) -> GangScheduler:
    """A scheduler of gangs; with levels, it knows one tree."""
    trees = Trees(state)
    if levels:
        trees.set(tree, levels)
    return GangScheduler(state, trees, profile or default_profile(), ClassAnswers(state))
