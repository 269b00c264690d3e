"""Volcano Jobs that wait for phase Inqueue: only then do Volcano's controllers create a Job's pods.

If bayplan replaces Volcano's scheduler, it must write this phase for Jobs that name one of its profiles. Events about
Jobs and PodGroups arrive in any order; `due` returns the PodGroups to write. bayplan has no queues, so it holds no Job
back.
"""

from __future__ import annotations

from collections.abc import Container

from bayplan.dialects.dialect import full_name
from bayplan.kube.wire.volcano_batch_v1alpha1 import API_VERSION, KIND, Job
from bayplan.kube.wire.volcano_scheduling_v1beta1 import PodGroup

NOT_LET_IN = ("", "Pending")


class VolcanoQueue:
    """Jobs of these schedulers, and PodGroups by the Job that owns them."""

    def __init__(self, schedulers: Container[str]) -> None:
        self._schedulers = schedulers
        self._jobs: set[str] = set()
        # PodGroups that are not admitted, by their Job; and Jobs by PodGroup.
        self._outside: dict[str, PodGroup] = {}
        self._job_of: dict[str, str] = {}
        self._due: set[str] = set()

    def set_job(self, job: Job) -> None:
        """A Job came or changed."""
        name = full_name(job.metadata)
        if job.spec.scheduler_name not in self._schedulers:
            self.remove_job(name)
            return
        self._jobs.add(name)
        if name in self._outside:
            self._due.add(name)

    def remove_job(self, name: str) -> None:
        """A Job was deleted, or names another scheduler."""
        self._jobs.discard(name)
        self._due.discard(name)

    def set_group(self, written: PodGroup) -> None:
        """A PodGroup was created or changed. One without a Job, or already admitted, needs nothing."""
        name = full_name(written.metadata)
        self.remove_group(name)
        phase = written.status.phase if written.status is not None else ""
        job = _job_of(written)
        if job and phase in NOT_LET_IN:
            self._job_of[name] = job
            self._outside[job] = written
            if job in self._jobs:
                self._due.add(job)

    def remove_group(self, name: str) -> None:
        """A PodGroup is gone."""
        job = self._job_of.pop(name, "")
        self._outside.pop(job, None)
        self._due.discard(job)

    def due(self) -> list[PodGroup]:
        """The PodGroups to admit now; each is due again only if it changes and is still not admitted."""
        found = [self._outside[job] for job in self._due]
        for written in found:
            self.remove_group(full_name(written.metadata))
        return found


def _job_of(written: PodGroup) -> str:
    """`namespace/name` of the Job that owns a PodGroup; empty if none does."""
    metadata = written.metadata
    for owner in metadata.owner_references or ():
        if (owner.api_version, owner.kind) == (API_VERSION, KIND):
            return f"{metadata.namespace or 'default'}/{owner.name}"
    return ""
