"""Every block of the five design documents as an input, with the outcome that its document promises.

The blocks are in `tests/documents`. `tests/kubernetes/test_documents.py` applies the RBAC blocks to a real API server.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from bayplan.services.agent.sources import podresources_pb2 as wire
from tests.builders.bodies import Json, list_body
from tests.builders.objects import GPU
from tests.documents import FOLDER, block, blocks, json_names
from tests.unit.cli.conftest import Bayplan


def write(path: Path, *items: Json) -> Path:
    path.write_text(json.dumps(list_body(items)))
    return path


def node_body(name: str, amounts: Json, labels: dict[str, str] | None = None) -> Json:
    metadata = {"name": name, "labels": labels or {}}
    allocatable = {"pods": 110, **amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def pod_body(name: str, limits: Json, **more: Any) -> Json:
    container = {"name": "main", "image": "example", "resources": {"limits": limits}}
    metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **more}}


def configuration(folder: Path, **profile: Any) -> Path:
    """A KubeSchedulerConfiguration with one profile."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**kind, "profiles": [{"schedulerName": "example", **profile}]}))
    return path


def test_blocks_are_those_of_the_documents(request: pytest.FixtureRequest) -> None:
    folder = request.config.getoption("--documents", default=None)
    if not folder:
        pytest.skip("needs --documents DIR")
    originals = [each.read_text() for each in Path(folder).iterdir() if each.is_file()]
    changed = [path for path in blocks() if not any(path.read_text() in original for original in originals)]
    assert len(blocks()) > 10
    assert changed == []


