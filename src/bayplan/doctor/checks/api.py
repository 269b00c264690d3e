"""Versions of Kubernetes and the kinds that bayplan reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bayplan.cluster.reports.kubelet_version import NEWEST, OLDEST, version_of
from bayplan.doctor.findings import Finding, error, note, warning
from bayplan.doctor.installation import Installation
from bayplan.kube.client.versions import cannot_read
from bayplan.kube.resources import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, POD_GROUPS

_MINOR = re.compile(r"v?1\.([0-9]+)")


def check_versions(installation: Installation) -> Iterator[Finding]:
    """The API server and the kubelets are of tested versions."""
    tested = f"{OLDEST.text} to {NEWEST.text}"
    written = _MINOR.match(installation.server_version)
    if written is not None and not OLDEST <= int(written[1]) <= NEWEST:
        yield warning(
            f"the API server is {installation.server_version}; bayplan is tested with {tested}",
            f"Use a bayplan release for this version of Kubernetes, or Kubernetes {tested}.",
        )
    by_remark: dict[str, list[str]] = {}
    for node in installation.objects.nodes:
        info = node.status.node_info
        _, remark = version_of(info.kubelet_version if info is not None else "")
        if remark:
            by_remark.setdefault(remark, []).append(f"node/{node.metadata.name}")
    for remark, nodes in by_remark.items():
        yield warning(
            f"kubelet {remark}",
            f"Upgrade these kubelets, or expect predictions to differ where kubelets changed; tested are {tested}.",
            *nodes,
        )


def check_kinds(installation: Installation) -> Iterator[Finding]:
    """Every kind that bayplan reads is served in a version that it can read."""
    for resource, served in installation.served.items():
        if served.unreadable:
            yield error(
                cannot_read(resource, served.unreadable),
                f"Serve {resource.api_version} in the CustomResourceDefinition, or upgrade bayplan.",
                f"customresourcedefinition/{resource}",
            )
    for resource, file, severity, missing in (
        (POD_GROUPS, "podgroups.bayplan.io.yaml", error, "the pod grouper cannot make gangs of workloads"),
        (
            NODE_RESOURCE_TOPOLOGIES,
            "noderesourcetopologies.topology.node.k8s.io.yaml",
            warning,
            "NUMA zones are unknown",
        ),
    ):
        found = installation.served.get(resource)
        if found is not None and found.readable is None and not found.unreadable:
            yield severity(
                f"{resource} is not installed: {missing}",
                f"Install it: kubectl create -f deploy/crds/{file}",
                f"customresourcedefinition/{resource}",
            )
    trees = [installation.served.get(each) for each in (KUEUE_TOPOLOGIES, KAI_TOPOLOGIES)]
    if all(each is not None and each.readable is None and not each.unreadable for each in trees):
        yield note(
            "no Topology kind is installed: there are no racks and blocks",
            "To place gangs by rack and block: kubectl create -f deploy/crds/topologies.kueue.x-k8s.io.yaml",
        )
