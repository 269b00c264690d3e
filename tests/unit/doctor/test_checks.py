"""Each check of the doctor on an installation with one thing wrong, and on a sound one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan import __version__
from bayplan.cluster.reports.fingerprint import fingerprint_of
from bayplan.doctor.diagnosis import CHECKS, diagnose
from bayplan.doctor.findings import Finding, Severity
from bayplan.doctor.installation import Election, Installation, InstalledProgram
from bayplan.doctor.rights import needed_rights
from bayplan.doctor.text import diagnosis_document, diagnosis_text
from bayplan.kube.client.versions import Served
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.resources import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, POD_GROUPS
from bayplan.kube.topology_levels import Topology
from bayplan.kube.wire.coordination_v1 import LeaseSpec
from bayplan.kube.wire.core_v1 import Node, Pod
from bayplan.kube.wire.node_resource_topology_v1alpha2 import NodeResourceTopology
from tests.builders.objects import topology, zone

NOW = 1_800_000_000.0
RENEWED = "2027-01-15T07:59:58.000000Z"  # two seconds before NOW
KINDS = (POD_GROUPS, NODE_RESOURCE_TOPOLOGIES, KUEUE_TOPOLOGIES, KAI_TOPOLOGIES)
SCHEDULER = InstalledProgram("Deployment", "bayplan-system", "bayplan-scheduler", 2, 2, ("bayplan:1",))
LEASE = LeaseSpec(holder_identity="one", lease_duration_seconds=15, renew_time=RENEWED)
RACK, BLOCK = "example.com/rack", "example.com/block"


def node(name: str = "n1", *, version: str = "v1.36.4", cpu: str = "8", taint: str = "", **labels: str) -> Node:
    metadata = {"name": name, "labels": labels or {BLOCK: "b1", RACK: "r1"}}
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    status = {"allocatable": {"cpu": cpu}, "nodeInfo": {"kubeletVersion": version}}
    return msgspec.convert({"metadata": metadata, "spec": {"taints": taints}, "status": status}, Node)


def report(
    name: str = "n1",
    *,
    age: float = 10.0,
    zones: tuple[str, ...] = ("node-0", "node-1"),
    agent: str = __version__,
    **attributes: str,
) -> NodeResourceTopology:
    values = {"bayplan.io/made-at": f"{NOW - age:.3f}", "bayplan.io/agent-version": agent, **attributes}
    return topology(*({**zone(0, {"cpu": 4}), "name": each} for each in zones), name=name, attributes=values)


def pod(name: str = "p", *, on: str = "", scheduler: str = "bayplan", reason: str = "", owner: str = "") -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "ml", "creationTimestamp": "2027-01-15T07:00:00Z"}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "owner"}]
    status = {"phase": "Failed", "reason": reason} if reason else {"phase": "Running" if on else "Pending"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": on or None, "schedulerName": scheduler}, "status": status}, Pod
    )


def tree() -> Topology:
    levels = [{"nodeLabel": label} for label in (BLOCK, RACK, "kubernetes.io/hostname")]
    return msgspec.convert({"metadata": {"name": "network"}, "spec": {"levels": levels}}, Topology)


def sound(**changes: Any) -> Installation:
    """One node with its report, everything served, one leader; `nodes`, `topologies`, `pods` and `levels` replace
    objects.
    """
    kinds: dict[str, Any] = {"nodes": [node()], "topologies": [report()], "levels": [tree()]}
    objects = kinds | {key: changes.pop(key) for key in ("nodes", "topologies", "pods", "levels") if key in changes}
    found = Installation(
        now=NOW,
        ahead=0.0,
        server_version="v1.36.4",
        served={each: Served(each) for each in KINDS},
        objects=ObjectSet(**objects),
        programs=(SCHEDULER,),
        election=Election(lease=LEASE),
    )
    return replace(found, **changes)


def served(**missing: Served) -> dict[Any, Served]:
    return {each: missing.get(each.plural, Served(each)) for each in KINDS}


BINDING = next(each for each in needed_rights("base") if each.resource == "pods/binding")
RELEASE = next(each for each in needed_rights("base") if each.file.endswith("release-role.yaml"))

FAULTS: list[tuple[str, Installation, Severity, str, str]] = [
    ("api-versions", sound(server_version="v1.32.1"), Severity.WARNING, "API server is v1.32.1", "1.34 to 1.37"),
    ("api-versions", sound(nodes=[node(version="v1.30.0")]), Severity.WARNING, "kubelet v1.30.0 is older", "Upgrade"),
    ("kinds", sound(served=served(podgroups=Served())), Severity.ERROR, "is not installed", "kubectl create -f"),
    ("kinds", sound(served=served(noderesourcetopologies=Served())), Severity.WARNING, "not installed", "deploy/crds"),
    ("kinds", sound(served=served(podgroups=Served(None, ("v9",)))), Severity.ERROR, "serves v9", "upgrade bayplan"),
    ("kinds", sound(served=served(topologies=Served())), Severity.NOTE, "no Topology kind", "kubectl create -f"),
    ("rights", sound(denied=(BINDING,)), Severity.ERROR, "must not create pods/binding",
     "deploy/base/scheduler-role.yaml"),
    ("rights", sound(denied=(RELEASE,)), Severity.NOTE, "gangs that cannot be completed keep", "release-role.yaml"),
    ("rights", sound(unasked="eve must not"), Severity.NOTE, "eve must not", "SubjectAccessReviews"),
    ("programs", sound(programs=()), Severity.ERROR, "there is no Deployment", "kubectl apply -k deploy/base"),
    ("programs", sound(programs=(replace(SCHEDULER, ready=0),)), Severity.ERROR, "0 of 2 pods ready", "describe pods"),
    ("programs", sound(programs=(replace(SCHEDULER, ready=1),)), Severity.WARNING, "1 of 2 pods ready",
     "describe pods"),
    (
        "programs",
        sound(programs=(SCHEDULER, replace(SCHEDULER, name="bayplan-pod-grouper", images=("bayplan:2",)))),
        Severity.WARNING,
        "different images: bayplan:1, bayplan:2",
        "Finish the upgrade",
    ),
    ("leader", sound(election=Election()), Severity.ERROR, "the lease does not exist", "logs deployment"),
    ("leader", sound(election=Election(lease=LeaseSpec()), pods=[pod()]), Severity.ERROR, "1 pod that names it waits",
     "logs"),
    ("leader", sound(now=NOW + 60), Severity.ERROR, "has not renewed the lease for 62 s", "logs"),
    ("leader", sound(election=Election(problem="profile: unknown")), Severity.ERROR, "profile: unknown",
     "--check-config"),
    ("clocks", sound(ahead=-90.0), Severity.WARNING, "90 s behind the API server's", "time synchronisation"),
    ("clocks", sound(now=NOW - 30, topologies=[report(age=40)]), Severity.WARNING, "the leader's clock is 28 s ahead",
     "chronyc"),
    ("clocks", sound(topologies=[report(age=-60)]), Severity.WARNING, "up to 60 s ahead", "chronyc"),
    ("clocks", sound(topologies=[report(age=300)], written={"n1": NOW}), Severity.WARNING, "up to 300 s behind",
     "chronyc"),
    ("missing-reports", sound(nodes=[node(), node("n2")]), Severity.WARNING, "1 of 2 nodes have no report", "get pods"),
    ("missing-reports", sound(topologies=[]), Severity.WARNING, "no node has a report", "deploy/agent"),
    ("missing-reports", sound(topologies=[report(), report("gone")]), Severity.WARNING, "do not exist", "agent-gc"),
    ("stale-reports", sound(topologies=[report(age=7200)]), Severity.ERROR, "for up to 2h", "Check the agents"),
    ("report-contents", sound(topologies=[report(zones=("node-0", "node-0", "node-1"))]), Severity.ERROR, "twice",
     "restart"),
    ("report-contents", sound(topologies=[report(zones=("node-0", "node-1", "odd"))]), Severity.WARNING,
     "parts of reports are ignored", "writes them"),
    ("report-contents", sound(nodes=[node(cpu="16")]), Severity.ERROR, "cpu 16 allocatable, 8 in all zones",
     "restart the agent"),
    (
        "kubelet-policies",
        sound(topologies=[report(topologyManagerPolicy="none")], pods=[pod(on="n1", reason="TopologyAffinityError")]),
        Severity.ERROR,
        "reported policy (none) never does",
        "--kubelet-config",
    ),
    ("kubelet-policies", sound(pods=[pod(on="n1", reason="OutOfcpu")]), Severity.WARNING, "with OutOfcpu", "late"),
    (
        "fingerprints",
        sound(topologies=[report(nodeTopologyPodsFingerprint=fingerprint_of([]))], pods=[pod(on="n1")]),
        Severity.WARNING,
        "do not match",
        "podresources",
    ),
    ("agents", sound(topologies=[report(agent="0.0.1")]), Severity.WARNING, "version 0.0.1", "Upgrade"),
    ("agents", sound(topologies=[report(agent="99.0")]), Severity.NOTE, "version 99.0", "agents' version"),
    ("tree", sound(nodes=[node(), node("n2", **{RACK: "r1"})]), Severity.ERROR, f"nodes lack {BLOCK}",
     "kubectl label node"),
    ("tree", sound(nodes=[node(), node("n2", a="b")]), Severity.WARNING, "outside its tree", "kubectl label node"),
    ("tree", sound(nodes=[node(a="b")]), Severity.ERROR, "no node has the labels", "Label the nodes"),
    ("tree", sound(levels=[Topology()]), Severity.ERROR, "cannot be used", "spec.levels"),
    ("tree", sound(flavors={"gpu": "network"}), Severity.WARNING, "Kueue pins pods to nodes", "ends at a wider level"),
    (
        "shared-nodes",
        sound(pods=[pod(on="n1"), pod("q", on="n1", scheduler="default-scheduler")]),
        Severity.WARNING,
        "of bayplan and of default-scheduler",
        "kubectl taint node",
    ),
]  # fmt: skip


def found_by(check: str, installation: Installation) -> list[Finding]:
    return list(CHECKS[check](installation))


def test_a_sound_installation_has_no_findings() -> None:
    assert {name: found_by(name, sound()) for name in CHECKS} == {name: [] for name in CHECKS}


@pytest.mark.parametrize("check,installation,severity,problem,advice", FAULTS)
def test_a_check_finds_its_fault(
    check: str, installation: Installation, severity: Severity, problem: str, advice: str
) -> None:
    (finding,) = found_by(check, installation)
    assert finding.severity is severity
    assert problem in finding.problem
    assert advice in finding.advice


def test_every_check_has_a_fault_here() -> None:
    assert {fault[0] for fault in FAULTS} == set(CHECKS)


@pytest.mark.parametrize(
    "check,installation",
    [
        ("tree", sound(nodes=[node(), node("n2", taint="node-role.kubernetes.io/control-plane", a="b")])),
        (
            "shared-nodes",
            sound(pods=[pod(on="n1"), pod("q", on="n1", scheduler="default-scheduler", owner="DaemonSet")]),
        ),
        (
            "shared-nodes",
            sound(
                nodes=[node(taint="dedicated")], pods=[pod(on="n1"), pod("q", on="n1", scheduler="default-scheduler")]
            ),
        ),
        (
            "fingerprints",
            sound(topologies=[report(nodeTopologyPodsFingerprint=fingerprint_of([("ml", "p")]))], pods=[pod(on="n1")]),
        ),
        ("missing-reports", sound(topologies=[], served=served(noderesourcetopologies=Served()))),
        ("leader", sound(election=Election(enabled=False))),
        ("kubelet-policies", sound(pods=[pod(on="n1", scheduler="default-scheduler", reason="TopologyAffinityError")])),
    ],
    ids=[
        "control-plane nodes need no labels",
        "daemonset pods are everywhere",
        "a taint keeps schedulers apart",
        "the fingerprint matches",
        "reports cannot exist without their kind",
        "one replica needs no lease",
        "pods of other schedulers are refused by a policy that is reported",
    ],
)
def test_a_check_is_content_with(check: str, installation: Installation) -> None:
    assert found_by(check, installation) == []


def test_the_text_begins_with_the_answer_and_ends_with_what_passed() -> None:
    many = [node(), *(node(f"m{number}", a="b") for number in range(2, 41))]
    lines = diagnosis_text(diagnose(sound(nodes=many, ahead=600.0))).splitlines()
    assert lines[0] == "3 warnings in 14 checks"
    assert lines[2] == "warning  clocks: the clock of this machine is 600 s ahead of the API server's"
    assert "         node/m[2-40]" in lines
    assert lines[-1].startswith("passed   api-versions, kinds, rights, programs, leader, stale-reports,")


def test_the_document_has_every_check_and_all_objects() -> None:
    document = diagnosis_document(diagnose(sound(nodes=[node(), node("n2")])))
    assert document["answer"] == "1 warning in 14 checks"
    by_name = {check["name"]: check for check in document["checks"]}
    assert list(by_name) == list(CHECKS)
    assert by_name["tree"] == {"name": "tree", "status": "ok", "findings": []}
    (finding,) = by_name["missing-reports"]["findings"]
    assert finding["objects"] == ["node/n2"]
    assert set(finding) == {"severity", "problem", "advice", "objects"}


def test_the_rights_are_those_of_the_manifests() -> None:
    rights = [*needed_rights("base"), *needed_rights("agent")]
    shown = {(right.account, right.shown) for right in rights}
    assert ("bayplan-scheduler", "create pods/binding") in shown
    assert ("bayplan-pod-grouper", "patch pods") in shown
    assert ("bayplan-agent", "patch noderesourcetopologies.topology.node.k8s.io") in shown
    assert BINDING.user == "system:serviceaccount:bayplan-system:bayplan-scheduler"
    (lease,) = [
        each
        for each in rights
        if each.account == "bayplan-scheduler" and each.shown == "update leases.coordination.k8s.io"
    ]
    assert (lease.namespace, lease.name) == ("bayplan-system", "bayplan")