class TestTopologyAwareScheduling:
    """KEP-119: the NodeResourceTopology of its Go types, with lists, and its policy names."""

    GO = block("topology-aware-scheduling/node-resource-topology.go")
    POLICIES = block("topology-aware-scheduling/policies.txt").rstrip(".\n").partition(": ")[2].split(", ")

    def report(self, policy: str) -> Json:
        """An object with every field of the types.

        The daemon has subtracted what pods use: allocatable is what is left.
        """
        sizes = {"node-0": (4, 8), "node-1": (8, 8)}
        zones = [
            {
                "name": name,
                "type": "Node",
                "parent": "socket-0",
                "costs": [{"name": other, "value": 10 if other == name else 20} for other in sizes],
                "attributes": [{"name": "vendor", "value": "example"}],
                "resources": [{"name": "cpu", "allocatable": left, "capacity": str(size)}],
            }
            for name, (left, size) in sizes.items()
        ]
        kind = {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology"}
        return {**kind, "metadata": {"name": "worker"}, "topologyPolicies": [policy], "zones": zones}

    def cluster(self, tmp_path: Path, policy: str) -> Path:
        """4 and 8 CPUs are free; a pod holds the other 4."""
        bound = pod_body("bound", {"cpu": 4, "memory": "1Gi"}, nodeName="worker")
        return write(
            tmp_path / "c.json", node_body("worker", {"cpu": 16, "memory": "32Gi"}), bound, self.report(policy)
        )

    def test_the_report_has_every_field_of_the_types(self) -> None:
        report = self.report("None")
        (zone, *_) = report["zones"]
        assert set(json_names(self.GO, "NodeResourceTopology")) <= report.keys()
        for struct, written in (
            ("Zone", zone),
            ("ResourceInfo", zone["resources"][0]),
            ("CostInfo", zone["costs"][0]),
            ("AttributeInfo", zone["attributes"][0]),
        ):
            assert set(json_names(self.GO, struct)) == written.keys(), struct

    def test_the_document_names_four_policies(self) -> None:
        assert self.POLICIES == ["None", "BestEffort", "Restricted", "SingleNumaNode"]

    @pytest.mark.parametrize(
        "policy, known_as", [*zip(POLICIES, ["none", "best-effort", "restricted", "single-numa-node"], strict=True)]
    )
    def test_a_policy_means_what_it_says(self, bayplan: Bayplan, tmp_path: Path, policy: str, known_as: str) -> None:
        """9 CPUs fit into no zone and into both together: only SingleNumaNode refuses that."""
        cluster = self.cluster(tmp_path, policy)
        pod = write(tmp_path / "pod.json", pod_body("nine", {"cpu": 9, "memory": "1Gi"}))
        assert json.loads(bayplan("numa", "worker", "-o", "json", cluster=cluster).out)["policy"] == known_as
        placed = bayplan("place", "-f", pod, cluster=cluster)
        assert (placed.code, placed.err) == (1 if policy == "SingleNumaNode" else 0, "")

    def test_what_the_daemon_has_subtracted_is_not_subtracted_again(self, bayplan: Bayplan, tmp_path: Path) -> None:
        drawn = json.loads(bayplan("numa", "worker", "-o", "json", cluster=self.cluster(tmp_path, "Restricted")).out)
        assert [zone["resources"]["cpu"]["available"] for zone in drawn["zones"]] == ["4", "8"]
        assert [zone["distances"] for zone in drawn["zones"]] == [[10, 20], [20, 10]]


class TestExposingNodeResources:
    """The daemon's document: the same object with maps, and the podresources protocol."""

    GO = block("exposing-node-resources/node-resource-topology.go")

    REPORT: ClassVar[Json] = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "worker"},
        "topologyPolicies": ["SingleNumaNode"],
        "zones": {
            name: {
                "type": "Node",
                "parent": "socket-0",
                "costs": {"node-0": 10 if name == "node-0" else 20, "node-1": 20 if name == "node-0" else 10},
                "attributes": {"rank": 1},
                "resources": {"cpu": {"allocatable": left, "capacity": "8"}},
            }
            for name, left in (("node-0", "4"), ("node-1", "8"))
        },
    }

    def test_the_report_has_every_field_of_the_types(self) -> None:
        zone = self.REPORT["zones"]["node-0"]
        assert set(json_names(self.GO, "NodeResourceTopology")) <= self.REPORT.keys()
        assert set(json_names(self.GO, "Zone")) == zone.keys()
        assert set(json_names(self.GO, "ResourceInfo")) == zone["resources"]["cpu"].keys()

    def test_maps_say_the_same_as_lists(self, bayplan: Bayplan, tmp_path: Path) -> None:
        worker = node_body("worker", {"cpu": 16, "memory": "32Gi"})
        bound = pod_body("bound", {"cpu": 4, "memory": "1Gi"}, nodeName="worker")
        listed = TestTopologyAwareScheduling().report("SingleNumaNode")
        drawn = []
        for name, report in (("maps", self.REPORT), ("lists", listed)):
            result = bayplan("numa", "worker", cluster=write(tmp_path / f"{name}.json", worker, bound, report))
            assert (result.code, result.err) == (0, "")
            drawn.append(result.out)
        assert drawn[0] == drawn[1]

    @pytest.mark.parametrize(
        "message, ours",
        [
            ("ListPodResourcesRequest", wire.ListPodResourcesRequest),
            ("ListPodResourcesResponse", wire.ListPodResourcesResponse),
            ("AvailableResourcesRequest", wire.AllocatableResourcesRequest),
            ("AvailableResourcesResponse", wire.AllocatableResourcesResponse),
            ("ContainerDevices", wire.ContainerDevices),
        ],
    )
    def test_the_agent_speaks_the_protocol(self, message: str, ours: Any) -> None:
        """The kubelet called the second call GetAllocatableResources in the end; names and numbers of fields stayed."""
        proto = block("exposing-node-resources/podresources.proto")
        found = re.search(rf"message {message} \{{(.*?)\}}", proto, flags=re.DOTALL)
        assert found
        fields = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", found[1])}
        spoken = {field.name: field.number for field in ours.DESCRIPTOR.fields}
        assert fields.items() <= spoken.items()


