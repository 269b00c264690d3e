"""The Helm chart, rendered by the real helm: equal to the kustomize bases, and an installation that works under its own
rights.

Needs helm and kubectl, which has kustomize inside: on PATH, or built by `make controllers`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan import __version__
from tests.builders.bodies import pod_body, topology_body
from tests.kubernetes.control_plane.objects import remove_namespace
from tests.kubernetes.control_plane.plane import ControlPlane
from tests.kubernetes.control_plane.raw_api import ApiRefused, Json
from tests.kubernetes.controllers.catalogue import HELM, KUBECTL, Controller
from tests.kubernetes.running_scheduler import PROGRAM, RunningScheduler
from tests.kubernetes.virtual_nodes import virtual_nodes
from tests.kubernetes.workloads import ROOT, create_all, wait_until_told

CHART = ROOT / "deploy" / "chart" / "bayplan"
NAMESPACE, AGENTS = "placement", "placement-agents"
CLUSTER_WIDE = {
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ClusterRoleBinding": "clusterrolebindings",
    "ClusterRole": "clusterroles",
}
Key = tuple[str, str, str]


def program(of: Controller) -> Path | str:
    if of.is_built:
        return of.program
    found = shutil.which(of.name)
    if found is None:
        pytest.skip(f"needs {of.name}, on PATH or built by `make controllers`")
    return found


def helm(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program(HELM), *words], cwd=ROOT, capture_output=True, text=True, check=check)


def rendered(*values: str, namespace: str = "bayplan-system", tests: bool = False) -> dict[Key, Json]:
    settings = [word for value in values for word in ("--set-json", value)]
    words = ["template", "bayplan", str(CHART), "--namespace", namespace, "--kube-version", "1.36.4", *settings]
    return by_key(helm(*words, *([] if tests else ["--skip-tests"])).stdout)


def built(part: str) -> dict[Key, Json]:
    words = [program(KUBECTL), "kustomize", ROOT / "deploy" / part]
    return by_key(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def by_key(text: str) -> dict[Key, Json]:
    objects = [each for each in yaml.safe_load_all(text) if each]
    found = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


def scheduler_of(objects: dict[Key, Json]) -> Json:
    deployment: Json = objects["Deployment", "bayplan-system", "bayplan-scheduler"]
    return deployment


def container_of(deployment: Json) -> Json:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Json = container
    return found


def test_the_chart_gives_the_objects_of_the_kustomize_bases() -> None:
    wanted = built("base") | built("agent")
    del wanted["Namespace", "", "bayplan-system"]  # helm install --create-namespace
    assert rendered("agent.enabled=true") == wanted


@pytest.mark.parametrize("part", ["extender", "web"])
def test_a_part_alone_is_that_of_its_overlay(part: str) -> None:
    wanted = built(part)
    del wanted["Namespace", "", "bayplan-system"]
    assert rendered("scheduler.enabled=false", f"{part}.enabled=true") == wanted


def test_preemption_is_that_of_its_overlay() -> None:
    wanted = built("preemption")
    del wanted["Namespace", "", "bayplan-system"]
    found = rendered("preemption=true", 'profiles=[{"schedulerName":"bayplan","preemption":"On"}]')
    key = ("ConfigMap", "bayplan-system", "bayplan-scheduler")
    written, overlay = (yaml.safe_load(each.pop(key)["data"]["config.yaml"]) for each in (found, wanted))
    overlay["profiles"][0]["preemption"] = "On"  # YAML 1.1 reads the bare word as a boolean
    assert written == overlay
    assert found == wanted


def test_scrape_annotations_name_the_port_of_the_metrics() -> None:
    objects = rendered("extender.enabled=true", "web.enabled=true", "monitoring.scrapeAnnotations=true")
    ports = {
        name: (each["spec"]["template"]["metadata"].get("annotations") or {}).get("prometheus.io/port")
        for (kind, _, name), each in objects.items()
        if kind == "Deployment"
    }
    expected = {"scheduler": "10361", "pod-grouper": "10364", "extender": "10366", "web": None}
    assert ports == {f"bayplan-{name}": port for name, port in expected.items()}


def test_the_extender_takes_a_secret_and_profiles_of_its_own() -> None:
    objects = rendered(
        "extender.enabled=true", 'extender.servingSecret="mine"', 'extender.profiles=[{"schedulerName":"other"}]'
    )
    deployment = objects["Deployment", "bayplan-system", "bayplan-extender"]
    assert {"name": "tls", "secret": {"secretName": "mine"}} in deployment["spec"]["template"]["spec"]["volumes"]
    written = yaml.safe_load(objects["ConfigMap", "bayplan-system", "bayplan-extender"]["data"]["config.yaml"])
    assert written["profiles"] == [{"schedulerName": "other"}]


def test_the_chart_has_the_programs_version_and_passes_the_linter() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--kube-version", "1.36.4").stdout


def test_every_namespace_and_account_follows_the_release() -> None:
    objects = rendered("agent.enabled=true", f'agent.namespace="{AGENTS}"', namespace=NAMESPACE, tests=True)
    assert {namespace for _, namespace, _ in objects} == {"", NAMESPACE, AGENTS}
    text = yaml.safe_dump_all(objects.values())
    assert "bayplan-system" not in text
    assert "serviceaccount:bayplan-agent:" not in text


VALUES: list[tuple[str, str, Any]] = [
    ('image={"repository":"registry.example.com/b","tag":"9"}', "image", "registry.example.com/b:9"),
    ('image.pullPolicy="Always"', "imagePullPolicy", "Always"),
    ('scheduler.resources={"requests":{"cpu":"2"}}', "resources", {"requests": {"cpu": "2"}}),
    ('scheduler.nodeSelector={"a":"b"}', "nodeSelector", {"a": "b"}),
    ('scheduler.tolerations=[{"operator":"Exists"}]', "tolerations", [{"operator": "Exists"}]),
    ('scheduler.affinity={"nodeAffinity":{}}', "affinity", {"nodeAffinity": {}}),
    ('scheduler.priorityClassName="mine"', "priorityClassName", "mine"),
    ('imagePullSecrets=[{"name":"r"}]', "imagePullSecrets", [{"name": "r"}]),
]


@pytest.mark.parametrize("value,field,expected", VALUES, ids=[value[0].partition("=")[0] for value in VALUES])
def test_a_value_changes_the_scheduler(value: str, field: str, expected: object) -> None:
    deployment = scheduler_of(rendered(value))
    assert {**deployment["spec"]["template"]["spec"], **container_of(deployment)}[field] == expected


def test_values_switch_parts_on_and_off() -> None:
    objects = rendered(
        "podGrouper.enabled=false",
        "releaseGangs=false",
        "podDisruptionBudgets=false",
        "networkPolicy.enabled=true",
        'networkPolicy.fromNamespaces={"kubernetes.io/metadata.name":"monitoring"}',
        "monitoring.podMonitor=true",
        "monitoring.scrapeAnnotations=true",
        'scheduler.tlsSecret="serving"',
        "scheduler.authenticateMetrics=true",
        "scheduler.replicas=3",
        'scheduler.extraArgs=["-v"]',
        'profiles=[{"schedulerName":"default-scheduler"}]',
    )
    kinds = {kind for kind, _, _ in objects}
    assert kinds >= {"NetworkPolicy", "PodMonitor"}
    (scraped,) = objects["PodMonitor", "bayplan-system", "bayplan-scheduler"]["spec"]["podMetricsEndpoints"]
    assert (scraped["scheme"], "bearerTokenFile" in scraped) == ("https", True)
    assert "PodDisruptionBudget" not in kinds
    assert ("ClusterRoleBinding", "", "bayplan-scheduler-auth-delegator") in objects
    assert not {name for _, _, name in objects} & {"bayplan-scheduler-release"}
    assert ("Deployment", "bayplan-system", "bayplan-pod-grouper") not in objects
    deployment = scheduler_of(objects)
    container = container_of(deployment)
    assert deployment["spec"]["replicas"] == 3
    assert {"-v", "--authenticate-metrics", "--place-ungrouped", "--tls-cert-file=/etc/bayplan-tls/tls.crt"} <= set(
        container["args"]
    )
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == "10361"
    written = yaml.safe_load(objects["ConfigMap", "bayplan-system", "bayplan-scheduler"]["data"]["config.yaml"])
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["default-scheduler"]


def test_the_pod_grouper_serves_the_pods_of_every_profile() -> None:
    # Pods of workloads wait until it has looked at them.
    found = rendered('profiles=[{"schedulerName":"bayplan"},{"schedulerName":"default-scheduler"}]')
    arguments = container_of(found["Deployment", "bayplan-system", "bayplan-pod-grouper"])["args"]
    names = [each.partition("=")[2] for each in arguments if each.startswith("--scheduler-name=")]
    assert names == ["bayplan", "default-scheduler"]


@pytest.mark.parametrize(
    "value,word",
    [
        ("scheduler.replica=3", "replica"),
        ('scheduler.replicas="two"', "replicas"),
        ('agent.namespace="No Name"', "namespace"),
        ("profiles=[]", "profiles"),
        ("agents.enabled=true", "agents"),
        ("scheduler.authenticateMetrics=true", "needs scheduler.tlsSecret"),
    ],
)
def test_a_wrong_value_is_refused_by_name(value: str, word: str) -> None:
    words = ["template", "bayplan", str(CHART), "--kube-version", "1.36.4", "--set-json", value]
    done = helm(*words, check=False)
    assert done.returncode != 0
    assert word in done.stderr


@pytest.fixture(scope="module")
def release(control_plane: ControlPlane) -> Iterator[dict[Key, Json]]:
    """The chart in namespaces of its own on an API server, the scheduler's under pod security `restricted`, with the
    readiness that controllers would write.
    """
    objects = rendered("agent.enabled=true", f'agent.namespace="{AGENTS}"', namespace=NAMESPACE, tests=True)
    secured = {"pod-security.kubernetes.io/enforce": "restricted"}
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": secured}})
    for crd in (ROOT / "deploy" / "crds").glob("*.yaml"):
        control_plane.apply(crd)
    control_plane.apply(topology_body())
    for (kind, _, _), written in objects.items():
        if kind != "Pod":
            control_plane.apply(written)
    for (kind, namespace, name), written in objects.items():
        if kind == "Deployment":
            replicas = written["spec"]["replicas"]
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status"
            control_plane.api.patch(path, {"status": {"replicas": replicas, "readyReplicas": replicas}})
    yield objects
    for namespace in (NAMESPACE, AGENTS):
        remove_namespace(control_plane.api, namespace)
    for (kind, _, name), written in objects.items():
        if kind in CLUSTER_WIDE:
            control_plane.delete(f"/apis/{written['apiVersion']}/{CLUSTER_WIDE[kind]}/{name}")


def test_the_pods_of_the_chart_pass_the_strictest_pod_security(
    control_plane: ControlPlane, release: dict[Key, Json]
) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"
    templates = [
        {"metadata": {"name": name}, "spec": written["spec"]["template"]["spec"]}
        for (kind, namespace, name), written in release.items()
        if kind == "Deployment" and namespace == NAMESPACE
    ]
    test_pod = release["Pod", NAMESPACE, "bayplan-doctor"]
    for pod in [*templates, {"metadata": {"name": "doctor"}, "spec": test_pod["spec"]}]:
        control_plane.post(pods, {"apiVersion": "v1", "kind": "Pod", **pod})
        careless = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
        with pytest.raises(ApiRefused, match="violates PodSecurity"):
            control_plane.post(pods, {"apiVersion": "v1", "kind": "Pod", **careless})


def test_the_installed_chart_places_pods_and_its_doctor_is_content(
    control_plane: ControlPlane, release: dict[Key, Json], namespace: str, tmp_path: Path
) -> None:
    """The rendered command lines, run under tokens of the rendered service accounts."""
    configuration = tmp_path / "config.yaml"
    configuration.write_text(release["ConfigMap", NAMESPACE, "bayplan-scheduler"]["data"]["config.yaml"])
    arguments = container_of(release["Deployment", NAMESPACE, "bayplan-scheduler"])["args"]
    kept = tuple(each for each in arguments if not each.startswith(("--config=", "--health-address=")))
    machine = ("--machine", "pack:2 numa:1 core:16 pu:1 mem:64Gi", "--nodes", "4", "--tree", "block:2 rack:1")
    with virtual_nodes(control_plane, *machine):
        account = control_plane.kubeconfig_with_token(control_plane.token_for(NAMESPACE, "bayplan-scheduler"))
        scheduler = RunningScheduler(account, (f"--config={configuration}", *kept))
        try:
            scheduler.wait_until_ready()
            scheduler.wait_until_leading()
            small: dict[str, str | int] = {"cpu": 4, "memory": "4Gi"}
            create_all(
                control_plane.kubeconfig,
                [pod_body("large", namespace, {"cpu": 500, "memory": "1Gi"}), pod_body("one", namespace, small)],
            )
            wait_until_told(control_plane, namespace, "large", "no node has cpu ")
            assert control_plane.get(f"/api/v1/namespaces/{namespace}/pods/one")["spec"].get("nodeName")
            done = examined(control_plane, release)
        finally:
            scheduler.close()
    assert done.returncode == 0, done.stdout + done.stderr


def examined(plane: ControlPlane, release: dict[Key, Json]) -> subprocess.CompletedProcess[str]:
    """The pod of `helm test`: its command line, under its account."""
    container = release["Pod", NAMESPACE, "bayplan-doctor"]["spec"]["containers"][0]
    kubeconfig = plane.kubeconfig_with_token(plane.token_for(NAMESPACE, "bayplan-doctor"))
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        *container["command"][1:],
        *container["args"],
        "--kubeconfig",
        str(kubeconfig),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
