"""Commands on a cluster that runs: one object that makes no sense is a warning, and everybody else gets an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bayplan.kube.client import live as kube_live
from bayplan.kube.client.access import Access
from bayplan.kube.files import read_objects
from bayplan.kube.json_text import decode
from bayplan.kube.object_set import ObjectSet
from bayplan.kube.priority_classes import PriorityClass
from bayplan.kube.wire.core_v1 import LimitRange, Metadata, ResourceQuota
from tests.builders.kubeconfigs import kubeconfig
from tests.unit.cli.conftest import EXAMPLES, Bayplan

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
---
"""
REPORT = """
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: %s}
attributes: [{name: topologyManagerPolicy, value: single-numa-node}]
zones: [{name: node-0, type: Node, resources: [{name: cpu, capacity: 8, allocatable: 8, available: "%s"}]}]
---
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: telco}
spec:
  schedulerName: bayplan
  containers: [{name: c, resources: {requests: {cpu: "%s", memory: 1Gi}, limits: {cpu: "%s", memory: 1Gi}}}]
---
"""
CLUSTER = NODE % "good" + NODE % "bad" + REPORT % ("good", 8) + REPORT % ("bad", -1)

LISTS_NOBODY = '{name: bayplan.io/pods, value: "{}"}'
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: telco}
spec: {hard: {pods: "1"}}
status: {hard: {pods: "1"}, used: {pods: "1"}}
---
"""
Live = Callable[[str], None]
NamespaceLimits = tuple[list[LimitRange], list[ResourceQuota], list[str]]


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Live:
    """`live(objects)`: what the cluster that the kubeconfig names has."""

    def serve(written: str) -> None:
        file = tmp_path / "objects.yaml"
        file.write_text(written)

        async def read_cluster(_: Access) -> tuple[ObjectSet, list[str]]:
            found = read_objects(file)
            found.files.clear()
            return found, []

        async def read_namespace_limits(_: Access, namespaces: Sequence[str]) -> NamespaceLimits:
            quotas = [decode(each.document, ResourceQuota) for each in read_objects(file).others]
            return [], [each for each in quotas if each.metadata.namespace in namespaces], ["limits of namespace x"]

        monkeypatch.setattr(kube_live, "read_cluster", read_cluster)
        monkeypatch.setattr(kube_live, "read_namespace_limits", read_namespace_limits)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config")))

    return serve


def test_new_pods_are_judged_by_the_quotas_of_their_namespace(bayplan: Bayplan, live: Live, tmp_path: Path) -> None:
    live(NODE % "n1" + QUOTA)
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace("name: c,", "name: c, image: i,") % ("new", 1, 1))
    result = bayplan("place", "-f", file, cluster=None)
    assert result.code == 1
    assert result.answer == (
        "telco/new is not placed: it would be refused by the API server: "
        "exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1."
    )
    assert "warning: not used: limits of namespace x\n" in result.err


class TestOneBadObject:
    BAD_REPORT = 'NodeResourceTopology bad: zones[0].resources[0].available: "-1" is negative'

    def test_why_answers_for_the_others(self, bayplan: Bayplan, live: Live) -> None:
        live(CLUSTER + POD % ("waits", 2, 2))
        result = bayplan("why", "telco/waits", cluster=None)
        assert (result.code, "good" in result.answer) == (0, True)
        assert result.err.startswith(f"warning: {self.BAD_REPORT}")

    def test_place_does(self, bayplan: Bayplan, live: Live) -> None:
        live(CLUSTER)
        result = bayplan("place", "-f", EXAMPLES / "pods", cluster=None)
        assert result.code in (0, 1)
        assert result.err.startswith(f"warning: {self.BAD_REPORT}")

    def test_numa_draws_another_node_and_says_why_it_cannot_draw_this_one(self, bayplan: Bayplan, live: Live) -> None:
        live(CLUSTER)
        assert bayplan("numa", "good", cluster=None).code == 0
        result = bayplan("numa", "bad", cluster=None)
        assert result.code == 2
        assert result.err.endswith("error: Node bad: reports no usable NUMA zones\n")

    def test_the_node_is_not_one_without_a_report(self, bayplan: Bayplan, live: Live) -> None:
        live(CLUSTER + POD % ("waits", 2, 2))
        result = bayplan("why", "telco/waits", "--node", "bad", cluster=None)
        assert result.code == 1
        assert "invalid node topology data" in result.out

    @pytest.mark.parametrize(
        "bad",
        [
            (NODE % "odd").replace('"8"', "a lot"),
            POD % ("odd", "1x", "1x") + "",
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: odd}\nspec: {levels: []}\n---\n",
        ],
        ids=["a node", "a pod", "a topology"],
    )
    def test_of_any_kind(self, bayplan: Bayplan, live: Live, bad: str) -> None:
        live(NODE % "good" + bad.replace("spec:\n", "spec:\n  nodeName: good\n") + POD % ("waits", 2, 2))
        result = bayplan("why", "telco/waits", cluster=None)
        assert (result.code, "good" in result.answer) == (0, True)

    def test_a_dump_answers_as_the_cluster_does_and_names_the_file(self, bayplan: Bayplan, tmp_path: Path) -> None:
        (tmp_path / "dump.yaml").write_text(CLUSTER + POD % ("waits", 2, 2))
        result = bayplan("why", "telco/waits", cluster=tmp_path)
        assert (result.code, "good" in result.answer) == (0, True)
        assert re.match(
            r"warning: NodeResourceTopology bad \(.*dump\.yaml:\d+:\d+\): zones\[0\]\.resources\[0\]", result.err
        )


class TestTheAnswerIsTheSchedulers:
    def test_a_pod_missing_in_the_report_makes_the_node_wait_for_the_next_one(
        self, bayplan: Bayplan, live: Live
    ) -> None:
        listing = (REPORT % ("good", 8)).replace(
            "value: single-numa-node}", "value: single-numa-node}, " + LISTS_NOBODY
        )
        foreign = (POD % ("foreign", 2, 2)).replace("schedulerName: bayplan", "nodeName: good")
        live(NODE % "good" + listing + foreign + POD % ("waits", 2, 2))
        result = bayplan("why", "telco/waits", cluster=None)
        assert result.code == 1
        assert "not fresh" in result.out

    def test_a_class_that_the_cluster_does_not_have_is_an_error_in_a_submitted_file(
        self, bayplan: Bayplan, live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        async def read_priority_classes(_: Access) -> list[PriorityClass]:
            return [PriorityClass(metadata=Metadata(name="high"), value=100)]

        monkeypatch.setattr(kube_live, "read_priority_classes", read_priority_classes)
        live(NODE % "good")
        file = tmp_path / "pod.yaml"
        for name, code in (("high", 0), ("hihg", 2)):
            of_class = (POD % ("upf", 2, 2)).replace("spec:", f"spec:\n  priorityClassName: {name}")
            file.write_text(of_class.replace("name: c,", "name: c, image: example.com/none,"))
            result = bayplan("place", "-f", file, cluster=None)
            assert (result.code, "there is no PriorityClass" in result.err) == (code, code == 2)

    def test_a_pod_of_an_unknown_scheduler_gets_a_message(self, bayplan: Bayplan, live: Live) -> None:
        live(CLUSTER + (POD % ("waits", 2, 2)).replace("schedulerName: bayplan", "schedulerName: another"))
        result = bayplan("why", "telco/waits", cluster=None)
        assert result.code == 0
        assert 'Pod telco/waits: spec.schedulerName: "another" is not one of bayplan' in result.err

    def test_so_is_a_gang_that_waits_for_such_a_pod(self, bayplan: Bayplan, live: Live) -> None:
        group = (
            "apiVersion: bayplan.io/v1alpha1\nkind: PodGroup\nmetadata: {name: train, namespace: "
            "telco}\nspec: {size: 2}\n---\n"
        )
        member = POD.replace("namespace: telco", "namespace: telco, labels: {bayplan.io/pod-group: train}")
        other = (member % ("b", 2, 2)).replace("schedulerName: bayplan", "schedulerName: another")
        live(NODE % "good" + group + member % ("a", 2, 2) + other)
        result = bayplan("why", "podgroup/train", "-n", "telco", cluster=None)
        assert result.code == 1
        assert 'the schedulerName of pod telco/b ("another") is another one' in result.out


def test_pods_of_a_drained_node_are_judged_regardless_of_their_scheduler(bayplan: Bayplan, live: Live) -> None:
    pod = (POD % ("web", 2, 2)).replace("schedulerName: bayplan", "schedulerName: default-scheduler\n  nodeName: %s")
    live(NODE % "good" + NODE % "other" + pod % "other")
    result = bayplan("why", "telco/web", "--without-node", "other", cluster=None)
    assert result.answer.startswith("telco/web is Pending: it fits now on good;")
    assert "does not schedule it" not in result.err
    overview = bayplan("why", "-A", "--without-node", "other", cluster=None)
    assert overview.answer == "the pod of drained nodes has another place; 1 fits now"
