"""What is written about gangs beside binds: that one is complete, and that one which cannot be completed makes room."""

from __future__ import annotations

import logging

from bayplan.cluster.state import pod_key
from bayplan.kube.client import ApiError, KubeClient, Unreachable
from bayplan.kube.podgroup_v1alpha1 import SCHEDULED
from bayplan.kube.resources import POD_GROUPS, PODS
from bayplan.scheduling.todo import Complete, Release
from bayplan.services.edges.events import EventRecorder, Subject

logger = logging.getLogger(__name__)


async def note_complete(client: KubeClient, complete: Complete) -> None:
    """Write the phase on the PodGroup; a scheduler that starts later knows by it that the gang was whole once."""
    namespace, _, name = complete.gang.partition("/")
    status = {"status": {"phase": SCHEDULED, "scheduled": complete.running}}
    try:
        await client.patch(POD_GROUPS, name, status, namespace, subresource="status", kind="merge")
    except (ApiError, Unreachable) as error:
        # Nothing depends on it while this instance runs, and the next one finds the gang complete again.
        logger.warning("cannot write the phase of a gang", extra={"gang": complete.gang, "problem": str(error)})


async def release(client: KubeClient, events: EventRecorder, todo: Release) -> None:
    """Delete the bound pods of a gang that cannot be completed; whoever owns them creates new ones, which wait together."""
    for pod in todo.pods:
        metadata = pod.metadata
        note = f"gang {todo.gang} cannot be completed, its pods make room: {todo.reason}"
        events.record(Subject.pod(pod), "Warning", "GangReleased", "Releasing", note)
        try:
            await client.delete(PODS, metadata.name, metadata.namespace or "default", uid=metadata.uid)
        except (ApiError, Unreachable) as error:
            # It is tried again: the gang is still half bound.
            logger.warning("cannot release a pod", extra={"pod": pod_key(pod), "problem": str(error)})