class TestLeastNumaNodes:
    """KEP-454: "Suppose we have 2 candidate nodes after going through Filter phase"."""

    TEXT = block("least-numa-nodes/example.md")

    def node(self, number: int) -> tuple[list[int], list[list[int]]]:
        """What is free in each zone of one of the example's nodes, and its distances."""
        part = self.TEXT.partition(f"**Node {number}**")[2].partition("**Node")[0]
        cpus = re.search(r"\| cpu +\|(.*)\|", part)
        assert cpus
        rows = re.findall(r"\| node\d \|([ \d|]*)\|\n", part)
        return [int(each) for each in cpus[1].split("|")], [[int(each) for each in row.split("|")] for row in rows]

    def test_node_1_scores_82_and_node_2_scores_94(self, bayplan: Bayplan, tmp_path: Path) -> None:
        objects: list[Json] = []
        for number in (1, 2):
            cpus, distances = self.node(number)
            name = f"node-{number}"
            zones = [
                {
                    "name": f"node-{zone}",
                    "type": "Node",
                    "costs": [{"name": f"node-{other}", "value": row[other]} for other in range(len(row))],
                    "resources": [{"name": "cpu", "capacity": 8, "allocatable": 8, "available": cpus[zone]}],
                }
                for zone, row in enumerate(distances)
            ]
            report = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
            attributes = [{"name": "topologyManagerPolicy", "value": "best-effort"}]
            objects.append({**report, "metadata": {"name": name}, "attributes": attributes, "zones": zones})
            objects.append(node_body(name, {"cpu": 16, "memory": "64Gi"}))
        assert "The pod consists of 2 containers each asking for 3 cpus." in self.TEXT
        pod = pod_body("example", {"cpu": 3, "memory": "1Gi"})
        pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "second"})
        plugin = "NodeResourceTopologyMatch"
        config = configuration(
            tmp_path,
            plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": plugin, "weight": 1}]}},
            pluginConfig=[{"name": plugin, "args": {"scoringStrategy": {"type": "LeastNUMANodes"}}}],
        )
        cluster = write(tmp_path / "cluster.json", *objects)
        waiting = write(tmp_path / "pod.json", pod)
        answer = bayplan("place", "-f", waiting, "--config", config, "-o", "json", cluster=cluster)
        (placement,) = json.loads(answer.out)["items"]
        scores = {each["node"]: each["score"] for each in placement["ranking"]}
        assert scores == {"node-1": 82, "node-2": 94}
        assert placement["node"] == "node-2"


class TestVolcanoNumaAware:
    """Volcano: policies of tasks. Formula and example of the score are in `test_volcano_numa_aware.py`."""

    POLICIES = re.findall(r"\d\. (\S+)", block("volcano-numa-aware/policies.txt"))

    def job(self, tasks: list[Json], name: str) -> Json:
        """A Job around tasks; `name` is what the field is called."""
        container = {"name": "main", "image": "example", "resources": {"limits": {"cpu": 4, "memory": "1Gi"}}}
        made = [{**task, "template": {"spec": {"containers": [container]}}} for task in tasks]
        spec = {"minAvailable": len(made), "schedulerName": "volcano", name: made}
        kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
        return {**kind, "metadata": {"name": "example", "namespace": "default"}, "spec": spec}

    @property
    def tasks(self) -> list[Json]:
        found: list[Json] = yaml.safe_load(block("volcano-numa-aware/task.yaml").replace("    ...\n", ""))["task"]
        return found

    def cluster(self, tmp_path: Path, policy: str) -> Path:
        """A node with 2 and 2 CPUs free in two zones."""
        zones = [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "resources": [{"name": "cpu", "capacity": 4, "allocatable": 4, "available": 2}],
            }
            for zone in range(2)
        ]
        report = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
        attributes = [{"name": "topologyManagerPolicy", "value": policy}]
        written = {**report, "metadata": {"name": "worker"}, "attributes": attributes, "zones": zones}
        return write(tmp_path / "c.json", node_body("worker", {"cpu": 8, "memory": "32Gi"}), written)

    def test_the_documents_word_for_tasks_is_not_lost_in_silence(self, bayplan: Bayplan, tmp_path: Path) -> None:
        """Volcano's own field is `tasks`; the document writes `task`."""
        job = write(tmp_path / "job.json", self.job(self.tasks, "task"))
        result = bayplan("place", "-f", job, cluster=self.cluster(tmp_path, "none"))
        assert result.code != 0
        assert "spec.task: unknown field; did you mean tasks?" in result.out + result.err

    def test_each_task_keeps_its_policy(self, bayplan: Bayplan, tmp_path: Path) -> None:
        """The document's predicates: single-numa-node and best-effort both want a node of the same policy, and only the
        first one zone.
        """
        config = configuration(tmp_path, plugins={"multiPoint": {"enabled": [{"name": "numa-aware"}]}})
        assert [task["topologyPolicy"] for task in self.tasks] == ["single-numa-node", "best-effort"]
        for task in self.tasks:
            job = write(tmp_path / "job.json", self.job([task], "tasks"))
            for kubelet in ("none", task["topologyPolicy"]):
                result = bayplan("place", "-f", job, "--config", config, cluster=self.cluster(tmp_path, kubelet))
                spans = task["topologyPolicy"] != "single-numa-node"
                assert result.code == (0 if kubelet != "none" and spans else 1), (task, kubelet, result.out)

    @pytest.mark.parametrize("policy", POLICIES)
    def test_every_policy_of_the_list_is_known(self, bayplan: Bayplan, tmp_path: Path, policy: str) -> None:
        """4 CPUs, 2 free in each of two zones, on a node of the same policy: restricted needs them in one zone, which
        could hold them.
        """
        job = write(tmp_path / "job.json", self.job([{**self.tasks[0], "topologyPolicy": policy}], "tasks"))
        result = bayplan("place", "-f", job, cluster=self.cluster(tmp_path, policy))
        assert result.err == ""
        assert result.code == (1 if policy in ("single-numa-node", "restricted") else 0), result.out

    def test_the_list_has_four_policies(self) -> None:
        assert self.POLICIES == ["single-numa-node", "best-effort", "restricted", "none"]


