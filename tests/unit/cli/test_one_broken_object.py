"""One broken object of any kind stops no command and no screen for all others.

Each case is a kind of object. Each example of it is spoiled in every field, each time with something else that it must
not be.
All results lie in one dump beside a good cluster, together with pods that refer to them. Whatever the command: it
answers about the good objects what it answers without the broken ones, and it gives no warning twice.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from bayplan.cli.web_answers.answers import ClusterAnswers
from bayplan.cli.web_answers.scene import Scene
from bayplan.kube.files import read_objects
from bayplan.services.web.answers import Question
from tests.builders.bodies import list_body, pod_body
from tests.fuzz.corpus import MEMBERSHIP, by_kind, documents
from tests.unit.cli.conftest import EXAMPLES, Bayplan
from tests.unit.cli.web_answers.test_live_scene import opened

Json = Any
Field = tuple[str | int, ...]
ABSENT = object()
WRONG = (None, -1, "", "\x1b[31m", 2**63, 10**30, 1e30, [None], {"": None}, ABSENT)
TENANT = "evil"
SIZE = {"storage": "1Gi"}
SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}

# Kinds without an example, and one whose examples all ask for gangs; without their metadata.
MORE: dict[tuple[str, str], Json] = {
    ("v1", "PersistentVolumeClaim"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}, "storageClassName": "fast"},
        "status": {"phase": "Pending"},
    },
    ("v1", "PersistentVolume"): {
        "spec": {
            "capacity": SIZE,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": SELECTOR["matchExpressions"]}]}},
            "csi": {"driver": "d", "volumeHandle": "h"},
        }
    },
    ("storage.k8s.io/v1", "StorageClass"): {
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}],
    },
    ("storage.k8s.io/v1", "CSINode"): {
        "spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["a"], "allocatable": {"count": 3}}]}
    },
    ("storage.k8s.io/v1", "CSIDriver"): {"spec": {"storageCapacity": True}},
    ("storage.k8s.io/v1", "CSIStorageCapacity"): {
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"a": "b"}},
        "capacity": "1Gi",
        "maximumVolumeSize": "1Gi",
    },
    ("policy/v1", "PodDisruptionBudget"): {
        "spec": {"minAvailable": 1, "selector": SELECTOR},
        "status": {"disruptionsAllowed": 0, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
    },
    ("scheduling.k8s.io/v1", "PriorityClass"): {"value": 5, "globalDefault": False, "preemptionPolicy": "Never"},
    ("v1", "ConfigMap"): {"data": {"a": "b"}},
    ("v1", "Namespace"): {"status": {"phase": "Active"}},
    ("batch/v1", "Job"): {"spec": {"parallelism": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}},
    ("apps/v1", "ReplicaSet"): {"spec": {"replicas": 1, "selector": SELECTOR}},
}
# Several good ones of these ask which is meant.
ONE_OF_A_KIND = ("Topology",)
# Those that are still valid add room, so that good pods go elsewhere.
ROOM = "Node"


# Their answers are the same whatever lies beside.
ABOUT_GOOD_ONES: tuple[tuple[str, ...], ...] = (
    ("why", "telco/upf-0"),
    ("why", "-n", "telco"),
    ("place", "-f", f"{EXAMPLES}/dialects/kueue-pods.yaml"),
    ("numa", "telco-1"),
)
ABOUT_ALL: tuple[tuple[str, ...], ...] = (
    ("why", "-A"),
    ("nodes",),
    ("topology", "network"),
    ("slots", "--requests", "cpu=1", "--pods", "2", "--topology", "network"),
)
SCREENS = ("cluster", "map", "nodes", "topology", "gangs", "waiting")


def good() -> list[Json]:
    return list(documents("cluster/*.yaml", "gangs/cluster.yaml", "gangs/pretrain.yaml", "pods/*.yaml"))


def specimens() -> dict[tuple[str, str], list[Json]]:
    """Examples of each kind, with every field that any example has."""
    found = {kind: telling(items) for kind, items in by_kind().items()}
    for (version, kind), body in MORE.items():
        metadata = {"name": "x", "namespace": TENANT, "labels": {"a": "b"}}
        found.setdefault((version, kind), []).append(
            {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
        )
    return found


def telling(examples: Iterable[Json]) -> list[Json]:
    """The largest examples, and those with a field that no larger one has."""
    chosen: dict[Field, Json] = {}
    for each in sorted(examples, key=lambda each: len(json.dumps(each)), reverse=True):
        for field in fields(each):
            chosen.setdefault(field, each)
    return list({id(each): each for each in chosen.values()}.values())


def fields(content: Json, at: Field = ()) -> Iterator[Field]:
    """The paths of an object; of lists, and of mappings by number, those of the first item."""
    items: Any = list(content.items() if isinstance(content, dict) else enumerate(content))
    for key, value in [each for each in items if not str(each[0]).isdecimal()] or items[:1]:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from fields(value, (*at, key))


def spoiled(examples: Iterable[Json]) -> Iterator[Json]:
    """The objects with one wrong field, again and again."""
    cases = ((each, path, wrong) for each in examples for path in fields(each) for wrong in WRONG)
    for number, (example, path, wrong) in enumerate(cases):
        if path[0] in ("apiVersion", "kind") or path == ("metadata", "name"):
            continue
        broken = copy.deepcopy(example)
        broken["metadata"] |= {"name": f"broken-{number}", "namespace": TENANT, "uid": f"uid-{number}"}
        if "nodeName" in broken.get("spec", {}):
            broken["spec"]["nodeName"] = "elsewhere"  # these take no room of the good ones
        around = broken
        for key in path[:-1]:
            around = around[key]
        if wrong is ABSENT:
            del around[path[-1]]
        else:
            around[path[-1]] = wrong
        yield broken


def pod_of(thing: Json) -> list[Json]:
    """A pod that refers to an object, if pods do."""
    metadata, version, kind = thing.get("metadata"), thing["apiVersion"], thing["kind"]
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        return []
    pod = pod_body(f"of-{name}", TENANT, {"cpu": "1"})
    field, key = MEMBERSHIP.get(version.partition("/")[0], ("", ""))
    match kind:
        case "PodGroup" if field:
            pod["metadata"][field] = {key: name}
        case "PodGroup":
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        case "PersistentVolumeClaim":
            pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        case "PriorityClass":
            pod["spec"]["priorityClassName"] = name
        case "Pod" | "Node":
            return []
        case _:
            owner = {"apiVersion": version, "kind": kind, "name": name, "uid": metadata.get("uid"), "controller": True}
            pod["metadata"]["ownerReferences"] = [owner]
    return [pod]


def cluster_with(folder: Path, kind: tuple[str, str]) -> Path:
    broken = list(spoiled(specimens()[kind]))
    if kind[1] in ONE_OF_A_KIND:
        good_ones = [each["spec"] for each in specimens()[kind]]
        broken = [each for each in broken if each.get("spec") in good_ones]
    return written(folder / "beside.json", [each for one in broken for each in (one, *pod_of(one))])


def written(file: Path, beside: list[Json]) -> Path:
    file.write_text(json.dumps(list_body([*good(), *beside])))
    return file


KINDS = sorted(specimens())


@pytest.mark.parametrize("kind", KINDS, ids=["/".join(kind) for kind in KINDS])
def test_every_command_answers_beside_broken_objects(bayplan: Bayplan, tmp_path: Path, kind: tuple[str, str]) -> None:
    alone, beside = written(tmp_path / "alone.json", []), cluster_with(tmp_path, kind)
    for words in (*ABOUT_GOOD_ONES, *ABOUT_ALL):
        result = bayplan(*words, cluster=beside)
        assert result.code in (0, 1), (words, result.err[-500:])
        assert "internal error" not in result.out + result.err, words
        warnings = result.err.splitlines()
        assert len(warnings) == len(set(warnings)), words
        if words in ABOUT_GOOD_ONES and kind[1] != ROOM:
            assert result.answer == bayplan(*words, cluster=alone).answer


@pytest.mark.parametrize("kind", KINDS, ids=["/".join(kind) for kind in KINDS])
def test_every_screen_is_shown_beside_broken_objects(tmp_path: Path, kind: tuple[str, str]) -> None:
    scene = Scene(read_objects(cluster_with(tmp_path, kind)), opened)
    answers = ClusterAnswers(click.Context(click.Command("web")), scene)
    for screen in SCREENS:
        assert answers.answer(Question(screen, (("topology", "network"),)))
    why = answers.answer(Question("why", (("kind", "pod"), ("name", "upf-0"), ("namespace", "telco"))))
    assert why["pod"] == "telco/upf-0"
