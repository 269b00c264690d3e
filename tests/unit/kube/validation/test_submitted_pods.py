"""Mistakes that people make in manifests, each with the field and the sentence that names it.

`tests/kubernetes/test_strict_pods.py` holds the rules to an API server.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.kube.errors import InvalidObject, InvalidObjects, ObjectPath
from bayplan.kube.files import Strictness, read_objects
from bayplan.kube.validation.pod import template_faults

AMOUNTS = "resources: {requests: {%s}, limits: {%s}}"


def pod(spec: str = "", container: str = "", head: str = "apiVersion: v1", metadata: str = "name: p") -> str:
    """A pod with one container; the arguments are written into it."""
    containers = f"containers: [{{name: c, image: i, {container}}}]"
    return f"{head}\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{{spec}{containers}}}\n"


def told(text: str, tmp_path: Path, strictness: Strictness = Strictness.STRICT) -> list[str]:
    """What is wrong with a manifest, without object and file."""
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    try:
        read_objects(file, strictness)
    except InvalidObjects as error:
        return [f"{fault.at.field}: {fault.problem}" for fault in error.faults]
    return []


C = "spec.containers[0]"


@pytest.mark.parametrize(
    "text, message",
    [
        (pod(container="resources: {limit: {cpu: 1}}"), f"{C}.resources.limit: unknown field; did you mean limits?"),
        (pod(spec="nodeselector: {a: b}, "), "spec.nodeselector: unknown field; did you mean nodeSelector?"),
        (pod(spec="toleration: [], "), "spec.toleration: unknown field; did you mean tolerations?"),
        (pod(head=""), "apiVersion: is missing: must be v1"),
        (pod(head="apiVersion: v2"), 'apiVersion: "v2" is not allowed: must be v1'),
        (pod(metadata="name: My_Pod"), 'metadata.name: "My_Pod" is not allowed: must consist of lowercase letters'),
        (pod(metadata="name: p, labels: {a b: c}"), 'metadata.labels: "a b" is not allowed'),
        (pod(metadata="name: p, labels: {a: b c}"),
         'metadata.labels["a"]: "b c" is not allowed: must be empty or consist'),
        (pod().replace("image: i, ", ""), f"{C}.image: is missing"),
        (pod(container="image: j"), f"{C}.image: appears twice"),
        (pod(spec="hostNetwork: yes please, "), 'spec.hostNetwork: "yes please" is not allowed: must be true or false'),
        (pod(spec="nodeName: 5, "), "spec.nodeName: 5 is not allowed: must be a string: put it in quotes"),
        (pod(container=AMOUNTS % ("cpu: 2", "cpu: 1")), f'{C}.resources.requests.cpu: "2" is above the limit of "1"'),
        (pod(container=AMOUNTS % ('cpu: "-1"', "cpu: 1")), f'{C}.resources.requests.cpu: "-1" is negative'),
        (pod(container=AMOUNTS % ("cpus: 1", "cpu: 1")),
         f'{C}.resources.requests.cpus: "cpus" is not allowed: must be cpu'),
        (pod(container=AMOUNTS % ("cpu: 1", "cpu: 1, x.y/gpu: 1.5")),
         "1500m\" is not allowed: x.y/gpu is counted in whole numbers"),
        (pod(container=AMOUNTS % ("x.y/gpu: 1", "x.y/gpu: 2")),
         f'{C}.resources.requests["x.y/gpu"]: "1" must equal the limit, which is "2"'),
        (pod(container="resources: {requests: {x.y/gpu: 1}}"), f'{C}.resources.limits["x.y/gpu"]: is missing'),
        (
            pod(container=AMOUNTS % (("cpu: 1, hugepages-2Mi: 3Mi",) * 2)),
            f'{C}.resources.limits.hugepages-2Mi: "3Mi" is not a multiple of the page size, 2Mi',
        ),
        (pod(container=AMOUNTS % (("hugepages-2Mi: 4Mi",) * 2)),
         f"{C}.resources: huge pages need cpu or memory beside them"),
        (pod(container="ports: [{containerPort: 70000}]"),
         f"{C}.ports[0].containerPort: 70000 is not allowed: must be 1 to 65535"),
        (pod(container="ports: [{containerPort: 1, protocol: tcp}]"),
         'protocol: "tcp" is not allowed: must be SCTP, TCP, UDP; did you mean TCP?'),
        (
            pod(container="ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: 9}]"),
            f'{C}.ports[1].hostPort: "9" appears twice',
        ),
        (pod(container="volumeMounts: [{name: v, mountPath: /v}]"), '"v" is not the name of a volume of this pod'),
        (pod(container="restartPolicy: Sometimes"), f'{C}.restartPolicy: "Sometimes" is not allowed: must be Always'),
        (pod(spec="initContainers: [{name: c, image: i}], "), 'spec.initContainers[0].name: "c" appears twice'),
        (pod(spec="initContainers: [{name: d, image: i, livenessProbe: {exec: {command: [a]}}}], "),
         "only allowed in an init container with restartPolicy Always"),
        (pod(spec="tolerations: [{key: a, operator: Exist}], "),
         'spec.tolerations[0].operator: "Exist" is not allowed: must be Equal, Exists; did you mean Exists?'),
        (pod(spec="tolerations: [{key: a, effect: NoRun}], "), 'spec.tolerations[0].effect: "NoRun" is not allowed'),
        (
            pod(spec="affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
                     "[{matchExpressions: [{key: a, operator: in, values: [b]}]}]}}}, "),
            ('matchExpressions[0].operator: "in" is not allowed: must be In, NotIn, Exists, DoesNotExist, Gt, Lt; did '
            'you mean In?'),
        ),
        (
            pod(spec="topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],"),
            "spec.topologySpreadConstraints[0].maxSkew: 0 is not allowed: must be 1 to 2147483647",
        ),
        (pod(spec="resources: {limits: {nvidia.com/gpu: 1}}, "),
         'spec.resources.limits["nvidia.com/gpu"]: "nvidia.com/gpu" is not allowed: a pod has cpu, memory'),
        (pod(spec="resources: {requests: {cpu: 1}}, ", container=AMOUNTS % ("cpu: 2", "cpu: 2")),
         'spec.resources.requests.cpu: "1" is below the sum of the containers, which is "2"'),
        (pod(spec="restartPolicy: always, "),
         'spec.restartPolicy: "always" is not allowed: must be Always, OnFailure, Never; did you mean Always?'),
    ],
    ids=lambda value: value[-60:] if isinstance(value, str) and "kind:" not in value else None,
)  # fmt: skip
def test_what_an_api_server_would_refuse_is_named_with_its_field(tmp_path: Path, text: str, message: str) -> None:
    assert any(message in each for each in told(text, tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        pod(),
        pod(container="resources: {limits: {cpu: 1, nvidia.com/gpu: 2}}"),
        pod(spec="tolerations: [{operator: Exists}], nodeSelector: null, "),
        pod(metadata="generateName: train-"),
        pod(container="resources: {requests: {cpu: ' 1 ', memory: null}}"),
        pod(container="volumeMounts: [{name: v, mountPath: /v}]", spec="volumes: [{name: v}], "),
        pod(spec="initContainers: [{name: s, image: i, restartPolicy: Always}], "),
    ],
)
def test_what_an_api_server_would_take_is_taken(tmp_path: Path, text: str) -> None:
    assert told(text, tmp_path) == []


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    assert told(pod(spec="nodeselector: {a: b}, hostNetwrk: true, "), tmp_path) == [
        "spec.nodeselector: unknown field; did you mean nodeSelector?",
        "spec.hostNetwrk: unknown field; did you mean hostNetwork?",
    ]


def test_fields_of_a_newer_kubernetes_can_be_let_through_and_values_cannot(tmp_path: Path) -> None:
    newer = pod(spec="newSetting: 5, ")
    assert told(newer, tmp_path, Strictness.WARN) == told(newer, tmp_path, Strictness.IGNORE) == []
    assert read_objects(tmp_path / "pod.yaml", Strictness.WARN).remarks == [
        f"Pod p ({tmp_path}/pod.yaml:4:8): spec.newSetting: unknown field"
    ]
    assert told(pod(spec="newSetting: 5, restartPolicy: No, "), tmp_path, Strictness.IGNORE)


def test_a_misspelt_spec_leaves_a_pod_without_containers(tmp_path: Path) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.containers: is empty: a pod needs at least one container"):
        told(pod().replace("spec:", "specs:", 1), tmp_path, Strictness.WARN)


def test_a_cluster_can_have_fields_of_a_newer_kubernetes_and_a_file_cannot(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    by_hand = pod(spec="newSetting: 5, nodeName: n, ")
    file.write_text(by_hand.replace("name: p", "name: p, uid: 9f86d081", 1))
    found = read_objects(file)
    assert [len(found.pods), found.left_out, found.remarks] == [1, [], []]
    file.write_text(by_hand)
    assert [len(read_objects(file).pods), read_objects(file).remarks] == [
        1,
        [f"Pod p ({file}:4:8): spec.newSetting: unknown field"],
    ]


def test_a_template_is_checked_at_its_own_place() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resource": {}}]}}
    (fault,) = template_faults(template, ObjectPath("Deployment web", "spec.template"))
    assert str(fault) == (
        "Deployment web: spec.template.spec.containers[0].resource: unknown field; did you mean resources?"
    )


@pytest.mark.parametrize(
    "kind, path",
    [
        ("apiVersion: apps/v1\nkind: Deployment", "template"),
        ("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet", "template"),
        ("apiVersion: example.com/v1\nkind: Own", "template"),
    ],
)
def test_the_templates_of_any_kind_are_checked(tmp_path: Path, kind: str, path: str) -> None:
    text = f"{kind}\nmetadata: {{name: w}}\nspec: {{{path}: {{spec: {{containers: [{{name: c, imag: i}}]}}}}}}\n"
    assert told(text, tmp_path)[0] == f"spec.{path}.spec.containers[0].imag: unknown field; did you mean image?"
