"""Kubernetes' own gang API in the version of the control plane: which version it serves, and how to switch it on.

v1alpha2 in 1.36; v1beta1 (PodGroup, Workload) and v1alpha3 (CompositePodGroup) in 1.37; nothing like it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.programs import kubernetes_version
from tests.kubernetes.control_plane.raw_api import Json

GROUP = "scheduling.k8s.io"
JOB_GATES = ("WorkloadWithJob",)


def _switched_on(gates: tuple[str, ...]) -> str:
    return f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"


@dataclass(frozen=True, slots=True)
class SchedulingApi:
    """What an API server serves of it, with these feature gates."""

    version: str
    condition: str
    gates: tuple[str, ...]
    further_versions: tuple[str, ...] = ()
    has_composites: bool = False
    jobs_say_how: bool = False
    """Whether a Job has `spec.scheduling`, and is a gang only if that says so; before, each Indexed Job is one."""

    @property
    def api_version(self) -> str:
        """`scheduling.k8s.io/v1beta1`."""
        return f"{GROUP}/{self.version}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the API server that switch it on."""
        return (_switched_on(self.gates), self._served)

    @property
    def arguments_with_jobs(self) -> tuple[str, ...]:
        """The same, with a Job controller that makes gangs of Jobs."""
        return (_switched_on((*self.gates, *JOB_GATES)), self._served)

    @property
    def manager_arguments(self) -> tuple[str, ...]:
        """Arguments of the controller manager whose Job controller does."""
        return (_switched_on(("GenericWorkload", *JOB_GATES)),)

    @property
    def _served(self) -> str:
        served = ",".join(f"{GROUP}/{version}=true" for version in (self.version, *self.further_versions))
        return f"--runtime-config={served}"

    def reference(self, workload: str, template: str) -> Json:
        """How a PodGroup names its template."""
        if self.version == "v1alpha2":
            named = {"workloadName": workload, "podGroupTemplateName": template}
            return {"podGroupTemplateRef": {"workload": named}}
        return {"workloadRef": {"workloadName": workload, "templateName": template}}

    def disrupted_together(self) -> str | Json:
        """The disruption mode in which members leave together."""
        return "PodGroup" if self.version == "v1alpha2" else {"all": {}}

    def in_this_version(self, document: Json) -> Json:
        """An object as this API server serves it; objects of other groups stay as they are."""
        ours = document["apiVersion"].startswith(f"{GROUP}/") and document["kind"] in ("PodGroup", "Workload")
        return {**document, "apiVersion": self.api_version} if ours else document


BY_MINOR = {
    36: SchedulingApi(
        "v1alpha2",
        "PodGroupScheduled",
        ("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"),
    ),
    37: SchedulingApi(
        "v1beta1",
        "PodGroupInitiallyScheduled",
        ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"),
        further_versions=("v1alpha3",),
        has_composites=True,
        jobs_say_how=True,
    ),
}


def scheduling_api() -> SchedulingApi | None:
    """That of the control plane's version; None if it has none."""
    return BY_MINOR.get(int(kubernetes_version().split(".")[1]))


def needed_scheduling_api(*, composites: bool = False) -> SchedulingApi:
    """The same; skips the test where there is none."""
    found = scheduling_api()
    if found is None or (composites and not found.has_composites):
        what = "CompositePodGroups" if composites else f"PodGroups of {GROUP}"
        pytest.skip(f"Kubernetes {kubernetes_version()} has no {what}")
    return found


def plane_with_gangs() -> Iterator[ControlPlane]:
    """A control plane that serves it, if its version has it."""
    found = scheduling_api()
    with ControlPlane(apiserver_arguments=found.arguments if found else ()) as plane:
        yield plane