class TestKaiTopologyAwareScheduling:
    """KAI: the tree of 12 nodes, the annotated Job, and the PodGroup's fields."""

    LEVELS = ("datacenter", "zone", "rack")
    # The document knows nothing of NUMA zones. There is no other warning: every field and annotation is understood.
    NO_REPORTS = "warning: the dump has no NodeResourceTopology: NUMA zones are unknown on every node\n"
    TREE = block("kai-topology-aware-scheduling/tree.mermaid")
    GPUS: ClassVar = {name: int(number) for name, number in re.findall(r"\[([\w-]+): (\d+) GPUs\]", TREE)}

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Path:
        """The nodes of the picture, each with the labels of all domains above it, and Kueue's
        Topology called network.
        """
        names = dict(re.findall(r"(\w+)\[([\w-]+):", self.TREE))
        parents = {below: above for above, below in re.findall(r"(\w+)(?:\[[^\]]*\])? --> (\w+)", self.TREE)}
        objects = []
        for short in names.keys() - set(parents.values()):
            rack = parents[short]
            above = (names[parents[parents[rack]]], names[parents[rack]], names[rack])
            labels = {f"example.com/{level}": name for level, name in zip(self.LEVELS, above, strict=True)}
            name = names[short].lower()
            amounts = {"cpu": 64, "memory": "256Gi", GPU: self.GPUS[names[short]]}
            objects.append(node_body(name, amounts, {**labels, "kubernetes.io/hostname": name}))
        assert len(objects) == 12
        labels_above = [{"nodeLabel": f"example.com/{level}"} for level in self.LEVELS]
        spec = {"levels": [*labels_above, {"nodeLabel": "kubernetes.io/hostname"}]}
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology"}
        return write(tmp_path / "cluster.json", *objects, {**kind, "metadata": {"name": "network"}, "spec": spec})

    def job(self, pods: int, folder: Path, gpus: int = 2) -> Path:
        """The document's Job with so many pods of some GPUs."""
        limits = {"cpu": 1, "memory": "1Gi", GPU: gpus}
        container = {"name": "main", "image": "example", "resources": {"limits": limits}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"parallelism": pods, "completions": pods, "template": template}
        return write(
            folder / "job.json", {**yaml.safe_load(block("kai-topology-aware-scheduling/job.yaml")), "spec": spec}
        )

    def domains(self, document: Json) -> dict[str, Json]:
        """All domains of a topology by the last part of their path."""
        found: dict[str, Json] = {}

        def add(domains: list[Json]) -> None:
            for domain in domains:
                found[domain["path"][-1]] = domain
                add(domain.get("domains", []))

        add(document["domains"])
        return found

    def test_every_domain_has_the_gpus_of_the_picture(self, bayplan: Bayplan, cluster: Path) -> None:
        document = json.loads(bayplan("topology", "network", "--level", "node", "-o", "json", cluster=cluster).out)
        found = {name: int(domain["free"][GPU]) for name, domain in self.domains(document).items()}
        assert found == {name.lower() if name.startswith("Node") else name: n for name, n in self.GPUS.items()}

    @pytest.mark.parametrize(
        "origin, target, distance",
        [
            pytest.param("node-c1", "node-c2", 2, id="the distance from node NC1 to NC2 is 2"),
            pytest.param("node-a1", "Rack-B1", 5, id="the distance between RB1 to NA1 is 5"),
        ],
    )
    def test_distances(self, bayplan: Bayplan, cluster: Path, origin: str, target: str, distance: int) -> None:
        answer = bayplan("topology", "--level", "node", "--distance", origin, "-o", "json", cluster=cluster)
        assert self.domains(json.loads(answer.out))[target]["distance"] == distance

    @pytest.mark.parametrize(
        "pods, racks",
        [
            pytest.param(3, 1, id="the preferred rack holds all"),
            pytest.param(4, 1, id="only Rack-B1 holds four"),
            pytest.param(8, 3, id="no rack holds them: all racks of the required zone"),
        ],
    )
    def test_the_annotated_job_stays_in_a_zone_and_if_possible_in_a_rack(
        self, bayplan: Bayplan, cluster: Path, tmp_path: Path, pods: int, racks: int
    ) -> None:
        answer = bayplan("place", "-f", self.job(pods, tmp_path), "-o", "json", cluster=cluster)
        assert (answer.code, answer.err) == (0, self.NO_REPORTS)
        (gang,) = json.loads(answer.out)["gangs"]
        paths = [tuple(seat["domain"]) for seat in gang["seats"]]
        assert len(paths) == pods
        assert len({path[:2] for path in paths}) == 1
        assert len(set(paths)) == racks

    @pytest.mark.parametrize("pods, racks, nodes, distance", [(7, 1, 2, 1.143), (9, 2, 3, 1.778)])
    def test_pods_that_need_several_nodes_are_close_to_each_other(
        self, bayplan: Bayplan, cluster: Path, tmp_path: Path, pods: int, racks: int, nodes: int, distance: float
    ) -> None:
        answer = bayplan("place", "-f", self.job(pods, tmp_path, gpus=1), "-o", "json", cluster=cluster)
        (gang,) = json.loads(answer.out)["gangs"]
        used = [len({str(seat[key]) for seat in gang["seats"]}) for key in ("domain", "node")]
        assert (*used, gang["distance"]["mean"]) == (racks, nodes, distance)

    def test_a_job_that_no_zone_holds_is_refused_with_the_proof(
        self, bayplan: Bayplan, cluster: Path, tmp_path: Path
    ) -> None:
        answer = bayplan("place", "-f", self.job(9, tmp_path), cluster=cluster)
        assert answer.code == 1
        assert answer.answer.endswith("does not fit: the gang needs 9 slots in one zone, but can get at most 8.")

    def test_the_block_alone_names_what_the_api_server_misses(self, bayplan: Bayplan, cluster: Path) -> None:
        answer = bayplan("place", "-f", FOLDER / "kai-topology-aware-scheduling/job.yaml", cluster=cluster)
        assert answer.code == 2
        assert "Job default/topology-aware-job" in answer.err
        assert "spec.template.spec: is missing" in answer.err

    def test_the_pod_group_is_read_by_the_documents_own_names(
        self, bayplan: Bayplan, cluster: Path, tmp_path: Path
    ) -> None:
        go = block("kai-topology-aware-scheduling/topology-constraint.go")
        (field,) = json_names(go, "PodGroupSpec")
        names = json_names(go, "TopologyConstraint")
        assert (field, names) == (
            "topologyConstraints",
            ["preferredTopologyLevel", "requiredTopologyLevel", "topology"],
        )
        spec = {"minMember": 4, field: dict(zip(names, ("rack", "zone", "network"), strict=True))}
        kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
        group = {**kind, "metadata": {"name": "train", "namespace": "default"}, "spec": spec}
        annotated = {"annotations": {"pod-group-name": "train"}}
        limits = {"cpu": 1, "memory": "1Gi", GPU: 2}
        members = [pod_body(f"train-{number}", limits, metadata=annotated) for number in range(4)]
        work = write(tmp_path / "work.json", group, *members)
        answer = bayplan("place", "-f", work, "-o", "json", cluster=cluster)
        assert (answer.code, answer.err) == (0, self.NO_REPORTS)
        (gang,) = json.loads(answer.out)["gangs"]
        assert {tuple(seat["domain"]) for seat in gang["seats"]} == {("Datacenter", "Zone-B", "Rack-B1")}
